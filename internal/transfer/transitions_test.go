package transfer_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fsm"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
)

var (
	statuses = []transfer.Status{transfer.Pending, transfer.Processing, transfer.Success, transfer.Failed, transfer.Refunded}
	events   = []transfer.Event{transfer.EventAccept, transfer.EventSubmit, transfer.EventPaid, transfer.EventReject, transfer.EventRefund, transfer.EventRebook}
)

// Every status × event pair, against a table that is written out here once more.
func TestEveryPair(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.transfer.values", "state.transfer.others")
	want := map[transfer.Status]map[transfer.Event]transfer.Status{
		fsm.Start:           {transfer.EventAccept: transfer.Pending},
		transfer.Pending:    {transfer.EventSubmit: transfer.Processing, transfer.EventReject: transfer.Failed},
		transfer.Processing: {transfer.EventSubmit: transfer.Processing, transfer.EventPaid: transfer.Success, transfer.EventReject: transfer.Failed, transfer.EventRefund: transfer.Refunded, transfer.EventRebook: transfer.Success},
		transfer.Success:    {transfer.EventRefund: transfer.Refunded, transfer.EventRebook: transfer.Success},
		transfer.Failed:     {transfer.EventRebook: transfer.Success},
		transfer.Refunded:   {transfer.EventRebook: transfer.Success},
	}
	require.ElementsMatch(t, statuses, transfer.Transitions.States())
	require.ElementsMatch(t, events, transfer.Transitions.Events())
	for _, from := range append([]transfer.Status{fsm.Start}, statuses...) {
		for _, event := range events {
			to, ok := transfer.Transitions.Next(from, event)
			require.Equal(t, want[from][event], to, "%s on %s", event, from)
			require.Equal(t, want[from][event] != "", ok, "%s on %s", event, from)
		}
	}
}

// The schema allows the same moves, and no others.
func TestEveryMoveInTheSchema(t *testing.T) {
	spec.Shows(t, "state.transfer.others")
	b := setup(t)
	moves := transfer.Transitions.Moves()
	for _, from := range statuses {
		for _, to := range statuses {
			if from == to {
				continue
			}
			id := uuid.Must(uuid.NewV7())
			b.Exec(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, attempt_count, created_at, updated_at, debit_seq, debits_to)
				VALUES ($1, $2, $3, $1::uuid::text, $4, 1, '058', '0123456789', 1, now(), now(), 1, 1)`, id, b.tenant, b.account, from)
			_, err := b.Pool.Exec(b.ctx, `UPDATE transfers SET status = $2, ended_by = 'operator', debit_group = $1 WHERE id = $1`, id, to)
			require.Equal(t, slices.Contains(moves, [2]string{string(from), string(to)}), err == nil, "%s>%s: %v", from, to, err)
		}
	}
	// Back to success only at an operator's word, and with another debit than before.
	for _, from := range []transfer.Status{transfer.Failed, transfer.Refunded} {
		id := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM transfers WHERE status = $1 AND debit_group = id LIMIT 1`, string(from))
		for _, change := range []string{"debit_group = gen_random_uuid(), ended_by = 'bank'", "debit_group = NULL, ended_by = 'operator'", "ended_by = 'operator'"} {
			_, err := b.Pool.Exec(b.ctx, `UPDATE transfers SET status = 'success', `+change+` WHERE id = $1`, id)
			require.ErrorContains(t, err, "23514", change)
		}
	}
	_, err := b.Pool.Exec(b.ctx, `DELETE FROM transfers`)
	require.Error(t, err, "transfers are kept")
}
