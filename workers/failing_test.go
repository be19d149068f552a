package workers

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/mail"
	"ajo/internal/pg"
	"ajo/internal/tenant"
	"ajo/internal/webhook"
)

// A tenant is mailed once a day about each URL that has been failing for an hour, by one of the
// workers that find it at once; not of one that fails since a moment, or that it has paused.
func TestMailFailing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.Env.Tenant()
	now := time.Now()
	failed := func(of uuid.UUID, url string, age time.Duration) uuid.UUID {
		group := uuid.Must(uuid.NewV7())
		require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			_, err := webhook.Queue(b.ctx, tx, now, []webhook.NewDelivery{{
				Type: webhook.PaymentReceived, TenantID: of, AccountID: b.account.ID, TransactionGroupID: group,
				CallbackURL: url, CreatedAt: now.Add(-age), Payload: webhook.Payment{},
			}})
			return err
		}))
		b.Exec(`UPDATE deliveries SET attempt_count = 5, last_error = 'HTTP 503' WHERE transaction_group_id = $1`, group)
		return group
	}
	failed(b.tenant, "https://shop.example/hook?token=hidden", 61*time.Minute)
	failed(b.tenant, "https://shop.example/hook?token=hidden", 2*time.Hour)
	failed(b.tenant, "https://shop.example/young", 59*time.Minute)
	failed(other, "https://other.example/hook", 90*time.Minute)
	paused := b.Env.Endpoint(b.tenant, "https://shop.example/paused", "{payment.received}")
	b.Exec(`UPDATE webhook_endpoints SET paused_at = now() WHERE id = $1`, paused)
	b.Exec(`UPDATE deliveries SET endpoint_id = $1 WHERE transaction_group_id = $2`, paused, failed(b.tenant, "https://shop.example/paused", 3*time.Hour))
	b.Exec(`UPDATE deliveries SET status = 'dead_letter' WHERE transaction_group_id = $1`, failed(b.tenant, "https://shop.example/given-up", 3*time.Hour))

	dir := t.TempDir()
	sent := func() []string {
		sender, err := mail.NewFolder(dir, "Ajo <ajo@ajo.example>")
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 3 {
			o := b.opts
			o.Clock = clock.NewFake(now) // a minute is little on a busy machine
			o.Tenants = tenant.New(tenant.Options{Pool: b.Pool, Clock: clock.System, Mail: sender, Log: slog.New(slog.DiscardHandler)})
			all.Go(func() {
				assert.NoError(t, (&Workers{Options: o}).mailFailing(b.ctx))
				assert.NoError(t, o.Tenants.Close(context.Background()))
			})
		}
		all.Wait()
		files, err := filepath.Glob(filepath.Join(dir, "*.eml"))
		require.NoError(t, err)
		var texts []string
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			texts = append(texts, string(text))
		}
		return texts
	}
	mails := sent()
	require.Len(t, mails, 2)
	if strings.Contains(mails[0], other.String()) {
		mails[0], mails[1] = mails[1], mails[0]
	}
	require.Contains(t, mails[0], "To: <"+b.tenant.String()+"@tenant.example>")
	for _, part := range []string{"https://shop.example/hook?", "at least 2 that wait", now.Add(-2 * time.Hour).UTC().Format("15:04"), "HTTP 503"} {
		require.Contains(t, mails[0], part)
	}
	require.NotContains(t, mails[0], "hidden")
	require.Contains(t, mails[1], "https://other.example/hook")
	require.Len(t, sent(), 2, "nobody is mailed again")

	keys, err := b.redis.Keys(b.ctx, "ajo:mailed:*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 2)
	for _, k := range keys {
		left, err := b.redis.TTL(b.ctx, k).Result()
		require.NoError(t, err)
		require.Greater(t, left, 23*time.Hour)
		require.LessOrEqual(t, left, mailedFor)
	}
	require.NoError(t, b.redis.Del(b.ctx, keys...).Err())
	require.Len(t, sent(), 4, "a day later")
}

// A tenant is mailed once, by one of the workers, when a pause has lasted for 23 days; of a pause
// that is past 30 there is nothing to be saved any more.
func TestMailPaused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := time.Now()
	pause := func(path string, age time.Duration) {
		b.Exec(`UPDATE webhook_endpoints SET paused_at = $2 WHERE id = $1`, b.Env.Endpoint(b.tenant, "https://shop.example/"+path+"?token=hidden", "{payment.received}"), now.Add(-age))
	}
	pause("young", pausedLong-time.Minute)
	pause("old", webhook.PausedMost+time.Minute)
	dir := t.TempDir()
	sent := func(now time.Time) (texts []string) {
		sender, err := mail.NewFolder(dir, "Ajo <ajo@ajo.example>")
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 3 {
			o := b.opts
			o.Clock = clock.NewFake(now)
			o.Tenants = tenant.New(tenant.Options{Pool: b.Pool, Clock: clock.System, Mail: sender, Log: slog.New(slog.DiscardHandler)})
			all.Go(func() {
				assert.NoError(t, (&Workers{Options: o}).mailPaused(b.ctx))
				assert.NoError(t, o.Tenants.Close(context.Background()))
			})
		}
		all.Wait()
		files, err := filepath.Glob(filepath.Join(dir, "*.eml"))
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			texts = append(texts, string(text))
		}
		return texts
	}
	require.Empty(t, sent(now))
	mails := sent(now.Add(2 * time.Minute))
	require.Len(t, mails, 1)
	for _, part := range []string{"To: <" + b.tenant.String() + "@tenant.example>", "https://shop.example/young?", now.Add(time.Minute - pausedLong + webhook.PausedMost).UTC().Format("2 January 2006 at 15:04")} {
		require.Contains(t, mails[0], part)
	}
	require.NotContains(t, mails[0], "hidden")
	for day := range 9 {
		require.Len(t, sent(now.AddDate(0, 0, day)), 1)
	}
}

// A tenant whose URLs have an order each is mailed about some of them in each purge, so that the
// mailer drops none and other tenants are mailed too.
func TestMailFailingOfMany(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := time.Now()
	const urls = failingMailsOfOne + 3
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		var all []webhook.NewDelivery
		for range urls {
			id := uuid.Must(uuid.NewV7())
			all = append(all, webhook.NewDelivery{
				Type: webhook.PaymentReceived, TenantID: b.tenant, AccountID: b.account.ID, TransactionGroupID: id,
				CallbackURL: "https://shop.example/orders/" + id.String(), CreatedAt: now.Add(-2 * time.Hour), Payload: webhook.Payment{},
			})
		}
		_, err := webhook.Queue(b.ctx, tx, now, all)
		return err
	}))
	b.Exec(`UPDATE deliveries SET attempt_count = 5, last_error = 'HTTP 503' WHERE tenant_id = $1`, b.tenant)
	dir := t.TempDir()
	sent := func() int {
		sender, err := mail.NewFolder(dir, "Ajo <ajo@ajo.example>")
		require.NoError(t, err)
		o := b.opts
		o.Clock = clock.NewFake(now)
		o.Tenants = tenant.New(tenant.Options{Pool: b.Pool, Clock: clock.System, Mail: sender, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, (&Workers{Options: o}).mailFailing(b.ctx))
		require.NoError(t, o.Tenants.Close(context.Background()))
		files, err := filepath.Glob(filepath.Join(dir, "*.eml"))
		require.NoError(t, err)
		return len(files)
	}
	require.Equal(t, failingMailsOfOne, sent())
	require.Equal(t, urls, sent())
}
