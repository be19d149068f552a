package workers

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
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

// A part that cannot be read stops no other: it is named, and what is wrong elsewhere is reported.
func TestCheckGoesOnWithoutAPart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.opts.Payments.Post(b.ctx, b.stored())
	require.NoError(t, err)
	b.ExecUnguarded(`UPDATE ledger_entries SET running_balance = running_balance + 1`)
	b.Exec(`ALTER TABLE event_keys RENAME TO away`)
	var log bytes.Buffer
	b.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	w := &Workers{Options: b.opts}
	w.checkOnce(b.ctx, new(invariant.Checker))
	require.Contains(t, log.String(), `the books were not checked as a whole; the next check tries again" part="misdirected payments" err=`)
	require.Equal(t, 1, strings.Count(log.String(), " part="), log.String())
	require.Contains(t, log.String(), `alert=invariant check="running balances follow from the entries"`)

	log.Reset()
	b.Exec(`ALTER TABLE away RENAME TO event_keys`)
	over, cancel := context.WithCancel(b.ctx)
	cancel()
	w.checkOnce(over, new(invariant.Checker))
	require.Empty(t, log.String(), "it is being stopped")
}
