package workers

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/invariant"
)

// What breaks the books is reported within a minute: as an alert in the log, and in the figures.
func TestCheckReportsDamage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.stored()
	_, err := b.opts.Payments.Post(b.ctx, id)
	require.NoError(t, err)
	var log bytes.Buffer
	b.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	w := &Workers{Options: b.opts}
	var c invariant.Checker
	w.checkOnce(b.ctx, &c)
	require.Empty(t, log.String())
	b.Exec(`ALTER TABLE ledger_entries DISABLE TRIGGER USER`)
	b.Exec(`UPDATE ledger_entries SET running_balance = running_balance + 1`)
	w.checkOnce(b.ctx, &c)
	require.Contains(t, log.String(), `alert=invariant check="running balances follow from the entries"`)
	b.Exec(`ALTER TABLE ledger_balances RENAME TO away`)
	w.checkOnce(b.ctx, &c)
	require.Contains(t, log.String(), "the books were not checked")
}
