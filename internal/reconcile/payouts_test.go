package reconcile_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// payAtBank has the bank make a payout.
func (b *bundle) payAtBank(ref, amount string) {
	b.T.Helper()
	_, err := b.client().Pay(b.ctx, provider.NewPayout{
		Ref: ref, Amount: money.Must(amount), BankCode: "058", AccountNumber: "0123456789", AccountName: "AMINA BELLO", SenderName: "Ada Stores",
	})
	require.NoError(b.T, err)
}

// inBooks makes a transfer of the given status as package transfer leaves it, with its debit.
// Without a fee the bank's is not known, and nothing is booked for it.
func (b *bundle) inBooks(ref, status, amount string, fee any) {
	b.T.Helper()
	id, now := uuid.Must(uuid.NewV7()), b.Clock.Now()
	attempts, submitted := 1, &now
	if status == "pending" {
		attempts, submitted = 0, nil
	}
	b.Exec(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, provider_fee, bank_code, account_number, attempt_count, submitted_at,
			created_at, updated_at, debit_seq, debits_to)
		VALUES ($1, $2, $3, $4, $5, $6, $7, '058', '0123456789', $8, $9, $10, $10, (SELECT last_seq + 1 FROM ledger_balances WHERE account_id = $3), 1)`,
		id, b.tenant, b.account, ref, status, amount, fee, attempts, submitted, now)
	if status == "pending" || status == "processing" {
		b.Schedule(work.Settle, id, now.Add(time.Hour))
	}
	moves := map[string][]ledger.Event{
		"success": {ledger.EventConfirm}, "failed": {ledger.EventReverse}, "refunded": {ledger.EventConfirm, ledger.EventRefund},
	}[status]
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		posted, err := ledger.PostDebits(b.ctx, tx, now, []ledger.Posting{{AccountID: b.account, Amount: money.Must(amount), TransactionGroupID: id, TransferRef: &ref}})
		require.NoError(b.T, err)
		require.NoError(b.T, posted[0].Err)
		for _, event := range moves {
			moved, err := ledger.MoveEntries(b.ctx, tx, now, []ledger.Move{{TransactionGroupID: id, Direction: ledger.Debit, Event: event}})
			require.NoError(b.T, err)
			require.NoError(b.T, moved[0].Err)
		}
		if status != "success" || fee == nil || fee == "0" {
			return nil
		}
		_, err = tx.Exec(b.ctx, `UPDATE transfers SET booked_fee = provider_fee, booking_count = 1 WHERE id = $1`, id)
		require.NoError(b.T, err)
		return ledger.PostMovements(b.ctx, tx, now, []ledger.Movement{{
			Account: ledger.BankFees, Direction: ledger.Debit, Amount: money.Must(fee.(string)), Kind: ledger.KindFee, TransferRef: &ref,
			TransactionGroupID: ledger.GroupOf(ledger.KindFee, ledger.BankFees, id),
		}})
	}))
}

// A payout that the bank made and that no transfer accounts for is named; one that has a transfer,
// or moved no money, is not.
func TestReconcileFlagsUnknownPayouts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("1000.00")
	b.payAtBank("AJO-lost", "100.00")
	b.payAtBank("AJO-ours", "100.00")
	b.inBooks("AJO-ours", "success", "100.00", "0")
	// An earlier run had no answer about it that names a sum.
	b.Exec(`INSERT INTO reconcile_items (id, kind, ref, exception, found_at, due_at)
		VALUES (gen_random_uuid(), 'payout', 'AJO-lost', '{"kind": "unreadable", "detail": "no answer"}', $1, $1)`, b.Clock.Now())
	r := b.lastHour()
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.UnknownPayout: 1}, r.Counts)
	require.Equal(t, "AJO-lost", r.Exceptions[0].MerchantTxRef)
	require.Equal(t, "100.00", r.Exceptions[0].BankAmount.String())
	require.Equal(t, 1, r.Suspicious())

	// The record names another sum, and has not come back.
	b.bank.SetPayout("AJO-lost", func(p *fakebank.Payout) { p.Amount = money.Must("70.00") })
	require.Equal(t, map[string]string{"AJO-lost": "unknown_payout: the bank pays AJO-lost, and no transfer has that reference"}, said(b.lastHour()))
	require.Equal(t, "-70.00", testenv.Value[money.Amount](b.Env, `SELECT effect FROM reconcile_items`).String())
	b.bank.SetPayout("AJO-lost", func(p *fakebank.Payout) { p.Amount = money.Must("100.00") })

	b.inBooks("AJO-lost", "success", "100.00", "0") // adopted
	require.Empty(t, b.lastHour().Exceptions)
}

// fund credits the account with a payment whose event came; one second later the next one may come.
func (b *bundle) fund(amount string) {
	b.T.Helper()
	b.post(b.receive(b.hook(b.paySilently(amount))).ID)
	b.Clock.Advance(time.Second)
}

// Status, sum, fee and destination of every payout are compared, also of those that the bank's list
// lacks.
func TestReconcileComparesPayouts(t *testing.T) {
	t.Parallel()
	b := setupAt(t, fakebank.Options{PayoutFee: money.Must("12.50")})
	b.fund("50000.00")
	pay := func(ref, status, books, bank string, do fakebank.Action, fee any) {
		if bank != "" {
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: do})
			b.payAtBank(ref, bank)
		}
		b.inBooks(ref, status, books, fee)
	}
	pay("agrees", "success", "300.00", "300.00", fakebank.Paid, "12.50")
	pay("fee-unsaid", "success", "300.00", "300.00", fakebank.NoFee, "12.50")
	pay("refunded-too", "refunded", "300.00", "300.00", fakebank.Refund, nil)
	pay("failed-too", "failed", "300.00", "300.00", fakebank.Refund, nil)
	pay("on-its-way", "processing", "300.00", "300.00", fakebank.Paid, nil)
	pay("on-its-way-fee-unsaid", "processing", "300.00", "300.00", fakebank.NoFee, nil)
	pay("not-sent", "pending", "300.00", "", "", nil)
	pay("never-made", "failed", "300.00", "", "", nil)
	require.Empty(t, said(b.lastHour()))

	pay("given-back", "success", "300.00", "300.00", fakebank.Refund, "12.50")
	pay("paid-after-all", "failed", "300.00", "300.00", fakebank.Paid, nil)
	pay("paid-and-refunded", "refunded", "300.00", "300.00", fakebank.Paid, "12.50")
	pay("ten-times", "success", "300.00", "3000.00", fakebank.Paid, "12.50")
	pay("late-and-other", "processing", "300.00", "3000.00", fakebank.Paid, nil)
	pay("never-ordered", "pending", "300.00", "300.00", fakebank.Paid, nil)
	pay("dear", "success", "300.00", "300.00", fakebank.Paid, "10.00")
	pay("refunded-but-fee", "refunded", "300.00", "300.00", fakebank.RefundKept, nil)
	pay("failed-but-fee", "failed", "300.00", "300.00", fakebank.FailKept, nil)
	pay("failed-no-fee", "failed", "300.00", "300.00", fakebank.FailKept, nil)
	b.bank.SetPayout("failed-no-fee", func(p *fakebank.Payout) { p.FeeUnsaid = true })
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.PartialRefund, Value: "100.00"})
	b.payAtBank("failed-but-part", "300.00")
	b.inBooks("failed-but-part", "failed", "300.00", nil)
	pay("made-up", "success", "300.00", "", "", "12.50")
	pay("made-up-unknown-fee", "success", "300.00", "", "", nil)
	b.Clock.Advance(31 * time.Minute)
	r := b.lastHour()
	require.Equal(t, map[string]string{
		"given-back":        "payout_contradicts: the bank says refunded, the transfer is success",
		"paid-after-all":    "payout_contradicts: the bank says success, the transfer is failed",
		"paid-and-refunded": "payout_contradicts: the bank says success, the transfer is refunded",
		"ten-times":         "payout_differs: amount is 3000.00, not 300.00",
		"late-and-other":    "payout_differs: amount is 3000.00, not 300.00",
		"never-ordered":     "payout_contradicts: the bank says success, the transfer is pending",
		"dear":              "payout_differs: fee is 12.50, not 10.00",
		"failed-no-fee":     "payout_fee_unknown: the bank's record does not name its fee: nothing is booked for it",
		"failed-but-part":   "payout_differs: the bank gave back 100.00 of 300.00, the transfer is failed",
		"made-up":           "payout_unknown_at_bank: the transfer is success, and the bank neither lists it nor knows its reference",

		"made-up-unknown-fee": "payout_unknown_at_bank: the transfer is success, and the bank neither lists it nor knows its reference",
	}, said(r))
	require.Equal(t, 11, r.Suspicious())
	require.Equal(t, []string{"given-back", "never-ordered", "dear", "refunded-but-fee", "failed-but-fee"}, b.expedited(), "the transfer's own question books the refund, the lost submission and the fee")
	require.Equal(t, 10, r.Bank.Payouts["success"].Count)
	require.Equal(t, "8400.00", r.Bank.Payouts["success"].Amount.String())
	require.Equal(t, 7, r.Books.Payouts["success"].Count)

	// They stay named, as they were, when the window has moved on, also while the bank does not
	// answer, until bank and books agree. What was pending is under way.
	before := said(r)
	delete(before, "never-ordered")
	b.Clock.Advance(6 * time.Hour)
	require.Equal(t, before, said(b.lastHour()))
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.Fail})
	b.Clock.Advance(6 * time.Hour)
	require.Equal(t, before, said(b.lastHour()))
	b.bank.Faults.Set()
	b.Clock.Advance(6 * time.Hour)
	b.step(testenv.Value[uuid.UUID](b.Env, `SELECT id FROM transfers WHERE merchant_tx_ref = 'dear'`))
	require.NotContains(t, said(b.lastHour()), "dear")
}

// expedited are the references of the transfers that are due now.
func (b *bundle) expedited() (refs []string) {
	b.T.Helper()
	for _, id := range b.dueNow(work.Settle) {
		refs = append(refs, testenv.Value[string](b.Env, `SELECT merchant_tx_ref FROM transfers WHERE id = $1`, id))
	}
	return refs
}

// effectOf is what a part of the float's explanation comes to.
func effectOf(f reconcile.Float, ref string) string {
	for _, e := range f.Explained {
		if e.Ref == ref {
			return e.Amount.String()
		}
	}
	return ""
}

// resolve has a person say that a transfer was paid, with that sum.
func (b *bundle) resolve(ref, paid string) {
	b.T.Helper()
	_, err := b.transfers().Resolve(b.ctx, ref, transfer.Resolution{Paid: true, Amount: new(money.Must(paid))}, byHand)
	require.NoError(b.T, err)
}

func (b *bundle) transfers() *transfer.Service {
	svc := transfer.New(transfer.Options{Pool: b.Pool, Bank: b.client(), Clock: b.Clock, Log: slog.New(slog.DiscardHandler), Delays: defaults.SettleDelays, Rechecks: defaults.SettleRechecks})
	b.T.Cleanup(svc.Close)
	return svc
}

// step does the next step of a transfer.
func (b *bundle) step(id uuid.UUID) {
	b.T.Helper()
	_, again := retry.When(b.transfers().Advance(b.ctx, id))
	require.True(b.T, again)
}

// A transfer that was sent, and waits to be sent again, asks the bank by itself: it is not taken
// up.
func TestReconcileLeavesWhatWasSentToItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("5000.00")
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Paid})
	b.payAtBank("sent", "300.00")
	b.inBooks("sent", "pending", "300.00", nil)
	b.Exec(`UPDATE transfers SET attempt_count = 2, submitted_at = $1`, b.Clock.Now())
	require.Empty(t, said(b.lastHour()))
	require.Equal(t, "pending 2 false", testenv.Value[string](b.Env, `SELECT concat_ws(' ', status, attempt_count, CASE WHEN adopted THEN 'true' ELSE 'false' END) FROM transfers`))
}

// What the platform bears because the tenant's account does not have it is an exception by name,
// which moves nothing in the wallet, and the transfer is asked about again.
func TestReconcileNamesWhatATenantDidNotBear(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("5000.00")
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Paid})
	b.payAtBank("short", "300.00")
	b.bank.SetPayout("short", func(p *fakebank.Payout) { p.Fee = money.Must("20.00") })
	b.inBooks("short", "success", "300.00", "20.00")
	b.Exec(`UPDATE transfers SET booked_fee = 20, fee_by_tenant = true, tenant_fee = 12.50 WHERE merchant_tx_ref = 'short'`)
	b.fund("1000.00")
	r := b.lastHour()
	require.Equal(t, map[string]string{
		"short": "payout_fee_short: the tenant bears what the bank took, and its account did not have 7.50 of it: the platform bears that",
	}, said(r))
	require.Empty(t, effectOf(r.Float, "short"))
	require.Equal(t, []string{"short"}, b.expedited(), "the account may have the money by now")

	// A person says that the platform bears it: it is not debited later.
	_, err := dismiss(b.svc, "short")
	require.NoError(t, err)
	b.Exec(`DELETE FROM work WHERE kind = 'settle'`)
	require.Empty(t, said(b.lastHour()))
	require.Empty(t, b.expedited())

	// Another sum is not what was dismissed.
	b.Exec(`UPDATE transfers SET tenant_fee = 11 WHERE merchant_tx_ref = 'short'`)
	require.Len(t, said(b.lastHour()), 1)
	require.Equal(t, []string{"short"}, b.expedited())

	// Neither is another exception of the same payout.
	b.Exec(`UPDATE transfers SET bank_code = '044' WHERE merchant_tx_ref = 'short'`)
	require.Equal(t, map[string]string{"short": "payout_differs: it went to bank 058, not 044"}, said(b.lastHour()))
	_, err = dismiss(b.svc, "short")
	require.NoError(t, err)
	b.Exec(`DELETE FROM work WHERE kind = 'settle'`)
	require.Empty(t, said(b.lastHour()))
	require.Equal(t, []string{"short"}, b.expedited())
	b.Exec(`UPDATE transfers SET bank_code = '058' WHERE merchant_tx_ref = 'short'`)
	require.Len(t, said(b.lastHour()), 1)

	// What is reserved has not been taken yet.
	b.Exec(`UPDATE transfers SET reserved_fee = 9 WHERE merchant_tx_ref = 'short'`)
	require.Empty(t, said(b.lastHour()))
	b.Exec(`UPDATE transfers SET reserved_fee = NULL WHERE merchant_tx_ref = 'short'`)
	require.Len(t, said(b.lastHour()), 1)
	b.Exec(`UPDATE transfers SET tenant_fee = 20 WHERE merchant_tx_ref = 'short'`)
	require.Empty(t, said(b.lastHour()))
}

// A payout that the bank never made, and whose money a person has put back because of that, needs
// nobody any more, and the bank is not asked about it for ever.
func TestReconcilePayoutThatAPersonFoundUnpaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("5000.00")
	b.inBooks("never-left", "success", "300.00", nil)
	b.Clock.Advance(31 * time.Minute)
	require.Equal(t, map[string]string{
		"never-left": "payout_unknown_at_bank: the transfer is success, and the bank neither lists it nor knows its reference",
	}, said(b.lastHour()))
	_, err := b.transfers().Resolve(b.ctx, "never-left", transfer.Resolution{}, byHand)
	require.NoError(t, err)
	require.Empty(t, said(b.lastHour()))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
}

// A payout that the bank has made, and that its index never has, needs nobody any more once a
// person has found that out, and the wallet is as the books say.
func TestReconcilePayoutThatAPersonFoundPaid(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"processing", "success"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fund("5000.00")
			b.inBooks("not-listed", status, "300.00", nil)
			b.Clock.Advance(31 * time.Minute)
			require.Equal(t, status == "success", b.lastHour().Counts[reconcile.PayoutUnknown] == 1)
			_, err := b.transfers().Resolve(b.ctx, "not-listed", transfer.Resolution{Paid: true}, byHand)
			require.NoError(t, err)
			for range 2 {
				require.Empty(t, said(b.lastHour()))
				require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
			}
		})
	}
}

// since is from when on the wallet has what an item says.
func (b *bundle) since(ref string) time.Time {
	b.T.Helper()
	return testenv.Value[time.Time](b.Env, `SELECT since FROM reconcile_items WHERE ref = $1`, ref)
}

// What a payout explains of the wallet it explains from when its money moved: when the bank changed
// its word, where the books have another end.
func TestReconcileKnowsWhenTheMoneyMoved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("50000.00")
	made := b.Clock.Now()
	for _, c := range []struct{ status, end, amount string }{
		{"failed", fakebank.StatusSuccess, "300.00"},
		{"refunded", fakebank.StatusSuccess, "300.00"},
		{"success", fakebank.StatusRefund, "300.00"},
		{"success", fakebank.StatusSuccess, "200.00"}, // another sum, from the beginning
	} {
		ref := c.status + " " + c.end
		b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Pending, Delay: time.Hour})
		b.payAtBank(ref, "300.00")
		b.inBooks(ref, c.status, c.amount, "0")
	}
	b.Clock.Advance(time.Minute)
	changed := b.Clock.Now()
	for ref, end := range map[string][]string{
		"failed SUCCESS": {fakebank.StatusSuccess}, "refunded SUCCESS": {fakebank.StatusSuccess},
		"success REFUND": {fakebank.StatusSuccess, fakebank.StatusRefund}, "success SUCCESS": {fakebank.StatusSuccess},
	} {
		for _, status := range end {
			_, err := b.bank.EndPayout(ref, status)
			require.NoError(t, err)
		}
	}
	b.lastHour()
	for ref, want := range map[string]time.Time{"failed SUCCESS": changed, "refunded SUCCESS": changed, "success REFUND": changed, "success SUCCESS": made} {
		require.Equal(t, want, b.since(ref), ref)
	}
	b.payments, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(page *provider.Page) {
		for i := range page.Payouts {
			page.Payouts[i].UpdatedAt = time.Time{}
		}
	}})
	b.lastHour()
	require.Equal(t, made, b.since("failed SUCCESS"), "the record does not say when it changed")
}

// What a person has dealt with is no exception, as long as the bank's record says just that; the
// float knows of it all the while.
func TestReconcileKnowsWhatAPersonHasDealtWith(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("5000.00")
	for ref, do := range map[string]fakebank.Rule{
		"half-back":   {On: fakebank.OnPayouts, Do: fakebank.PartialRefund, Value: "150.00"},
		"another-sum": {On: fakebank.OnPayouts, Do: fakebank.Paid},
	} {
		b.bank.Faults.Set(do)
		b.payAtBank(ref, "300.00")
	}
	b.inBooks("half-back", "success", "300.00", "0")
	b.inBooks("another-sum", "processing", "500.00", nil)
	b.Exec(`UPDATE transfers SET ended_by = '', difference = 'seen', differs_since = $1 WHERE merchant_tx_ref IN ('half-back', 'another-sum')`, b.Clock.Now())
	require.Equal(t, map[string]string{
		"half-back":   "payout_differs: the bank gave back 150.00 of 300.00, the transfer is success",
		"another-sum": "payout_differs: amount is 300.00, not 500.00",
	}, said(b.lastHour()))
	b.resolve("half-back", "150.00")
	b.resolve("another-sum", "500.00") // a person knows better than the record
	b.Clock.Advance(time.Second)
	b.fund("1000.00")
	b.Exec(`DELETE FROM work WHERE kind = 'settle'`)
	r := b.lastHour()
	require.Empty(t, said(r))
	require.Empty(t, b.expedited(), "there is nothing to be asked")
	require.Empty(t, effectOf(r.Float, "half-back"))
	require.Equal(t, "200.00", effectOf(r.Float, "another-sum"))

	// The record changes: that is not what the person knew.
	_, err := b.bank.EndPayout("another-sum", fakebank.StatusRefund)
	require.NoError(t, err)
	b.Clock.Advance(time.Minute)
	r = b.lastHour()
	require.Equal(t, map[string]string{"another-sum": "payout_differs: the bank gave back 300.00 of 500.00, the transfer is success"}, said(r))
	require.Contains(t, b.expedited(), "another-sum")
}

// On a day with such differences the wallet is explained to the kobo: what is left is what the bank
// held before the first payment.
func TestFloatIsExplainedToTheKobo(t *testing.T) {
	t.Parallel()
	const opening = "7654.32"
	b := setupAt(t, fakebank.Options{PayoutFee: money.Must("12.50"), OpeningBalance: money.Must(opening)})
	explained := func() reconcile.Float {
		b.Clock.Advance(time.Second)
		b.fund("1000.00") // the newest event has the wallet's balance
		f := b.lastHour().Float
		require.True(t, f.Comparable, f.Why)
		require.Equal(t, opening, f.Unexplained.String(), "%+v", f.Explained)
		return f
	}
	b.fund("50000.00")
	b.fund("50000.00")
	require.Empty(t, explained().Explained)

	do := func(ref, status, books, bank string, do fakebank.Action, fee any) string {
		if bank != "" {
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: do})
			b.payAtBank(ref, bank)
		}
		b.inBooks(ref, status, books, fee)
		return effectOf(explained(), ref)
	}
	for _, c := range []struct {
		ref, status, books, bank string
		do                       fakebank.Action
		fee                      any
		effect                   string
	}{
		// its fee is booked
		{"paid", "success", "300.00", "300.00", fakebank.Paid, "12.50", ""},
		{"fee-not-known", "success", "300.00", "300.00", fakebank.Paid, nil, "-12.50"},
		{"given-back", "success", "300.00", "300.00", fakebank.Refund, "12.50", "312.50"},
		{"both-back", "refunded", "300.00", "300.00", fakebank.Refund, "12.50", ""},
		// so much came back; the fee did not
		{"a-third", "success", "300.00", "300.00", fakebank.PartialRefund, "12.50", "1.00"},
		{"dear", "success", "300.00", "300.00", fakebank.Paid, "10.00", "-2.50"},
		{"part-of-unknown-fee", "success", "300.00", "300.00", fakebank.PartialRefund, nil, "-11.50"},
		{"paid-after-all", "failed", "300.01", "300.01", fakebank.Paid, nil, "-312.51"},
		{"paid-and-refunded", "refunded", "300.00", "300.00", fakebank.Paid, "12.50", "-312.50"},
		{"ten-times", "success", "300.00", "3000.00", fakebank.Paid, "12.50", "-2700.00"},
		{"late-and-other", "processing", "300.00", "3000.00", fakebank.Paid, nil, "-2712.50"},
		{"not-asked-yet", "processing", "300.00", "300.00", fakebank.Paid, nil, "-12.50"},
		{"never-ordered", "pending", "300.00", "300.00", fakebank.Paid, nil, "-312.50"},
	} {
		require.Equal(t, c.effect, do(c.ref, c.status, c.books, c.bank, c.do, c.fee), c.ref)
	}
	// What a person has resolved as the bank has it needs no explanation any more.
	for _, c := range []struct {
		ref  string
		paid string
	}{
		{"a-third", "299.00"},
		{"part-of-unknown-fee", "299.00"},
		{"paid-after-all", "300.01"},
		{"ten-times", "3000.00"},
		{"paid-and-refunded", "300.00"},
	} {
		b.resolve(c.ref, c.paid)
		require.Empty(t, effectOf(explained(), c.ref), c.ref)
		require.NotContains(t, said(b.lastHour()), c.ref)
	}
	b.payAtBank("AJO-lost", "77.77")
	f := explained()
	require.Contains(t, f.Explained, reconcile.Explanation{
		What: "unknown_payout: the bank pays AJO-lost, and no transfer has that reference", Ref: "AJO-lost", Amount: reconcile.Signed{Amount: money.Must("90.27").Neg()},
	})

	// Payouts of which the bank knows nothing: with the fee that was booked, if any.
	b.inBooks("made-up", "success", "300.00", "12.50")
	b.inBooks("made-up-unknown-fee", "success", "300.00", nil)
	b.Clock.Advance(31 * time.Minute)
	f = explained()
	require.Equal(t, []string{"312.50", "300.00"}, []string{effectOf(f, "made-up"), effectOf(f, "made-up-unknown-fee")})

	// Payments that the bank took back, or has otherwise than the books.
	gone := b.paySilently("5000.00")
	b.post(b.receive(b.hook(gone)).ID)
	b.Clock.Advance(time.Minute)
	_, err := b.bank.Reverse(b.ctx, gone.ID)
	require.NoError(t, err)
	f = explained()
	require.Contains(t, fmt.Sprint(f.Explained), "status_contradicts: the bank says refunded, the entry is provisional")

	b.Clock.Advance(3 * time.Hour) // out of the window: what was found is remembered
	require.Len(t, explained().Explained, len(f.Explained))
	require.Positive(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
}

// Money that the bank sent twice under one reference is named, though its answer about that
// reference agrees with the books: until it comes back. A try that came to nothing is no payout.
func TestReconcileNamesWhatTheBankPaidTwice(t *testing.T) {
	t.Parallel()
	for _, status := range []provider.Status{provider.Success, provider.Pending, provider.Failed} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fund("1000.00")
			b.payAtBank("AJO-twice", "100.00")
			b.inBooks("AJO-twice", "success", "100.00", "0")
			again := status // of a second payout that the bank lists beside each, under the same reference
			_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(page *provider.Page) {
				for _, p := range page.Payouts {
					p.ID, p.Status = p.ID+"-again", again
					page.Payouts = append(page.Payouts, p)
				}
			}})
			if status == provider.Failed {
				require.Empty(t, b.lastHour().Exceptions)
				return
			}
			for range 3 {
				r := b.lastHour()
				require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.PayoutDiffers: 1}, r.Counts)
				require.Contains(t, r.Exceptions[0].Detail, "the bank lists a second payout under this reference")
				require.Equal(t, "-100.00", testenv.Value[money.Amount](b.Env, `SELECT effect FROM reconcile_items`).String())
				b.Clock.Advance(5 * time.Hour) // no question by reference settles it
			}
			again = provider.Refunded
			r, err := b.svc.Run(b.ctx, b.Clock.Now().Add(-24*time.Hour), b.Clock.Now())
			require.NoError(t, err)
			require.Empty(t, r.Exceptions)
			require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
			require.Equal(t, []string{"AJO-twice"}, b.expedited(), "which of the two came back, the transfer's own question says")
		})
	}
}

// A record without a time is of the time of its submission for the wallet, and has none in the
// report.
func TestPayoutWhoseRecordHasNoTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("1000.00")
	b.payAtBank("AJO-timeless", "100.00")
	b.inBooks("AJO-timeless", "success", "100.00", "0")
	submitted := b.Clock.Now()
	b.bank.SetPayout("AJO-timeless", func(p *fakebank.Payout) { p.Status = fakebank.StatusFailed })
	_, b.svc = b.servicesWith(testenv.BankWith{
		Bank: b.client(), AfterTransactions: func(page *provider.Page) { page.Payouts = nil },
		AfterPayout: func(p *provider.Payout) { p.Time, p.UpdatedAt = time.Time{}, time.Time{} },
	})
	b.Clock.Advance(40 * time.Minute)
	r := b.lastHour()
	require.Equal(t, map[string]string{"AJO-timeless": "payout_contradicts: the bank says failed, the transfer is success"}, said(r))
	require.Nil(t, r.Exceptions[0].At)
	require.True(t, submitted.Equal(testenv.Value[time.Time](b.Env, `SELECT since FROM reconcile_items`)))
}
