package reconcile_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// float is the comparison of the wallet, with a newest event one second from now.
func (b *bundle) float() reconcile.Float {
	b.T.Helper()
	b.Clock.Advance(time.Second)
	b.fund("1000.00")
	return b.lastHour().Float
}

// sums are the float's parts.
func sums(f reconcile.Float) map[string]string {
	return map[string]string{
		"customers": f.Customers.String(), "outside": f.Outside.String(), "under way": f.UnderWay.String(), "difference": f.Difference.String(), "why": f.Why,
	}
}

// A payout of which neither bank nor transfer says that it has left makes the float not comparable.
// One that had not left when the wallet was read is in no wallet's balance.
func TestFloatOfPayoutsUnderWay(t *testing.T) {
	t.Parallel()
	const opening = "7654.32"
	for name, c := range map[string]struct {
		status    string
		attempts  int
		submitted time.Duration // from the newest event
		updated   time.Duration
		customers string // 5,964.00 and what has left
		underWay  string
	}{
		"not sent":                      {"pending", 0, 0, -time.Minute, "5964.00", "0.00"},
		"sent before":                   {"processing", 1, -time.Minute, -time.Minute, "5664.00", "300.00"},
		"sent at the newest event":      {"processing", 1, 0, 0, "5664.00", "300.00"},
		"sent after":                    {"processing", 1, time.Minute, time.Minute, "5964.00", "0.00"},
		"sent before and again after":   {"processing", 2, time.Minute, time.Minute, "5664.00", "300.00"},
		"paid before, known after":      {"success", 1, -time.Minute, time.Minute, "5664.00", "300.00"},
		"paid before, known at once":    {"success", 1, -time.Minute, -time.Second, "5664.00", "0.00"},
		"paid after":                    {"success", 1, time.Minute, time.Minute, "5964.00", "0.00"},
		"failed, and was sent after":    {"failed", 1, time.Minute, time.Minute, "5964.00", "0.00"},
		"failed, before, known before":  {"failed", 1, -time.Minute, -time.Minute, "5964.00", "0.00"},
		"sent again after, known after": {"success", 2, time.Minute, time.Minute, "5664.00", "300.00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupAt(t, fakebank.Options{OpeningBalance: money.Must(opening)})
			b.fund("5000.00")
			b.inBooks("payout", c.status, "300.00", nil)
			b.inBooks("other", "success", "1.00", nil) // which nobody asks about any more
			b.float()
			newest := b.Clock.Now().Add(-time.Second)
			b.Exec(`UPDATE transfers SET attempt_count = $1, submitted_at = CASE WHEN $1 > 0 THEN $2::timestamptz END, updated_at = $3 WHERE merchant_tx_ref = 'payout'`,
				c.attempts, newest.Add(c.submitted), newest.Add(c.updated))
			if c.status == "success" || c.status == "failed" { // it is asked about again
				b.Schedule(work.Settle, testenv.Value[uuid.UUID](b.Env, `SELECT id FROM transfers WHERE merchant_tx_ref = 'payout'`), b.Clock.Now().Add(time.Hour))
			}
			b.Exec(`UPDATE transfers SET updated_at = $1 WHERE merchant_tx_ref = 'other'`, b.Clock.Now())
			f := b.lastHour().Float
			require.Equal(t, newest, *f.At)
			require.Equal(t, c.customers, f.Customers.String())
			require.Equal(t, c.underWay, f.UnderWay.String())
			if c.underWay != "0.00" {
				require.Contains(t, f.Why, "under way")
			}
			require.Equal(t, c.underWay == "0.00", f.Comparable, f.Why)
		})
	}
}

// The bank's clock is an hour behind ours, or ahead, or its event came an hour late: whether a
// payout of that hour had left when the wallet was read is not known.
func TestFloatOfPayoutsBetweenTheClocks(t *testing.T) {
	t.Parallel()
	for name, dated := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupAt(t, fakebank.Options{OpeningBalance: money.Must("7654.32")})
			b.fund("5000.00")
			b.Clock.Advance(2 * time.Hour)
			for _, ref := range []string{"before", "between", "after"} {
				b.inBooks(ref, "success", "300.00", "0")
			}
			now := b.Clock.Now()
			txn := b.paySilently("1000.00")
			txn.Time = now.Add(dated)
			b.post(b.receive(b.hook(txn)).ID)
			for ref, at := range map[string]time.Duration{"before": min(dated, 0) - time.Minute, "between": dated / 2, "after": max(dated, 0) + time.Minute} {
				b.Exec(`UPDATE transfers SET submitted_at = $2, updated_at = $2 WHERE merchant_tx_ref = $1`, ref, now.Add(at))
			}
			b.Clock.Advance(2 * time.Hour)
			r, err := b.svc.Run(b.ctx, b.Clock.Now().Add(-time.Minute), b.Clock.Now())
			require.NoError(t, err)
			require.Equal(t, txn.Time, *r.Float.At)
			require.Equal(t, []string{"300.00", "5365.00"}, []string{r.Float.UnderWay.String(), r.Float.Customers.String()})
			require.False(t, r.Float.Comparable)
		})
	}
}

// The bank's record says that a payout had left when the wallet was read, although the transfer got
// to know that later.
func TestFloatOfAPayoutThatEndedLaterInTheBooks(t *testing.T) {
	t.Parallel()
	const opening = "7654.32"
	b := setupAt(t, fakebank.Options{OpeningBalance: money.Must(opening)})
	b.fund("5000.00")
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Paid})
	b.payAtBank("payout", "300.00")
	b.inBooks("payout", "success", "300.00", "0")
	b.float()
	b.Clock.Advance(time.Minute)
	b.Exec(`UPDATE transfers SET updated_at = $1`, b.Clock.Now())
	b.Schedule(work.Settle, testenv.Value[uuid.UUID](b.Env, `SELECT id FROM transfers`), b.Clock.Now().Add(time.Hour))
	f := b.lastHour().Float
	require.True(t, f.Comparable, f.Why)
	require.Equal(t, []string{"0.00", opening}, []string{f.UnderWay.String(), f.Unexplained.String()})
}

// What is held back as a repeat, what is forged and what is of another currency is in no wallet
// of naira.
func TestFloatWithoutRepeatsAndForgeries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	x, y := b.sessionless(b.paySilently("5000.00")), b.sessionless(b.paySilently("5000.00"))
	b.bank.SetTransaction(x.ID, func(t *fakebank.Transaction) { t.Hidden = true })
	b.postAll(b.lastHour().ToPost) // y, from the list
	b.Clock.Advance(time.Second)
	b.post(b.receive(b.hook(x)).ID)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE look_alike_of IS NOT NULL`))
	require.NotEqual(t, x.ID, y.ID)
	forged := b.hook(y)
	forged.Signature = "forged"
	b.Clock.Advance(time.Second)
	dollars := b.bank.Event(fakebank.PaymentSuccess, b.paySilently("5000.00"))
	dollars.Data.Transaction.Currency = "USD"
	require.Equal(t, payment.CategoryProcessingError, b.post(b.receive(b.eventOf(dollars)).ID).Category)
	b.bank.SetTransaction(dollars.Data.Transaction.TransactionID, func(x *fakebank.Transaction) { x.Hidden = true })
	f := b.float()
	require.Equal(t, "0.00", f.Outside.String())
	for _, e := range f.Explained {
		require.NotEqual(t, "0.00", e.Amount.String(), "%+v", e)
	}
	before := sums(f)
	b.receive(forged)
	require.Equal(t, before, sums(b.lastHour().Float))
}

// An event that could not be posted counts as received, and its payment was given back: the wallet
// does not have it.
func TestFloatOfWhatWasNotPosted(t *testing.T) {
	t.Parallel()
	const opening = "7654.32"
	b := setupAt(t, fakebank.Options{OpeningBalance: money.Must(opening)})
	txn := b.paySilently("5000.00")
	e := b.bank.Event(fakebank.PaymentSuccess, txn)
	e.Data.Transaction.Fee = []byte(`6000`)
	require.Equal(t, payment.CategoryProcessingError, b.post(b.receive(b.eventOf(e)).ID).Category)
	b.Clock.Advance(time.Minute)
	reversed := b.Clock.Now()
	_, err := b.bank.ReverseSilently(b.ctx, txn.ID)
	require.NoError(t, err)
	for range 2 {
		f := b.float()
		require.True(t, f.Comparable, f.Why)
		require.Equal(t, reversed, b.since(txn.ID), "before, the wallet had it")
		require.Equal(t, []string{"-1000.00", opening}, []string{f.Outside.String(), f.Unexplained.String()}, "%+v", f.Explained)
		b.Clock.Advance(4 * time.Hour) // out of the window: what was found is remembered
	}
}

// What changed after the wallet was read explains nothing, and the bank's charges for a payout that
// left after it are still in the wallet.
func TestFloatIsOfTheNewestEvent(t *testing.T) {
	t.Parallel()
	const opening = "7654.32"
	b := setupAt(t, fakebank.Options{PayoutFee: money.Must("12.50"), OpeningBalance: money.Must(opening)})
	b.fund("5000.00")
	b.payAtBank("before", "300.00")
	b.inBooks("before", "success", "300.00", "12.50")
	f := b.float()
	require.Equal(t, opening, f.Unexplained.String())
	require.Empty(t, f.Explained, "what was booked explains itself")
	require.Equal(t, "-12.50", f.BankFees.String())

	b.Clock.Advance(time.Minute)
	b.payAtBank("after", "300.00")
	b.inBooks("after", "success", "300.00", "12.50")
	b.Schedule(work.Settle, testenv.Value[uuid.UUID](b.Env, `SELECT id FROM transfers WHERE merchant_tx_ref = 'after'`), b.Clock.Now().Add(time.Hour))
	b.Exec(`UPDATE transfers SET submitted_at = $1 WHERE merchant_tx_ref = 'before'`, *f.At)
	_, err := b.bank.EndPayout("before", fakebank.StatusRefund)
	require.NoError(t, err)
	r := b.lastHour()
	require.Equal(t, map[string]string{"before": "payout_contradicts: the bank says refunded, the transfer is success"}, said(r))
	require.Equal(t, *f.At, *r.Float.At)
	require.Equal(t, f.Explained, r.Float.Explained, "it came back after the wallet was read")
	require.Equal(t, "-12.50", r.Float.BankFees.String(), "what left later is still in the wallet")
	require.Equal(t, opening, r.Float.Unexplained.String())
	f = b.float()
	require.Equal(t, "312.50", effectOf(f, "before"))
	require.Equal(t, opening, f.Unexplained.String())

	// the moment itself counts as before it
	b.Exec(`UPDATE reconcile_items SET since = $1`, *f.At)
	b.Clock.Advance(time.Hour)
	require.Equal(t, "312.50", effectOf(b.lastHour().Float, "before"))
}

// No event has come for days: the payouts since the newest one are still in the wallet that it
// names, although nobody asks the bank about them any more.
func TestFloatOfAnOldEvent(t *testing.T) {
	t.Parallel()
	const opening = "7654.32"
	b := setupAt(t, fakebank.Options{PayoutFee: money.Must("12.50"), OpeningBalance: money.Must(opening)})
	b.fund("5000.00")
	f := b.float()
	b.Clock.Advance(time.Minute)
	b.payAtBank("after", "300.00")
	b.inBooks("after", "success", "300.00", "12.50")
	b.Clock.Advance(3 * 24 * time.Hour)
	old := b.lastHour().Float
	require.Equal(t, *f.At, *old.At)
	require.True(t, old.Comparable, old.Why)
	require.Equal(t, []string{f.Customers.String(), "0.00", opening}, []string{old.Customers.String(), old.BankFees.String(), old.Unexplained.String()})

	// sent twice, it may have left before
	b.Exec(`UPDATE transfers SET attempt_count = 2 WHERE merchant_tx_ref = 'after'`)
	old = b.lastHour().Float
	require.Equal(t, "312.50", old.UnderWay.String())
	require.Contains(t, old.Why, "under way")
}

// A float that cannot be summed up in time fails no run: the payments of the window are stored, the
// report says why there is no comparison, and the next run reads on.
func TestFloatThatTakesTooLong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("1000.00")
	txn := b.paySilently("300.00")
	b.Clock.Advance(20 * time.Minute)
	b.svc.FloatWithin(100 * time.Millisecond)
	var r reconcile.Report
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `LOCK TABLE ledger_days`) // its sums wait
		if err == nil {
			r, _, _, err = b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
		}
		return err
	}))
	require.Contains(t, r.Float.Why, "in time")
	require.Nil(t, r.Float.At)
	require.Equal(t, map[string]string{txn.ID: "missing_event: its event never came; it is stored now, to be posted"}, said(r))
	b.Clock.Advance(15 * time.Minute)
	b.svc.FloatWithin(time.Minute)
	next := b.due()
	require.Equal(t, r.To, next.From)
	require.NotNil(t, next.Float.At, next.Float.Why)
}

// A payout whose fee the bank's record does not name is an exception: nothing is guessed, and the
// wallet's comparison names it. When a record names it, the transfer is asked about, and books it.
func TestFloatNamesAPayoutWithoutAFee(t *testing.T) {
	t.Parallel()
	const opening = "7654.32"
	b := setupAt(t, fakebank.Options{PayoutFee: money.Must("12.50"), PayoutVAT: money.Must("0.94"), PayoutStampDuty: money.Must("50.00"), OpeningBalance: money.Must(opening)})
	b.fund("5000.00")
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.NoFee})
	b.payAtBank("silent", "300.00")
	b.inBooks("silent", "success", "300.00", nil)
	const says = "payout_fee_unknown: the bank's record does not name its fee: nothing is booked for it"
	f := b.float()
	require.True(t, f.Comparable, f.Why)
	require.Len(t, f.Explained, 1)
	require.Equal(t, []string{says, "silent", "0.00"}, []string{f.Explained[0].What, f.Explained[0].Ref, f.Explained[0].Amount.String()})
	require.Equal(t, "7590.88", f.Unexplained.String(), "less by what nobody has named")
	require.Equal(t, map[string]string{"silent": says}, said(b.lastHour()))
	require.Empty(t, b.dueNow(work.Settle))

	b.bank.SetPayout("silent", func(p *fakebank.Payout) { p.FeeUnsaid = false })
	require.Empty(t, said(b.lastHour()))
	require.Equal(t, "-63.44", effectOf(b.float(), "silent"))
	due := b.dueNow(work.Settle)
	require.Len(t, due, 1)
	b.step(due[0])
	f = b.float()
	require.Empty(t, f.Explained)
	require.Equal(t, []string{"-12.50", "-50.94", opening}, []string{f.BankFees.String(), f.Taxes.String(), f.Unexplained.String()})
	require.Empty(t, said(b.lastHour()))
	b.recalls()
}

// Misdirected money is in the wallet and in suspense, and assigned it is the tenant's: wherever it
// is, it explains itself. What was paid after the wallet was read is in neither sum.
func TestFloatWithSuspense(t *testing.T) {
	t.Parallel()
	const opening = "7654.32"
	b := setupAt(t, fakebank.Options{OpeningBalance: money.Must(opening)})
	is := func(f reconcile.Float, system, customers string) {
		b.T.Helper()
		require.True(t, f.Comparable, f.Why)
		require.Equal(t, []string{system, customers, "0.00", opening, opening},
			[]string{f.System.String(), f.Customers.String(), f.Outside.String(), f.Difference.String(), f.Unexplained.String()})
	}
	stray := func() {
		b.Clock.Advance(time.Second)
		b.stray()
		b.postAll(b.lastHour().ToPost)
	}
	stray()
	is(b.float(), "4975.00", "990.00")
	id := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM inbound_events WHERE misdirected`)
	_, err := b.payments.Assign(b.ctx, id, payment.Destination{AccountID: b.account}, byHand)
	require.NoError(t, err)
	is(b.lastHour().Float, "0.00", "5965.00")
	is(b.float(), "0.00", "6955.00")
	stray()
	is(b.lastHour().Float, "0.00", "6955.00")
	is(b.float(), "4975.00", "7945.00")
}

// What the platform takes moves nothing in the wallet, and the comparison stays to the kobo: of
// what was paid before the wallet was read, of what was paid after it, and of what is under review.
func TestFloatWithWhatThePlatformTakes(t *testing.T) {
	t.Parallel()
	const opening = "7654.32"
	b := setupAt(t, fakebank.Options{OpeningBalance: money.Must(opening)})
	b.Exec(`INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, valid_from, created_at, actor, reason)
		SELECT gen_random_uuid(), '00000000-0000-0000-0000-000000000000', charged_on, percent, 0, 0, '2020-01-02', '2020-01-01', 'cli:ada', 'list 7'
		FROM (VALUES ('payment', 1), ('vat', 7.5)) AS v (charged_on, percent)`)
	is := func(f reconcile.Float, revenue, taxes, outside string) {
		b.T.Helper()
		require.True(t, f.Comparable, f.Why)
		require.Equal(t, []string{revenue, taxes, outside, opening},
			[]string{f.Revenue.String(), f.Taxes.String(), f.Outside.String(), f.Difference.String()})
	}
	is(b.float(), "10.00", "0.75", "0.00")
	b.Clock.Advance(time.Second)
	b.paySilently("5000.00")
	b.postAll(b.lastHour().ToPost)
	is(b.lastHour().Float, "60.00", "4.50", "0.00")
	is(b.float(), "70.00", "5.25", "0.00")
	id := testenv.Value[uuid.UUID](b.Env, `SELECT transaction_group_id FROM ledger_entries WHERE amount = 4975`)
	b.bank.SetTransaction(testenv.Value[string](b.Env, `SELECT provider_txn_ref FROM inbound_events WHERE id = $1`, id), func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
	b.Clock.Advance(30 * time.Second)
	require.NoError(t, b.payments.Confirm(b.ctx, id))
	require.Equal(t, "needs_review", b.credit(id))
	is(b.float(), "30.00", "2.25", "4975.00")
	_, err := b.payments.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
	require.NoError(t, err)
	is(b.float(), "90.00", "6.75", "0.00")
	b.recalls()
}

// What explains the difference adds up to it, however many parts it has: those that have no line of
// their own have one together.
func TestFloatOfManyParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(`INSERT INTO reconcile_items (id, kind, ref, effect, found_at, due_at)
		SELECT gen_random_uuid(), 'payout', 'r-' || n, 1, $1::timestamptz, $1::timestamptz + interval '30 days' FROM generate_series(1, 1500) n`, b.Clock.Now())
	b.fund("1000.00") // its event has the wallet's balance
	b.Clock.Advance(time.Hour)
	f := b.due().Float // asks about none of them yet
	require.Len(t, f.Explained, 1001)
	last := f.Explained[1000]
	require.Equal(t, []string{"500 others", "", "500.00"}, []string{last.What, last.Ref, last.Amount.String()})
	sum := money.Zero
	for _, e := range f.Explained {
		sum = sum.Add(e.Amount.Amount)
	}
	require.Equal(t, f.Difference.Sub(f.Unexplained.Amount).String(), sum.String())
}

// Once the last events with the wallet's balance are in the archive, the report does not say that
// none has come.
func TestFloatOfArchivedEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.True(t, b.float().Comparable)
	b.ExecUnguarded(`DELETE FROM event_bodies`)
	b.Exec(`INSERT INTO archives (partition, table_name, from_id, to_id, status, manifest, archived_at)
		VALUES ('event_bodies_20251001', 'event_bodies', $1, $2, 'archived', '{}', $3)`, uuid.Nil, uuid.Max, b.Clock.Now())
	f := b.lastHour().Float
	require.Equal(t, "no event that is here has the wallet's balance: those that had it may be in the archive", f.Why)
	require.Nil(t, f.Wallet)
	b.Exec(`UPDATE archives SET status = 'restored', restored_at = $1`, b.Clock.Now())
	require.Equal(t, "no event with the wallet's balance has come yet", b.lastHour().Float.Why)
}
