package transfer_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/provider"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// claims claims one transfer for several workers at once.
func (b *bundle) claims(p transfer.Transfer, n int) (all []*transfer.Claim) {
	b.T.Helper()
	for range n {
		c, errs := b.svc.ClaimTogether(b.ctx, p.ID)
		require.NoError(b.T, errs[0])
		require.NotNil(b.T, c[0])
		all = append(all, c[0])
	}
	return all
}

// To claim a pending transfer that is covered neither writes its row nor locks it; one that
// is asked about is leased.
func TestOnlyQuestionsAreLeased(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	p := b.settle("100.00")
	whole := func() string {
		return testenv.Value[string](b.Env, `SELECT t.xmin::text || ' ' || t.xmax::text || ' ' || t::text FROM transfers t WHERE id = $1`, p.ID)
	}
	before := whole()
	c := b.claims(p, 2)
	require.Equal(t, before, whole())
	require.Equal(t, []bool{true}, b.svc.SubmitTogether(b.ctx, c[:1]))
	b.Clock.Advance(work.Term)
	b.claims(p, 1)
	c, errs := b.svc.ClaimTogether(b.ctx, p.ID)
	require.NoError(t, errs[0])
	require.Nil(t, c[0], "leased by another worker")
}

// Several have claimed one pending transfer. In one batch or one after the other: the first to
// record something has it.
func TestTheFirstToRecordHasIt(t *testing.T) {
	paid := []string{"credit 100.00 confirmed", "debit 100.00 provisional"}
	back := []string{"credit 100.00 confirmed", "debit 100.00 reversed", "credit 100.00 reversed"}
	for name, c := range map[string]struct {
		do      func(b *bundle, c []*transfer.Claim) (held []bool)
		held    []bool
		status  transfer.Status
		balance string
		entries []string
	}{
		"submitted in one batch": {func(b *bundle, c []*transfer.Claim) []bool {
			return b.svc.SubmitTogether(b.ctx, c)
		}, []bool{true, false, false}, transfer.Processing, "0.00", paid},
		"submitted in turn": {func(b *bundle, c []*transfer.Claim) []bool {
			return append(b.svc.SubmitTogether(b.ctx, c[2:]), b.svc.SubmitTogether(b.ctx, c[:2])...)
		}, []bool{true, false, false}, transfer.Processing, "0.00", paid},
		"rejected in one batch": {func(b *bundle, c []*transfer.Claim) []bool {
			for _, o := range b.svc.RejectTogether(b.ctx, c) {
				require.NoError(b.T, o.Err)
			}
			return nil
		}, nil, transfer.Failed, "100.00", back},
		"rejected, then submitted": {func(b *bundle, c []*transfer.Claim) []bool {
			require.NoError(b.T, b.svc.RejectTogether(b.ctx, c[:1])[0].Err)
			return b.svc.SubmitTogether(b.ctx, c[1:])
		}, []bool{false, false}, transfer.Failed, "100.00", back},
		"submitted, then rejected": {func(b *bundle, c []*transfer.Claim) []bool {
			held := b.svc.SubmitTogether(b.ctx, c[:1])
			require.NoError(b.T, b.svc.RejectTogether(b.ctx, c[1:])[0].Err)
			return held
		}, []bool{true}, transfer.Processing, "0.00", paid},
		"put off, then submitted": {func(b *bundle, c []*transfer.Claim) []bool {
			b.bank.Faults.Set(names(fakebank.Fail, 1))
			b.step(transfer.Transfer{ID: c[0].ID})
			return b.svc.SubmitTogether(b.ctx, c)
		}, []bool{false, false, false}, transfer.Pending, "0.00", paid},
		"asked for by an operator, then submitted": {func(b *bundle, c []*transfer.Claim) []bool {
			b.Clock.Advance(time.Minute)
			require.NoError(b.T, b.svc.Poll(b.ctx, c[0].Ref, byHand))
			return b.svc.SubmitTogether(b.ctx, c)
		}, []bool{true, false, false}, transfer.Processing, "0.00", paid},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := b.settle("100.00")
			require.Equal(t, c.held, c.do(b, b.claims(p, 3)))
			require.Equal(t, c.status, b.get(p.MerchantTxRef).Status)
			b.money(c.balance, c.entries...)
		})
	}
}

// The holder cannot be named, and meanwhile another worker has submitted: the late one does not put
// the transfer off.
func TestLateLookupPutsNothingOff(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	slow := &testenv.BankWith{Bank: b.client}
	worker := b.service(func(o *transfer.Options) { o.Bank = slow })
	p := b.settle("100.00")
	b.bank.Faults.Set(names(fakebank.Fail, 1), pays(fakebank.DropAfter, 1))
	whole := func() string {
		return testenv.Value[string](b.Env, `SELECT t::text FROM transfers t WHERE id = $1`, p.ID)
	}
	var took string
	slow.AfterLookup = func(*provider.Holder) {
		slow.AfterLookup = nil
		b.step(p)
		took = whole()
	}
	_, ok := retry.When(worker.Advance(b.ctx, p.ID))
	require.True(t, ok)
	require.Equal(t, transfer.Processing, b.get(p.MerchantTxRef).Status)
	require.Equal(t, took, whole())
	b.ended(b.run(p))
}

// A status that changed under a claim which still stands is an error, and what the claim has come
// to is not recorded, in whatever batch: no statement but the claimed one's moves it.
func TestStatusUnderAClaim(t *testing.T) {
	b := setup(t)
	b.fund("200.00")
	p, other, pending := b.settle("100.00"), b.settle("50.00"), b.settle("20.00")
	begun := b.claims(pending, 1)
	b.Exec(`UPDATE transfers SET status = 'failed' WHERE id = $1`, pending.ID)
	require.Equal(t, []bool{false}, b.svc.SubmitTogether(b.ctx, begun))
	require.Equal(t, transfer.Failed, b.get(pending.MerchantTxRef).Status)
	c := append(b.claims(p, 1), b.claims(other, 1)...)
	require.Equal(t, []bool{true, true}, b.svc.SubmitTogether(b.ctx, c))
	b.Exec(`UPDATE transfers SET status = 'failed' WHERE id = $1`, p.ID)
	out := b.svc.EndTogether(b.ctx, c)
	require.ErrorContains(t, out[0].Err, "a status changed under its claim")
	require.NoError(t, out[1].Err, "a neighbour is not failed by it")
	require.Equal(t, []transfer.Status{transfer.Failed, transfer.Success}, []transfer.Status{b.get(p.MerchantTxRef).Status, b.get(other.MerchantTxRef).Status})
	b.money("30.00", "credit 200.00 confirmed", "debit 100.00 provisional", "debit 50.00 confirmed", "debit 20.00 provisional")
}

// However long transfers stay claimed between the check of their cover and their submission, and
// whatever comes and goes meanwhile: what has left is covered by confirmed money, together with
// every debit before it.
func TestWhatIsCoveredStaysCovered(t *testing.T) {
	b := setup(t)
	uncovered := func(own *bundle) int {
		return testenv.Value[int](b.Env, `
			SELECT count(*) FROM transfers t JOIN ledger_entries d ON d.transaction_group_id = t.id AND d.direction = 'debit'
			WHERE t.account_id = $1 AND t.status IN ('processing', 'success')
				AND (SELECT sum(amount) FROM ledger_entries WHERE account_id = $1 AND direction = 'debit' AND status <> 'reversed' AND seq <= d.seq)
					> (SELECT coalesce(sum(amount), 0) FROM ledger_entries WHERE account_id = $1 AND direction = 'credit' AND status = 'confirmed')`, own.account)
	}
	left := 0
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(2, seed))
		own := b.anotherAccount(t)
		amount := func(most int) string { return []string{"10.00", "20.00", "50.00", "100.00"}[random.IntN(most)] }
		var credits []uuid.UUID
		var all []uuid.UUID
		var claimed, submitted []*transfer.Claim
		for range 60 {
			switch random.IntN(6) {
			case 0:
				credits = append(credits, own.credit(amount(4)))
			case 1:
				if n := len(credits); n > 0 {
					own.MoveCredit(credits[n-1], []ledger.Event{ledger.EventConfirm, ledger.EventConfirm, ledger.EventHold, ledger.EventReverse}[random.IntN(4)])
					credits = credits[:n-1]
				}
			case 2:
				s, err := b.svc.Settle(b.ctx, own.tenant, "shop", order(amount(3)), idempotency.Request{})
				if !errors.Is(err, ledger.ErrInsufficientFunds) {
					require.NoError(t, err)
					all = append(all, s.TransferID)
				}
			case 3:
				b.Clock.Advance(time.Hour) // so that all that was put off is due
				random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				claims, _ := b.svc.ClaimTogether(b.ctx, all[:random.IntN(len(all)+1)]...)
				for _, c := range claims {
					switch {
					case c == nil:
					case c.Status == transfer.Pending:
						claimed = append(claimed, c)
					case c.Status == transfer.Processing:
						submitted = append(submitted, c)
					}
				}
			case 4:
				random.Shuffle(len(claimed), func(i, j int) { claimed[i], claimed[j] = claimed[j], claimed[i] })
				n := random.IntN(len(claimed) + 1)
				for i, held := range b.svc.SubmitTogether(b.ctx, claimed[:n]) {
					if held {
						submitted, left = append(submitted, claimed[i]), left+1
					}
				}
				claimed = claimed[n:]
				require.Zero(t, uncovered(own), "seed %d", seed)
			default:
				if n := len(submitted); n > 0 { // the bank refuses it, and its money is back
					require.NoError(t, b.svc.RejectTogether(b.ctx, submitted[n-1:])[0].Err)
					submitted = submitted[:n-1]
				}
			}
		}
		require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE attempt_count > 1`))
	}
	require.Greater(t, left, 20, "so that it says something")
}
