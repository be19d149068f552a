package reconcile_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// A payout whose record names another account or another bank is named, unless it moved no money:
// then its sum is nobody's either. What the books do not know, of an adopted one, does not differ.
func TestReconcileComparesDestinations(t *testing.T) {
	t.Parallel()
	b := setupAt(t, fakebank.Options{PayoutDelay: 24 * time.Hour})
	b.fund("5000.00")
	for _, ref := range []string{"account", "bank", "neither", "failed", "adopted"} {
		b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: map[bool]fakebank.Action{true: fakebank.Pending, false: fakebank.Paid}[ref == "failed"]})
		b.payAtBank(ref, "300.00")
		b.inBooks(ref, map[bool]string{true: "failed", false: "success"}[ref == "failed"], "300.00", "0")
	}
	_, err := b.bank.EndPayout("failed", fakebank.StatusFailed)
	require.NoError(t, err)
	b.bank.SetPayout("failed", func(p *fakebank.Payout) { p.Amount = money.Must("200.00") })
	b.Exec(`UPDATE transfers SET account_number = '9876543210' WHERE merchant_tx_ref IN ('account', 'failed')`)
	b.Exec(`UPDATE transfers SET bank_code = '044' WHERE merchant_tx_ref = 'bank'`)
	b.Exec(`UPDATE transfers SET bank_code = '000', account_number = '0000000000' WHERE merchant_tx_ref = 'adopted'`) // its record by reference had none
	r := b.lastHour()
	require.Equal(t, map[string]string{
		"account": "payout_differs: it went to account 0123456789, not 9876543210", "bank": "payout_differs: it went to bank 058, not 044",
	}, said(r))
	require.Equal(t, 2, r.Suspicious())
}

// The bank's word that is not final, or that a payout failed, beside what the books say of it: what
// the wallet has more than the books follows from the status of both.
func TestReconcileComparesStatuses(t *testing.T) {
	t.Parallel()
	const opening = "7654.32"
	for name, c := range map[string]struct {
		books, bank string
		says        string
		effect      string
		incomplete  bool // the wallet holds what the bank has under way
	}{
		"paid, under way":     {"success", fakebank.StatusPending, "payout_contradicts: the bank says pending, the transfer is success", "", true},
		"failed, under way":   {"failed", fakebank.StatusPending, "payout_contradicts: the bank says pending, the transfer is failed", "", true},
		"refunded, under way": {"refunded", fakebank.StatusPending, "payout_contradicts: the bank says pending, the transfer is refunded", "", true},
		"not sent, under way": {"pending", fakebank.StatusPending, "", "", true}, // named by the run before, which made it so
		"both under way":      {"processing", fakebank.StatusPending, "", "", true},
		"paid, failed":        {"success", fakebank.StatusFailed, "payout_contradicts: the bank says failed, the transfer is success", "312.50", false},
		"both failed":         {"failed", fakebank.StatusFailed, "", "", false},
		"refunded, failed":    {"refunded", fakebank.StatusFailed, "", "", false},
		"failed, refunded":    {"failed", fakebank.StatusRefund, "", "", false},
		"not sent, failed":    {"pending", fakebank.StatusFailed, "", "", false},
		"processing, failed":  {"processing", fakebank.StatusFailed, "", "300.00", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupAt(t, fakebank.Options{PayoutFee: money.Must("12.50"), OpeningBalance: money.Must(opening), PayoutDelay: 24 * time.Hour})
			b.fund("5000.00")
			do := fakebank.Pending
			if c.bank == fakebank.StatusRefund {
				do = fakebank.Paid
			}
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: do})
			b.payAtBank("payout", "300.00")
			if c.bank != fakebank.StatusPending {
				_, err := b.bank.EndPayout("payout", c.bank)
				require.NoError(t, err)
			}
			fee := any("12.50")
			if c.books != "success" {
				fee = nil
			}
			b.inBooks("payout", c.books, "300.00", fee)
			f := b.float()
			r := b.lastHour()
			want := map[string]string{}
			if c.says != "" {
				want["payout"] = c.says
			}
			require.Equal(t, want, said(r))
			require.Equal(t, c.effect, effectOf(f, "payout"))
			if !c.incomplete {
				require.Equal(t, opening, f.Unexplained.String())
				require.True(t, f.Comparable, f.Why)
			}
			if c.books == "processing" && c.incomplete {
				require.Regexp(t, "^payouts were under way", f.Why)
			}
			b.Clock.Advance(6 * time.Hour)
			if c.books == "pending" {
				taken := testenv.Value[bool](b.Env, `SELECT status = 'processing' AND acknowledged_at IS NOT NULL AND attempt_count = 1 FROM transfers`)
				require.Equal(t, c.bank == fakebank.StatusPending, taken, "its submission was lost")
			}
			require.Equal(t, want, said(b.lastHour()), "asked about by itself")
		})
	}
}

// Of a payout that the bank paid with more than was ordered, as a person found out, a part comes
// back.
func TestReconcilePartOfALargerPayout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("5000.00")
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.PartialRefund, Value: "100.00"})
	b.payAtBank("larger", "500.00")
	b.inBooks("larger", "success", "300.00", "0")
	b.Exec(`UPDATE transfers SET difference = 'seen', differs_since = $1`, b.Clock.Now())
	b.resolve("larger", "500.00")
	require.Empty(t, said(b.lastHour()), "the person knew")
	require.Equal(t, "100.00", effectOf(b.float(), "larger"))
}

// A payout that no transfer accounts for is named while the wallet lacks its money.
func TestReconcileForgetsUnknownPayoutsThatCameBack(t *testing.T) {
	t.Parallel()
	for _, end := range []string{fakebank.StatusFailed, fakebank.StatusRefund} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			b := setupAt(t, fakebank.Options{PayoutDelay: 24 * time.Hour})
			b.fund("5000.00")
			if end == fakebank.StatusRefund {
				b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Paid})
			}
			b.payAtBank("AJO-lost", "100.00")
			require.Equal(t, 1, b.lastHour().Counts[reconcile.UnknownPayout])
			_, err := b.bank.EndPayout("AJO-lost", end)
			require.NoError(t, err)
			if end == fakebank.StatusRefund { // of a part, and then of the rest
				b.bank.SetPayout("AJO-lost", func(p *fakebank.Payout) { p.Back = new(money.Must("30.00")) })
				for range 2 {
					require.Equal(t, "-70.00", effectOf(b.float(), "AJO-lost"))
				}
				b.bank.SetPayout("AJO-lost", func(p *fakebank.Payout) { p.Back = nil })
			}
			require.Empty(t, b.lastHour().Exceptions)
			require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
			// the wallet still lacks what the bank keeps
			b.bank.SetPayout("AJO-lost", func(p *fakebank.Payout) { p.FeeKept, p.Fee = true, money.Must("20.00") })
			require.Equal(t, 1, b.lastHour().Counts[reconcile.UnknownPayout])
			require.Equal(t, "-20.00", effectOf(b.float(), "AJO-lost"))
		})
	}
}

// A payout that the bank does not list may be too young for its list. An older one is asked about;
// what is not at its end is the transfer's own to ask about.
func TestReconcilePayoutsThatTheListLacks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("5000.00")
	for _, status := range []string{"success", "refunded", "processing", "failed"} {
		b.inBooks(status, status, "300.00", nil)
	}
	b.Clock.Advance(30*time.Minute - time.Microsecond)
	r := b.lastHour()
	require.Empty(t, r.Exceptions)
	require.Equal(t, 3, r.Young, "what failed never left")
	b.Clock.Advance(time.Microsecond)
	r = b.lastHour()
	require.Zero(t, r.Young)
	require.Equal(t, map[string]string{
		"success":  "payout_unknown_at_bank: the transfer is success, and the bank neither lists it nor knows its reference",
		"refunded": "payout_unknown_at_bank: the transfer is refunded, and the bank neither lists it nor knows its reference",
	}, said(r))
	f := b.float()
	require.Equal(t, []string{"300.00", ""}, []string{effectOf(f, "success"), effectOf(f, "refunded")})
}

// Where the list lacks very many, some are asked about, and the rest is named all the same.
func TestReconcileAsksABoundedNumber(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("5000.00")
	b.inBooks("one", "success", "1.00", nil)
	b.Exec(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, attempt_count, submitted_at, created_at, updated_at)
		SELECT gen_random_uuid(), tenant_id, account_id, 'many-' || n, status, amount, bank_code, account_number, 1, submitted_at, created_at, updated_at
		FROM transfers, generate_series(1, 200) n`)
	b.Clock.Advance(31 * time.Minute)
	r := b.lastHour()
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.PayoutUnknown: 201}, r.Counts)
	details := map[string]int{}
	for _, x := range r.Exceptions {
		details[x.Detail]++
	}
	require.Equal(t, map[string]int{
		"the transfer is success, and the bank neither lists it nor knows its reference": 200,
		"the bank does not list it; not asked for by its reference: there are too many":  1,
	}, details)
}

// What the run of the day has no question left for is remembered, and the next runs ask: no other
// one reads that day again.
func TestDailyRunLeavesNobodyUnasked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("5000.00")
	b.inBooks("one", "success", "1.00", nil)
	b.Exec(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, attempt_count, submitted_at, created_at, updated_at)
		SELECT gen_random_uuid(), tenant_id, account_id, 'many-' || n, status, amount, bank_code, account_number, 1, submitted_at, created_at, updated_at
		FROM transfers, generate_series(1, 204) n`)
	b.Clock.Advance(72 * time.Hour)
	b.asksLater("payout", reconcile.PayoutUnknown, "the transfer is success, and the bank neither lists it nor knows its reference")
}

// asksLater requires that the run of the day finds 205 things that the bank does not know, and that
// the next runs ask about the five for which it has no question left.
func (b *bundle) asksLater(kind string, want reconcile.ExceptionKind, detail string) {
	b.T.Helper()
	require.Equal(b.T, 205, b.daily(0).Counts[want])
	unasked := func() int {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items WHERE kind = $1 AND exception IS NULL`, kind)
	}
	require.Equal(b.T, 5, unasked())
	var r reconcile.Report
	for range 2 { // each has 200 questions, and begins with what was not asked about
		b.Clock.Advance(time.Minute)
		r = b.lastHour()
	}
	require.Equal(b.T, 205, r.Counts[want])
	for _, x := range r.Exceptions {
		require.Equal(b.T, detail, x.Detail)
	}
	require.Zero(b.T, unasked())
}

// Of misdirected payments likewise, and of one about which the bank gave no answer.
func TestDailyRunForgetsNoMisdirectedPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := uuid.NewString()
	_, err := b.client().CreateAccount(b.ctx, provider.NewAccount{Ref: ref, Name: "Nobody We Know"})
	require.NoError(t, err)
	var ids []string
	for range 205 {
		txn, err := b.bank.Pay(b.ctx, fakebank.Payment{AccountRef: ref, Amount: money.Must("5000.00"), Silent: true})
		require.NoError(t, err)
		ids = append(ids, txn.ID)
	}
	b.postAll(b.lastHour().ToPost)
	for _, id := range ids {
		b.bank.SetTransaction(id, func(x *fakebank.Transaction) { x.Hidden = true })
	}
	b.Clock.Advance(72 * time.Hour)
	b.asksLater("payment", reconcile.UnknownAtBank, "the bank neither lists it nor knows its id, and it is in suspense, misdirected")
	require.Equal(t, "-1019875.00", testenv.Value[money.Amount](b.Env, `SELECT sum(effect) FROM reconcile_items`).String())
}

// What a run has left open, and the bank does not know any more, is named for that; a payment that
// is reversed by then needs nobody.
func TestReconcileOpenPaymentThatTheBankForgot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		open func(b *bundle) fakebank.Transaction
		want string
	}{
		"posted": {func(b *bundle) fakebank.Transaction {
			_, txn := b.confirmed()
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("26.00") })
			return txn
		}, "unknown_at_bank: the bank neither lists it nor knows its id"},
		"reversed": {func(b *bundle) fakebank.Transaction {
			_, txn := b.wronglyReversed()
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("4000.00") })
			return txn
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			txn := c.open(b)
			require.Len(t, b.lastHour().Exceptions, 1)
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = true })
			b.Clock.Advance(6 * time.Hour)
			require.Equal(t, c.want, said(b.lastHour())[txn.ID])
			require.Equal(t, c.want == "", testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`) == 0)
		})
	}
}

// An event that could not be posted, and that the bank's own record does not help, stays named. One
// whose record says that no money moved is forgotten; one whose account nobody has is misdirected,
// and then suspense has money that never moved.
func TestEventThatTheBanksRecordDoesNotHeal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	unposted := func(txn fakebank.Transaction) uuid.UUID {
		e := b.bank.Event(fakebank.PaymentSuccess, txn)
		e.Data.Transaction.Fee = []byte(`null`)
		id := b.receive(b.eventOf(e)).ID
		require.Equal(t, payment.CategoryProcessingError, b.post(id).Category)
		return id
	}
	dollars := b.paySilently("5000.00")
	held := unposted(dollars)
	b.bank.SetTransaction(dollars.ID, func(x *fakebank.Transaction) { x.Currency = "USD" })
	stray := b.stray()
	lost := unposted(stray)
	for range 2 {
		r := b.lastHour()
		require.Equal(t, "misdirected", testenv.Value[string](b.Env, `SELECT category FROM inbound_events WHERE id = $1`, lost))
		require.Regexp(t, `^unposted: processing_error: .*; the bank's own record does not help: .*USD`, said(r)[dollars.ID])
		require.Contains(t, said(r)[stray.ID], "misdirected: ")
		require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.Unposted: 2}, r.Counts)
	}
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
	b.recorded(dollars, fakebank.StatusFailed)
	b.recorded(stray, fakebank.StatusFailed)
	require.Equal(t, map[string]string{stray.ID: "status_contradicts: the bank says failed, and it is in suspense, misdirected: assigned, it is reversed"}, said(b.lastHour()))
	require.Equal(t, "failed", testenv.Value[string](b.Env, `SELECT status FROM inbound_events WHERE id = $1`, held))
	balance, _ := b.books()
	require.Equal(t, "0.00", balance)
}

// What the bank takes back of the misdirected is named, and explains the float, until it is
// assigned and reversed.
func TestMisdirectedPaymentThatTheBankTookBack(t *testing.T) {
	t.Parallel()
	const opening = "7654.32"
	b := setupAt(t, fakebank.Options{OpeningBalance: money.Must(opening)})
	b.fund("1000.00")
	stray := b.stray()
	b.postAll(b.lastHour().ToPost)
	require.Equal(t, opening, b.float().Unexplained.String())
	fee := stray.Fee
	b.bank.SetTransaction(stray.ID, func(x *fakebank.Transaction) { x.Fee = money.Zero })
	require.Equal(t, "25.00", effectOf(b.float(), stray.ID))
	require.Equal(t, "differs: it is in suspense, misdirected, as 5000.00 with a fee of 25.00: assigned, it goes under review", said(b.lastHour())[stray.ID])
	b.bank.SetTransaction(stray.ID, func(x *fakebank.Transaction) { x.Fee, x.Amount = fee, money.Must("4000.00") })
	require.Equal(t, "-1000.00", effectOf(b.float(), stray.ID))
	b.bank.SetTransaction(stray.ID, func(x *fakebank.Transaction) { x.Amount = stray.Amount })
	require.Empty(t, effectOf(b.float(), stray.ID))
	b.Clock.Advance(time.Minute)
	reversed := b.Clock.Now()
	_, err := b.bank.ReverseSilently(b.ctx, stray.ID)
	require.NoError(t, err)
	for range 2 {
		f := b.float()
		require.Equal(t, "-4975.00", effectOf(f, stray.ID))
		require.Equal(t, reversed, b.since(stray.ID), "before, the wallet had it")
		require.Equal(t, opening, f.Unexplained.String())
		r := b.lastHour()
		require.Equal(t, "status_contradicts: the bank says refunded, and it is in suspense, misdirected: assigned, it is reversed", said(r)[stray.ID])
		require.Equal(t, 1, r.Suspicious())
	}
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM recalls`))
	id := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM inbound_events WHERE provider_txn_ref = $1`, stray.ID)
	b.Exec(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, attempt_count, created_at, updated_at, refund_of, refund_name)
		SELECT gen_random_uuid(), tenant_id, account_id, 'AJR-stray', 'success', amount, '058', '0123456789', 1, created_at, created_at, id, 'Bola Ojo' FROM ledger_entries WHERE kind = 'suspense'`)
	require.Equal(t, "status_contradicts: the bank says refunded, and it is misdirected, and paid back out of suspense as well: see the refund AJR-stray", said(b.lastHour())[stray.ID])
	b.Exec(`UPDATE transfers SET status = 'refunded'`)
	_, err = b.payments.Assign(b.ctx, id, payment.Destination{AccountID: b.account}, byHand)
	require.NoError(t, err)
	b.Clock.Advance(30 * time.Second)
	require.NoError(t, b.payments.Confirm(b.ctx, id))
	require.Equal(t, "reversed", b.credit(id))
	require.Empty(t, b.lastHour().Exceptions)
	require.Equal(t, opening, b.float().Unexplained.String())
}

// The bank takes a misdirected payment back when its list of that day is not read any more, and its
// record lags behind its event, which says so or that the payment failed: it is named as soon as
// the record says so, and only then.
func TestOldMisdirectedPaymentThatTheBankTakesBack(t *testing.T) {
	t.Parallel()
	for _, event := range []string{fakebank.PaymentReversal, fakebank.PaymentFailed} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			stray := b.stray()
			b.postAll(b.lastHour().ToPost)
			b.Clock.Advance(10 * 24 * time.Hour)
			b.receive(b.eventOf(b.bank.Event(event, stray)))
			r := b.lastHour()
			require.Zero(t, r.Suspicious())
			b.Clock.Advance(2 * 24 * time.Hour)
			_, err := b.bank.ReverseSilently(b.ctx, stray.ID)
			require.NoError(t, err)
			for range 2 {
				r = b.lastHour()
				require.Equal(t, "status_contradicts: the bank says refunded, and it is in suspense, misdirected: assigned, it is reversed", said(r)[stray.ID])
				require.Equal(t, "-4975.00", testenv.Value[money.Amount](b.Env, `SELECT effect FROM reconcile_items`).String())
				b.Clock.Advance(20 * 24 * time.Hour) // from here on it is asked about as what runs have left open
			}
		})
	}
}

// A payment that a person has found received, and that the bank has no record of, is named until
// somebody dismisses it, and the wallet has it.
func TestPaymentThatAPersonFoundReceived(t *testing.T) {
	t.Parallel()
	for name, decided := range map[string]func(b *bundle) string{
		"confirmed out of a review": func(b *bundle) string {
			id, txn := b.underWayForADay()
			_, err := b.payments.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
			require.NoError(b.T, err)
			return txn.ID
		},
		"corrected": func(b *bundle) string {
			txn, _ := b.correctedTo("4900.00", "100.00")
			return txn
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			txn := decided(b)
			b.bank.SetTransaction(txn, func(x *fakebank.Transaction) { x.Hidden = true })
			b.Clock.Advance(time.Minute)
			require.Equal(t, "unknown_at_bank: the bank neither lists it nor knows its id; a person has found that the wallet has it", said(b.lastHour())[txn])
			require.Equal(t, "0.00", testenv.Value[money.Amount](b.Env, `SELECT effect FROM reconcile_items WHERE ref = $1`, txn).String())
			_, err := dismiss(b.svc, txn)
			require.NoError(t, err)
			r := b.lastHour()
			require.Zero(t, r.Suspicious())
		})
	}
}

// A misdirected payment that the bank does not know is named once it is old enough to be listed,
// until the bank has it again.
func TestMisdirectedPaymentThatTheBankForgot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stray := b.stray()
	b.postAll(b.lastHour().ToPost)
	hidden := func(is bool) { b.bank.SetTransaction(stray.ID, func(x *fakebank.Transaction) { x.Hidden = is }) }
	hidden(true)
	r := b.lastHour()
	require.Equal(t, []int{0, 1}, []int{r.ExceptionCount(), r.Young})
	b.Clock.Advance(30 * time.Minute)
	for range 2 {
		r = b.lastHour()
		require.Equal(t, map[string]string{stray.ID: "unknown_at_bank: the bank neither lists it nor knows its id, and it is in suspense, misdirected"}, said(r))
		require.Equal(t, "-4975.00", testenv.Value[money.Amount](b.Env, `SELECT effect FROM reconcile_items`).String())
	}
	hidden(false)
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.Unposted: 1}, b.lastHour().Counts)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
}

// What is held back as a repeat is not named any more when the bank says that it moved no money.
func TestHeldBackPaymentThatFailed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	x, y := b.sessionless(b.paySilently("5000.00")), b.sessionless(b.paySilently("5000.00"))
	b.bank.SetTransaction(x.ID, func(t *fakebank.Transaction) { t.Hidden = true })
	b.post(b.receive(b.hook(x)).ID)
	require.Equal(t, 1, b.lastHour().Counts[reconcile.LookAlike])
	b.recorded(y, fakebank.StatusFailed)
	b.bank.SetTransaction(x.ID, func(t *fakebank.Transaction) { t.Hidden = false })
	require.Empty(t, b.lastHour().Exceptions)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
	balance, _ := b.books()
	require.Equal(t, "4975.00", balance)
}

// Nor is it named in the first run after it was held back.
func TestHeldBackPaymentThatFailedBeforeItWasNamed(t *testing.T) {
	t.Parallel()
	for status, named := range map[string]int{fakebank.StatusFailed: 0, fakebank.StatusSuccess: 1} {
		t.Run(status, func(t *testing.T) {
			b := setup(t)
			x, y := b.sessionless(b.paySilently("5000.00")), b.sessionless(b.paySilently("5000.00"))
			hidden := func(txn fakebank.Transaction, is bool) {
				b.bank.SetTransaction(txn.ID, func(t *fakebank.Transaction) { t.Hidden = is })
			}
			hidden(y, true)
			require.Len(t, b.lastHour().ToPost, 1)
			hidden(x, true)
			require.Equal(t, payment.CategoryProcessingError, b.post(b.receive(b.hook(y)).ID).Category)
			hidden(y, false)
			b.recorded(y, status)
			require.Equal(t, named, b.lastHour().Counts[reconcile.LookAlike])
		})
	}
}
