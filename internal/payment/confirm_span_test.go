package payment_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// paidSparsely makes n payments, one in each second, posts their events, and returns the events'
// ids. All are due to be confirmed.
func (b *bundle) paidSparsely(n int) []uuid.UUID {
	b.T.Helper()
	b.openAtBank()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = b.receive(b.sign(b.bank.EventFor(b.paySilently(fmt.Sprintf("%d.00", 1000+i))))).ID
		require.Equal(b.T, payment.CategoryPayment, b.post(ids[i]).Category)
		b.Clock.Advance(time.Second)
	}
	b.untilAllAreDue()
	return ids
}

func (b *bundle) confirmedCount() int {
	return testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE status = 'confirmed'`)
}

// spanBank is a bank that keeps which lists it was asked for.
type spanBank struct {
	provider.Bank
	size int // of its pages; 0: the bank's own
	mute bool

	mu    sync.Mutex
	pages map[[2]int64]int // that were asked for, by span
	begun [][2]int64
}

func (b *spanBank) Transactions(ctx context.Context, from, to time.Time, cursor string) (provider.Page, error) {
	span := [2]int64{from.Unix(), to.Unix()}
	b.mu.Lock()
	b.pages[span]++
	if cursor == "" {
		b.begun = append(b.begun, span)
	}
	b.mu.Unlock()
	if b.size == 0 {
		return b.Bank.Transactions(ctx, from, to, cursor)
	}
	all := ""
	var found []provider.Transaction
	for {
		page, err := b.Bank.Transactions(ctx, from, to, all)
		if err != nil {
			return page, err
		}
		found = append(found, page.Transactions...)
		if all = page.Next; all == "" {
			break
		}
	}
	first, _ := strconv.Atoi(cursor)
	end := min(len(found), first+b.size)
	page := provider.Page{Transactions: found[first:end]}
	if end < len(found) {
		page.Next = strconv.Itoa(end)
	}
	return page, nil
}

func (b *spanBank) Transaction(ctx context.Context, id string) (provider.Transaction, error) {
	if b.mute {
		return provider.Transaction{}, errors.New("no single answers today")
	}
	return b.Bank.Transaction(ctx, id)
}

// Of payments that were made one in a second, the list of many seconds is read.
func TestSparsePaymentsAreConfirmedByALongList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.paidSparsely(60)
	bank := &spanBank{Bank: b.client(), pages: map[[2]int64]int{}, mute: true}
	b.svc = b.serviceWith(bank)
	testenv.Eventually(t, time.Minute, "a list has confirmed some", func() bool {
		b.Exec(`UPDATE work SET due_at = $1 WHERE kind = 'confirm'`, b.Clock.Now())
		b.confirmDue(ids, b.svc)
		return b.confirmedCount() >= 16
	})
	bank.mute = false
	b.Exec(`UPDATE work SET due_at = $1 WHERE kind = 'confirm'`, b.Clock.Now())
	b.confirmDue(ids, b.svc)
	require.Equal(t, 60, b.confirmedCount())
}

// However many workers there are, of no second is the list read twice, though each worker wants
// another span.
func TestSpansOfManyWorkersDoNotOverlap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.paidSparsely(90)
	bank := &spanBank{Bank: b.client(), pages: map[[2]int64]int{}}
	b.confirmDue(ids, b.serviceWith(bank), b.serviceWith(bank), b.serviceWith(bank))
	require.Equal(t, 90, b.confirmedCount())
	require.Equal(t, 90, testenv.Value[int](b.Env, `SELECT sum(attempt_count) FROM inbound_events`), "each once")
	bank.mu.Lock()
	defer bank.mu.Unlock()
	read := map[int64][2]int64{}
	for _, span := range bank.begun {
		for second := span[0]; second < span[1]; second++ {
			require.NotContains(t, read, second, "%v", span)
			read[second] = span
		}
	}
	testenv.Eventually(t, time.Minute, "all that was leased to be marked as read", func() bool {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM confirm_lists WHERE read_at IS NULL`) == 0
	})
}

// The list of many seconds that turns out to be long is given up, and shorter ones are read.
func TestSpanThatIsTooLong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.paidSparsely(80)
	bank := &spanBank{Bank: b.client(), size: 2, pages: map[[2]int64]int{}}
	svc := b.serviceWith(bank)
	require.NoError(t, svc.ListTogether(b.ctx, ids...), "in small batches no span is too long")
	b.confirmDue(ids, svc)
	require.Equal(t, 80, b.confirmedCount())
	require.Equal(t, 80, testenv.Value[int](b.Env, `SELECT sum(attempt_count) FROM inbound_events`), "each once")
	bank.mu.Lock()
	defer bank.mu.Unlock()
	times := map[[2]int64]int{}
	for _, span := range bank.begun {
		times[span]++
	}
	most := 0
	for span, pages := range bank.pages {
		require.LessOrEqual(t, pages, 8*times[span], "%d seconds", span[1]-span[0])
		if span[1]-span[0] > 1 {
			most = max(most, pages)
		}
	}
	require.GreaterOrEqual(t, most, 8, "pages, before a span was given up")
	require.Empty(t, b.Overdue(work.Confirm, b.Clock.Now(), b.Clock.Now().Add(time.Second), 10))
}
