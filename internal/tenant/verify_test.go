package tenant

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

// verified registers a tenant and verifies its address.
func (b *bundle) verified(email string) uuid.UUID {
	b.T.Helper()
	id, _ := b.withKey(email)
	return id
}

func (b *bundle) withKey(email string) (uuid.UUID, secret.APIKey) {
	b.T.Helper()
	id := b.register(email)
	key, err := b.VerifyEmail(context.Background(), id.String(), b.code(email, 1))
	require.NoError(b.T, err)
	return id, key
}

func TestVerifyEmail(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.register("ada@example.com")
	code := b.code("ada@example.com", 1)
	key, err := b.VerifyEmail(ctx, id.String(), code)
	require.NoError(t, err)
	require.True(t, secret.LiveKey.Check(key.Reveal()))
	got, err := b.ByAPIKey(ctx, secret.Redact(key.Reveal()), netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, id, got.ID)
	_, err = b.VerifyEmail(ctx, id.String(), code)
	require.ErrorIs(t, err, errCode, "a code works once")
	require.Equal(t, key.Suffix(), testenv.Value[string](b.Env, `SELECT suffix FROM api_keys WHERE tenant_id = $1 AND main`, id))
	require.True(t, testenv.Value[bool](b.Env, `SELECT setting = reset_val FROM pg_settings WHERE name = 'synchronous_commit'`), "no connection is left asynchronous")
}

func TestVerifyEmailRefusals(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.register("ada@example.com")
	code := b.code("ada@example.com", 1)
	other := b.register("bayo@example.com")
	for name, c := range map[string]struct {
		id   string
		otp  secret.Redacted
		want error
	}{
		"no tenant":      {"", code, errTenantIDMissing},
		"no code":        {id.String(), secret.Redacted{}, errOTPMissing},
		"not an id":      {"ada", code, errCode},
		"NUL":            {"\x00", code, errCode},
		"unknown tenant": {uuid.NewString(), code, errCode},
		"another tenant": {other.String(), code, errCode},
		"wrong":          {id.String(), wrong(code), errCode},
		"too long":       {id.String(), secret.Redact(code.Reveal() + "0"), errCode},
		"with space":     {id.String(), secret.Redact(" " + code.Reveal()), errCode},
	} {
		if name == "another tenant" && b.code("bayo@example.com", 1).Equal(code) {
			continue // one in a million
		}
		_, err := b.VerifyEmail(ctx, c.id, c.otp)
		require.ErrorIs(t, err, c.want, name)
	}
	_, err := b.VerifyEmail(ctx, id.String(), code)
	require.NoError(t, err, "the fourth try of five")
}

func TestCodeEnds(t *testing.T) {
	spec.Shows(t, "auth.code.life")
	b := setup(t)
	ctx := context.Background()
	id := b.register("ada@example.com")
	b.Clock.Advance(10 * time.Minute)
	_, err := b.VerifyEmail(ctx, id.String(), b.code("ada@example.com", 1))
	require.ErrorIs(t, err, errCode)

	other := b.register("bayo@example.com")
	b.Clock.Advance(10*time.Minute - time.Second)
	_, err = b.VerifyEmail(ctx, other.String(), b.code("bayo@example.com", 1))
	require.NoError(t, err)
}

// A code of one row does not work in another, not even by who can write the table.
func TestCodeIsBoundToItsTenant(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, other := b.register("ada@example.com"), b.register("bayo@example.com")
	code := b.code("ada@example.com", 1)
	b.Exec(`UPDATE pending_registrations SET code_hash = (SELECT code_hash FROM pending_registrations WHERE id = $1) WHERE id = $2`, id, other)
	_, err := b.VerifyEmail(ctx, other.String(), code)
	require.Error(t, err)
	require.NotErrorIs(t, err, errCode) // a damaged row is no wrong code: it is reported
}

func TestGuessesAtOnce(t *testing.T) {
	spec.Shows(t, "auth.code.tries")
	b := setup(t)
	id := b.register("ada@example.com")
	code := b.code("ada@example.com", 1)
	testenv.AtOnce(100, func(i int) {
		guess := secret.Redact(fmt.Sprintf("%06d", i))
		if guess.Equal(code) {
			guess = secret.Redact("999999")
		}
		_, err := b.VerifyEmail(context.Background(), id.String(), guess)
		require.ErrorIs(t, err, errCode)
	})
	require.Equal(t, 5, testenv.Value[int](b.Env, `SELECT code_tries FROM pending_registrations WHERE id = $1`, id))
	_, err := b.VerifyEmail(context.Background(), id.String(), code)
	require.ErrorIs(t, err, errCode, "the tries are spent, be the code right")
}

func TestRightCodesAtOnce(t *testing.T) {
	b := setup(t)
	for round := range 5 {
		email := fmt.Sprintf("ada%d@example.com", round)
		id, code := b.register(email), b.code(email, 1)
		var keys atomic.Int32
		testenv.AtOnce(5, func(int) {
			if key, err := b.VerifyEmail(context.Background(), id.String(), code); err == nil {
				keys.Add(1)
				_, err := b.ByAPIKey(context.Background(), secret.Redact(key.Reveal()), netip.Addr{})
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errCode)
			}
		})
		require.Equal(t, int32(1), keys.Load())
	}
}

// The code check, too, must not tell an address that is registered from one that waits for its
// code.
func TestWrongCodesTakeTheSameTime(t *testing.T) {
	b := setup(t)
	b.verified("ada@example.com")
	taken := b.register("ada@example.com")
	requireAlike(t, func(known bool, i int) func() {
		id := taken
		if !known {
			id = b.register(fmt.Sprintf("%d@example.com", i))
		}
		return func() {
			_, err := b.VerifyEmail(context.Background(), id.String(), secret.Redact("0000000"))
			require.ErrorIs(t, err, errCode)
		}
	})
}
