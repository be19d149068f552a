package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// HeldAt is a place among what limits hold of a customer: that of an account's credit. The zero
// value is the place before all.
type HeldAt struct{ Account, Entry uuid.UUID }

// limited is an open hold of a limit, with its credit and what the limits allow now.
type limited struct {
	heldOf
	Credit  money.Amount
	Status  Status
	Created time.Time
}

// limitedSQL reads what limits hold of accounts behind a place, as far as $4 holds go, by their
// credits' ids. Those are as old as the credits, so these are the oldest of each account.
const limitedSQL = `
	SELECT h.id, h.account_id, h.entry_id, h.amount, h.source, e.amount, e.status, e.created_at FROM (
		SELECT * FROM holds WHERE account_id = ANY($1) AND status = 'open' AND source = 'limit' AND (account_id, entry_id) > ($2::uuid, $3::uuid)
		ORDER BY account_id, entry_id LIMIT $4) h JOIN ledger_entries e ON e.id = h.entry_id
	ORDER BY h.account_id, e.seq`

// ApplyTier releases, oldest first, the money that limits hold and a customer's new tier allows,
// and returns the accounts on which it released money. What is still above a limit stays held, by a
// new hold. It looks at no more than most holds, behind a place, and returns the place that it came
// to; the zero place: there are no more behind it.
//
// It runs first after the change of the tier, in the same transaction, and locks the balances of
// all accounts of the customer, in the order of their ids: so a credit that was posted by the old
// tier is seen, and one that waits for the lock is posted by the new one. It goes on in later
// transactions that have locked the customer, by the tier and the sums of days that are there then.
// For a tenant without limits it does nothing.
func ApplyTier(ctx context.Context, tx pg.Tx, now time.Time, customer uuid.UUID, after HeldAt, most int) (released []uuid.UUID, last HeldAt, err error) {
	accounts, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `
		SELECT a.id FROM accounts a WHERE a.customer_id = $1 AND a.id >= $2 AND EXISTS (SELECT FROM tier_limits l WHERE l.tenant_id = a.tenant_id) ORDER BY a.id`, customer, after.Account)
	if err != nil || len(accounts) == 0 {
		return nil, last, err
	}
	b, err := lockTotals(ctx, tx, accounts)
	if err != nil {
		return nil, last, err
	}
	holds, err := pg.Collect(ctx, tx, pgx.RowToStructByPos[limited], limitedSQL, accounts, after.Account, after.Entry, most)
	if err != nil || len(holds) == 0 {
		return nil, last, err
	}
	if len(holds) == most {
		last = newest(holds)
	}
	credits := make([]arrival, len(holds))
	for i, h := range holds {
		credits[i] = arrival{account: h.Account, entry: &Entry{ID: h.Entry, Amount: h.Credit, Status: h.Status, CreatedAt: h.Created}}
	}
	tiers, err := readTiers(ctx, tx, now, credits)
	if err != nil {
		return nil, last, err
	}
	o := newOvers()
	for i, h := range holds {
		t, err := b.of(h.Account)
		if err != nil {
			return nil, last, err
		}
		d, day := tiers[h.Account], clock.Day(h.Created)
		more, reason := d.tier.allows(h.Amount, h.Credit.Sub(h.Amount), *d.days[day], t.net().Sub(t.HeldOver))
		if more.Sign() == 0 {
			continue
		}
		*d.days[day] = d.days[day].Add(more)
		o.allow(t, day, more)
		o.ended = append(o.ended, h.ID)
		o.hold(t, h.Amount.Neg(), h.Status)
		if rest := h.Amount.Sub(more); rest.Sign() > 0 {
			o.place(t, credits[i].entry, rest, Policy{HeldByLimit, reason}, now)
		}
		released = append(released, h.Account)
	}
	return slices.Compact(released), last, o.write(ctx, tx, now)
}

// newest is the last place of holds that are in the order of their accounts.
func newest(holds []limited) (last HeldAt) {
	for _, h := range holds {
		if h.Account != last.Account || pg.CompareIDs(h.Entry, last.Entry) > 0 {
			last = HeldAt{h.Account, h.Entry}
		}
	}
	return last
}
