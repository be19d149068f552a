package workers

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/mail"
	"ajo/internal/tenant"
	"ajo/tasks"
)

// The sweep mails members about payouts that await their approval, once.
func TestSweepMailsApprovers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, narration, created_at, updated_at, approvals_needed, debit_seq, debits_to)
		VALUES (gen_random_uuid(), $1, $2, 'ref', 'pending', 60, '058', '0123456789', '', $3, $3, 1, 1, 60)`, b.tenant, b.account.ID, time.Now().Add(-time.Hour))
	dir := t.TempDir()
	sender, err := mail.NewFolder(dir, "Ajo <ajo@ajo.example>")
	require.NoError(t, err)
	o := b.opts
	o.Tenants = tenant.New(tenant.Options{Pool: b.Pool, Clock: clock.System, Mail: sender, Log: slog.New(slog.DiscardHandler)})
	for range 2 {
		s := sweeper{Workers: &Workers{Options: o}, id: uuid.NewString(), found: map[tasks.Kind]found{}}
		require.NoError(t, s.tick(b.ctx))
		s.resign()
	}
	require.NoError(t, o.Tenants.Close(context.Background()))
	files, err := filepath.Glob(filepath.Join(dir, "*.eml"))
	require.NoError(t, err)
	require.Len(t, files, 1)
}
