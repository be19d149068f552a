package reconcile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
)

// reader is how often the bank's list showed each record, and the time behind which it breaks off.
type reader struct {
	mu    sync.Mutex
	shown map[string]int
	fails time.Time // zero: never
}

// reading sets a reconciliation up that counts what it reads.
func (b *bundle) reading() *reader {
	c := &reader{shown: map[string]int{}}
	_, b.svc = b.servicesWith(testenv.BankWith{
		Bank: b.client(),
		BeforeTransactions: func(_, to time.Time) error {
			if !c.fails.IsZero() && to.After(c.fails) {
				return errors.New("the line is cut")
			}
			return nil
		},
		AfterTransactions: func(p *provider.Page) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, t := range p.Transactions {
				c.shown[t.ID]++
			}
			for _, out := range p.Payouts {
				c.shown[out.Ref]++
			}
		},
	})
	return c
}

// sliced has the next runs read their windows in slices of two minutes, as of a list with many
// records a minute.
func (b *bundle) sliced() {
	b.sliceRecords = 2
	_, b.svc = b.servicesWith(b.client())
	b.Exec(`INSERT INTO reconciliations (id, kind, window_from, window_to, status, started_at, finished_at, report, bank_count)
		VALUES ($1, 'manual', $2, $3, 'finished', $3, $3, '{}', 10000000)`, uuid.Must(uuid.NewV7()), b.Clock.Now().Add(-time.Hour), b.Clock.Now())
}

// minutely makes a payment a minute, of which no event comes.
func (b *bundle) minutely(n int) (txns []fakebank.Transaction) {
	for range n {
		txns = append(txns, b.paySilently("5000.00"))
		b.Clock.Advance(time.Minute)
	}
	return txns
}

// Each record of the list is read twice: soon, and by the run of a day three days later.
func TestEachRecordIsReadTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.reading()
	b.due()
	var paid []fakebank.Transaction
	for range 5 * 24 * 2 {
		if len(paid) < 50 {
			txn := b.paySilently("5000.00")
			b.post(b.receive(b.hook(txn)).ID)
			paid = append(paid, txn)
		}
		b.Clock.Advance(30 * time.Minute)
		require.Empty(t, b.due().Exceptions)
		_, _, err := b.svc.RunDaily(b.ctx, 72*time.Hour)
		require.NoError(t, err)
	}
	for _, txn := range paid {
		require.Equal(t, 2, c.shown[txn.ID], txn.Time)
	}
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconciliations WHERE status <> 'finished'`))
}

// Where the list lacks payments that the books have, it is behind, and may lack others too: that
// time is read once more.
func TestTimeInWhichTheListWasBehindIsReadAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.reading()
	told, silent := b.paySilently("5000.00"), b.paySilently("6000.00")
	for _, txn := range []fakebank.Transaction{told, silent} {
		b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = true })
	}
	b.Clock.Advance(14 * time.Minute)
	b.post(b.receive(b.hook(told)).ID)
	b.Clock.Advance(6 * time.Minute)
	r := b.due()
	require.Equal(t, 1, r.Young)
	require.Empty(t, r.Exceptions)
	for _, txn := range []fakebank.Transaction{told, silent} {
		b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = false })
	}
	require.Empty(t, b.due1().ToPost, "not yet")
	b.Clock.Advance(2 * time.Hour)
	b.due()
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM reconciliations WHERE kind = 'again' AND status = 'finished' AND stored_count = 1`))
	b.Clock.Advance(5 * time.Hour)
	b.due()
	require.Equal(t, 1, c.shown[silent.ID])
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM reconciliations WHERE kind = 'again'`), "once")
}

// A list that is always some minutes behind is read again too: what it lacks now does not put off
// what it lacked hours ago.
func TestListThatIsAlwaysBehindIsReadAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	b.Clock.Advance(10 * time.Minute)
	silent := b.paySilently("6000.00")
	behind := []string{silent.ID}
	hidden := func(is bool) {
		for _, id := range behind {
			b.bank.SetTransaction(id, func(x *fakebank.Transaction) { x.Hidden = is })
		}
	}
	for range 18 { // four and a half hours
		posted := b.paySilently("5000.00")
		b.post(b.receive(b.hook(posted)).ID)
		behind = append(behind, posted.ID)
		hidden(true)
		b.Clock.Advance(8 * time.Minute)
		require.Empty(t, b.due().Exceptions)
		hidden(false)
		behind = nil
		b.Clock.Advance(7 * time.Minute)
	}
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE source = 'reconciliation' AND provider_txn_ref = $1`, silent.ID))
	require.Equal(t, 2*time.Hour, testenv.Value[time.Duration](b.Env, `SELECT max(window_to - window_from) FROM reconciliations WHERE kind = 'again'`))
}

// A window in many slices comes to the same as one in one.
func TestSlicesMakeOneReport(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("1000.00")
	b.payAtBank("AJO-lost", "100.00")
	for i, txn := range b.minutely(30) {
		if i%3 > 0 {
			b.post(b.receive(b.hook(txn)).ID)
		}
		if i%5 == 1 {
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status = "REFUND" })
		}
	}
	b.Clock.Advance(31 * time.Minute)
	from, to := testenv.Epoch.Add(-time.Minute), b.Clock.Now()
	_, err := b.svc.Run(b.ctx, from, to) // posts what is missing
	require.NoError(t, err)
	whole, err := b.svc.Run(b.ctx, from, to)
	require.NoError(t, err)
	b.sliced()
	sliced, err := b.svc.Run(b.ctx, from, to)
	require.NoError(t, err)
	require.Greater(t, sliced.Bank.Pages, 20)
	sliced.Bank.Pages = whole.Bank.Pages
	require.ElementsMatch(t, whole.Exceptions, sliced.Exceptions)
	for _, r := range []*reconcile.Report{&whole, &sliced} {
		r.ID, r.StartedAt, r.FinishedAt, r.Exceptions = uuid.Nil, time.Time{}, time.Time{}, nil
	}
	one, err := json.Marshal(whole)
	require.NoError(t, err)
	many, err := json.Marshal(sliced)
	require.NoError(t, err)
	require.JSONEq(t, string(one), string(many))
}

// Two of the same account, sum and time, of which the list dates one in the next slice, are told
// apart; one that the list dates a moment later than its event is no difference.
func TestSlicesAtTheirEdges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Clock.Set(testenv.Epoch.Add(2 * time.Minute))
	x := b.sessionless(b.paySilently("5000.00"))
	id := b.receive(b.hook(x)).ID
	b.post(id)
	b.Exec(`UPDATE inbound_events SET occurred_at = occurred_at - interval '1 second' WHERE id = $1`, id)
	b.Clock.Advance(10 * time.Second)
	b.sessionless(b.paySilently("5000.00"))
	b.Clock.Advance(40 * time.Minute)
	b.sliced()
	r, err := b.svc.Run(b.ctx, testenv.Epoch, b.Clock.Now())
	require.NoError(t, err)
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.MissingEvent: 1}, r.Counts, "%v", said(r))
	require.Zero(t, r.Elsewhere)
}

// A run whose worker dies, or whose bank goes away, midway goes on from there: nothing is read
// again but the slices that were under way, and the report is of the whole window.
func TestRunGoesOnWhereItBrokeOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	paid := b.minutely(60)
	b.sliced()
	c := b.reading()
	b.Clock.Advance(20 * time.Minute)
	c.fails = testenv.Epoch.Add(40 * time.Minute)
	_, ran, _, err := b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
	require.ErrorContains(t, err, "the line is cut")
	require.True(t, ran)
	require.False(t, b.runs(), "the bank is still away, but nothing else begins")
	c.fails = time.Time{}
	// a worker that was killed records no failure
	b.Exec(`UPDATE reconciliations SET status = 'running', finished_at = NULL, leased_until = $1 WHERE status = 'failed'`, b.Clock.Now().Add(5*time.Minute))
	require.False(t, b.runs())
	before := maps.Clone(c.shown)
	b.Clock.Advance(5 * time.Minute)
	r, ran, _, err := b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
	require.NoError(t, err)
	require.True(t, ran)
	require.Equal(t, 60, r.Bank.Success.Count)
	require.Positive(t, r.Counts[reconcile.MissingEvent])
	for i, txn := range paid {
		require.Positive(t, c.shown[txn.ID])
		switch {
		case i < 30:
			require.Equal(t, before[txn.ID], c.shown[txn.ID], "minute %d", i)
		case i > 50:
			require.Equal(t, 1, c.shown[txn.ID], "minute %d", i)
		}
	}
	require.Equal(t, 60, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE source = 'reconciliation'`))
	kept, err := b.svc.Reconciliation(b.ctx, r.ID)
	require.NoError(t, err)
	require.Equal(t, r.Bank.Success.Amount.String(), kept.Bank.Success.Amount.String())
	require.Equal(t, "300000.00", kept.Bank.Success.Amount.String())
}

// runs tells whether a run was done.
func (b *bundle) runs() bool {
	b.T.Helper()
	_, ran, _, err := b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
	return ran && err == nil
}

// A list that shows records twice counts them once.
func TestListThatRepeatsItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	paid := b.minutely(10)
	b.sliced()
	_, svc := b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(p *provider.Page) {
		p.Transactions = append(p.Transactions, p.Transactions...)
	}})
	r, err := svc.Run(b.ctx, testenv.Epoch, b.Clock.Now())
	require.NoError(t, err)
	require.Equal(t, len(paid), r.Bank.Success.Count)
	require.Equal(t, len(paid), r.Counts[reconcile.MissingEvent])
}

// A time with more records than a run keeps is read again in shorter slices; what was found before
// counts once.
func TestDenseTimeIsReadInShorterSlices(t *testing.T) {
	t.Parallel()
	for _, records := range []int{2, 4} {
		b := setup(t)
		for range 50 {
			b.Clock.Advance(time.Second)
			b.paySilently("5000.00")
		}
		b.sliceRecords = records
		_, b.svc = b.servicesWith(b.client())
		r := b.lastHour()
		require.Len(t, r.ToPost, 50)
		require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.MissingEvent: 50}, r.Counts)
		require.Len(t, r.Exceptions, 50)
		require.Equal(t, 50, r.Bank.Success.Count)
		b.postAll(r.ToPost)
		balance, _ := b.books()
		require.Equal(t, "248750.00", balance)
		require.Empty(t, b.lastHour().Exceptions)
	}
}

// Payouts make a time as dense as payments do.
func TestDensePayoutsAreReadInShorterSlices(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("1000.00")
	const n = 20
	for i := range n {
		b.Clock.Advance(time.Second)
		b.payAtBank(fmt.Sprintf("AJO-%d", i), "1.00")
	}
	b.sliceRecords = 2
	c := b.reading()
	r := b.lastHour()
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.UnknownPayout: n}, r.Counts)
	require.Equal(t, n, r.Bank.Payouts["success"].Count)
	require.Greater(t, c.shown["AJO-0"], 1, "the slice that was too long is read again")
}
