package payment_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/retry"
	"ajo/internal/testenv"
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

// confirmAll asks about all at once, as the rows of many tasks do, and returns how many are due
// again.
func (b *bundle) confirmAll(ids []uuid.UUID) (later int) {
	b.T.Helper()
	b.Clock.Set(testenv.Value[time.Time](b.Env, `SELECT max(due_at) FROM work WHERE kind = 'confirm'`))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			err := b.svc.Confirm(b.ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if _, again := retry.When(err); again {
				later++
			} else if err != nil {
				b.T.Error(errors.Join(err, errors.New(id.String())))
			}
		})
	}
	wg.Wait()
	return later
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

// noList is a bank that does not give its list.
type noList struct {
	provider.Bank
	asked atomic.Int32
}

func (b *noList) Transactions(context.Context, time.Time, time.Time, string) (provider.Page, error) {
	b.asked.Add(1)
	return provider.Page{}, errors.New("no list today")
}

// A list that cannot be read holds nobody up, and is left alone for a while.
func TestListThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, _ := b.manyPaid(60)
	bank := &noList{Bank: b.client()}
	b.svc = b.serviceWith(bank)
	require.Zero(t, b.confirmAll(ids))
	require.LessOrEqual(t, bank.asked.Load(), int32(1), "it is left alone after the first failure")
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
