package tenant

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/testenv"
)

var evil = secret.Redact("the attacker's password")

func (b *bundle) registerAsAttacker(email string) uuid.UUID {
	b.T.Helper()
	id, err := b.Register(context.Background(), Registration{Name: "Eve", Email: email, Password: evil})
	require.NoError(b.T, err)
	return id
}

// Whoever registers an address after its owner gets neither the tenant nor the password that the
// owner's code verifies.
func TestALaterRegistrationTakesNothingOver(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	const email = "ada@example.com"
	owner := b.register(email)
	code := b.code(email, 1)
	attacker := b.registerAsAttacker(email)
	require.NotEqual(t, owner, attacker, "each registration is its own")

	_, err := b.VerifyEmail(ctx, owner.String(), code)
	require.NoError(t, err, "the owner's code opens the owner's registration, whoever registered since")
	_, err = b.Login(ctx, email, evil, secret.Redacted{}, netip.Addr{})
	require.Error(t, err, "the attacker's password opens nothing")
	s, err := b.Login(ctx, email, password, secret.Redacted{}, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, owner, s.TenantID)
	require.Equal(t, "Ada Stores", s.Name)
}

// Codes are exchanged in no direction, and of several registrations the first that is verified owns
// the address.
func TestTheFirstVerifiedRegistrationOwnsTheAddress(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	const email = "ada@example.com"
	var ids []uuid.UUID
	var codes []secret.Redacted
	for i := range 3 {
		ids = append(ids, b.register(email))
		codes = append(codes, b.code(email, i+1))
	}
	for i, id := range ids {
		for j, code := range codes {
			if i == j || code.Equal(codes[i]) {
				continue
			}
			_, err := b.VerifyEmail(ctx, id.String(), code)
			require.ErrorIs(t, err, errCode, "registration %d, code %d", i, j)
		}
	}
	_, err := b.VerifyEmail(ctx, ids[1].String(), codes[1])
	require.NoError(t, err)
	for _, i := range []int{0, 2} {
		_, err = b.VerifyEmail(ctx, ids[i].String(), codes[i])
		require.ErrorIs(t, err, errCode, "registration %d has ended", i)
	}
	require.Equal(t, ids[1], testenv.Value[uuid.UUID](b.Env, `SELECT id FROM tenants WHERE email = $1`, email))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM pending_registrations WHERE id = $1 AND (password_hash <> '' OR code_hash IS NOT NULL)`, ids[1]),
		"the registration that became the tenant keeps no secret")
}

// Right codes of several registrations of one address, entered at once: one tenant, one key.
func TestRegistrationsVerifiedAtOnce(t *testing.T) {
	b := setup(t)
	for round := range 5 {
		email := fmt.Sprintf("ada%d@example.com", round)
		var ids []uuid.UUID
		var codes []secret.Redacted
		for i := range 4 {
			ids = append(ids, b.register(email))
			codes = append(codes, b.code(email, i+1))
		}
		oneWins(t, len(ids), func(i int) error {
			_, err := b.VerifyEmail(context.Background(), ids[i].String(), codes[i])
			return err
		})
		require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM tenants WHERE email = $1`, email))
	}
}

// An attacker who watches an address by logging in with the password of a registration of their own
// is told the same before and after the owner verifies, be that registration the older or the newer
// one.
func TestAVerificationIsNotSeenFromOutside(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	for name, attackerFirst := range map[string]bool{"older": true, "newer": false} {
		t.Run(name, func(t *testing.T) {
			email := name + "@example.com"
			var owner uuid.UUID
			n := 1
			if attackerFirst {
				b.registerAsAttacker(email)
				b.mail(email, 1) // each before the next: mails may overtake one another
				b.Clock.Advance(time.Second)
				owner, n = b.register(email), 2
			} else {
				owner = b.register(email)
				b.mail(email, 1)
				b.Clock.Advance(time.Second)
				b.registerAsAttacker(email)
			}
			_, before := b.Login(ctx, email, evil, secret.Redacted{}, netip.Addr{})
			_, err := b.VerifyEmail(ctx, owner.String(), b.code(email, n))
			require.NoError(t, err)
			_, after := b.Login(ctx, email, evil, secret.Redacted{}, netip.Addr{})
			require.Error(t, before)
			require.Equal(t, before, after)
		})
	}
}

// What nobody verified is removed.
func TestOldRegistrationsAreRemoved(t *testing.T) {
	b := alone(t)
	ctx := context.Background()
	b.register("ada@example.com")
	b.Clock.Advance(registrationLife - time.Microsecond)
	_, err := b.Login(ctx, "ada@example.com", password, secret.Redacted{}, netip.Addr{})
	require.ErrorIs(t, err, errUnverified)
	b.Clock.Advance(time.Microsecond)
	_, err = b.Login(ctx, "ada@example.com", password, secret.Redacted{}, netip.Addr{})
	require.ErrorIs(t, err, ErrCredentials)
	b.register("bayo@example.com")
	b.purge()
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM pending_registrations`))
	_, err = b.Find(ctx, "ada@example.com")
	require.ErrorIs(t, err, ErrNotFound)
	_, err = b.Find(ctx, "bayo@example.com")
	require.ErrorIs(t, err, ErrPending)
}
