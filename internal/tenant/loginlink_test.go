package tenant

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/testenv"
)

func (b *bundle) loginLink(id uuid.UUID) secret.Redacted {
	b.T.Helper()
	token, expires, err := b.LoginLink(context.Background(), id, byHand)
	require.NoError(b.T, err)
	require.Equal(b.T, b.Clock.Now().Add(10*time.Minute), expires)
	return token
}

func TestLoginLinkOpensOneSession(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, other := b.Tenant(), b.Tenant()
	token := b.loginLink(id)
	s, err := b.LoginByLink(ctx, token, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, id, s.TenantID)
	require.Equal(t, b.Clock.Now().Add(SessionLife), s.Expires)
	in, err := b.Session(ctx, s.Token)
	require.NoError(t, err)
	require.Equal(t, id, in.ID)
	_, err = b.LoginByLink(ctx, token, netip.Addr{})
	require.ErrorIs(t, err, errLoginLink, "once")

	// Two links are two, and each its own tenant's.
	first, second := b.loginLink(id), b.loginLink(other)
	s, err = b.LoginByLink(ctx, second, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, other, s.TenantID)
	s, err = b.LoginByLink(ctx, first, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, id, s.TenantID)
	require.Len(t, b.audited(), 3)
	require.Regexp(t, `^tenant\.login-link tenant:`+id.String()+` \{"Name": "Test tenant", "Expires": "`+b.Clock.Now().Add(LoginLinkLife).Format(time.RFC3339)+`"\}$`, b.audited()[0])
}

// Of many who use a link at once one gets in.
func TestLoginLinkAtOnce(t *testing.T) {
	b := setup(t)
	token := b.loginLink(b.Tenant())
	var mu sync.Mutex
	in, refused := 0, 0
	testenv.AtOnce(16, func(int) {
		_, err := b.LoginByLink(context.Background(), token, netip.Addr{})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			in++
		case errors.Is(err, errLoginLink):
			refused++
		default:
			t.Error(err)
		}
	})
	require.Equal(t, []int{1, 15}, []int{in, refused})
	require.Equal(t, 1, b.sessions())
}

func TestLoginLinkEnds(t *testing.T) {
	b := alone(t)
	ctx := context.Background()
	id := b.Tenant()
	early, late := b.loginLink(id), b.loginLink(id)
	b.Clock.Advance(LoginLinkLife - time.Microsecond)
	_, err := b.LoginByLink(ctx, early, netip.Addr{})
	require.NoError(t, err)
	b.Clock.Advance(time.Microsecond)
	_, err = b.LoginByLink(ctx, late, netip.Addr{})
	require.ErrorIs(t, err, errLoginLink)
	b.loginLink(id)
	b.purge()
	require.Equal(t, int64(1), testenv.Value[int64](b.Env, `SELECT count(*) FROM login_links`))
}

func TestLoginLinkRefuses(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	for token, want := range map[string]error{
		"": errTokenMissing, "x": errLoginLink, "\x00": errLoginLink, secret.NewToken().Reveal(): errLoginLink, secret.NewToken().Reveal() + "x": errLoginLink,
	} {
		_, err := b.LoginByLink(ctx, secret.Redact(token), netip.Addr{})
		require.ErrorIs(t, err, want, "%q", token)
	}
	_, _, err := b.LoginLink(ctx, uuid.New(), byHand)
	require.ErrorIs(t, err, ErrNotFound)
	_, _, err = b.LoginLink(ctx, b.register("ada@shop.example"), byHand)
	require.ErrorIs(t, err, ErrNotFound, "whoever registers an address has not shown that it is theirs")

	id := b.Tenant()
	token := b.loginLink(id)
	require.NotContains(t, testenv.Value[string](b.Env, `SELECT string_agg(l::text, '') FROM login_links l`), token.Reveal(),
		"the database does not hold what would open a session")
	_, err = b.Suspend(ctx, id, byHand)
	require.NoError(t, err)
	_, err = b.LoginByLink(ctx, token, netip.Addr{})
	require.ErrorIs(t, err, errLoginLink, "suspension ends links too")
	_, _, err = b.LoginLink(ctx, id, byHand)
	require.ErrorIs(t, err, ErrSuspended)
	require.Len(t, b.audited(), 2, "what was refused is not recorded")
	require.Zero(t, b.sessions())
}
