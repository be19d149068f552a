package transfer_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/provider"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
)

// Twenty workers of two processes at one transfer at once: one submission, though several may ask
// for the holder's name.
func TestTwoWorkersAtOnce(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	p := b.settle("100.00")
	services := []*transfer.Service{b.svc, b.service()}
	testenv.AtOnce(20, func(i int) {
		if err := services[i%2].Advance(b.ctx, p.ID); err != nil {
			_, ok := retry.When(err)
			if !ok {
				t.Error(err)
			}
		}
	})
	require.Equal(t, 1, b.bank.Calls(payCall))
	require.Equal(t, 1, b.get(p.MerchantTxRef).AttemptCount)
	b.ended(b.get(p.MerchantTxRef))
}

// The lease runs out while the bank is slow, and another worker takes over: what the late one finds
// is not recorded.
func TestLateWorkerRecordsNothing(t *testing.T) {
	type late struct {
		rules []fakebank.Rule
		first bool // the late step is the first one, and not a question
	}
	for name, c := range map[string]late{
		"late success":   {first: true},
		"late rejection": {rules: []fakebank.Rule{pays(fakebank.Reject, 1)}, first: true},
		"late cut":       {rules: []fakebank.Rule{pays(fakebank.Drop, 1)}, first: true},
		"late answer":    {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1)}},
		"late unknown":   {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1), answers(fakebank.NotFound, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			slow := &testenv.BankWith{Bank: b.client}
			worker := b.service(func(o *transfer.Options) { o.Bank = slow })
			b.bank.Faults.Set(c.rules...)
			p := b.settle("100.00")
			var took string
			whole := func() string {
				return testenv.Value[string](b.Env, `SELECT t::text FROM transfers t WHERE id = $1`, p.ID)
			}
			takeOver := func(*provider.Payout) {
				slow.AfterPay, slow.AfterPayout = nil, nil
				b.Clock.Advance(work.Term)
				_ = b.svc.Advance(b.ctx, p.ID)
				took = whole()
			}
			if c.first {
				slow.AfterPay = takeOver
			} else {
				b.step(p)
				b.untilDue(p)
				slow.AfterPayout = takeOver
			}
			if err := worker.Advance(b.ctx, p.ID); err != nil {
				_, ok := retry.When(err)
				require.True(t, ok, err)
			}
			require.NotEmpty(t, took, "the other one was there")
			require.Equal(t, took, whole(), "nothing was recorded after it")
			b.bank.Faults.Clear()
			b.ended(b.run(p))
		})
	}
}

// While the holder is being named, the lease runs out and another worker submits: the first one
// does not.
func TestLateLookupSubmitsNothing(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	slow := &testenv.BankWith{Bank: b.client}
	worker := b.service(func(o *transfer.Options) { o.Bank = slow })
	p := b.settle("100.00")
	b.bank.Faults.Set(pays(fakebank.Drop, 1))
	slow.AfterLookup = func(*provider.Holder) {
		slow.AfterLookup = nil
		b.Clock.Advance(work.Term)
		_ = b.svc.Advance(b.ctx, p.ID)
	}
	require.NoError(t, worker.Advance(b.ctx, p.ID))
	require.Equal(t, 1, b.bank.Calls(payCall))
	require.Equal(t, 1, b.get(p.MerchantTxRef).AttemptCount)
	b.ended(b.run(p))
}

// A process that dies with a lease leaves the transfer to the sweeper, once the lease has run out.
func TestLeaseOfADeadProcess(t *testing.T) {
	b := setup(t, func(o *transfer.Options) { o.Lease = time.Minute })
	b.fund("100.00")
	p := b.settle("100.00")
	b.Lease(work.Settle, p.ID, b.Clock.Now().Add(time.Minute))
	require.NoError(t, b.svc.Advance(b.ctx, p.ID), "leased by another worker")
	require.Empty(t, b.Overdue(work.Settle, b.Clock.Now(), b.Clock.Now().Add(time.Second), 10))
	b.Clock.Advance(time.Minute)
	require.Equal(t, []uuid.UUID{p.ID}, b.Overdue(work.Settle, b.Clock.Now(), b.Clock.Now(), 10))
	b.ended(b.run(p))
}

// The answer to the commit of any step is lost. The step returns an error, and the transfer still
// ends right.
func TestLostCommitOfAStep(t *testing.T) {
	for name, nth := range map[string]int{"claim": 1, "end": 2} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			lost := b.LostCommits()
			slow := &testenv.BankWith{Bank: b.client}
			worker := b.service(func(o *transfer.Options) { o.Pool, o.Bank = lost.Pool, slow })
			p := b.settle("100.00")
			if nth == 1 {
				lost.LoseCommits(1)
			}
			slow.AfterPay = func(*provider.Payout) { lost.LoseCommits(1) }
			err := worker.Advance(b.ctx, p.ID)
			require.Error(t, err)
			_, ok := retry.When(err)
			require.False(t, ok, "an error, and not a time")
			require.Zero(t, lost.CommitsLeft())
			b.Clock.Advance(work.Term)
			b.ended(b.run(p))
			require.Equal(t, 1, b.bank.Calls(payCall))
		})
	}
}

// Enqueued early, late, twice, or for a transfer that is not there: nothing happens.
func TestTasksForNothing(t *testing.T) {
	b := setup(t)
	require.NoError(t, b.svc.Advance(b.ctx, uuid.New()))
	b.fund("100.00")
	p := b.run(b.settle("100.00"))
	require.NoError(t, b.svc.Advance(b.ctx, p.ID))
	require.Zero(t, b.bank.Calls(askCall))
	ok, err := b.svc.Expedite(b.ctx, "AJOunknown")
	require.NoError(t, err)
	require.False(t, ok)
	q := b.run(func() transfer.Transfer { b.fund("1.00"); return b.settle("1.00") }())
	require.Equal(t, transfer.Success, q.Status)
	waiting := func() transfer.Transfer { b.fund("2.00"); return b.settle("2.00") }()
	ok, err = b.svc.Expedite(b.ctx, waiting.MerchantTxRef)
	require.NoError(t, err)
	require.False(t, ok, "what was never submitted cannot be the bank's business")
}
