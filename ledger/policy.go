package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// An account's policy may hold a payment that is not as expected. The payment is posted all the
// same, and held in full: by a hold of the source [HeldByPolicy], which the tenant releases, or
// [HeldForRefund], which ends when the payment is refunded to its sender. The hold is placed in the
// transaction that posts the credit. It leaves the balance with its credit, and comes back with it.
// Tier limits apply to the payment when it is released; until then it uses up none of them.

// Policy says why a payment is held, and by what.
type Policy struct {
	Source HoldSource
	Reason string
}

// NotRefunded begins the reason of a policy's hold of a payment that was to go back to its sender
// and could not.
const NotRefunded = "not refunded: "

// PolicyHold is an open hold of a payment by its account's policy.
type PolicyHold struct {
	AccountID uuid.UUID
	EntryID   uuid.UUID // the payment's credit
	Amount    money.Amount
	Policy
}

const policyHoldSQL = `SELECT account_id, entry_id, amount, source, reason FROM holds WHERE entry_id = $1 AND status = 'open' AND source IN ('policy', 'refund')`

// FindPolicyHold reads the open hold of a payment's credit by its account's policy; nil: there is
// none.
func FindPolicyHold(ctx context.Context, q pg.Querier, entry uuid.UUID) (*PolicyHold, error) {
	return pg.One(ctx, q, func(r pgx.CollectableRow) (*PolicyHold, error) {
		var h PolicyHold
		return &h, r.Scan(&h.AccountID, &h.EntryID, &h.Amount, &h.Source, &h.Reason)
	}, nil, policyHoldSQL, entry)
}

// SetPolicyHold sets how much of a payment in the balance its policy holds; zero: nothing.
func SetPolicyHold(ctx context.Context, tx pg.Tx, now time.Time, h PolicyHold) error {
	t, err := lockTotal(ctx, tx, h.AccountID)
	if err != nil {
		return err
	}
	e := Entry{ID: h.EntryID}
	if err := tx.QueryRow(ctx, `SELECT status, created_at FROM ledger_entries WHERE id = $1`, h.EntryID).Scan(&e.Status, &e.CreatedAt); err != nil {
		return err
	}
	o := newOvers()
	var id uuid.UUID
	var amount money.Amount
	var source HoldSource
	err = tx.QueryRow(ctx, `SELECT id, amount, source FROM holds WHERE entry_id = $1 AND status = 'open'`, h.EntryID).Scan(&id, &amount, &source)
	switch {
	case err == nil:
		switch o.hold(t, amount.Neg(), e.Status); source {
		case HeldByPolicy, HeldForRefund: // it is refunded, or another takes its place: nobody has released it
			o.left = append(o.left, id)
		case HeldByLimit: // it counts like the rest of its payment until it is released again
			o.allow(t, clock.Day(e.CreatedAt), amount)
			fallthrough
		default:
			o.ended = append(o.ended, id)
		}
	case !pg.IsNoRows(err):
		return err
	}
	if h.Amount.IsPositive() {
		o.place(t, &e, h.Amount, h.Policy, now)
	}
	return o.write(ctx, tx, now)
}

// moved does to holds what the moves of their credits do: some leave the balance, some are
// confirmed, some come back.
func (o *overs) moved(ctx context.Context, tx pg.Tx, b book, now time.Time, left, confirmed, back []arrival) error {
	if err := o.follow(ctx, tx, b, left, confirmed); err != nil {
		return err
	}
	others, err := o.comeBack(ctx, tx, b, now, back)
	if err != nil {
		return err
	}
	return o.arrive(ctx, tx, b, now, others)
}

// comeBack restores the holds that a policy had on credits when they left the balance, and returns
// the other credits.
func (o *overs) comeBack(ctx context.Context, tx pg.Tx, b book, now time.Time, credits []arrival) (others []arrival, err error) {
	if len(credits) == 0 {
		return nil, nil
	}
	ids := make([]uuid.UUID, len(credits))
	for i, c := range credits {
		ids[i] = c.entry.ID
	}
	held := map[uuid.UUID]PolicyHold{}
	rows := pg.Rows(ctx, tx, lastHoldsSQL, ids)
	var h PolicyHold
	if _, err := pgx.ForEachRow(rows, []any{&h.EntryID, &h.Amount, &h.Source, &h.Reason}, func() error { held[h.EntryID] = h; return nil }); err != nil {
		return nil, err
	}
	for _, c := range credits {
		h, ok := held[c.entry.ID]
		if !ok {
			others = append(others, c)
			continue
		}
		t, err := b.of(c.account)
		if err != nil {
			return nil, err
		}
		o.place(t, c.entry, h.Amount, h.Policy, now)
	}
	return others, nil
}

// lastHoldsSQL reads the last holds that policies had on credits, unless they were released.
const lastHoldsSQL = `
		SELECT entry_id, amount, source, reason FROM (
			SELECT DISTINCT ON (entry_id) * FROM holds WHERE entry_id = ANY($1) AND source IN ('policy', 'refund') ORDER BY entry_id, id DESC) h
		WHERE left_with`

// arriveReleased applies the tier limits to a payment that a policy has held until now. A part that
// has left meanwhile cannot be held.
func arriveReleased(ctx context.Context, tx pg.Tx, now time.Time, h Hold) error {
	b, err := lockTotals(ctx, tx, []uuid.UUID{h.AccountID})
	if err != nil {
		return err
	}
	var e Entry
	if err := tx.QueryRow(ctx, `SELECT id, amount, status, created_at FROM ledger_entries WHERE id = $1`, h.EntryID).
		Scan(&e.ID, &e.Amount, &e.Status, &e.CreatedAt); err != nil {
		return err
	}
	o, a := newOvers(), arrival{h.AccountID, &e, h.Amount}
	first, err := uncounted(ctx, tx, []arrival{a}, h.ID)
	switch {
	case err != nil:
		return err
	case first[e.ID]:
		err = o.arrive(ctx, tx, b, now, []arrival{a})
	default:
		err = o.arriveAgain(ctx, tx, b, now, a)
	}
	if err != nil {
		return err
	}
	return o.write(ctx, tx, now)
}

// arriveAgain applies the tier limits to a part of a payment that is released once more: a refund
// came back after the rest was released, and was held. All of the payment counts among the deposits
// of its day since the first release, so what a limit does not hold now is not counted again.
func (o *overs) arriveAgain(ctx context.Context, tx pg.Tx, b book, now time.Time, part arrival) error {
	tiers, err := readTiers(ctx, tx, now, []arrival{part})
	if err != nil {
		return err
	}
	t, err := b.of(part.account)
	if err != nil {
		return err
	}
	d, day := tiers[part.account], clock.Day(part.entry.CreatedAt)
	if d == nil {
		return nil
	}
	allowed, reason := d.tier.allows(part.kept, part.entry.Amount.Sub(part.kept), d.days[day].Left(part.kept), t.net().Sub(part.kept).Sub(t.HeldOver))
	if over := part.kept.Sub(allowed); over.IsPositive() {
		o.allow(t, day, over.Neg())
		o.place(t, part.entry, over, Policy{HeldByLimit, reason}, now)
	}
	return nil
}
