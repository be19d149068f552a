package payment_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

const (
	singleCall = "GET /v1/transactions/accounts/single"
	listCall   = "POST /v1/transactions/accounts"
)

// manyPaid makes n payments in one second at the bank, posts their events, and returns the events'
// ids and the bank's records.
func (b *bundle) manyPaid(n int) ([]uuid.UUID, []fakebank.Transaction) {
	b.T.Helper()
	b.openAtBank()
	ids, txns := make([]uuid.UUID, n), make([]fakebank.Transaction, n)
	for i := range txns {
		txns[i] = b.paySilently(fmt.Sprintf("%d.00", 1000+i))
		r := b.receive(b.sign(b.bank.EventFor(txns[i])))
		ids[i] = r.ID
		require.Equal(b.T, payment.CategoryPayment, b.post(r.ID).Category)
	}
	return ids, txns
}

// untilAllAreDue lets all checks become due.
func (b *bundle) untilAllAreDue() {
	b.T.Helper()
	b.Clock.Set(testenv.Value[time.Time](b.Env, `SELECT max(due_at) FROM work WHERE kind = 'confirm'`))
}

// confirmAll asks about all at once, as the rows of many tasks do, and returns how many are due
// again.
func (b *bundle) confirmAll(ids []uuid.UUID) (later int) {
	b.T.Helper()
	b.untilAllAreDue()
	b.confirmDue(ids, b.svc)
	return testenv.Value[int](b.Env, `SELECT count(*) FROM work WHERE kind = 'confirm'`)
}

// confirmDue asks about these, with the services in turn, until none is due: what a list is being
// read for comes back.
func (b *bundle) confirmDue(ids []uuid.UUID, services ...*payment.Service) {
	b.T.Helper()
	testenv.Eventually(b.T, time.Minute, "all are asked about", func() bool {
		var wg sync.WaitGroup
		for i, id := range ids {
			wg.Go(func() {
				err := services[i%len(services)].Confirm(b.ctx, id)
				if _, again := retry.When(err); err != nil && !again {
					b.T.Error(errors.Join(err, errors.New(id.String())))
				}
			})
		}
		wg.Wait()
		return testenv.Value[int](b.Env, `SELECT count(*) FROM work WHERE kind = 'confirm' AND due_at <= $1`, b.Clock.Now()) == 0
	})
}

// untilConfirmed waits until so many payments are confirmed: a list confirms more than what waits
// for it.
func (b *bundle) untilConfirmed(n int) {
	b.T.Helper()
	testenv.Eventually(b.T, time.Minute, fmt.Sprintf("%d payments to be confirmed", n), func() bool { return b.confirmedCount() == n })
}

// Where many payments of one second wait, the bank's list confirms them, and only what it does not
// show to be true is asked about by its own id.
func TestManyAreConfirmedByTheList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 200
	ids, txns := b.manyPaid(n)
	b.bank.SetTransaction(txns[3].ID, func(x *fakebank.Transaction) { x.Hidden = true })
	b.bank.SetTransaction(txns[50].ID, func(x *fakebank.Transaction) { x.Amount = money.Must("1.00") })
	b.bank.SetTransaction(txns[120].ID, func(x *fakebank.Transaction) { x.Status = "PAYMENT_FAILED" })
	require.Equal(t, 1, b.confirmAll(ids), "the hidden one is asked about again")
	lists, singles := b.bank.Calls(listCall), b.bank.Calls(singleCall)
	t.Logf("%d payments: %d pages and %d single questions", n, lists, singles)
	require.GreaterOrEqual(t, singles, 3)
	require.Less(t, lists+singles, n/2)
	require.Equal(t, n-3, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE status = 'confirmed'`))
	require.Equal(t, "needs_review provisional reversed reversed", testenv.Value[string](b.Env,
		`SELECT string_agg(status, ' ' ORDER BY status) FROM ledger_entries WHERE status <> 'confirmed'`))
}

// A list is read on while its pages have payments that wait, whoever asked for it.
func TestListGoesOnWhileItConfirms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 300
	ids, _ := b.manyPaid(n)
	b.untilAllAreDue()
	b.Exec(`UPDATE work SET due_at = due_at + interval '1 hour' WHERE id = ANY($1)`, ids[20:])
	b.confirmDue(ids[:20], b.svc)
	b.untilConfirmed(n)
}

// The bank's list of a second goes on with the next one, which is not read, whether the second ends
// in the middle of a page or with one.
func TestListEndsWithItsSecond(t *testing.T) {
	t.Parallel()
	for n, pages := range map[int]int{120: 3, 100: 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ids, _ := b.manyPaid(n)
			b.Clock.Advance(time.Second)
			for range 120 {
				b.paySilently("5.00")
			}
			b.confirmAll(ids)
			b.untilConfirmed(n)
			require.Equal(t, pages, b.bank.Calls(listCall), "of 50")
		})
	}
}

// A list is read on for payments that wait to be posted, and confirms them when they are.
func TestListIsReadForPaymentsThatAreNotPosted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.openAtBank()
	const n = 300
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = b.receive(b.sign(b.bank.EventFor(b.paySilently(fmt.Sprintf("%d.00", 1000+i))))).ID
	}
	posted := n - 20 // they are the last of the list
	for _, id := range ids[posted:] {
		b.post(id)
	}
	b.confirmAll(ids[posted:])
	b.untilConfirmed(n - posted)
	testenv.Eventually(t, time.Minute, "the end of the list", func() bool {
		return testenv.Value[bool](b.Env, `SELECT EXISTS (SELECT FROM confirm_lists WHERE read_at IS NOT NULL)`)
	})
	before := b.bank.Calls(singleCall)
	for _, id := range ids[:posted] {
		b.post(id)
	}
	b.Exec(`UPDATE work SET due_at = $1`, b.Clock.Now())
	b.confirmDue(ids[:posted], b.svc)
	require.Equal(t, n, b.confirmedCount())
	require.Equal(t, before, b.bank.Calls(singleCall), "all were in the list")
}

// Where few POST calls a second are allowed, as in the manifests, lists of many times wait for
// their turns. One that did not get its turn would count as a bank whose list cannot be read, and
// all payments would be asked about one by one.
func TestListsWaitForTheirTurns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.openAtBank()
	const seconds, each = 8, 16
	var ids []uuid.UUID
	for range seconds {
		b.Clock.Advance(2 * time.Minute)
		for i := range each {
			ids = append(ids, b.receive(b.sign(b.bank.EventFor(b.paySilently(fmt.Sprintf("%d.00", 1000+i))))).ID)
			b.post(ids[len(ids)-1])
		}
	}
	b.svc = b.serviceWith(testenv.BankClient(t, b.bank, b.Clock, func(o *nomba.Options) {
		o.URL, o.PostsPerSec, o.Timeout = b.bank.URL(), 4, time.Second
	}))
	b.confirmAll(ids)
	b.untilConfirmed(len(ids))
	require.NotContains(t, b.log.String(), "could not be read")
	require.Less(t, b.bank.Calls(singleCall), len(ids)/2)
}

// newestFirst is a bank that shows its newest records first.
type newestFirst struct{ provider.Bank }

func (b newestFirst) Transactions(ctx context.Context, from, to time.Time, cursor string) (provider.Page, error) {
	if cursor == "" { // a page of dateTo's own second
		return provider.Page{Next: "older", EndsLater: true}, nil
	}
	page, err := b.Bank.Transactions(ctx, from, to, strings.TrimPrefix(cursor, "older"))
	page.EndsLater = false
	return page, err
}

// A list whose first page is later than what was asked for has not ended.
func TestListIsReadInAnyOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 60
	ids, _ := b.manyPaid(n)
	b.svc = b.serviceWith(newestFirst{b.client()})
	b.confirmAll(ids)
	b.untilConfirmed(n)
	require.Less(t, b.bank.Calls(singleCall), n/2)
}

// Checks of one second that come one after the other are as many as those that come together.
func TestChecksThatComeOneByOneAreConfirmedByTheList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 60
	ids, _ := b.manyPaid(n)
	b.untilAllAreDue()
	for _, id := range ids {
		testenv.Eventually(t, time.Minute, "a check to end", func() bool {
			_, again := retry.When(b.svc.Confirm(b.ctx, id))
			return !again
		})
	}
	require.Equal(t, n, b.confirmedCount())
	require.Less(t, b.bank.Calls(singleCall), n/2)
}

// What a list had is known until the list may be read again, which is counted from its end.
func TestListIsKeptUntilItMayBeReadAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n, early = 40, 30
	ids, _ := b.manyPaid(n)
	b.untilAllAreDue()
	b.svc = b.serviceWith(testenv.BankWith{Bank: b.client(), BeforeTransactions: func(time.Time, time.Time) error {
		b.Clock.Advance(6 * time.Second)
		return nil
	}})
	b.Exec(`UPDATE work SET due_at = $2, leased_until = $2 WHERE id = ANY($1)`, ids[early:], b.Clock.Now().Add(8*time.Second))
	b.confirmDue(ids[:early], b.svc)
	testenv.Eventually(t, time.Minute, "the list to be read", func() bool {
		return b.confirmedCount() == early && testenv.Value[int](b.Env, `SELECT count(*) FROM confirm_lists WHERE read_at IS NOT NULL`) == 1
	})
	b.Clock.Advance(5 * time.Second) // 11 s after its beginning
	singles := b.bank.Calls(singleCall)
	b.confirmDue(ids[early:], b.svc)
	require.Equal(t, n, b.confirmedCount())
	require.Equal(t, singles, b.bank.Calls(singleCall))
}

// A difference in the list decides nothing: the record is asked for by its id.
func TestListThatDiffersIsNotBelieved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 60
	ids, txns := b.manyPaid(n)
	// The list has another fee or status than the record of half of the payments.
	b.svc = b.serviceWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(p *provider.Page) {
		for i, t := range p.Transactions {
			switch at := slices.IndexFunc(txns[:n/2], func(x fakebank.Transaction) bool { return x.ID == t.ID }); {
			case at < 0:
			case at%2 == 0:
				p.Transactions[i].Fee = money.Must("1.00")
			default:
				p.Transactions[i].Status = []provider.Status{provider.Failed, provider.Refunded, provider.Pending}[at%3]
			}
		}
	}})
	require.Zero(t, b.confirmAll(ids))
	require.Equal(t, n, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE status = 'confirmed'`))
	require.GreaterOrEqual(t, b.bank.Calls(singleCall), n/2, "each was asked for by its id")
	require.GreaterOrEqual(t, b.bank.Calls(listCall), 1)
}

// A list that cannot be read holds nobody up, and is left alone for a while.
func TestListThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, _ := b.manyPaid(60)
	var asked atomic.Int32
	b.svc = b.serviceWith(testenv.BankWith{Bank: b.client(), BeforeTransactions: func(time.Time, time.Time) error {
		asked.Add(1)
		return errors.New("no list today")
	}})
	require.Zero(t, b.confirmAll(ids))
	require.LessOrEqual(t, asked.Load(), int32(1), "it is left alone after the first failure")
	require.Equal(t, 60, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE status = 'confirmed'`))
	require.Equal(t, 60, b.bank.Calls(singleCall))
}

// A list that is full of other payments is given up.
func TestListOfOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.openAtBank()
	for range 600 { // dated before ours in the same second
		b.paySilently("5.00")
	}
	ids, _ := b.manyPaid(20)
	require.Zero(t, b.confirmAll(ids))
	require.LessOrEqual(t, b.bank.Calls(listCall), 4)
	require.Equal(t, 20, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE status = 'confirmed'`))
}

// However many workers there are, the list of a second is read once in all, and confirms the
// payments of each of them, also those whose time comes a moment later.
func TestListIsReadOnceForAllWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 200
	ids, txns := b.manyPaid(n)
	b.untilAllAreDue()
	b.Exec(`UPDATE work SET due_at = $2 WHERE id = $1`, ids[n-1], b.Clock.Now().Add(5*time.Second))
	b.confirmDue(ids[:n-1], b.svc, b.serviceWith(b.client()), b.serviceWith(b.client()))
	require.LessOrEqual(t, b.bank.Calls(listCall), n/50+1)
	require.Less(t, b.bank.Calls(singleCall), n/2)
	require.Equal(t, n, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE status = 'confirmed'`), "%s is among them", txns[n-1].ID)
	require.Equal(t, n, testenv.Value[int](b.Env, `SELECT sum(attempt_count) FROM inbound_events`), "each once")
}

// A payment about which another worker asks at that moment is left to it, whatever the list shows.
func TestListLeavesWhatAnotherWorkerHas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 60
	ids, _ := b.manyPaid(n)
	b.untilAllAreDue()
	until := b.Clock.Now().Add(time.Minute)
	b.Exec(`UPDATE work SET due_at = $2, leased_until = $2 WHERE id = $1`, ids[0], until)
	b.confirmDue(ids[1:], b.svc)
	b.svc.Close()
	require.Equal(t, n-1, b.confirmedCount())
	require.Equal(t, "provisional", testenv.Value[string](b.Env, `SELECT status FROM ledger_entries WHERE transaction_group_id = $1`, ids[0]))
	require.Equal(t, until, b.DueAt(work.Confirm, ids[0]).UTC())
}

// A list that another worker reads is left to it, and taken over when that worker has died.
func TestListOfAWorkerThatDied(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, txns := b.manyPaid(60)
	b.untilAllAreDue()
	b.Exec(`INSERT INTO confirm_lists (second, leased_until) VALUES ($1, $2)`, txns[0].Time.Truncate(time.Second), b.Clock.Now().Add(time.Minute))
	var wg sync.WaitGroup
	var later atomic.Int32
	for _, id := range ids {
		wg.Go(func() {
			if _, again := retry.When(b.svc.Confirm(b.ctx, id)); again {
				later.Add(1)
			}
		})
	}
	wg.Wait()
	require.Positive(t, later.Load())
	require.Zero(t, b.bank.Calls(listCall))
	b.Clock.Advance(time.Minute)
	b.confirmDue(ids, b.svc)
	require.Positive(t, b.bank.Calls(listCall))
	require.Equal(t, 60, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE status = 'confirmed'`))
	testenv.Eventually(t, time.Minute, "the list to be marked as read", func() bool {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM confirm_lists WHERE read_at IS NOT NULL`) == 1
	})
}

// How the reading of a list ended is recorded by the worker that has it, not by one that had it: it
// neither marks it as read nor gives it up for the other.
func TestListThatAnotherWorkerTookOver(t *testing.T) {
	t.Parallel()
	for _, fail := range []bool{false, true} {
		b := setup(t)
		ids, _ := b.manyPaid(60)
		until := b.Clock.Now().Add(time.Hour)
		var taken atomic.Bool
		svc := b.serviceWith(testenv.BankWith{Bank: b.client(), BeforeTransactions: func(time.Time, time.Time) error {
			b.Exec(`UPDATE confirm_lists SET leased_until = $1`, until)
			taken.Store(true)
			if fail {
				return errors.New("no list today")
			}
			return nil
		}})
		b.svc = svc
		b.confirmAll(ids)
		svc.Close()
		require.Equal(t, taken.Load(), testenv.Value[bool](b.Env, `SELECT EXISTS (SELECT FROM confirm_lists WHERE read_at IS NULL AND leased_until = $1)`, until), "failed: %t", fail)
	}
}

// The end of a list that another worker is just taking over waits for that, and changes nothing of
// what the other has then.
func TestListThatIsBeingTakenOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, _ := b.manyPaid(60)
	asked, may := make(chan struct{}), make(chan struct{})
	ask := sync.OnceFunc(func() { close(asked) })
	svc := b.serviceWith(testenv.BankWith{Bank: b.client(), BeforeTransactions: func(time.Time, time.Time) error {
		ask()
		<-may // the bank gives its list only then
		return nil
	}})
	b.untilAllAreDue()
	until := b.Clock.Now().Add(time.Hour)
	var asking sync.WaitGroup
	for _, id := range ids {
		asking.Go(func() { _ = svc.Confirm(b.ctx, id) })
	}
	<-asked
	require.NoError(t, b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `UPDATE confirm_lists SET leased_until = $1`, until)
		return err
	}, func() error {
		close(may)
		asking.Wait()
		svc.Close() // once the reading has ended
		return nil
	}))
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM confirm_lists WHERE read_at IS NULL AND leased_until = $1`, until))
}
