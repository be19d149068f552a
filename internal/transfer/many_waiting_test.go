package transfer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// manyWaiting has so many settlements of 1.00 accepted, and returns their ids in the ledger's
// order.
func (b *bundle) manyWaiting(many int) []uuid.UUID {
	b.T.Helper()
	for range many / 100 {
		asks := make([]transfer.Ask, 100)
		for i := range asks {
			asks[i] = transfer.Ask{Tenant: b.tenant, Ref: "shop", Order: order("1.00")}
		}
		for _, s := range b.svc.SettleTogether(b.ctx, asks) {
			require.NoError(b.T, s.Err)
		}
	}
	return column[uuid.UUID](b, `SELECT t.id FROM transfers t JOIN ledger_entries e ON e.transaction_group_id = t.id AND e.direction = 'debit'
		WHERE t.account_id = $1 ORDER BY e.seq`, b.account)
}

// may claims transfers in batches and returns those that may leave, in the order given.
func (b *bundle) may(svc *transfer.Service, ids []uuid.UUID) (out []uuid.UUID) {
	b.T.Helper()
	for len(ids) > 0 {
		some := ids[:min(64, len(ids))]
		ids = ids[len(some):]
		claimed, waits := svc.ClaimTogether(b.ctx, some...)
		for i, id := range some {
			switch {
			case claimed[i] != nil:
				out = append(out, id)
			case waits[i] == nil: // it will never be covered
				require.Equal(b.T, "failed", testenv.Value[string](b.Env, `SELECT status FROM transfers WHERE id = $1`, id))
			}
		}
	}
	return out
}

// column reads the first column of all rows.
func column[T any](b *bundle, sql string, args ...any) []T {
	b.T.Helper()
	all, err := pg.Collect(b.ctx, b.Pool, pgx.RowTo[T], sql, args...)
	require.NoError(b.T, err)
	return all
}

// A batch of payouts that stand far behind the first one without cover does not read all that wait:
// each of them is looked at every half hour, so the cost would grow with the square of their
// number, and other tenants' payouts wait for the same worker.
func TestFarBehindTheCover(t *testing.T) {
	b := setup(t)
	const many = 2000
	first, rest := b.credit("3.00"), b.credit("1997.00")
	ids := b.manyWaiting(many)
	require.Len(t, ids, many)
	b.Exec(`ANALYZE transfers, ledger_entries, ledger_balances`)
	reads := func(ids []uuid.UUID) (most int) {
		pool, asked := b.Recorded()
		require.Empty(t, b.may(b.service(func(o *transfer.Options) { o.Pool = pool }), ids))
		looked := 0
		for _, s := range asked() {
			if s.SQL == transfer.FundsSQL {
				looked++
				n, _ := b.MostRowsAsBatch(s)
				most = max(most, n)
			}
		}
		require.Equal(t, 2, looked, "and once more, of those that are put off")
		return most
	}
	require.Less(t, reads(ids[many-64:]), 4*64, "nothing is confirmed")
	b.Clock.Advance(time.Hour)
	b.MoveCredit(first, ledger.EventConfirm)
	require.Less(t, reads(ids[many-64:]), 4*64, "what is confirmed is for the first three")
	b.Clock.Advance(time.Hour)
	require.Equal(t, ids[:3], b.may(b.svc, ids))
	b.Clock.Advance(time.Hour)
	b.MoveCredit(rest, ledger.EventConfirm)
	require.Equal(t, ids, b.may(b.svc, ids))
}

// coveredSQL says of each waiting payout whether it is covered, by the definition: what may leave,
// and the debits that wait behind its own.
var coveredSQL = `
	SELECT t.id FROM transfers t JOIN ledger_entries e ON e.transaction_group_id = t.id AND e.direction = 'debit' AND e.reversal_of IS NULL
	JOIN ledger_balances b ON b.account_id = t.account_id
	WHERE t.account_id = $1 AND t.status = 'pending' AND 0 <= ` + ledger.Available("false", "$2::timestamptz") + ` + (
		SELECT coalesce(sum(o.amount + coalesce(o.platform_fee, 0) + coalesce(o.platform_vat, 0)), 0) FROM transfers o
		JOIN ledger_entries d ON d.transaction_group_id = o.id AND d.direction = 'debit' AND d.reversal_of IS NULL
		WHERE o.account_id = $1 AND o.status = 'pending' AND d.seq > e.seq)
	ORDER BY e.seq`

var byAda = audit.By{Actor: "cli:ada", Reason: "withdrawn"}

// Whatever happens to an account's money, exactly those payouts may leave that the ledger's order
// gives cover, and nothing is put off that is covered: here payments come with a charge, are
// confirmed, go to a review and come back, or prove false, and payouts are given up.
func TestCoverIsTheLedgersWhateverHappens(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			b := setup(t)
			r := rand.New(rand.NewPCG(seed, 71))
			type credit struct {
				group uuid.UUID
				open  bool // provisional
			}
			var credits []credit
			var reviewed []uuid.UUID
			short := 0
			for step := range 80 {
				switch pick := r.IntN(10); {
				case pick < 3:
					credits = append(credits, credit{b.charged(fmt.Sprintf("%d.00", 20+r.IntN(80)), "9.00"), true})
				case pick < 7:
					s, err := b.svc.Settle(b.ctx, b.tenant, "shop", order(fmt.Sprintf("%d.00", 1+r.IntN(30))), b.key(fmt.Sprint(step), order("1.00")))
					if err != nil {
						require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
					} else {
						require.NotEqual(t, uuid.Nil, s.TransferID)
					}
				case pick < 8 && len(credits) > 0:
					if c := &credits[r.IntN(len(credits))]; c.open {
						c.open = false
						b.MoveCredit(c.group, []ledger.Event{ledger.EventConfirm, ledger.EventConfirm, ledger.EventHold}[r.IntN(3)])
						reviewed = append(reviewed, column[uuid.UUID](b, `SELECT transaction_group_id FROM ledger_entries WHERE transaction_group_id = $1 AND status = 'needs_review'`, c.group)...)
					}
				case pick < 9 && len(reviewed) > 0 && r.IntN(2) == 0:
					b.MoveCredit(reviewed[0], ledger.EventConfirm)
					reviewed = reviewed[1:]
				default:
					pending := column[string](b, `SELECT merchant_tx_ref FROM transfers WHERE account_id = $1 AND status = 'pending' ORDER BY id`, b.account)
					if len(pending) > 0 {
						_, err := b.svc.Cancel(b.ctx, pending[r.IntN(len(pending))], byAda)
						require.NoError(t, err)
					}
				}
				all := func() []uuid.UUID {
					b.Clock.Advance(time.Hour)
					return column[uuid.UUID](b, `SELECT t.id FROM transfers t JOIN ledger_entries e ON e.transaction_group_id = t.id AND e.direction = 'debit' AND e.reversal_of IS NULL
						WHERE t.account_id = $1 AND t.status = 'pending' ORDER BY e.seq`, b.account)
				}
				b.may(b.svc, all()) // ends those that will never be covered
				pending := all()
				want := column[uuid.UUID](b, coveredSQL, b.account, b.Clock.Now())
				short += len(pending) - len(want)
				require.Equal(t, fmt.Sprint(want), fmt.Sprint(b.may(b.svc, pending)), "step %d", step)
			}
			require.Positive(t, short, "of all steps")
			testenv.FindsNothing(t, b.Pool, ledger.Verify)
		})
	}
}

// A charge on a payment that goes under review is in no total any more: the payout that was posted
// after it is not put off for that.
func TestCoverBesideAChargeUnderReview(t *testing.T) {
	b := setup(t)
	b.fund("50.00")
	reviewed := b.charged("100.00", "9.00")
	b.credit("200.00")
	first, second := b.settle("50.00"), b.settle("60.00")
	b.MoveCredit(reviewed, ledger.EventHold)
	require.Equal(t, []uuid.UUID{first.ID}, b.may(b.svc, []uuid.UUID{first.ID, second.ID}))
	require.Equal(t, transfer.Success, b.run(first).Status)
	b.paid(first)
}

// charged posts a provisional credit of which the platform takes a charge.
func (b *bundle) charged(amount, charge string) uuid.UUID {
	b.T.Helper()
	group := uuid.Must(uuid.NewV7())
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{ledger.Posting{
			AccountID: b.account, Amount: money.Must(amount), TransactionGroupID: group, ProviderTxnRef: group.String(), Price: &group,
		}.WithCharges(money.Must(charge), money.Zero)})
		return err
	}))
	return group
}
