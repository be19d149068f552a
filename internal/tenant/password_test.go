package tenant

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/testenv"
)

var fresh = secret.Redact("another horse")

func (b *bundle) login(email string, password secret.Redacted) Session {
	b.T.Helper()
	s, err := b.Login(context.Background(), email, password, secret.Redacted{}, netip.Addr{})
	require.NoError(b.T, err)
	return s
}

func (b *bundle) opens(s Session) error {
	_, err := b.Session(context.Background(), s.Token)
	return err
}

var resetForm = regexp.MustCompile(`(?m)^ {4}([A-Za-z0-9_-]{43})$`)

// resetCode waits for the n-th mail to an address and returns the code in it.
func (b *bundle) resetCode(to string, n int) secret.Redacted {
	b.T.Helper()
	m := resetForm.FindStringSubmatch(b.mail(to, n).Text)
	require.NotNil(b.T, m)
	return secret.Redact(m[1])
}

func TestChangePassword(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	const email = "ada@example.com"
	id := b.verified(email)
	mine, stolen := b.login(email, password), b.login(email, password)
	link := b.loginLink(id)
	for _, c := range []struct {
		old, fresh string
		want       error
	}{
		{"", "another horse", errOldPasswordMissing},
		{"correct horse", "", errNewPasswordMissing},
		{"correct horse", "1234567", errNewPasswordShort},
		{"correct horse", strings.Repeat("p", 129), errNewPasswordLong},
		{"wrong horse", "another horse", errOldPassword},
		{strings.Repeat("p", 129), "another horse", errOldPassword},
	} {
		err := b.ChangePassword(ctx, id, b.member(mine), mine.Token, secret.Redact(c.old), secret.Redact(c.fresh), bySession)
		require.ErrorIs(t, err, c.want, "%q %q", c.old, c.fresh)
	}
	require.NoError(t, b.opens(stolen), "nothing has changed yet")

	longest := secret.Redact(strings.Repeat("p", 128))
	require.NoError(t, b.ChangePassword(ctx, id, b.member(mine), mine.Token, password, longest, bySession))
	require.NoError(t, b.ChangePassword(ctx, id, b.member(mine), mine.Token, longest, fresh, bySession), "the longest password that can be set can be changed")
	require.NoError(t, b.opens(mine), "the session that asks stays")
	require.ErrorIs(t, b.opens(stolen), ErrUnauthorized)
	_, err := b.LoginByLink(ctx, link, netip.Addr{})
	require.ErrorIs(t, err, errLoginLink)
	_, err = b.Login(ctx, email, password, secret.Redacted{}, netip.Addr{})
	require.ErrorIs(t, err, ErrCredentials)
	b.login(email, fresh)
	require.Contains(t, b.mail(email, 3).Subject, "password was changed")
	require.ErrorIs(t, b.ChangePassword(ctx, id, b.member(mine), mine.Token, password, fresh, bySession), errOldPassword)
}

func TestForgottenPassword(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	const email = "ada@example.com"
	id := b.verified(email)
	stolen := b.login(email, password)
	require.ErrorIs(t, b.ForgotPassword(ctx, " "), errEmailMissing)
	require.NoError(t, b.ForgotPassword(ctx, "nobody@example.com"))
	require.ErrorIs(t, b.ForgotPassword(ctx, strings.Repeat("a", 300)+"@example.com"), errEmail)
	require.NoError(t, b.ForgotPassword(ctx, " ADA@example.com"))
	code := b.resetCode(email, 2)
	require.Len(t, b.box.all(), 2, "to nobody else")
	require.NotContains(t, testenv.Value[string](b.Env, `SELECT string_agg(r::text, '') FROM password_resets r`), code.Reveal())

	for given, want := range map[string]error{"": ErrResetCodeMissing, "x": errCode, secret.NewToken().Reveal(): errCode} {
		_, err := b.ResetPassword(ctx, secret.Redact(given), fresh, netip.Addr{})
		require.ErrorIs(t, err, want, "%q", given)
	}
	_, err := b.ResetPassword(ctx, code, secret.Redact("short"), netip.Addr{})
	require.ErrorIs(t, err, errNewPasswordShort)
	require.NoError(t, b.opens(stolen))

	s, err := b.ResetPassword(ctx, code, fresh, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, id, s.TenantID)
	require.NoError(t, b.opens(s))
	require.ErrorIs(t, b.opens(stolen), ErrUnauthorized)
	_, err = b.Login(ctx, email, password, secret.Redacted{}, netip.Addr{})
	require.ErrorIs(t, err, ErrCredentials)
	b.login(email, fresh)
	_, err = b.ResetPassword(ctx, code, password, netip.Addr{})
	require.ErrorIs(t, err, errCode, "once")
	require.Contains(t, b.mail(email, 3).Subject, "password was changed")
}

// A stranger who asks for codes in the owner's name takes nothing from the owner: each mailed code
// is good, until one was used.
func TestEveryMailedCodeIsGoodOnce(t *testing.T) {
	b := alone(t)
	ctx := context.Background()
	const email = "ada@example.com"
	b.verified(email)
	var codes []secret.Redacted
	for i := range 3 {
		require.NoError(t, b.ForgotPassword(ctx, email))
		codes = append(codes, b.resetCode(email, i+2))
	}
	b.Clock.Advance(resetLife - time.Microsecond)
	_, err := b.ResetPassword(ctx, codes[0], fresh, netip.Addr{})
	require.NoError(t, err)
	_, err = b.ResetPassword(ctx, codes[2], password, netip.Addr{})
	require.ErrorIs(t, err, errCode, "the others end with the sessions")

	b.mail(email, 5) // the sign-up's, three codes, and the notice: it may be under way yet
	require.NoError(t, b.ForgotPassword(ctx, email))
	late := b.resetCode(email, 6)
	b.Clock.Advance(resetLife)
	_, err = b.ResetPassword(ctx, late, password, netip.Addr{})
	require.ErrorIs(t, err, errCode)
	require.NoError(t, b.ForgotPassword(ctx, "nobody@example.com"))
	b.purge()
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM password_resets`), "what has expired is removed")
}

// Of two codes used at once one sets the password, and no session of the other is left.
func TestCodesUsedAtOnce(t *testing.T) {
	b := alone(t)
	ctx := context.Background()
	for round := range 3 {
		email := fmt.Sprintf("ada%d@example.com", round)
		b.verified(email)
		var codes []secret.Redacted
		for i := range 3 {
			require.NoError(t, b.ForgotPassword(ctx, email))
			codes = append(codes, b.resetCode(email, i+2))
		}
		oneWins(t, len(codes), func(i int) error {
			_, err := b.ResetPassword(ctx, codes[i], fresh, netip.Addr{})
			return err
		})
	}
	require.Equal(t, 3, testenv.Value[int](b.Env, `SELECT count(*) FROM sessions WHERE ended_at IS NULL`))
}

// What was stolen before a suspension opens nothing after it.
func TestSuspensionEndsSessions(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	const email = "ada@example.com"
	id := b.verified(email)
	stolen, link := b.login(email, password), b.loginLink(id)
	require.NoError(t, b.ForgotPassword(ctx, email))
	code := b.resetCode(email, 2)
	_, err := b.Suspend(ctx, id, byHand)
	require.NoError(t, err)
	require.ErrorIs(t, b.opens(stolen), ErrSuspended, "and is told why")
	_, err = b.Activate(ctx, id, byHand)
	require.NoError(t, err)
	require.ErrorIs(t, b.opens(stolen), ErrUnauthorized)
	_, err = b.LoginByLink(ctx, link, netip.Addr{})
	require.ErrorIs(t, err, errLoginLink)
	_, err = b.ResetPassword(ctx, code, fresh, netip.Addr{})
	require.ErrorIs(t, err, errCode)
	require.NoError(t, b.opens(b.login(email, password)))
}

func TestEndSessions(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	const email = "ada@example.com"
	id := b.verified(email)
	a, c := b.login(email, password), b.login(email, password)
	b.verified("bayo@example.com")
	other := b.login("bayo@example.com", password)
	over := secret.Hash(b.login(email, password).Token.Reveal())
	b.Exec(`UPDATE sessions SET expires_at = $2 WHERE token_hash = $1`, over[:], b.Clock.Now())
	n, err := b.EndSessions(ctx, id, "", byHand)
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "without the one that had expired")
	require.ErrorIs(t, b.opens(a), ErrUnauthorized)
	require.ErrorIs(t, b.opens(c), ErrUnauthorized)
	require.NoError(t, b.opens(other))
	require.Equal(t, []string{`tenant.end-sessions tenant:` + id.String() + ` {"Name": "Ada Stores", "Sessions": 2}`}, b.audited())
	_, err = b.EndSessions(ctx, uuid.New(), "", byHand)
	require.ErrorIs(t, err, ErrNotFound)
}

// A login that checked the password before it was changed, or the status before it was suspended,
// and writes its session after that finds out: it waits for the tenant's row and reads it again.
func TestALoginUnderWayIsEndedToo(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	for name, c := range map[string]struct {
		change string
		want   error
	}{
		"password":   {`UPDATE members SET password_hash = 'changed' WHERE tenant_id = $1`, ErrCredentials},
		"suspension": {`UPDATE tenants SET status = 'suspended' WHERE id = $1`, ErrSuspended},
	} {
		email := name + "@example.com"
		id := b.verified(email)
		tx, err := b.Pool.Begin(ctx)
		require.NoError(t, err)
		_, err = tx.Exec(ctx, `SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE`, id) // as each change of the two does first
		require.NoError(t, err)
		_, err = tx.Exec(ctx, c.change, id)
		require.NoError(t, err)
		end := make(chan error, 1)
		go func() {
			_, err := b.Login(ctx, email, password, secret.Redacted{}, netip.Addr{})
			end <- err
		}()
		testenv.Eventually(t, 10*time.Second, "the login to wait for the tenant's row", func() bool {
			return b.LockWaits() == 1
		})
		require.NoError(t, tx.Commit(ctx))
		require.ErrorIs(t, <-end, c.want, name)
	}
	require.Zero(t, b.sessions())
}

func TestForgotPasswordTakesTheSameTime(t *testing.T) {
	b := setup(t)
	b.verified("ada@example.com")
	b.box.hold = make(chan struct{})
	defer close(b.box.hold)
	requireAlike(t, func(known bool, i int) func() {
		email := "ada@example.com"
		if !known {
			email = fmt.Sprintf("%d@example.com", i)
		}
		return func() { require.NoError(t, b.ForgotPassword(context.Background(), email)) }
	})
}

func TestKnownNetworks(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	const email = "ada@example.com"
	id := b.verified(email)
	knows := func(network string) bool {
		known, err := b.KnowsNetwork(ctx, " ADA@example.com", network)
		require.NoError(t, err)
		return known
	}
	require.False(t, knows("192.0.2.1"))
	require.NoError(t, b.RememberNetwork(ctx, email, "192.0.2.1"))
	require.True(t, knows("192.0.2.1"))
	require.False(t, knows("192.0.2.2"))
	b.Clock.Advance(networkLife)
	require.False(t, knows("192.0.2.1"), "it was long ago")
	for i := range maxKnownNetworks + 1 {
		b.Clock.Advance(time.Second)
		require.NoError(t, b.RememberNetwork(ctx, email, fmt.Sprintf("192.0.2.%d", 100+i)))
	}
	require.Equal(t, maxKnownNetworks, testenv.Value[int](b.Env, `SELECT count(*) FROM known_networks`))
	require.False(t, knows("192.0.2.100"), "the oldest goes first")
	_, err := b.EndSessions(ctx, id, "", byHand)
	require.NoError(t, err)
	require.False(t, knows("192.0.2.101"), "who had the password may have logged in from there")
}
