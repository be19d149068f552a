package tenant

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

func TestByAPIKey(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, key := b.withKey("ada@example.com")
	for _, bad := range []string{
		"", "ajo_", key.Reveal() + "x", key.Reveal()[1:], strings.ToLower(key.Reveal()), secret.LiveKey.New().Reveal(), "\x00",
		key.Suffix(), " " + key.Reveal(),
	} {
		_, err := b.ByAPIKey(ctx, secret.Redact(bad), netip.Addr{})
		require.ErrorIs(t, err, ErrUnauthorized, bad)
	}
	require.Equal(t, 0, testenv.Value[int](b.Env, `SELECT count(*) FROM tenants t WHERE t::text LIKE '%' || $1 || '%'`, key.Reveal()), "the key itself is nowhere")

	b.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, id)
	_, err := b.ByAPIKey(ctx, secret.Redact(key.Reveal()), netip.Addr{})
	require.ErrorIs(t, err, ErrSuspended)
	b.Exec(`UPDATE tenants SET status = 'active' WHERE id = $1`, id)
	_, err = b.ByAPIKey(ctx, secret.Redact(key.Reveal()), netip.Addr{})
	require.NoError(t, err)
}

func TestRotateKey(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, old := b.withKey("ada@example.com")
	key, err := b.RotateKey(ctx, id, byHand)
	require.NoError(t, err)
	_, err = b.ByAPIKey(ctx, secret.Redact(old.Reveal()), netip.Addr{})
	require.ErrorIs(t, err, ErrUnauthorized, "the old key is dead at once")
	_, err = b.ByAPIKey(ctx, secret.Redact(key.Reveal()), netip.Addr{})
	require.NoError(t, err)
	got, err := b.Me(ctx, id)
	require.NoError(t, err)
	require.Equal(t, key.Suffix(), got.APIKeySuffix)
}

// Keys of many requests are looked up together, and each gets its own answer; a rotated one is dead
// to all that come later.
func TestKeysLookedUpTogether(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	ada, hers := b.withKey("ada@example.com")
	bola, theirs := b.withKey("bola@example.com")
	out, shut := b.withKey("suspended@example.com")
	b.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, out)
	look := func(key secret.APIKey, id uuid.UUID, want error) func() {
		return func() {
			got, err := b.ByAPIKey(ctx, secret.Redact(key.Reveal()), netip.Addr{})
			if !errors.Is(err, want) || got.ID != id {
				t.Errorf("%s and %v, not %s and %v", got.ID, err, id, want)
			}
		}
	}
	many := func(looks ...func()) {
		var wg sync.WaitGroup
		for i := range 400 {
			wg.Go(looks[i%len(looks)])
		}
		wg.Wait()
	}
	many(look(hers, ada, nil), look(theirs, bola, nil), look(shut, uuid.Nil, ErrSuspended), look(secret.LiveKey.New(), uuid.Nil, ErrUnauthorized))
	fresh, err := b.RotateKey(ctx, ada, byHand)
	require.NoError(t, err)
	many(look(hers, uuid.Nil, ErrUnauthorized), look(fresh, ada, nil), look(theirs, bola, nil))
}

func TestRotateAtOnce(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, _ := b.withKey("ada@example.com")
	var wg sync.WaitGroup
	keys := make([]secret.APIKey, 10)
	for i := range keys {
		wg.Go(func() {
			var err error
			keys[i], err = b.RotateKey(ctx, id, byHand)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	good := 0
	for _, k := range keys {
		if _, err := b.ByAPIKey(ctx, secret.Redact(k.Reveal()), netip.Addr{}); err == nil {
			good++
			got, err := b.Me(ctx, id)
			require.NoError(t, err)
			require.Equal(t, k.Suffix(), got.APIKeySuffix)
		}
	}
	require.Equal(t, 1, good)
}

// restricted makes a key with one scope.
func (b *bundle) restricted(id uuid.UUID) (secret.APIKey, KeyRecord) {
	b.T.Helper()
	key, k, err := b.CreateKey(context.Background(), id, anOwner, NewKey{Name: "Reader", Scopes: []string{"accounts:read"}, Networks: []string{"192.0.2.0/24"}}, byHand)
	require.NoError(b.T, err)
	return key, k
}

var office = netip.MustParseAddr("192.0.2.7")

// The last use of a key is written once a minute at most, whoever uses it, and a row that somebody
// else has locked is not waited for.
func TestUsesAreWrittenOnceAMinute(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, _ := b.withKey("ada@example.com")
	key, k := b.restricted(id)
	start := b.Env.Clock.Now()
	use := func() {
		_, err := b.ByAPIKey(ctx, secret.Redact(key.Reveal()), office)
		require.NoError(t, err)
		b.uses.write(ctx)
	}
	last := func() time.Time {
		return testenv.Value[time.Time](b.Env, `SELECT last_used_at FROM api_keys WHERE id = $1`, k.ID).UTC()
	}
	version := func() string {
		return testenv.Value[string](b.Env, `SELECT xmin::text FROM api_keys WHERE id = $1`, k.ID)
	}
	noted := func() int { // a write that was put off may be running
		b.uses.mu.Lock()
		defer b.uses.mu.Unlock()
		return len(b.uses.noted)
	}
	use()
	require.Equal(t, start, last())
	require.Equal(t, "192.0.2.7/32", testenv.Value[string](b.Env, `SELECT last_used_from::text FROM api_keys WHERE id = $1`, k.ID))
	written := version()
	b.Env.Clock.Advance(time.Minute - time.Microsecond)
	use()
	require.Equal(t, written, version(), "within a minute")
	// another process has read the row before that use was written
	b.uses.note(Key{ID: k.ID}, office, b.Env.Clock.Now())
	b.uses.write(ctx)
	require.Equal(t, written, version(), "the statement itself keeps to the minute")
	b.Env.Clock.Advance(time.Microsecond)
	use()
	require.Equal(t, start.Add(time.Minute), last())

	b.Env.Clock.Advance(time.Hour)
	require.NoError(t, b.Beside(func(tx pg.Tx) error {
		_, err := tx.Exec(ctx, `SELECT FROM api_keys WHERE id = $1 FOR UPDATE`, k.ID)
		return err
	}, func() error { use(); return nil }))
	require.Equal(t, start.Add(time.Minute), last())
	_, err := b.ByAPIKey(ctx, secret.Redact(key.Reveal()), netip.MustParseAddr("192.0.3.1"))
	require.Equal(t, errs.Forbidden, errs.KindOf(err))
	require.Zero(t, noted(), "an attempt from elsewhere is no use")
	_, err = b.ByAPIKey(ctx, secret.Redact(key.Reveal()), office)
	require.NoError(t, err)
	require.NoError(t, b.Close(ctx))
	require.Equal(t, start.Add(time.Minute+time.Hour), last(), "what was noted when the process stops")
	b.uses.note(Key{ID: k.ID}, office, b.Env.Clock.Now())
	require.Zero(t, noted())
}

// The schema lets nobody give a key more rights, more time or another life.
func TestKeysAreGuarded(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, _ := b.withKey("ada@example.com")
	other, _ := b.withKey("bola@example.com")
	_, k := b.restricted(id)
	b.Exec(`UPDATE api_keys SET expires_at = now() + interval '1 hour' WHERE id = $1`, k.ID)
	refused := func(id uuid.UUID, set string) {
		t.Helper()
		_, err := b.Env.Pool.Exec(ctx, `UPDATE api_keys SET `+set+` WHERE id = $1`, id)
		require.Contains(t, []string{"23514", "23505"}, pg.Code(err), set)
	}
	for _, set := range []string{
		"scopes = NULL", "scopes = '{payouts:create}'", "networks = '{}'", "networks = '{0.0.0.0/0}'", "main = true", "expires_at = NULL",
		"expires_at = now() + interval '2 hours'", "hash = sha256('x')", "name = 'x'", "suffix = 'x'", "tenant_id = '" + other.String() + "'",
		"created_at = now() + interval '1 day'", "revoked_at = now() - interval '1 day'",
	} {
		refused(k.ID, set)
	}
	first := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM api_keys WHERE tenant_id = $1 AND main`, id)
	for _, set := range []string{"scopes = '{payouts:create}'", "expires_at = now()", "rotated_at = now()", "revoked_at = now()"} {
		refused(first, set)
	}
	_, err := b.RevokeKey(ctx, id, k.ID, byHand)
	require.NoError(t, err)
	for _, set := range []string{"revoked_at = NULL", "revoked_at = NULL, expires_at = NULL", "expires_at = NULL"} {
		refused(k.ID, set)
	}
}

// Ended keys are listed for 90 days. Who made and ended them stays in the audit log.
func TestEndedKeysAreRemoved(t *testing.T) {
	b := alone(t)
	ctx := context.Background()
	id, _ := b.withKey("ada@example.com")
	_, k := b.restricted(id)
	_, err := b.RevokeKey(ctx, id, k.ID, byHand)
	require.NoError(t, err)
	count := func() int { return testenv.Value[int](b.Env, `SELECT count(*) FROM api_keys WHERE tenant_id = $1`, id) }
	b.Env.Clock.Advance(90 * 24 * time.Hour)
	b.Env.Clock.Advance(-time.Second)
	b.purge()
	require.Equal(t, 2, count())
	b.Env.Clock.Advance(time.Second)
	b.purge()
	require.Equal(t, 1, count())
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE target = $1`, "key:"+k.ID.String()))
}

// A tenant lists its own keys, the newest first, and each on one page.
func TestKeysAreListed(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, _ := b.withKey("ada@example.com")
	var want []string
	for _, name := range []string{"Second", "Third", "Fourth"} {
		want = append(want, name)
		_, _, err := b.CreateKey(ctx, id, anOwner, NewKey{Name: name, Scopes: []string{"accounts:read"}}, byHand)
		require.NoError(t, err)
	}
	slices.Reverse(want)
	want = append(want, mainKeyName)
	for _, limit := range []int{1, 2, 3, 4, 5} {
		var got []string
		r := page.Request{Limit: limit}
		for more := true; more; {
			keys, info, err := b.Keys(ctx, id, r)
			require.NoError(t, err)
			require.LessOrEqual(t, len(keys), limit)
			for _, k := range keys {
				got = append(got, k.Name)
			}
			if more = info.HasMore; more {
				r.After = *info.NextCursor
			}
		}
		require.Equal(t, want, got, "limit %d", limit)
	}
}

// The owner hears of a new key by e-mail, with its suffix and where it was made, and never the key.
func TestOwnersHearOfNewKeys(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, _ := b.withKey("ada@example.com")
	by := audit.Session("ada@example.com", office)
	key, k, err := b.CreateKey(ctx, id, anOwner, NewKey{Name: "Reader", Scopes: []string{"accounts:read"}}, by)
	require.NoError(t, err)
	sent := b.mail("ada@example.com", 2)
	require.Equal(t, "A new API key was made", sent.Subject)
	require.Contains(t, sent.Text, k.Suffix)
	require.Contains(t, sent.Text, "192.0.2.7")
	require.NotContains(t, sent.Text, key.Reveal())
	require.Equal(t, `keys.create key:`+k.ID.String()+` {"after": {"name": "Reader", "scopes": ["accounts:read"], "suffix": "`+k.Suffix+`"}}`,
		testenv.Value[string](b.Env, `SELECT action || ' ' || target || ' ' || detail::text FROM audit_log WHERE tenant_id = $1`, id))
	require.Equal(t, "session:ada@example.com 192.0.2.7", testenv.Value[string](b.Env, `SELECT actor || ' ' || host(address) FROM audit_log WHERE tenant_id = $1`, id))
}
