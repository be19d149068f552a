package tenant

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

var byHand = audit.By{Actor: "cli:ada", Reason: "a ticket"}

// audited returns "action target detail" of what operators did by hand to others than the
// neighbour, oldest first.
func (b *bundle) audited() (out []string) {
	b.T.Helper()
	list, _, err := audit.List(context.Background(), b.Pool, audit.Filter{}, page.Request{Limit: 100})
	require.NoError(b.T, err)
	for _, a := range list {
		if a.Target == "tenant:"+b.neighbour.String() {
			continue
		}
		if a.Actor != byHand.Actor {
			require.Empty(b.T, a.Reason, "a tenant did it, who need not say why: %s", a.Actor)
			continue
		}
		require.Equal(b.T, byHand.Reason, a.Reason)
		out = append([]string{a.Action + " " + a.Target + " " + string(a.Detail)}, out...)
	}
	return out
}

func TestTenantsAreListed(t *testing.T) {
	b := alone(t)
	ctx := context.Background()
	var want []uuid.UUID
	for i := range 5 {
		id := uuid.New() // random, as registration makes them: the list must not go by it
		b.Exec(testenv.InsertTenants, []uuid.UUID{id}, []string{fmt.Sprintf("%d@shop.example", i)}, "Shop", "x", b.Clock.Now().Add(time.Duration(i/2)*time.Second))
		b.Exec(`UPDATE tenants SET status = $2 WHERE id = $1`, id, []string{Active, Suspended, Closed}[i%3])
		want = append([]uuid.UUID{id}, want...)
	}
	ids := func(status string, limit int) (out []uuid.UUID) {
		r := page.Request{Limit: limit}
		for {
			list, info, err := b.List(ctx, status, r)
			require.NoError(t, err)
			for _, r := range list {
				out = append(out, r.ID)
			}
			if info.NextCursor == nil {
				return out
			}
			r.After = *info.NextCursor
		}
	}
	all := ids("", 10)
	require.ElementsMatch(t, want, all)
	require.Equal(t, want[0], all[0], "the newest first")
	require.Equal(t, all, ids("", 1))
	for status, those := range map[string][]uuid.UUID{Active: {want[1], want[4]}, Suspended: {want[0], want[3]}, Closed: {want[2]}} {
		require.Equal(t, those, ids(status, 1), status)
	}
	_, _, err := b.List(ctx, "gone", page.Request{Limit: 1})
	require.ErrorIs(t, err, ErrStatus)
	for _, bad := range []string{"x", page.ID(page.Tenants, uuid.New()), page.ID(page.Accounts, want[0])} {
		_, _, err = b.List(ctx, "", page.Request{Limit: 1, After: bad})
		require.ErrorIs(t, err, page.ErrCursor)
	}
}

func TestFindTenant(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.Tenant()
	byID, err := b.Find(ctx, id.String())
	require.NoError(t, err)
	require.Equal(t, []any{id, "Test tenant", Active, false, false}, []any{byID.ID, byID.Name, byID.Status, byID.Operator, byID.WebhookSecret})
	byEmail, err := b.Find(ctx, " "+id.String()+"@TENANT.example")
	require.NoError(t, err)
	require.Equal(t, byID, byEmail)
	for _, of := range []uuid.UUID{id, b.Tenant()} {
		key, err := b.RotateKey(ctx, of, byHand)
		require.NoError(t, err)
		r, err := b.Find(ctx, of.String())
		require.NoError(t, err)
		require.Equal(t, key.Suffix(), r.APIKeySuffix, "its own key's")
	}
	for _, unknown := range []string{"", "x", uuid.NewString(), uuid.Nil.String(), "nobody@tenant.example"} {
		_, err = b.Find(ctx, unknown)
		require.ErrorIs(t, err, ErrNotFound, unknown)
	}
}

func TestSuspendShutsOutAndActivateLetsIn(t *testing.T) {
	spec.Shows(t, "state.other.tenant")
	b := setup(t)
	ctx := context.Background()
	id := b.Tenant()
	key, err := b.RotateKey(ctx, id, byHand)
	require.NoError(t, err)
	session, err := b.openSession(ctx, Tenant{ID: id, Member: Member{ID: id}}, "x", secret.Redacted{}, netip.Addr{})
	require.NoError(t, err)
	caller, err := b.ByAPIKey(ctx, secret.Redact(key.Reveal()), netip.Addr{})
	require.NoError(t, err)
	tries := func() []error {
		_, byKey := b.ByAPIKey(ctx, secret.Redact(key.Reveal()), netip.Addr{})
		_, bySession := b.Session(ctx, session.Token)
		return []error{byKey, b.Standing(caller, secret.Redacted{}, "")(ctx, b.Env.Pool), bySession, b.Standing(Tenant{}, session.Token, Owner)(ctx, b.Env.Pool)}
	}
	require.Equal(t, []error{nil, nil, nil, nil}, tries())

	changed, err := b.Suspend(ctx, id, byHand)
	require.NoError(t, err)
	require.True(t, changed)
	for _, err := range tries() {
		require.ErrorIs(t, err, ErrSuspended)
	}
	changed, err = b.Suspend(ctx, id, byHand)
	require.NoError(t, err)
	require.False(t, changed, "it is so already")

	changed, err = b.Activate(ctx, id, byHand)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, []error{nil, nil, ErrUnauthorized, ErrUnauthorized}, tries(), "the key goes on, and what waits with it; a session that somebody had before does not")
	changed, err = b.Activate(ctx, id, byHand)
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, []string{
		`tenant.suspend tenant:` + id.String() + ` {"To": "suspended", "From": "active", "Name": "Test tenant"}`,
		`tenant.activate tenant:` + id.String() + ` {"To": "active", "From": "suspended", "Name": "Test tenant"}`,
	}, b.audited()[1:], "after the line of the key")
}

func TestSetOperator(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.Tenant()
	for _, step := range []struct{ operator, changed bool }{{false, false}, {true, true}, {true, false}, {false, true}} {
		changed, err := b.SetOperator(ctx, id, step.operator, byHand)
		require.NoError(t, err)
		require.Equal(t, step.changed, changed)
		me, err := b.Me(ctx, id)
		require.NoError(t, err)
		require.Equal(t, step.operator, me.Operator)
	}
	require.Len(t, b.audited(), 2)
}

func TestSetPayoutFee(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.Tenant()
	for _, step := range []struct {
		bearer  FeeBearer
		changed bool
	}{{PlatformBears, false}, {TenantBears, true}, {TenantBears, false}, {PlatformBears, true}} {
		changed, err := b.SetPayoutFee(ctx, id, step.bearer, byHand)
		require.NoError(t, err)
		require.Equal(t, step.changed, changed)
		r, err := b.Find(ctx, id.String())
		require.NoError(t, err)
		require.Equal(t, step.bearer, r.PayoutFeeBy)
	}
	require.Len(t, b.audited(), 2)
}

func TestTenantChangesNeedATenantAndAReason(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.Tenant()
	do := func(id uuid.UUID, by audit.By) []error {
		_, suspend := b.Suspend(ctx, id, by)
		_, operator := b.SetOperator(ctx, id, true, by)
		_, rotate := b.RotateWebhookSecret(ctx, Record{ID: id}, by)
		_, fee := b.SetPayoutFee(ctx, id, TenantBears, by)
		return []error{suspend, operator, rotate, fee}
	}
	for _, err := range do(uuid.New(), byHand) {
		require.ErrorIs(t, err, ErrNotFound)
	}
	before, err := b.Find(ctx, id.String())
	require.NoError(t, err)
	for _, err := range do(id, audit.By{Actor: "cli:ada", Reason: " "}) {
		require.ErrorIs(t, err, audit.ErrReason)
	}
	after, err := b.Find(ctx, id.String())
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Empty(t, b.audited())
}

// While a transaction from before it may still submit a payout, no answer says that the tenant is
// suspended: neither the first one nor that of a repetition.
func TestSuspendAgainWaitsToo(t *testing.T) {
	b := setup(t)
	id := b.Tenant()
	open, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = open.Rollback(context.Background()) }()
	_, err = open.Exec(t.Context(), `UPDATE transfers SET updated_at = now() WHERE false`)
	require.NoError(t, err)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := *b.Service
		s.Pool, _ = b.BeforeTheSecond("RowExclusiveLock", cancel) // it has seen that transaction, and looks again
		_, err = s.Suspend(ctx, id, byHand)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, open.Rollback(t.Context()))
	changed, err := b.Suspend(t.Context(), id, byHand)
	require.NoError(t, err)
	require.False(t, changed)
}

// Of many that suspend at once, one does and records it.
func TestOperatorsAtOnceSuspendOnce(t *testing.T) {
	b := setup(t)
	id := b.Tenant()
	var wg sync.WaitGroup
	var did atomic.Int32
	for range 8 {
		wg.Go(func() {
			changed, err := b.Suspend(context.Background(), id, byHand)
			if err != nil {
				t.Error(err)
			}
			if changed {
				did.Add(1)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int32(1), did.Load())
	require.Len(t, b.audited(), 1)
}

// rotate gives a tenant a new signing secret, as who was shown it now does.
func (b *bundle) rotate(id uuid.UUID) (*time.Time, error) {
	b.T.Helper()
	shown, err := b.Find(context.Background(), id.String())
	require.NoError(b.T, err)
	return b.RotateWebhookSecret(context.Background(), shown, byHand)
}

func TestRotateWebhookSecret(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.Tenant()
	open := func(column, sql string) string {
		raw := testenv.Value[[]byte](b.Env, sql, id)
		if raw == nil {
			return ""
		}
		plain, err := b.Box.Open(secret.Place{Table: "tenants", Column: column, Row: id.String()}, raw)
		require.NoError(t, err)
		return string(plain)
	}
	secrets := func() (current, previous string) {
		return open("webhook_secret", `SELECT webhook_secret FROM tenants WHERE id = $1`),
			open("webhook_secret_previous", `SELECT webhook_secret_previous FROM tenants WHERE id = $1`)
	}
	none, err := b.Find(ctx, id.String())
	require.NoError(t, err)
	until, err := b.rotate(id)
	require.NoError(t, err)
	require.Nil(t, until, "there was none before")
	_, err = b.RotateWebhookSecret(ctx, none, byHand)
	require.ErrorIs(t, err, ErrRotated)
	first, previous := secrets()
	require.Regexp(t, `^[0-9a-f]{64}$`, first)
	require.Empty(t, previous)

	until, err = b.rotate(id)
	require.NoError(t, err)
	require.Equal(t, b.Clock.Now().Add(24*time.Hour), *until)
	second, previous := secrets()
	require.NotEqual(t, first, second)
	require.Equal(t, first, previous, "the one before signs on")
	read, err := b.WebhookSecret(ctx, id, bySession)
	require.NoError(t, err)
	require.Equal(t, second, read.Reveal(), "the tenant reads the new one")
	r, err := b.Find(ctx, id.String())
	require.NoError(t, err)
	require.True(t, r.WebhookSecret)
	require.Equal(t, until, r.WebhookSecretPreviousUntil)

	b.Clock.Advance(time.Hour)
	r.WebhookSecretPreviousUntil = new(until.Add(time.Microsecond))
	_, err = b.RotateWebhookSecret(ctx, r, byHand)
	require.ErrorIs(t, err, ErrRotated)
	_, err = b.rotate(id)
	require.NoError(t, err)
	_, previous = secrets()
	require.Equal(t, second, previous, "two sign at most")
	log := b.audited()
	require.Len(t, log, 3)
	for _, s := range []string{first, second} {
		require.NotContains(t, fmt.Sprint(log), s)
	}
}

// A secret that does not open is not thrown away: nothing changes.
func TestRotationKeepsWhatItCannotOpen(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, other := b.Tenant(), b.Tenant()
	_, err := b.WebhookSecret(ctx, other, bySession)
	require.NoError(t, err)
	b.Exec(`UPDATE tenants SET webhook_secret = (SELECT webhook_secret FROM tenants WHERE id = $2) WHERE id = $1`, id, other)
	_, err = b.rotate(id)
	require.ErrorIs(t, err, secret.ErrSealed)
	require.True(t, testenv.Value[bool](b.Env, `SELECT a.webhook_secret = b.webhook_secret FROM tenants a, tenants b WHERE a.id = $1 AND b.id = $2`, id, other))
	require.Empty(t, b.audited())
}
