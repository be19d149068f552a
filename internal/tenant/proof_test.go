package tenant

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// Who has a second factor shows it, and nothing else will do; others show their password. The
// member is told of each recovery code that is used, the last one too.
func TestProve(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	prove := func(password, code secret.Redacted) error {
		tn, err := b.Session(ctx, s.owner.Token)
		require.NoError(t, err)
		return b.Prove(ctx, tn, Proof{Password: password, Code: code})
	}
	none := secret.Redacted{}
	require.ErrorIs(t, prove(none, none), errPasswordMissing)
	require.ErrorIs(t, prove(secret.Redact("wrong horse"), none), ErrPassword)
	require.NoError(t, prove(password, none))

	shared, codes := b.secondFactor(s.id, s.owner)
	b.mail("ada@example.com", 2)
	require.ErrorIs(t, prove(password, none), ErrResetCodeMissing)
	require.ErrorIs(t, prove(password, wrong(b.totp(shared, 1))), errWrongCode)
	require.NoError(t, prove(none, b.totp(shared, 1)))
	require.ErrorIs(t, prove(none, b.totp(shared, 1)), errWrongCode, "replayed")
	require.NoError(t, prove(none, codes[0]))
	require.Contains(t, b.mail("ada@example.com", 3).Text, "Unused codes: 9.")
	last := recoveryHash(codes[1])
	b.Exec(`DELETE FROM recovery_codes WHERE tenant_id = $1 AND hash <> $2`, s.id, last[:])
	require.NoError(t, prove(none, codes[1]))
	require.Contains(t, b.mail("ada@example.com", 4).Text, "Unused codes: 0.")
	testenv.Eventually(t, 10*time.Second, "the refusals", func() bool {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND action = 'session.refused'`, s.id) == 3
	})
}
