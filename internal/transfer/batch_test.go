package transfer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/account"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

func (b *bundle) ask(amount, key string) transfer.Ask {
	o := order(amount)
	a := transfer.Ask{Tenant: b.tenant, Ref: "shop", Order: o}
	if key != "" {
		a.Key = b.key(key, o)
	}
	return a
}

func (b *bundle) balance() string {
	b.T.Helper()
	return testenv.Value[money.Amount](b.Env, `SELECT balance FROM ledger_balances WHERE account_id = $1`, b.account).String()
}

// One batch, and each request has its own outcome: also when a row that the server refuses makes it
// go row by row.
func TestOutcomesInOneBatch(t *testing.T) {
	for name, bad := range map[string]bool{"all good rows": false, "with a bad row": true} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("1000.00")
			stranger := *b
			stranger.tenant = b.Tenant()
			stranger.account = b.Account(stranger.tenant, "shop")
			stranger.fund("1000.00")
			kept, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("1.00"), b.key("kept", order("1.00")))
			require.NoError(t, err)

			nowhere := b.ask("10.00", "nowhere")
			nowhere.Ref = "nobody"
			asks := []transfer.Ask{
				b.ask("100.00", "k"), b.ask("5000.00", "large"), b.ask("100.00", "k"), b.ask("200.00", "k"), stranger.ask("300.00", "k"),
				nowhere, b.ask("1.00", "kept"), b.ask("2.00", "kept"), b.ask("50.00", ""), b.ask("50.00", ""),
			}
			if bad {
				worst := b.ask("10.00", "")
				worst.Order.Narration = "\xff" // no text to Postgres; the API would have refused it
				asks = append([]transfer.Ask{worst}, asks...)
			}
			out := b.svc.SettleTogether(b.ctx, asks)
			if bad {
				require.True(t, pg.IsData(out[0].Err), "%v", out[0].Err)
				out = out[1:]
			}
			for i, want := range []error{nil, ledger.ErrInsufficientFunds, nil, idempotency.ErrReused, nil, account.ErrNotFound, nil, idempotency.ErrReused, nil, nil} {
				require.ErrorIs(t, out[i].Err, want, "request %d", i)
			}
			require.False(t, out[0].Value.Replayed)
			require.Equal(t, transfer.Settled{Result: idempotency.Result{Answer: out[0].Value.Answer, Replayed: true}}, out[2].Value)
			require.False(t, out[4].Value.Replayed, "another tenant's key is another key")
			require.Equal(t, transfer.Settled{Result: idempotency.Result{Answer: kept.Answer, Replayed: true}}, out[6].Value)
			require.NotEqual(t, out[8].Value.TransferID, out[9].Value.TransferID)
			require.Equal(t, "799.00", b.balance())
			require.Equal(t, "700.00", stranger.balance())
			require.Equal(t, 5, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
			require.Equal(t, 3, testenv.Value[int](b.Env, `SELECT count(*) FROM idempotency_keys`), "what changed nothing is not kept")
			again, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("100.00"), b.key("k", order("100.00")))
			require.NoError(t, err)
			require.Equal(t, out[2].Value, again)
			testenv.FindsNothing(t, b.Pool, ledger.Verify)
		})
	}
}

// The second request under a key whose first one is refused beside it was not done: it is asked to
// come again.
func TestKeyOfARefusedNeighbour(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	out := b.svc.SettleTogether(b.ctx, []transfer.Ask{b.ask("500.00", "k"), b.ask("50.00", "k")})
	require.ErrorIs(t, out[0].Err, ledger.ErrInsufficientFunds)
	require.ErrorIs(t, out[1].Err, idempotency.ErrRunning)
	require.Equal(t, "100.00", b.balance())
	_, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("50.00"), b.key("k", order("50.00")))
	require.NoError(t, err)
}

// Requests on one account are decided in their order: a large one that is refused is nobody else's
// refusal.
func TestOrderInOneBatch(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	var asks []transfer.Ask
	for _, amount := range []string{"60.00", "60.00", "30.00", "20.00", "10.00", "0.01"} {
		asks = append(asks, b.ask(amount, ""))
	}
	var got []bool
	for _, o := range b.svc.SettleTogether(b.ctx, asks) {
		got = append(got, o.Err == nil)
	}
	require.Equal(t, []bool{true, false, true, false, true, false}, got)
	b.money("0.00", "credit 100.00 confirmed", "debit 60.00 provisional", "debit 30.00 provisional", "debit 10.00 provisional")
}

// The answer to the commit of a batch is lost: each request has an error, and each, sent again,
// gets the answer that it should have had.
func TestLostCommitOfABatch(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	lost := b.LostCommits()
	svc := b.service(func(o *transfer.Options) { o.Pool = lost.Pool })
	var asks []transfer.Ask
	for i := range 20 {
		asks = append(asks, b.ask("10.00", fmt.Sprint("k", i)))
	}
	lost.LoseCommits(1)
	for _, o := range svc.SettleTogether(b.ctx, asks) {
		require.Error(t, o.Err)
	}
	require.Zero(t, lost.CommitsLeft())
	for _, o := range svc.SettleTogether(b.ctx, asks) {
		require.NoError(t, o.Err)
		require.True(t, o.Value.Replayed)
	}
	require.Equal(t, "800.00", b.balance())
}

// However requests are cut into batches, every outcome and every balance is that of one request
// after the other.
func TestBatchesAreASequence(t *testing.T) {
	b := setup(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		model := make([]money.Amount, 3)
		accounts := make([]*bundle, len(model))
		for i := range accounts {
			own := *b
			own.tenant = b.Tenant()
			own.account = b.Account(own.tenant, "shop")
			model[i] = money.FromKobo(rapid.Int64Range(100, 100_000).Draw(rt, "fund"))
			own.fund(model[i].String())
			accounts[i] = &own
		}
		done := map[string]bool{}
		for range rapid.IntRange(1, 4).Draw(rt, "batches") {
			var asks []transfer.Ask
			var want []error
			for range rapid.IntRange(1, 12).Draw(rt, "requests") {
				n := rapid.IntRange(0, len(model)-1).Draw(rt, "account")
				amount := money.FromKobo(rapid.Int64Range(1, 60_000).Draw(rt, "amount"))
				key := rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(rt, "key")
				name := fmt.Sprint(n, key)
				if key != "" && done[name] {
					continue // its body would be another
				}
				asks = append(asks, accounts[n].ask(amount.String(), key))
				switch {
				case model[n].Cmp(amount) < 0:
					want = append(want, ledger.ErrInsufficientFunds)
				default:
					want, model[n] = append(want, nil), model[n].Sub(amount)
				}
				done[name] = true
			}
			if len(asks) == 0 {
				continue
			}
			for i, o := range b.svc.SettleTogether(b.ctx, asks) {
				if !errors.Is(o.Err, want[i]) {
					rt.Fatalf("round %d request %d: %v, not %v", round, i, o.Err, want[i])
				}
			}
		}
		for i, a := range accounts {
			if a.balance() != model[i].String() {
				rt.Fatalf("account %d has %s, not %s", i, a.balance(), model[i])
			}
		}
	})
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
}

// Transfers of one account that are claimed in one batch are decided in the ledger's order,
// whatever the order of their ids: the first, whose money proved false, fails, and frees the way of
// the second.
func TestClaimedTogether(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	forged := b.credit("1000.00")
	first, second := b.settle("1000.00"), b.settle("100.00")
	claims, errs := b.svc.ClaimTogether(b.ctx, second.ID, first.ID, second.ID)
	require.Equal(t, []*transfer.Claim{nil, nil, nil}, claims)
	for _, err := range errs[:2] {
		_, waits := retry.When(err)
		require.True(t, waits, "%v", err)
	}
	b.MoveCredit(forged, ledger.EventReverse)
	b.untilDue(first)
	claims, errs = b.svc.ClaimTogether(b.ctx, second.ID, first.ID, uuid.New())
	require.Equal(t, []error{nil, nil, nil}, errs)
	require.NotNil(t, claims[0])
	require.Nil(t, claims[1])
	require.Equal(t, transfer.Failed, b.get(first.MerchantTxRef).Status)
}

// One of three claims is lost midway, and the debit of another was moved by somebody: only these
// are not recorded.
func TestClaimLostInABatch(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	all := []transfer.Transfer{b.settle("10.00"), b.settle("20.00"), b.settle("30.00"), b.settle("40.00")}
	claims, errs := b.svc.ClaimTogether(b.ctx, all[3].ID, all[0].ID, all[2].ID, all[1].ID)
	require.Equal(t, make([]error, 4), errs)
	take := func(i int) {
		b.Lease(work.Settle, claims[i].ID, b.Clock.Now().Add(time.Hour))
	}
	take(1)
	require.Equal(t, []bool{true, false, true, true}, b.svc.SubmitTogether(b.ctx, claims))
	take(2)
	b.Move(ledger.Move{TransactionGroupID: claims[3].ID, Direction: ledger.Debit, Event: ledger.EventReverse})
	out := b.svc.EndTogether(b.ctx, claims)
	require.NoError(t, out[0].Err)
	require.True(t, out[0].Value)
	require.True(t, b.Clock.Now().Add(15*time.Minute).Equal(*b.DueAt(work.Settle, claims[0].ID)))
	require.NoError(t, out[1].Err)
	require.NoError(t, out[2].Err)
	require.False(t, out[1].Value || out[2].Value, "the other worker records")
	require.ErrorIs(t, out[3].Err, ledger.ErrMove)
	status := func(i int) transfer.Status { return b.get(claims[i].Ref).Status }
	require.Equal(t, []transfer.Status{transfer.Success, transfer.Pending, transfer.Processing, transfer.Processing}, []transfer.Status{status(0), status(1), status(2), status(3)})
}

// Acceptance, ends, posting, review and steps at once on few accounts, by two processes: nobody
// deadlocks, and the books hold.
func TestAllAtOnce(t *testing.T) {
	b := setup(t)
	accounts := make([]*bundle, 4)
	for i := range accounts {
		own := *b
		own.tenant = b.Tenant()
		own.account = b.Account(own.tenant, "shop")
		own.fund("1000.00")
		accounts[i] = &own
	}
	services := []*transfer.Service{b.svc, b.service()}
	var mu sync.Mutex
	var ids []uuid.UUID
	var all sync.WaitGroup
	for worker := range 24 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 25 {
				a, svc := accounts[random.IntN(len(accounts))], services[random.IntN(2)]
				switch worker % 4 {
				case 0, 1:
					s, err := svc.Settle(b.ctx, a.tenant, "shop", order("7.00"), a.key(fmt.Sprint(worker, random.IntN(20)), order("7.00")))
					if err != nil && !errors.Is(err, ledger.ErrInsufficientFunds) && !errors.Is(err, idempotency.ErrRunning) {
						t.Error(err)
					}
					if s.TransferID != uuid.Nil {
						mu.Lock()
						ids = append(ids, s.TransferID)
						mu.Unlock()
					}
				case 2:
					mu.Lock()
					mine := append([]uuid.UUID{}, ids...)
					mu.Unlock()
					if len(mine) == 0 {
						continue
					}
					if err := svc.Advance(b.ctx, mine[random.IntN(len(mine))]); err != nil {
						if _, waits := retry.When(err); !waits {
							t.Error(err)
						}
					}
				default:
					group := a.credit("5.00")
					a.MoveCredit(group, []ledger.Event{ledger.EventConfirm, ledger.EventHold, ledger.EventReverse}[random.IntN(3)])
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, testenv.Value[int](b.Env, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`))
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
	require.Equal(t, len(ids), testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
}
