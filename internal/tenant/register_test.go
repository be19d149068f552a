package tenant

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/errs"
	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

func TestRegisterRefusals(t *testing.T) {
	b := alone(t)
	for _, c := range []struct {
		name, email, password string
		want                  error
	}{
		{"", "a@example.com", "12345678", ErrNameMissing},
		{" \t ", "a@example.com", "12345678", ErrNameMissing},
		{strings.Repeat("ọ", 201), "a@example.com", "12345678", errNameLong},
		{"A\nB", "a@example.com", "12345678", errNameControl},
		{"A", "", "12345678", errEmailMissing},
		{"A", "a", "12345678", errEmail},
		{"A", "a@b", "12345678", errEmail},
		{"A", "a b@example.com", "12345678", errEmail},
		{"A", "a@example.com\r\nBcc: x@example.com", "12345678", errEmail},
		{"A", "Ada <a@example.com>", "12345678", errEmail},
		{"A", "a@example.com, b@example.com", "12345678", errEmail},
		{"A", "a..b@example.com", "12345678", errEmail},
		{"A", "a@-example.com", "12345678", errEmail},
		{"A", "a@exämple.com", "12345678", errEmail},
		{"A", strings.Repeat("a", 65) + "@example.com", "12345678", errEmail},
		{"A", "a@" + strings.Repeat("a.", 126) + "com", "12345678", errEmail},
		{"A", "a@example.com", "", errPasswordMissing},
		{"A", "a@example.com", "1234567", errPasswordShort},
		{"A", "a@example.com", "ọọọọọọọ", errPasswordShort},
		{"A", "a@example.com", strings.Repeat("p", 129), errPasswordLong},
	} {
		_, err := b.Register(context.Background(), Registration{Name: c.name, Email: c.email, Password: secret.Redact(c.password)})
		require.ErrorIs(t, err, c.want, "%q %q", c.name, c.email)
		require.Equal(t, errs.Invalid, errs.KindOf(err))
	}
	require.Equal(t, 0, testenv.Value[int](b.Env, `SELECT count(*) FROM pending_registrations`))
}

func TestRegister(t *testing.T) {
	spec.Shows(t, "endpoint.register.code")
	b := setup(t)
	for _, p := range []string{"ọọọọọọọọ", strings.Repeat("ọ", 128)} { // characters, not bytes
		_, err := b.Register(context.Background(), Registration{Name: strings.Repeat("ọ", 200), Email: uuid.NewString() + "@example.com", Password: secret.Redact(p)})
		require.NoError(t, err)
	}
	id := b.register("  Ada.Obi+shop@Example.COM ")
	m := b.mail("ada.obi+shop@example.com", 1)
	require.Contains(t, m.Text, id.String())
	code := codeForm.FindString(m.Text)
	require.NotEmpty(t, code)
	var row struct{ email, password, code string }
	require.NoError(t, b.Env.Pool.QueryRow(context.Background(), `SELECT email, password_hash, encode(code_hash, 'escape') FROM pending_registrations WHERE id = $1`, id).
		Scan(&row.email, &row.password, &row.code))
	require.Equal(t, "ada.obi+shop@example.com", row.email)
	require.True(t, strings.HasPrefix(row.password, "$argon2id$"))
	require.NotContains(t, row.code, code)
}

// Who needs another code registers again, and uses the new id with it. The registration before
// stands as it was.
func TestRegisterAgainWhileUnverified(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	first := b.register("ada@example.com")
	for range 6 {
		_, err := b.VerifyEmail(ctx, first.String(), wrong(b.code("ada@example.com", 1)))
		require.ErrorIs(t, err, errCode)
	}
	b.Clock.Advance(time.Second) // the newest of two registrations is told by its time
	again, err := b.Register(ctx, Registration{Name: "New name", Email: "ADA@example.com", Password: secret.Redact("another password")})
	require.NoError(t, err)
	require.NotEqual(t, first, again)
	_, err = b.VerifyEmail(ctx, again.String(), b.code("ada@example.com", 2))
	require.NoError(t, err, "it has tries of its own")
	_, err = b.Login(ctx, "ada@example.com", password, secret.Redacted{}, netip.Addr{})
	require.ErrorIs(t, err, ErrCredentials)
	s, err := b.Login(ctx, "ada@example.com", secret.Redact("another password"), secret.Redacted{}, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, "New name", s.Name)
	require.Equal(t, again, s.TenantID)
}

func TestRegisterATakenAddress(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id := b.verified("ada@example.com")
	const all = `SELECT t::text FROM tenants t WHERE id = $1`
	before := testenv.Value[string](b.Env, all, id)
	b.Clock.Advance(time.Hour)
	n := len(b.box.all())

	answer, err := b.Register(ctx, Registration{Name: "Eve", Email: "Ada@example.com", Password: secret.Redact("eve's password")})
	require.NoError(t, err)
	require.NotEqual(t, id, answer)
	fresh := b.register("fresh@example.com")
	require.Equal(t, fresh.Version(), answer.Version(), "an id does not tell which case it is")
	require.Equal(t, fresh.Variant(), answer.Variant())
	again, err := b.Register(ctx, Registration{Name: "Eve", Email: "ada@example.com", Password: secret.Redact("eve's password")})
	require.NoError(t, err)
	require.NotEqual(t, answer, again, "another each time, as for an address that waits for its code")

	require.Equal(t, before, testenv.Value[string](b.Env, all, id), "nothing about the account changes")
	_, err = b.VerifyEmail(ctx, answer.String(), secret.Redact("123456"))
	require.ErrorIs(t, err, errCode)
	testenv.Eventually(t, 10*time.Second, "three mails", func() bool { return len(b.box.all()) == n+3 })
	var toOwner int
	for _, m := range b.box.all()[n:] {
		if m.To == "ada@example.com" {
			toOwner++
			require.Empty(t, codeForm.FindString(m.Text), "no code goes to an address that is verified")
		}
	}
	require.Equal(t, 2, toOwner)
	_, err = b.Login(ctx, "ada@example.com", password, secret.Redacted{}, netip.Addr{})
	require.NoError(t, err)
}

// Whoever registers an address and logs in with the password that they chose is answered the same,
// were it free, unverified or taken; with a password that they chose before, too.
func TestLoginAfterRegisteringTellsNothing(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	owner := b.verified("taken@example.com")
	b.register("pending@example.com")
	b.Clock.Advance(time.Second) // of registrations at one instant, either may be the newest
	for _, email := range []string{"taken@example.com", "pending@example.com", "free@example.com"} {
		for _, password := range []string{"first horse", "second horse"} {
			_, err := b.Register(ctx, Registration{Name: "Eve", Email: email, Password: secret.Redact(password)})
			require.NoError(t, err)
			_, err = b.Login(ctx, email, secret.Redact(password), secret.Redacted{}, netip.Addr{})
			require.ErrorIs(t, err, errUnverified, email)
			b.Clock.Advance(time.Second)
		}
		_, err := b.Login(ctx, email, secret.Redact("first horse"), secret.Redacted{}, netip.Addr{})
		require.ErrorIs(t, err, ErrCredentials, email)
	}
	s, err := b.Login(ctx, "taken@example.com", password, secret.Redacted{}, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, owner, s.TenantID)
}

func TestRegisterOneAddressManyTimesAtOnce(t *testing.T) {
	b := alone(t)
	var wg sync.WaitGroup
	ids := make([]uuid.UUID, 20)
	fails := make([]error, len(ids))
	for i := range ids {
		wg.Go(func() { ids[i], fails[i] = b.Register(context.Background(), registration("ada@example.com")) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(fails...))
	require.Equal(t, len(ids), testenv.Value[int](b.Env, `SELECT count(DISTINCT id) FROM pending_registrations WHERE id = ANY($1)`, ids))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM tenants`))
	testenv.Eventually(t, 10*time.Second, "all mails", func() bool { return len(b.box.all()) == len(ids) })
}

// The answer's time must not depend on whether the address is known, nor on the mail server.
func TestRegisterTakesTheSameTime(t *testing.T) {
	b := setup(t)
	b.verified("ada@example.com")
	b.box.hold = make(chan struct{})
	defer close(b.box.hold)
	requireAlike(t, func(known bool, _ int) func() {
		email := "ada@example.com"
		if !known {
			email = fmt.Sprintf("%d@example.com", rand.Uint64())
		}
		return func() { b.register(email) }
	})
}

func TestMailFailsQuietly(t *testing.T) {
	b := alone(t)
	b.box.fail = errors.New("mail server is away")
	b.register("ada@example.com")
	b.mail("ada@example.com", 1)
	require.NoError(t, b.Service.Close(context.Background()))
	b.register("bayo@example.com") // after Close: the mail is dropped, the registration stands
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM pending_registrations`))
}

func TestCloseWaitsForMail(t *testing.T) {
	b := setup(t)
	b.box.hold = make(chan struct{})
	b.register("ada@example.com")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, b.Service.Close(ctx), context.Canceled)
	close(b.box.hold)
	require.NoError(t, b.Service.Close(context.Background()))
	require.Len(t, b.box.all(), 1)
}
