package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
)

func TestReconcilePostsWhatNeverCame(t *testing.T) {
	t.Parallel()
	b := setup(t)
	told, silent := b.paySilently("5000.00"), b.paySilently("7000.00")
	b.post(b.receive(b.hook(told)).ID)

	r := b.lastHour()
	require.Len(t, r.ToPost, 1)
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.MissingEvent: 1}, r.Counts)
	require.Equal(t, silent.ID, r.Exceptions[0].ProviderTxnRef)
	require.Equal(t, 2, r.Bank.Success.Count)
	require.Equal(t, "12000.00", r.Bank.Success.Amount.String())
	require.Equal(t, 1, r.Books.Provisional.Count)
	require.Equal(t, "5000.00", r.Books.Provisional.Amount.String())
	b.postAll(r.ToPost)
	balance, entries := b.books()
	require.Equal(t, "11950.00", balance)
	require.Len(t, entries, 2)
	require.Equal(t, "reconciliation true false reconciliation:"+silent.ID, testenv.Value[string](b.Env,
		`SELECT concat_ws(' ', source, CASE WHEN authentic THEN 'true' END, CASE WHEN NOT signature_valid THEN 'false' END, request_id)
		FROM inbound_events WHERE provider_txn_ref = $1`, silent.ID))
	require.Equal(t, silent.SenderName+" of "+silent.SenderBank, testenv.Value[string](b.Env,
		`SELECT sender_name || ' of ' || sender_bank FROM inbound_events WHERE provider_txn_ref = $1`, silent.ID), "the payer is as in an event")

	late := b.receive(b.hook(silent))
	require.True(t, late.Duplicate, "the event that comes later")
	require.Equal(t, r.ToPost[0], late.ID)
	b.log.HasNot(t, "event_conflict")
	again := b.lastHour()
	require.Empty(t, again.ToPost)
	require.Empty(t, again.Exceptions)
	require.Equal(t, 2, again.Books.Provisional.Count)

	b.Clock.Advance(time.Minute)
	require.NoError(t, b.payments.Confirm(b.ctx, r.ToPost[0]))
	_, entries = b.books()
	require.Equal(t, []string{"credit provisional", "credit confirmed"}, entries)

	changed := silent
	changed.Amount = money.Must("9999.00")
	require.True(t, b.receive(b.hook(changed)).Duplicate)
	b.log.Has(t, "event_conflict", "a later event about other money is reported")
}

// A run's row has the bank's sums beside those of the books: what the balances have, confirmed or
// not.
func TestRunKeepsItsSums(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.confirmed() // 5,000.00
	b.post(b.receive(b.hook(b.paySilently("3000.00"))).ID)
	b.paySilently("2000.00")
	r := b.lastHour()
	require.Equal(t, []int{1, 1}, []int{r.Books.Provisional.Count, r.Books.Confirmed.Count})
	fee := r.Books.Provisional.Fee.Add(r.Books.Confirmed.Fee)
	require.True(t, r.Books.Provisional.Fee.IsPositive() && r.Books.Confirmed.Fee.IsPositive())
	require.Equal(t, "3 10000.00 "+r.Bank.Success.Fee.String()+", 2 8000.00 "+fee.String(), testenv.Value[string](b.Env, `
		SELECT format('%s %s %s, %s %s %s', bank_count, bank_amount, bank_fee, books_count, books_amount, books_fee) FROM reconciliations WHERE id = $1`, r.ID))
}

// The event, its repeat and two runs at once: one entry.
func TestReconcileBesideTheEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var txns []fakebank.Transaction
	for range 60 {
		txns = append(txns, b.paySilently("5000.00"))
	}
	_, other := b.servicesWith(b.client())
	var mu sync.Mutex
	var ids []uuid.UUID
	var wg sync.WaitGroup
	for _, s := range []*reconcile.Service{b.svc, other} {
		wg.Go(func() {
			r, err := s.Run(b.ctx, b.Clock.Now().Add(-time.Hour), b.Clock.Now().Add(time.Second))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, r.ToPost...)
		})
	}
	for _, txn := range txns {
		d := b.hook(txn)
		wg.Go(func() {
			r, err := b.payments.Receive(b.ctx, d)
			if err == nil && r.ToPost() {
				_, err = b.payments.Post(b.ctx, r.ID)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b.postAll(ids)
	balance, entries := b.books()
	require.Len(t, entries, 60)
	require.Equal(t, "298500.00", balance)
	b.log.HasNot(t, "event_conflict")
}

func TestReconcileClosedAndUnknownAccounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.paySilently("5000.00")
	b.Clock.Advance(time.Minute)
	b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2 WHERE id = $1`, b.account, b.Clock.Now())
	b.Clock.Advance(time.Minute)
	after := b.paySilently("6000.00")
	stray := b.stray()

	r := b.lastHour()
	require.Len(t, r.ToPost, 3)
	b.postAll(r.ToPost)
	balance, _ := b.books()
	require.Equal(t, "4975.00", balance, "made before the account was closed")
	why := func(txn string) string {
		return testenv.Value[string](b.Env, `SELECT category || ': ' || error_message FROM inbound_events WHERE provider_txn_ref = $1`, txn)
	}
	require.Equal(t, "misdirected: account is expired", why(after.ID))
	require.Equal(t, "misdirected: no account has this alias", why(stray.ID))

	r = b.lastHour()
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.Unposted: 2}, r.Counts)
	require.Zero(t, r.Suspicious())
	p, err := b.payments.Assign(b.ctx, *r.Exceptions[0].EventID, payment.Destination{AccountID: b.account}, byHand)
	require.NoError(t, err)
	require.Equal(t, payment.CategoryPayment, p.Category)
	r = b.lastHour()
	require.Equal(t, 1, r.ExceptionCount(), "an assigned payment is in order, though it went to another account")
}

// stray makes a silent payment to a number that no account of ours has.
func (b *bundle) stray() fakebank.Transaction {
	b.T.Helper()
	ref := uuid.NewString()
	_, err := b.client().CreateAccount(b.ctx, provider.NewAccount{Ref: ref, Name: "Nobody We Know"})
	require.NoError(b.T, err)
	txn, err := b.bank.Pay(b.ctx, fakebank.Payment{AccountRef: ref, Amount: money.Must("5000.00"), Silent: true})
	require.NoError(b.T, err)
	return txn
}

func TestReconcileFlagsWhatDisagrees(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pay := func(change func(*fakebank.Transaction)) (uuid.UUID, string) {
		txn := b.paySilently("5000.00")
		id := b.receive(b.hook(txn)).ID
		b.post(id)
		if change != nil {
			b.bank.SetTransaction(txn.ID, change)
		}
		return id, txn.ID
	}
	_, good := pay(nil)
	_, hidden := pay(func(x *fakebank.Transaction) { x.Hidden = true })
	_, amount := pay(func(x *fakebank.Transaction) { x.Amount = money.Must("4000.00") })
	_, fee := pay(func(x *fakebank.Transaction) { x.Fee = money.Must("26.00") })
	_, currency := pay(func(x *fakebank.Transaction) { x.Currency = "USD" })
	_, number := pay(func(x *fakebank.Transaction) { x.NUBAN = "0123456789" })
	_, failed := pay(func(x *fakebank.Transaction) { x.Status = "PAYMENT_FAILED" })
	gone, goneTxn := pay(func(x *fakebank.Transaction) { x.Status = "REFUND" })
	_, under := pay(func(x *fakebank.Transaction) { x.Status = "PENDING_BILLING" })
	b.Clock.Advance(time.Minute)
	require.NoError(t, b.payments.Confirm(b.ctx, gone))
	b.bank.SetTransaction(goneTxn, func(x *fakebank.Transaction) { x.Status, x.Amount = "SUCCESS", money.Must("4000.00") })

	r := b.lastHour()
	require.Equal(t, 1, r.Young, "a fresh one may not be listed yet")
	require.Zero(t, r.Counts[reconcile.UnknownAtBank])
	b.Clock.Advance(29 * time.Minute) // half an hour after it was posted
	r = b.lastHour()
	got := map[string]string{}
	for _, x := range r.Exceptions {
		got[x.ProviderTxnRef] = fmt.Sprintf("%s %s: %s", x.Kind, x.EntryStatus, x.Detail)
	}
	require.Equal(t, map[string]string{
		hidden:   "unknown_at_bank provisional: the bank neither lists it nor knows its id",
		amount:   "differs provisional: amount is 4000.00, not 5000.00",
		fee:      "differs provisional: fee is 26.00, not 25.00",
		currency: "differs provisional: currency is USD, not NGN",
		number:   "differs provisional: account number is 0123456789, not " + testenv.Value[string](b.Env, `SELECT bank_account_number FROM accounts WHERE id = $1`, b.account),
		failed:   "status_contradicts provisional: the bank says failed, the entry is provisional",
		goneTxn:  "status_contradicts reversed: the bank says success, the entry is reversed, and amount is 4000.00, not 5000.00: see ajo review correct",
	}, got, "good %s, under way %s", good, under)
	require.Equal(t, 7, r.Suspicious())
	b.log.Has(t, "alert=reconciliation")
	require.Equal(t, []int{6, 1, 1}, []int{r.Bank.Success.Count, r.Bank.Failed.Count, r.Bank.Pending.Count})
	require.Equal(t, []int{8, 1}, []int{r.Books.Provisional.Count, r.Books.Reversed.Count})
	require.Empty(t, r.ToPost)
	b.bank.SetTransaction(goneTxn, func(x *fakebank.Transaction) { x.Status = "REFUND" })
	require.NotContains(t, said(b.lastHour()), goneTxn, "neither has it, whatever its sum was")
}

// An entry that was damaged after the event was stored disagrees with the bank: the comparison
// reads the ledger.
func TestReconcileReadsTheLedgerNotTheEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	b.post(b.receive(b.hook(txn)).ID)
	b.Exec(`ALTER TABLE ledger_entries DISABLE TRIGGER USER`)
	b.Exec(`UPDATE ledger_entries SET amount = amount - 1`)
	r := b.lastHour()
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.Differs: 1}, r.Counts)
	require.Equal(t, "amount is 5000.00, not 4999.00", r.Exceptions[0].Detail)
}

// An entry that the list dates otherwise is asked for by its id before it is called unknown.
func TestReconcileAtTheEdgeOfTheWindow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	b.post(b.receive(b.hook(txn)).ID)
	b.Exec(`UPDATE inbound_events SET occurred_at = occurred_at - interval '2 minutes'`)
	b.Clock.Advance(40 * time.Minute)
	r, err := b.svc.Run(b.ctx, testenv.Epoch.Add(-time.Hour), testenv.Epoch.Add(-time.Minute))
	require.NoError(t, err)
	require.Equal(t, 1, r.Elsewhere)
	require.Empty(t, r.Exceptions)
}

// An id has at most 255 characters, as in the bank's events, however many bytes these take.
func TestReconcileCountsTheCharactersOfAnID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.paySilently("5000.00")
	for letters, kind := range map[int]reconcile.ExceptionKind{255: reconcile.MissingEvent, 256: reconcile.Unreadable} {
		_, svc := b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(p *provider.Page) {
			for i := range p.Transactions {
				p.Transactions[i].ID = strings.Repeat("ọ", letters)
			}
		}})
		r, err := svc.Run(b.ctx, b.Clock.Now().Add(-time.Hour), b.Clock.Now().Add(time.Second))
		require.NoError(t, err)
		require.Positive(t, r.Counts[kind], letters)
	}
}

func TestReconcileUnreadableRecords(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.paySilently("5000.00")
	odd := b.paySilently("6000.00")
	broken := true
	_, svc := b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(p *provider.Page) {
		if !broken {
			return
		}
		for i := range p.Transactions {
			if p.Transactions[i].ID == odd.ID {
				p.Transactions[i].Narration, p.Transactions[i].Currency = "a\x00b", "N\x00N"
			}
		}
		p.Transactions = append(p.Transactions, provider.Transaction{ID: "T\x00", Status: provider.Success, Time: b.Clock.Now()})
		p.Unreadable = []provider.Unreadable{{Why: "no JSON"}, {ID: "API-BROKEN", Why: "no amount"}}
	}})
	r, err := svc.Run(b.ctx, b.Clock.Now().Add(-time.Hour), b.Clock.Now().Add(time.Second))
	require.NoError(t, err)
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.Unreadable: 4, reconcile.MissingEvent: 1}, r.Counts, "one bad record does not hold up the others")
	require.Len(t, r.ToPost, 1)
	_, err = svc.Reconciliation(b.ctx, r.ID)
	require.NoError(t, err)

	// the two that have no id are named until their time is read again without them
	from, to := r.From, r.To
	listed := func() []string {
		return testenv.Value[[]string](b.Env, `SELECT coalesce(array_agg(ref ORDER BY exception ->> 'detail'), '{}') FROM reconcile_items WHERE kind = 'list'`)
	}
	refs := listed()
	require.Len(t, refs, 2)
	broken = false
	b.Clock.Advance(4 * time.Hour)
	b.svc = svc
	require.Equal(t, 3, b.due().Counts[reconcile.Unreadable], "and API-BROKEN, which the bank does not know")
	_, err = dismiss(svc, refs[0])
	require.NoError(t, err)
	require.Equal(t, 2, b.due1().Counts[reconcile.Unreadable])
	broken = true
	r, err = svc.Run(b.ctx, from.Add(-time.Hour), to.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 2, r.Counts[reconcile.Unreadable], "the same two, one of which is dismissed")
	require.Equal(t, refs, listed())
	broken = false
	_, err = svc.Run(b.ctx, from, to)
	require.NoError(t, err)
	require.Empty(t, listed())

	// seen in another part, it is there, and stays when the part that showed it first has lost it
	for _, by := range []time.Duration{-time.Minute, time.Minute} {
		broken = true
		for _, moved := range []time.Duration{0, by} {
			_, err = svc.Run(b.ctx, from.Add(moved), to.Add(moved))
			require.NoError(t, err)
		}
		broken = false
		_, err = svc.Run(b.ctx, from, to)
		require.NoError(t, err)
		require.Equal(t, refs, listed())
		_, err = svc.Run(b.ctx, from.Add(by), to.Add(by))
		require.NoError(t, err)
		require.Empty(t, listed())
	}
}

// What the list says of a payment in a form that cannot be posted is not stored, and its event is
// posted when it comes.
func TestReconcileUnreadableRecordDoesNotBlockItsEvent(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*fakebank.Transaction){
		"no currency":        func(x *fakebank.Transaction) { x.Currency = "" },
		"another currency":   func(x *fakebank.Transaction) { x.Currency = "USD" },
		"fee above amount":   func(x *fakebank.Transaction) { x.Fee = money.Must("6000.00") },
		"fee equals amount":  func(x *fakebank.Transaction) { x.Fee = x.Amount },
		"nobody's and blank": func(x *fakebank.Transaction) { x.NUBAN, x.AccountRef = "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			txn := b.paySilently("5000.00")
			b.bank.SetTransaction(txn.ID, spoil)
			r := b.lastHour()
			require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.Unreadable: 1}, r.Counts)
			require.Equal(t, txn.ID, r.Exceptions[0].ProviderTxnRef)
			require.Empty(t, r.ToPost)
			require.Equal(t, 1, r.Suspicious())
			require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`))

			late := b.receive(b.hook(txn))
			require.True(t, late.ToPost(), "the genuine event is new")
			require.Equal(t, payment.CategoryPayment, b.post(late.ID).Category)
			balance, _ := b.books()
			require.Equal(t, "4975.00", balance)
		})
	}
}

func TestReconcileReadsAllPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 130 {
		b.paySilently("5000.00")
	}
	r := b.lastHour()
	require.Equal(t, 3, r.Bank.Pages)
	require.Equal(t, 130, r.Bank.Success.Count)
	require.Len(t, r.ToPost, 130)
	b.postAll(r.ToPost)
	balance, _ := b.books()
	require.Equal(t, "646750.00", balance)
}

// The bank goes down after the first page: what was stored stays, and the window counts as not
// read.
func TestReconcileWithTheBankDownInTheMiddle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 70 {
		b.paySilently("5000.00")
	}
	b.Clock.Advance(20 * time.Minute)
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Fail, Skip: 1})
	r, ran, more, err := b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
	require.Error(t, err)
	require.True(t, ran)
	require.False(t, more)
	require.Len(t, r.ToPost, 50)
	b.postAll(r.ToPost)
	require.Equal(t, "failed", testenv.Value[string](b.Env, `SELECT status FROM reconciliations`))
	require.True(t, testenv.Value[bool](b.Env, `SELECT report IS NULL AND bank_count IS NULL AND last_error <> '' FROM reconciliations`))
	_, err = b.svc.Reconciliation(b.ctx, r.ID)
	require.ErrorIs(t, err, reconcile.ErrRunUnfinished)
	require.ErrorContains(t, err, "it is failed")
	_, err = b.svc.LastReconciliation(b.ctx)
	require.ErrorIs(t, err, reconcile.ErrRunNotFound)
	_, err = b.svc.Reconciliation(b.ctx, uuid.New())
	require.ErrorIs(t, err, reconcile.ErrRunNotFound)

	b.bank.Faults.Clear()
	again, ran, _, err := b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
	require.NoError(t, err)
	require.True(t, ran, "the same window is due again")
	require.Equal(t, r.ID, again.ID)
	require.Len(t, again.ToPost, 20)
	last, err := b.svc.LastReconciliation(b.ctx)
	require.NoError(t, err)
	require.Equal(t, r.ID, last.ID)
	b.postAll(again.ToPost)
	_, entries := b.books()
	require.Len(t, entries, 70)
}

// Many workers, one run a window; the next tick has its own; what a dead worker holds is taken
// over.
func TestReconcileDueOnceAWindow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.paySilently("5000.00")
	b.Clock.Advance(20 * time.Minute)
	due := func() (ran bool) {
		_, ran, _, err := b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
		if err != nil {
			t.Error(err)
		}
		return ran
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	runs := 0
	for range 8 {
		wg.Go(func() {
			if due() {
				mu.Lock()
				runs++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, runs)
	require.False(t, due())
	b.Clock.Advance(15 * time.Minute)
	require.True(t, due())

	claimed := func(lease time.Duration) {
		b.Clock.Advance(15 * time.Minute)
		b.Exec(`INSERT INTO reconciliations (id, kind, window_from, window_to, status, started_at, leased_until)
			SELECT gen_random_uuid(), kind, window_from + interval '15 minutes', window_to + interval '15 minutes', 'running', $1, $2
			FROM reconciliations ORDER BY window_to DESC LIMIT 1`, b.Clock.Now(), b.Clock.Now().Add(lease))
	}
	claimed(24 * time.Hour)
	require.True(t, due(), "by a worker whose clock was ahead")
	claimed(5 * time.Minute)
	require.False(t, due(), "another worker has claimed it")
	b.Clock.Advance(6 * time.Minute)
	require.True(t, due(), "and has died")

	list, info, err := b.svc.Reconciliations(b.ctx, page.Request{Limit: 2})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.True(t, info.HasMore)
	require.Equal(t, "finished", list[0].Status)
}

// After a day without a run (everything was down, or the database was restored) nothing is left
// out.
func TestReconcileCatchesUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	catchUp := func() (found int, from, to time.Time) {
		for n := 0; ; n++ {
			r, ran, more, err := b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
			require.NoError(t, err)
			require.True(t, ran)
			if n == 0 {
				from = r.From
			}
			found, to = found+len(r.ToPost), r.To
			if !more {
				return found, from, to
			}
			require.Less(t, n, 400)
		}
	}
	b.Clock.Advance(20 * time.Minute)
	catchUp()
	// of a clock that was ahead for a while nothing is left but its reports
	b.Clock.Advance(24 * time.Hour)
	catchUp()
	b.Clock.Advance(15*time.Minute - 24*time.Hour)
	_, from, to := catchUp()
	require.Equal(t, testenv.Epoch.Add(15*time.Minute), from, "where the last run ended")
	require.Equal(t, testenv.Epoch.Add(30*time.Minute), to)
	for range 24 {
		b.paySilently("5000.00")
		b.Clock.Advance(time.Hour)
	}
	found, from, to := catchUp()
	require.Equal(t, 24, found)
	require.Equal(t, testenv.Epoch.Add(30*time.Minute), from, "where the last run ended")
	require.Equal(t, testenv.Epoch.Add(24*time.Hour+30*time.Minute), to)

	b.Clock.Advance(40 * 24 * time.Hour)
	r, ran, more, err := b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
	require.NoError(t, err)
	require.True(t, ran && more)
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.NotRead: 1}, r.Counts)
	unread := r.Exceptions[0]
	require.Equal(t, []any{1, to.UTC()}, []any{b.due().Counts[reconcile.NotRead], unread.From.UTC()}, "the runs after it still say so")
	_, err = b.svc.Run(b.ctx, *unread.From, *unread.To)
	require.NoError(t, err)
	require.Empty(t, b.due1().Counts, "it is read")
}

func TestReconcileRefusesOddWindows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.Clock.Now()
	for _, w := range [][2]time.Time{{now, now}, {now, now.Add(-time.Hour)}, {now.Add(-32 * 24 * time.Hour), now}, {now.Add(time.Minute), now.Add(time.Hour)}} {
		_, err := b.svc.Run(b.ctx, w[0], w[1])
		require.ErrorIs(t, err, reconcile.ErrWindow, "%v", w)
	}
	_, endless := b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(p *provider.Page) { p.Next = "more" }})
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	_, err := endless.Run(ctx, now.Add(-time.Hour), now)
	require.ErrorIs(t, err, context.Canceled)
}

// A time that is yet to come is not compared, and no report says that it was.
func TestReconcileEndsByNow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.Clock.Now()
	r, err := b.svc.Run(b.ctx, now.Add(-time.Hour), now.Add(11*time.Hour))
	require.NoError(t, err)
	require.Equal(t, now.Add(time.Second), r.To, "the second that has begun")
	require.Equal(t, r.To, testenv.Value[time.Time](b.Env, `SELECT window_to FROM reconciliations`).UTC())
}

func TestReconcileComparesTheFloat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.lastHour()
	require.False(t, r.Float.Comparable)
	require.Equal(t, "no event with the wallet's balance has come yet", r.Float.Why)
	wallet := b.bank.Wallet() // what the fake bank starts with
	opening := wallet

	pay := func(tell bool) {
		b.Clock.Advance(time.Second)
		txn := b.paySilently("5000.00")
		wallet = wallet.Add(money.Must("4975.00"))
		if tell {
			b.post(b.receive(b.hook(txn)).ID)
		}
	}
	pay(true)
	pay(true)
	f := b.lastHour().Float
	require.True(t, f.Comparable, f.Why)
	require.Equal(t, []string{wallet.String(), "9950.00", "0.00", opening.String()},
		[]string{f.Wallet.String(), f.Customers.String(), f.Outside.String(), f.Difference.String()})

	b.Clock.Advance(time.Second)
	require.Equal(t, "5000.00", b.stray().Amount.String())
	wallet = wallet.Add(money.Must("4975.00"))
	b.postAll(b.lastHour().ToPost)
	pay(true)
	pay(false) // after the newest event: its money is in neither sum, though it is posted
	b.postAll(b.lastHour().ToPost)
	f = b.lastHour().Float
	require.True(t, f.Comparable, f.Why)
	require.Equal(t, []string{"14925.00", "4975.00", "0.00", opening.String()},
		[]string{f.Customers.String(), f.System.String(), f.Outside.String(), f.Difference.String()}, "it is in suspense")

	id := b.receive(b.hook(b.paySilently("5000.00"))).ID
	f = b.lastHour().Float
	require.False(t, f.Comparable)
	require.Contains(t, f.Why, "second", "a silent payment has been listed with the same second")
	b.post(id)
}

// What is received and in no balance counts as long as it is in the wallet: naira, paid before the
// wallet was read.
func TestReconcileFloatCountsWhatIsOutside(t *testing.T) {
	t.Parallel()
	b := setup(t)
	paid := func() (uuid.UUID, fakebank.Transaction) {
		b.Clock.Advance(time.Second)
		txn := b.paySilently("5000.00")
		return b.receive(b.hook(txn)).ID, txn
	}
	customers := "4975.00"
	outside := func() string {
		b.T.Helper()
		f := b.lastHour().Float
		require.True(t, f.Comparable, f.Why)
		require.Equal(t, customers, f.Customers.String())
		return f.Outside.String()
	}
	currency := func(c string, id uuid.UUID) {
		_, err := b.Pool.Exec(b.ctx, `UPDATE inbound_events SET currency = $2 WHERE id = $1`, id, c)
		require.NoError(t, err)
	}
	waits, _ := paid()
	newest, _ := paid()
	b.post(newest)
	require.Equal(t, "4975.00", outside(), "it waits to be posted")
	currency("USD", waits)
	require.Equal(t, "0.00", outside(), "another currency's is in another wallet")
	currency("NGN", waits)

	b.post(waits)

	review := func(id uuid.UUID, txn fakebank.Transaction) {
		b.post(id)
		b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
		b.confirm(id)
		require.Equal(t, "needs_review", b.credit(id))
	}
	held, txn := paid()
	newest, _ = paid()
	b.post(newest)
	review(held, txn)
	customers = "14925.00"
	require.Equal(t, "4975.00", outside(), "it is under review")
	// one that is made after the wallet was read, and whose event has no balance
	b.Clock.Advance(time.Second)
	txn = b.paySilently("5000.00")
	b.postAll(b.lastHour().ToPost)
	review(testenv.Value[uuid.UUID](b.Env, `SELECT id FROM inbound_events WHERE provider_txn_ref = $1`, txn.ID), txn)
	require.Equal(t, "4975.00", outside())
}

// A payment that the bank does not know is in the books and not in the wallet: the difference is
// below what it was.
func TestReconcileFloatBelowZeroIsReadBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.post(b.receive(b.eventOf(b.bank.Event(fakebank.PaymentSuccess, fakebank.Transaction{
		ID: "API-VACT_TRA-" + uuid.NewString(), RequestID: uuid.NewString(), Status: fakebank.StatusSuccess, AccountRef: b.account.String(),
		Amount: money.Must("5000.00"), Fee: money.Must("25.00"), Currency: "NGN", SenderName: "Bola Ade", Time: b.Clock.Now(),
	}))).ID)
	r := b.lastHour()
	kept, err := b.svc.Reconciliation(b.ctx, r.ID)
	require.NoError(t, err)
	require.Equal(t, r.Float.Difference.String(), kept.Float.Difference.String())
	require.Less(t, r.Float.Difference.Cmp(b.bank.Wallet()), 0)
}

func TestReconcileWithoutDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.paySilently("5000.00")
	b.Exec(`ALTER TABLE inbound_events RENAME TO away`)
	_, err := b.svc.Run(b.ctx, b.Clock.Now().Add(-time.Hour), b.Clock.Now().Add(time.Second))
	require.Error(t, err)
	require.False(t, errors.Is(err, reconcile.ErrWindow))
	require.Equal(t, "failed", testenv.Value[string](b.Env, `SELECT status FROM reconciliations`))
}
