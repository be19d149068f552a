package invariant_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
)

// A part of a payment is refunded, the payment then counts with a higher sum, and more of it is
// refunded than the first sum was: nothing is wrong with that, and only what is above the new sum
// is too much.
func TestRefundsOfAPaymentThatCountsForMore(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, txn := w.payRef(w.account.String())
	w.confirm(id)
	refund := func(event uuid.UUID, amount string) {
		entry := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM ledger_entries WHERE transaction_group_id = $1 AND direction = 'credit'`, event)
		s, err := w.transfers.Refund(w.ctx, w.tenant, entry, amount, transfer.Maker{}, idempotency.Request{})
		require.NoError(t, err)
		w.advance(s.TransferID, transfer.Success)
	}
	refund(id, "3000.00")
	require.NoError(t, w.payments.OpenRecallByHand(w.ctx, id, returned))
	_, err := w.payments.DecideRecall(w.ctx, id, payment.RecallReversed, returned)
	require.NoError(t, err)
	w.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("9000.00") })
	r, err := w.payments.Correct(w.ctx, id, payment.Correction{Amount: money.Must("9000.00"), Fee: money.Must("25.00")}, returned)
	require.NoError(t, err)
	refund(r.Replacement, "3000.00")
	require.Empty(t, w.verify())

	w.ExecUnguarded(`UPDATE transfers SET amount = 6000 WHERE id = (SELECT max(id::text)::uuid FROM transfers WHERE refund_of IS NOT NULL)`)
	var checks []string
	for _, f := range w.verify() {
		checks = append(checks, f.Check)
	}
	require.Contains(t, checks, invariant.CheckRefunds)
}
