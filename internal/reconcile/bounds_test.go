package reconcile_test

import (
	"context"
	"strconv"
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
)

// A person may have 31 days read at once, which end now. What is asked for begins and ends with a
// second.
func TestWindowOfAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.Clock.Now()
	const most = 31 * 24 * time.Hour
	for _, c := range []struct{ from, to, begins, ends time.Time }{
		{now.Add(-most), now, now.Add(-most), now},
		{now.Add(-time.Hour + time.Microsecond), now.Add(-time.Minute + time.Microsecond), now.Add(-time.Hour), now.Add(-time.Minute + time.Second)},
		{now, now.Add(time.Second), now, now.Add(time.Second)},
	} {
		r, err := b.svc.Run(b.ctx, c.from, c.to)
		require.NoError(t, err)
		require.Equal(t, []time.Time{c.begins, c.ends}, []time.Time{r.From, r.To})
	}
	_, err := b.svc.Run(b.ctx, now.Add(-most-time.Second), now)
	require.ErrorIs(t, err, reconcile.ErrWindow)
}

// A window has what was made from its first moment to just before its last.
func TestEdgesOfAWindow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("5000.00")
	at := b.Clock.Now()
	paid, stray := b.paySilently("5000.00"), b.stray()
	for _, txn := range []fakebank.Transaction{paid, stray} {
		b.post(b.receive(b.hook(txn)).ID)
		b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = true })
	}
	b.inBooks("payout", "success", "300.00", nil)
	for _, c := range []struct {
		from, to time.Time
		has      int
	}{{at, at.Add(time.Second), 3}, {at.Add(-time.Second), at, 0}} {
		r, err := b.svc.Run(b.ctx, c.from, c.to)
		require.NoError(t, err)
		require.Equal(t, c.has, r.Young, "not listed yet: a payment, one that is misdirected, and a payout")
	}
}

// After more than a month without the run of the day, the next one reads its own day. What nobody
// has read again is named, in pieces that a person can have read, until somebody has.
func TestDailyRunAfterMoreThanAMonth(t *testing.T) {
	t.Parallel()
	b := setup(t)
	day := testenv.Epoch.Truncate(24 * time.Hour)
	b.Clock.Advance(20 * time.Minute)
	require.Equal(t, day.Add(-48*time.Hour), b.daily(0).To)
	b.Clock.Advance(40 * 24 * time.Hour)
	r := b.daily(0)
	require.Equal(t, []time.Time{day.Add(37 * 24 * time.Hour), day.Add(38 * 24 * time.Hour)}, []time.Time{r.From, r.To})
	date := func(days int) time.Time { return day.Add(time.Duration(days) * 24 * time.Hour) }
	require.Len(t, r.Exceptions, 2)
	for i, days := range [][2]int{{-2, 29}, {29, 37}} {
		x := r.Exceptions[i]
		require.Equal(t, []time.Time{date(days[0]), date(days[1])}, []time.Time{x.From.UTC(), x.To.UTC()})
		require.Equal(t, "no run has read again, for what the bank lists late, "+
			x.From.Format(time.RFC3339)+" to "+x.To.Format(time.RFC3339)+": run ajo reconcile over it", x.Detail)
	}
	for left, x := range r.Exceptions {
		b.Clock.Advance(24 * time.Hour)
		require.Equal(t, 2-left, b.daily(0).Counts[reconcile.NotRead])
		_, err := b.svc.Run(b.ctx, *x.From, *x.To)
		require.NoError(t, err)
	}
	b.Clock.Advance(24 * time.Hour)
	require.Empty(t, b.daily(0).Exceptions)
}

// A time in which the list was behind is read once more, and not a third time, although the list is
// behind there again.
func TestListThatStaysBehindIsReadOnceMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	soon, late := b.paySilently("5000.00"), b.paySilently("6000.00")
	hidden := func(txn fakebank.Transaction, is bool) {
		b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = is })
	}
	hidden(soon, true)
	hidden(late, true)
	b.post(b.receive(b.hook(soon)).ID)
	b.Clock.Advance(20 * time.Minute)
	require.Equal(t, 1, b.due().Young)
	hidden(soon, false)
	b.Clock.Advance(2 * time.Hour)
	b.post(b.receive(b.hook(late)).ID)
	b.due()
	require.Equal(t, "1 of 1", testenv.Value[string](b.Env, `
		SELECT count(*) FILTER (WHERE status = 'finished' AND report ->> 'young' = '1') || ' of ' || count(*) FROM reconciliations WHERE kind = 'again'`))
}

// What one run settles is forgotten, and what it finds remembered, also if these are as many.
func TestRunSettlesOneAndFindsAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	x, y := b.paySilently("5000.00"), b.paySilently("5000.00")
	for _, txn := range []fakebank.Transaction{x, y} {
		b.post(b.receive(b.hook(txn)).ID)
	}
	has := func(txn fakebank.Transaction, amount string) {
		b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must(amount) })
	}
	has(x, "4000.00")
	b.lastHour()
	for range 2 {
		has(x, "5000.00")
		has(y, "4000.00")
		require.Equal(t, map[string]string{y.ID: "differs: amount is 4000.00, not 5000.00"}, said(b.lastHour()))
		require.Equal(t, []string{y.ID}, testenv.Value[[]string](b.Env, `SELECT array_agg(ref) FROM reconcile_items`))
		x, y = y, x
	}
}

// For two weeks after a recall has reversed a payment each day's run asks whether the bank has paid
// it after all.
func TestTakenBackIsAskedAboutForTwoWeeks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.reversedByRecall()
	closed := testenv.Value[time.Time](b.Env, `SELECT closed_at FROM recalls`)
	questions := 0 // about payments
	b.payments, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), BeforeTransaction: func(string) error { questions++; return nil }})
	for _, days := range []int{14, 15} {
		b.Clock.Set(closed.Add(time.Duration(days) * 24 * time.Hour))
		b.daily(0)
		require.Equal(t, 1, questions, "after %d days", days)
	}
}

// unreadable stores so many items about a part of the bank's list, found then, that have no usable
// id.
func (b *bundle) unreadable(n int, found time.Time) {
	b.T.Helper()
	b.Exec(`INSERT INTO reconcile_items (id, kind, ref, exception, found_at, due_at)
		SELECT gen_random_uuid(), 'list', 'unreadable-' || n, jsonb_build_object('kind', 'unreadable', 'detail', 'no id', 'from', $2::timestamptz - interval '1 minute', 'to', $2::timestamptz), $2, $2
		FROM generate_series(1, $1::int) n`, n, found)
}

// However many records of the list have no usable id, the bank is asked about what else is open.
func TestItemsOfTheListTakeNobodysTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	b.recorded(txn, fakebank.StatusPending)
	b.Clock.Advance(20 * time.Minute)
	b.due()
	b.unreadable(10_001, b.Clock.Now().Add(-24*time.Hour))
	b.recorded(txn, fakebank.StatusSuccess)
	b.Clock.Advance(time.Hour)
	require.Equal(t, 10_000, b.due().Counts[reconcile.Unreadable])
	balance, _ := b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, 10_001, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
}

// A dismissed item about the list goes when no run reads its time by itself any more.
func TestDismissedItemOfTheListGoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.unreadable(2, b.Clock.Now())
	_, err := dismiss(b.svc, "unreadable-1")
	require.NoError(t, err)
	for _, c := range []struct {
		after time.Duration
		left  []string
	}{{62 * 24 * time.Hour, []string{"unreadable-1", "unreadable-2"}}, {time.Second, []string{"unreadable-2"}}} {
		b.Clock.Advance(c.after)
		require.Equal(t, 1, b.lastHour().Counts[reconcile.Unreadable])
		require.Equal(t, c.left, testenv.Value[[]string](b.Env, `SELECT array_agg(ref ORDER BY ref) FROM reconcile_items`))
	}
}

// endless is a bank whose list shows one record at a time, and a page without any behind it.
type endless struct {
	provider.Bank
	pages, news, end int // how many pages were read, which of them have another record, and are all
}

func (b *endless) Transactions(_ context.Context, from, _ time.Time, _ string) (provider.Page, error) {
	b.pages++
	p := provider.Page{Transactions: []provider.Transaction{{ID: "T-" + strconv.Itoa(b.pages/b.news), Status: provider.Failed, Time: from}}}
	if b.pages < b.end {
		p.Next = strconv.Itoa(b.pages)
	}
	return p, nil
}

// A list that goes on for ever without anything new is given up; one whose pages are short is read
// to its end.
func TestListWithoutAnEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for news, want := range map[int]string{500: "", 10_000: "the bank's list does not end"} {
		_, b.svc = b.servicesWith(&endless{Bank: b.client(), news: news, end: 2500})
		_, err := b.svc.Run(b.ctx, b.Clock.Now().Add(-time.Second), b.Clock.Now())
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

// Payments of one account and sum are alike if they lie no more than a minute apart. What is
// further away holds nothing back.
func TestHowFarLookAlikesLieApart(t *testing.T) {
	t.Parallel()
	for apart, alike := range map[time.Duration]int{payment.AlikeWithin: 1, payment.AlikeWithin + time.Second: 0, 20 * time.Minute: 0} {
		t.Run(apart.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			x := b.sessionless(b.paySilently("5000.00"))
			b.bank.SetTransaction(x.ID, func(t *fakebank.Transaction) { t.Hidden = true })
			b.post(b.receive(b.hook(x)).ID)
			b.sessionless(b.paySilently("3000.00"))
			b.Clock.Advance(apart)
			b.sessionless(b.paySilently("5000.00"))
			r := b.lastHour()
			require.Equal(t, []int{alike, 2 - alike}, []int{r.Counts[reconcile.LookAlike], r.Counts[reconcile.MissingEvent]})
		})
	}
}

// An id of the list is used up to the length that an event's may have.
func TestLongestIDOfAList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.paySilently("5000.00")
	for length, want := range map[int]reconcile.ExceptionKind{payment.MaxID: reconcile.MissingEvent, payment.MaxID + 1: reconcile.Unreadable} {
		_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(p *provider.Page) {
			for i := range p.Transactions {
				p.Transactions[i].ID = "T" + uuid.NewString()
				for len(p.Transactions[i].ID) < length {
					p.Transactions[i].ID += "0"
				}
				p.Transactions[i].SessionID = uuid.NewString()
			}
		}})
		require.Equal(t, map[reconcile.ExceptionKind]int{want: 1}, b.lastHour().Counts, length)
	}
}
