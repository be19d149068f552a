package tenant

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

const totpStep = 30 * time.Second

// code is what an authenticator shows that is off by so many steps.
func (b *bundle) totp(shared secret.Redacted, steps int) secret.Redacted {
	b.T.Helper()
	c, err := totp.GenerateCode(shared.Reveal(), b.Env.Clock.Now().Add(time.Duration(steps)*totpStep))
	require.NoError(b.T, err)
	return secret.Redact(c)
}

// secondFactor sets one up for the session's member, and steps on, so that a code is there to use.
func (b *bundle) secondFactor(id uuid.UUID, in Session) (shared secret.Redacted, codes []secret.Redacted) {
	b.T.Helper()
	ctx := context.Background()
	m := b.member(in)
	set, err := b.SetUpTOTP(ctx, id, m, password, bySession)
	require.NoError(b.T, err)
	codes, err = b.ConfirmTOTP(ctx, id, m, b.totp(set.Secret, 0), bySession)
	require.NoError(b.T, err)
	b.Env.Clock.Advance(3 * totpStep)
	return set.Secret, codes
}

// recoveryCodes is how many the tenant's members have.
func (s *shop) recoveryCodes() int {
	s.T.Helper()
	return testenv.Value[int](s.Env, `SELECT count(*) FROM recovery_codes WHERE tenant_id = $1`, s.id)
}

func (b *bundle) loginWith(email string, code secret.Redacted) error {
	_, err := b.Login(context.Background(), email, password, code, netip.Addr{})
	return err
}

func TestSecondFactorIsSetUp(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	m := b.member(s.owner)
	_, err := b.ConfirmTOTP(ctx, s.id, m, secret.Redact("000000"), bySession)
	require.ErrorIs(t, err, errTOTPNone)
	_, err = b.SetUpTOTP(ctx, s.id, m, secret.Redacted{}, bySession)
	require.ErrorIs(t, err, errPasswordMissing)
	_, err = b.SetUpTOTP(ctx, s.id, m, secret.Redact("wrong horse"), bySession)
	require.ErrorIs(t, err, ErrPassword)
	first, err := b.SetUpTOTP(ctx, s.id, m, password, bySession)
	require.NoError(t, err)
	set, err := b.SetUpTOTP(ctx, s.id, m, password, bySession)
	require.NoError(t, err, "the QR code was not scanned")
	u, err := url.Parse(set.URL.Reveal())
	require.NoError(t, err)
	require.Equal(t, []string{"otpauth", "totp", "/Ada Stores:ada@example.com"}, []string{u.Scheme, u.Host, u.Path})
	require.Equal(t, []string{set.Secret.Reveal(), "Ada Stores"}, []string{u.Query().Get("secret"), u.Query().Get("issuer")})
	require.NoError(t, b.loginWith("ada@example.com", secret.Redacted{}), "it does not count yet")
	_, err = b.ConfirmTOTP(ctx, s.id, m, b.totp(first.Secret, 0), bySession)
	require.ErrorIs(t, err, errWrongCode)
	codes, err := b.ConfirmTOTP(ctx, s.id, m, b.totp(set.Secret, 0), bySession)
	require.NoError(t, err)
	require.Len(t, codes, recoveryCodes)
	_, err = b.ConfirmTOTP(ctx, s.id, m, b.totp(set.Secret, 0), bySession)
	require.ErrorIs(t, err, errTOTPOn)
	_, err = b.SetUpTOTP(ctx, s.id, m, password, bySession)
	require.ErrorIs(t, err, errTOTPOn)
	require.True(t, b.member(s.owner).TOTP)
	b.mail("ada@example.com", 2)
	stored := testenv.Value[string](b.Env, `SELECT string_agg(m::text, '') || encode(string_agg(m.totp_secret, ''), 'escape') || (SELECT string_agg(r::text, '') FROM recovery_codes r) FROM members m`)
	require.NotContains(t, stored, set.Secret.Reveal())
	for _, c := range codes {
		require.NotContains(t, stored, strings.ReplaceAll(c.Reveal(), "-", ""))
	}
}

// A login needs a code of the present step or of one beside it, and each works once.
func TestLoginAsksForACode(t *testing.T) {
	b := setup(t)
	s := b.shop("ada@example.com")
	dev, _ := s.joined("dev@example.com", Developer)
	shared, _ := b.secondFactor(s.id, s.owner)
	login := func(code secret.Redacted) error { return b.loginWith("ada@example.com", code) }
	require.ErrorIs(t, login(secret.Redacted{}), errCodeNeeded)
	_, err := b.Login(context.Background(), "ada@example.com", secret.Redact("wrong horse"), b.totp(shared, 0), netip.Addr{})
	require.ErrorIs(t, err, ErrCredentials, "a code alone opens nothing, and is not used up")
	for _, wrong := range []secret.Redacted{b.totp(shared, -2), b.totp(shared, 2), secret.Redact("12345"), secret.Redact("abcdef"), secret.Redact("aaaa-aaaa-aaaa-aaaa")} {
		require.ErrorIs(t, login(wrong), errSecondFactor)
	}
	before := b.totp(shared, -1)
	require.NoError(t, login(before), "a clock that is one step late")
	require.ErrorIs(t, login(before), errSecondFactor, "replayed")
	require.NoError(t, login(b.totp(shared, 0)))
	require.ErrorIs(t, login(b.totp(shared, 0)), errSecondFactor, "replayed")
	require.ErrorIs(t, login(before), errSecondFactor, "an earlier one")
	early := b.totp(shared, 1)
	require.NoError(t, login(early), "a clock that is one step early")
	b.Env.Clock.Advance(totpStep)
	require.ErrorIs(t, login(early), errSecondFactor, "the same code in its own step")
	require.NoError(t, b.loginWith(dev.Email, secret.Redacted{}), "others log in as before")
	testenv.Eventually(t, 10*time.Second, "refused sign-ins in the audit log", func() bool {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'session.refused'`) >= 3
	})

	// Of the same code at once, one opens a session.
	b.Env.Clock.Advance(totpStep)
	code := b.totp(shared, 0)
	require.Equal(t, 1, atOnce(t, 4, func() error { return login(code) }))
}

// atOnce makes n calls at once, and returns how many were not refused for their code.
func atOnce(t *testing.T, n int, call func() error) (won int) {
	t.Helper()
	fails := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { fails[i] = call() })
	}
	all.Wait()
	for _, err := range fails {
		if err == nil {
			won++
			continue
		}
		require.ErrorIs(t, err, errSecondFactor)
	}
	return won
}

func TestRecoveryCodesWorkOnce(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	_, bayo := s.joined("bayo@example.com", Finance)
	_, foreign := b.secondFactor(s.id, bayo)
	_, codes := b.secondFactor(s.id, s.owner)
	login := func(code secret.Redacted) error { return b.loginWith("ada@example.com", code) }
	require.ErrorIs(t, login(foreign[0]), errSecondFactor, "another member's")
	require.Equal(t, 1, atOnce(t, 4, func() error { return login(codes[0]) }))
	require.NoError(t, login(secret.Redact(" "+strings.ToUpper(strings.ReplaceAll(codes[1].Reveal(), "-", " ")))), "as people type")
	require.ErrorIs(t, login(codes[1]), errSecondFactor)
	require.Equal(t, recoveryCodes-2, testenv.Value[int](b.Env, `SELECT count(*) FROM recovery_codes r JOIN members m ON m.id = r.member_id WHERE m.role = 'owner'`))
	testenv.Eventually(t, 10*time.Second, "a mail for each", func() bool {
		n := 0
		for _, m := range b.box.all() {
			if m.Subject == "A recovery code was used" {
				n++
			}
		}
		return n == 2
	})
	tn, err := b.Session(ctx, s.owner.Token)
	require.NoError(t, err)
	require.ErrorIs(t, b.EndTOTP(ctx, tn, codes[1], bySession), errWrongCode)
	require.NoError(t, b.EndTOTP(ctx, tn, codes[2], bySession))
	require.ErrorIs(t, b.EndTOTP(ctx, tn, codes[3], bySession), ErrTOTPOff)
	require.NoError(t, login(secret.Redacted{}))
	require.Equal(t, recoveryCodes, s.recoveryCodes(), "those of the other")
}

// A mailbox alone is not two factors: a reset sets the password, and opens no session.
func TestResetOpensNoSessionPastASecondFactor(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	shared, _ := b.secondFactor(s.id, s.owner)
	b.mail("ada@example.com", 2) // of the set-up, which could else come after the next
	require.NoError(t, b.ForgotPassword(ctx, "ada@example.com"))
	out, err := b.ResetPassword(ctx, tokenIn(b.mail("ada@example.com", 3)), password, netip.Addr{})
	require.NoError(t, err)
	require.True(t, out.Token.IsZero())
	require.ErrorIs(t, b.opens(s.owner), ErrUnauthorized)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM sessions WHERE tenant_id = $1 AND ended_at IS NULL`, s.id))
	require.ErrorIs(t, b.loginWith("ada@example.com", secret.Redacted{}), errCodeNeeded)
	require.NoError(t, b.loginWith("ada@example.com", b.totp(shared, 0)))
}

func TestTenantRequiresASecondFactor(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	_, fin := s.joined("fin@example.com", Finance)
	_, dev := s.joined("dev@example.com", Developer)
	complete := func(in Session) error {
		tn, err := b.Session(ctx, in.Token)
		require.NoError(t, err)
		return tn.Complete()
	}
	for range 2 { // the second changes nothing
		require.NoError(t, b.RequireTOTP(ctx, s.id, true, nil, bySession))
	}
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'totp.required'`))
	require.ErrorIs(t, complete(s.owner), errTOTPNeeded)
	require.ErrorIs(t, complete(fin), errTOTPNeeded)
	require.NoError(t, complete(dev))
	_, codes := b.secondFactor(s.id, fin)
	require.NoError(t, complete(fin))
	tn, err := b.Session(ctx, fin.Token)
	require.NoError(t, err)
	require.ErrorIs(t, b.EndTOTP(ctx, tn, codes[0], bySession), errTOTPKept)
	require.NoError(t, b.RequireTOTP(ctx, s.id, false, nil, bySession))
	require.NoError(t, b.EndTOTP(ctx, tn, codes[0], bySession), "it was not used up")
	require.NoError(t, complete(s.owner))
}

func TestOperatorResetsASecondFactor(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	_, err := b.ResetTOTP(ctx, s.id, "ada@example.com", byHand)
	require.ErrorIs(t, err, ErrTOTPOff)
	b.secondFactor(s.id, s.owner)
	b.mail("ada@example.com", 2)
	_, err = b.ResetTOTP(ctx, s.id, "nobody@example.com", byHand)
	require.ErrorIs(t, err, ErrMemberNotFound)
	_, err = b.ResetTOTP(ctx, uuid.New(), "ada@example.com", byHand)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = b.ResetTOTP(ctx, s.id, "ada@example.com", audit.By{Actor: "cli:ada"})
	require.ErrorIs(t, err, audit.ErrReason)
	_, err = b.ResetTOTP(ctx, s.id, " ADA@example.com", byHand)
	require.NoError(t, err)
	told := b.mail("ada@example.com", 3) // the code of the registration, the set-up, and now
	require.Equal(t, "Two-factor authentication was reset", told.Subject)
	require.NotContains(t, told.Text, byHand.Reason)
	require.ErrorIs(t, b.opens(s.owner), ErrUnauthorized)
	require.NoError(t, b.loginWith("ada@example.com", secret.Redacted{}))
	require.Zero(t, s.recoveryCodes())
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'tenant.reset-totp'`))

	// Who is removed leaves no secret behind.
	_, dev := s.joined("dev@example.com", Developer)
	b.secondFactor(s.id, dev)
	_, err = b.RemoveMember(ctx, s.id, b.member(dev).ID, bySession)
	require.NoError(t, err)
	require.Zero(t, s.recoveryCodes())
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM members WHERE tenant_id = $1 AND totp_secret IS NOT NULL`, s.id))
	_, err = b.Env.Pool.Exec(ctx, `UPDATE members SET totp_confirmed_at = now()`)
	require.Equal(t, "23514", pg.Code(err))
}
