package tenant

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/errs"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// What waits for a paused endpoint is due at once when the pause ends, or the endpoint is removed:
// each would otherwise look for that once a day only. Another change leaves it as it is.
func TestWhatWaitsForAPause(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.Tenant()
	account := b.Env.Account(id, "shop-1")
	due := func(delivery uuid.UUID) time.Duration { return b.DueAt(work.Deliver, delivery).Sub(b.Env.Clock.Now()) }
	change := func(endpoint uuid.UUID, c EndpointChange) error {
		_, err := b.ChangeEndpoint(ctx, id, endpoint, c, bySession)
		return err
	}
	for i, end := range []func(endpoint uuid.UUID) error{
		func(e uuid.UUID) error { return change(e, EndpointChange{Paused: new(false)}) },
		func(e uuid.UUID) error { return b.RemoveEndpoint(ctx, id, e, bySession) },
	} {
		e, _, err := b.AddEndpoint(ctx, id, EndpointChange{URL: new("https://shop.example/" + strconv.Itoa(i)), Paused: new(true)}, bySession)
		require.NoError(t, err)
		delivery := uuid.Must(uuid.NewV7())
		b.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at, endpoint_id)
			VALUES ($1, $2, $3, $1, 'payment.received', $4, '{}', 'pending', $5, $6)`, delivery, id, account, e.URL, b.Env.Clock.Now(), e.ID)
		b.Schedule(work.Deliver, delivery, b.Env.Clock.Now().Add(20*time.Hour))
		require.NoError(t, change(e.ID, EndpointChange{Retries: new("day")}))
		require.Equal(t, 20*time.Hour, due(delivery))
		require.NoError(t, end(e.ID))
		require.Zero(t, due(delivery))
	}
}

func TestSetWebhookURL(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.Tenant()
	for _, good := range []string{
		"https://example.com/hook?a=b&c=d", "http://localhost:9000/x", "http://127.0.0.1:9000", " https://example.com/trimmed ",
		"https://example.com/" + strings.Repeat("a", 2048-20), "https://one.neighbour.example", // of another tenant's endpoint
	} {
		got, err := b.SetWebhookURL(ctx, id, good, bySession)
		require.NoError(t, err, good)
		require.Equal(t, strings.TrimSpace(good), got)
		me, err := b.Me(ctx, id)
		require.NoError(t, err)
		require.Equal(t, got, me.WebhookURL)
	}
	before, _ := b.Me(ctx, id)
	for _, bad := range badURLs {
		_, err := b.SetWebhookURL(ctx, id, bad, bySession)
		require.Equal(t, errs.Invalid, errs.KindOf(err), bad)
		require.True(t, strings.HasPrefix(err.Error(), "url "), "%s: %s", bad, err)
	}
	after, err := b.Me(ctx, id)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

var badURLs = []string{
	"", " ", "example.com", "/hook", "//example.com/x", "ftp://example.com", "javascript:alert(1)", "file:///etc/passwd", "https://", "https:///x",
	"https://user:pass@example.com/", "https://user@example.com/", "https://example.com/#f", "https://example.com/#", "https://exa mple.com",
	"https://example.com/\x00", "https://example.com/\na", "https://example.com:0/", "https://example.com:99999/", "https://2130706433/",
	"https://example.com/" + strings.Repeat("a", 2048),
}

func TestWebhookURLInProduction(t *testing.T) {
	b := setup(t, func(o *Options) { o.Callbacks = safehttp.CallbackRules(true, nil) })
	id := b.Tenant()
	for _, bad := range append([]string{
		"http://example.com/", "https://127.0.0.1/", "https://10.1.2.3/", "https://192.168.0.1:8443/", "https://172.16.0.1/", "https://169.254.169.254/",
		"https://[::1]/", "https://[fd00::1]/", "https://[fe80::1]/", "https://[::ffff:10.0.0.1]/", "https://0.0.0.0/", "https://localhost/",
		"https://LOCALHOST./", "https://x.localhost/", "https://224.0.0.1/",
	}, badURLs...) {
		_, err := b.SetWebhookURL(context.Background(), id, bad, bySession)
		require.Equal(t, errs.Invalid, errs.KindOf(err), bad)
	}
	for _, good := range []string{"https://example.com/hook", "https://93.184.215.14:8443/hook"} {
		_, err := b.SetWebhookURL(context.Background(), id, good, bySession)
		require.NoError(t, err, good)
	}
}

func TestWebhookSecret(t *testing.T) {
	spec.Shows(t, "field.tenant.secret-sealed", "endpoint.webhook-secret.existing")
	b := setup(t)
	ctx := context.Background()
	id, other := b.Tenant(), b.Tenant()
	secrets := b.atOnce(id, 4)
	for _, s := range secrets {
		require.True(t, s.Equal(secrets[0]), "calls at once get one secret")
	}
	require.Regexp(t, `^[0-9a-f]{64}$`, secrets[0].Reveal())
	again, err := b.WebhookSecret(ctx, id, bySession)
	require.NoError(t, err)
	require.True(t, again.Equal(secrets[0]))
	theirs, err := b.WebhookSecret(ctx, other, bySession)
	require.NoError(t, err)
	require.False(t, theirs.Equal(again))

	sealed := testenv.Value[[]byte](b.Env, `SELECT webhook_secret FROM tenants WHERE id = $1`, id)
	require.NotContains(t, string(sealed), again.Reveal())
	plain, err := b.Box.Open(secret.Place{Table: "tenants", Column: "webhook_secret", Row: id.String()}, sealed)
	require.NoError(t, err)
	require.Equal(t, again.Reveal(), string(plain))

	b.Exec(`UPDATE tenants SET webhook_secret = $2 WHERE id = $1`, other, sealed)
	_, err = b.WebhookSecret(ctx, other, bySession)
	require.ErrorIs(t, err, secret.ErrSealed, "a secret of another row does not open")
}

// atOnce asks for the secret n times while the tenant's row is locked, and lets go once every call
// waits for a lock: so all of them have begun before the first can write.
func (b *bundle) atOnce(id uuid.UUID, n int) []secret.Redacted {
	b.T.Helper()
	ctx := context.Background()
	tx, err := b.Pool.Begin(ctx)
	require.NoError(b.T, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, `SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE`, id)
	require.NoError(b.T, err)
	secrets, fails := make([]secret.Redacted, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { secrets[i], fails[i] = b.WebhookSecret(ctx, id, bySession) })
	}
	testenv.Eventually(b.T, 10*time.Second, "all calls to wait for the row", func() bool {
		return b.LockWaits() == n
	})
	require.NoError(b.T, tx.Rollback(ctx))
	wg.Wait()
	require.NoError(b.T, errors.Join(fails...))
	return secrets
}

// With the first URL the secret is made, and a later URL changes nothing of it.
func TestAWebhookURLComesWithASecret(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.Tenant()
	there := func() bool {
		return testenv.Value[bool](b.Env, `SELECT webhook_secret IS NOT NULL FROM tenants WHERE id = $1`, id)
	}
	_, err := b.SetWebhookURL(ctx, id, "ftp://example.com", bySession)
	require.Error(t, err)
	require.False(t, there(), "nothing was set")
	_, err = b.SetWebhookURL(ctx, id, "https://example.com/a", bySession)
	require.NoError(t, err)
	require.True(t, there(), "no event goes out unsigned")
	first, err := b.WebhookSecret(ctx, id, bySession)
	require.NoError(t, err)
	_, err = b.SetWebhookURL(ctx, id, "https://example.com/b", bySession)
	require.NoError(t, err)
	again, err := b.WebhookSecret(ctx, id, bySession)
	require.NoError(t, err)
	require.True(t, first.Equal(again))
}
