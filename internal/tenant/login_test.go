package tenant

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/argon2"

	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

// requireAlike calls with and without an address that is known, in turn, and compares the shortest
// times. They say what the code does even where other programs take the processor for most of the
// calls; where they take it for all of them, more calls tell. It must find a branch that leaves out
// a password hash, or waits for something that the other does not.
func requireAlike(t *testing.T, prepare func(known bool, i int) (call func())) {
	t.Helper()
	const atLeast, atMost, slack = 20, 400, 5 * time.Millisecond
	shortest := map[bool]time.Duration{true: time.Hour, false: time.Hour}
	for i := range atMost {
		known := i%2 == 1
		call := prepare(known, i)
		start := time.Now()
		call()
		shortest[known] = min(shortest[known], time.Since(start))
		if x, y := shortest[true], shortest[false]; i+1 >= atLeast && x < 2*y+slack && y < 2*x+slack {
			return
		}
	}
	require.Failf(t, "the times differ", "the shortest of a known address: %s, of another: %s", shortest[true], shortest[false])
}

func TestLogin(t *testing.T) {
	spec.Shows(t, "limit.session", "auth.session.life")
	b := setup(t)
	ctx := context.Background()
	id := b.verified("ada@example.com")
	s, err := b.Login(ctx, " ADA@Example.com ", password, secret.Redacted{}, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, id, s.TenantID)
	require.Equal(t, "Ada Stores", s.Name)
	require.Equal(t, b.Clock.Now().Add(7*24*time.Hour), s.Expires)
	got, err := b.Session(ctx, s.Token)
	require.NoError(t, err)
	require.Equal(t, id, got.ID)
	require.Equal(t, 0, testenv.Value[int](b.Env, `SELECT count(*) FROM sessions WHERE encode(token_hash, 'escape') LIKE '%' || $1 || '%'`, s.Token.Reveal()))

	for _, first := range []bool{true, false} {
		ended, err := b.Logout(ctx, s.Token, netip.Addr{})
		require.NoError(t, err, "twice is no error")
		require.Equal(t, first, ended)
		_, err = b.Session(ctx, s.Token)
		require.ErrorIs(t, err, ErrUnauthorized)
	}
}

func TestLoginRefusals(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	b.verified("ada@example.com")
	b.register("new@example.com")
	b.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, b.verified("bad@example.com"))
	for _, c := range []struct {
		email, password string
		want            error
	}{
		{"", "correct horse", errEmailMissing},
		{"ada@example.com", "", errPasswordMissing},
		{"ada@example.com", "Correct horse", ErrCredentials},
		{"ada@example.com", strings.Repeat("p", 129), ErrCredentials},
		{"nobody@example.com", "correct horse", ErrCredentials},
		{strings.Repeat("a", 300) + "@example.com", "correct horse", ErrCredentials},
		{"new@example.com", "wrong horse", ErrCredentials},
		{"new@example.com", "correct horse", errUnverified},
		{"bad@example.com", "wrong horse", ErrCredentials},
		{"bad@example.com", "correct horse", ErrSuspended},
	} {
		_, err := b.Login(ctx, c.email, secret.Redact(c.password), secret.Redacted{}, netip.Addr{})
		require.ErrorIs(t, err, c.want, "%s %s", c.email, c.password)
	}
	require.Equal(t, 0, b.sessions())
}

func TestLoginTakesTheSameTime(t *testing.T) {
	b := setup(t)
	b.verified("ada@example.com")
	requireAlike(t, func(known bool, i int) func() {
		email := "ada@example.com"
		if !known {
			email = fmt.Sprintf("nobody%d@example.com", i)
		}
		return func() {
			_, err := b.Login(context.Background(), email, secret.Redact("wrong horse"), secret.Redacted{}, netip.Addr{})
			require.ErrorIs(t, err, ErrCredentials)
		}
	})
}

func TestSessionsEnd(t *testing.T) {
	spec.Shows(t, "auth.session.life")
	b := alone(t)
	ctx := context.Background()
	id := b.verified("ada@example.com")
	s, err := b.Login(ctx, "ada@example.com", password, secret.Redacted{}, netip.Addr{})
	require.NoError(t, err)
	b.Clock.Advance(SessionLife - time.Microsecond)
	_, err = b.Session(ctx, s.Token)
	require.NoError(t, err)
	b.Clock.Advance(time.Microsecond)
	_, err = b.Session(ctx, s.Token)
	require.ErrorIs(t, err, ErrUnauthorized)

	next, err := b.Login(ctx, "ada@example.com", password, secret.Redacted{}, netip.Addr{})
	require.NoError(t, err)
	b.purge()
	require.Equal(t, 1, b.sessions(), "an expired session is removed")

	b.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, id)
	_, err = b.Session(ctx, next.Token)
	require.ErrorIs(t, err, ErrSuspended)
}

func TestForeignTokens(t *testing.T) {
	b := setup(t)
	for _, token := range []string{"", "x", "\x00", strings.Repeat("a", 43), strings.Repeat("a", 10_000), secret.NewToken().Reveal()} {
		_, err := b.Session(context.Background(), secret.Redact(token))
		require.ErrorIs(t, err, ErrUnauthorized)
		ended, err := b.Logout(context.Background(), secret.Redact(token), netip.Addr{})
		require.NoError(t, err)
		require.False(t, ended)
	}
}

func TestOldPasswordHashesAreReplaced(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.verified("ada@example.com")
	salt := []byte("a salt of 16 byt")
	hash := "$argon2id$v=19$m=8192,t=1,p=1$" + base64.RawStdEncoding.EncodeToString(salt) + "$" +
		base64.RawStdEncoding.EncodeToString(argon2.IDKey([]byte(password.Reveal()), salt, 1, 8192, 1, 32))
	b.Exec(`UPDATE members SET password_hash = $2 WHERE tenant_id = $1`, id, hash)
	_, err := b.Login(ctx, "ada@example.com", password, secret.Redacted{}, netip.Addr{})
	require.NoError(t, err)
	now := testenv.Value[string](b.Env, `SELECT password_hash FROM members WHERE tenant_id = $1`, id)
	require.NotEqual(t, hash, now)
	require.False(t, secret.NeedsRehash(now))
	_, err = b.Login(ctx, "ada@example.com", password, secret.Redacted{}, netip.Addr{})
	require.NoError(t, err)
}

func TestMe(t *testing.T) {
	b := setup(t)
	id, key := b.withKey("ada@example.com")
	got, err := b.Me(context.Background(), id)
	require.NoError(t, err)
	got.CreatedAt = got.CreatedAt.UTC()
	require.Equal(t, Tenant{
		ID: id, Name: "Ada Stores", Email: "ada@example.com", Status: Active, APIKeySuffix: key.Suffix(), KYCStatus: KYCUnverified,
		CreatedAt: b.Env.Clock.Now(),
	}, got)
}
