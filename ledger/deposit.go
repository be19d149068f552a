package ledger

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// Limits of tiers bound the money that comes in to the accounts of a customer. Money above a limit
// is posted all the same, since it has arrived, and held by a hold of the source [HeldByLimit],
// placed in the transaction that posts the credit, whose reason names the limit. It ends when a
// higher tier allows its money ([ApplyTier]), when an operator releases it, and when its credit
// leaves the balance; a credit that returns to the balance is checked again. Everything happens
// under the lock of the account's balance.

// tier holds the limits that are set for the tier of an account's customer.
type tier struct {
	Number                int
	Deposit, Day, Balance *money.Amount // nil: no limit
}

// deposits is what the limits of one account's tier are compared with.
type deposits struct {
	tier tier
	days map[string]*money.Amount // what was allowed of each day's deposits, before this transaction
}

// dayDeposit is what a transaction adds to what was allowed of a day's deposits.
type dayDeposit struct {
	TenantID  uuid.UUID    `pg:"tenant_id"`
	AccountID uuid.UUID    `pg:"account_id"`
	Day       string       `pg:"day"`
	Allowed   money.Amount `pg:"allowed,numeric"`
}

// tiersSQL begins with the accounts and the days of deposits. The tier is the committed one:
// whoever changes it waits for the locks that this transaction has. Limits that were set for now
// have started, also by a clock that is behind.
const tiersSQL = `
		SELECT m.account, m.day, c.kyc_tier, l.max_deposit, l.max_day, l.max_balance, coalesce(d.allowed, 0)
		FROM unnest($1::uuid[], $2::text[]) AS m (account, day) JOIN accounts a ON a.id = ANY(ARRAY[m.account]) JOIN customers c ON c.id = ANY(ARRAY[a.customer_id])
		LEFT JOIN LATERAL (
			SELECT * FROM tier_limits l WHERE l.tenant_id = a.tenant_id AND l.tier = c.kyc_tier AND (l.starts_at <= $3 OR l.starts_at = l.created_at)
			ORDER BY starts_at DESC LIMIT 1) l ON true
		LEFT JOIN deposit_days d ON d.tenant_id = ANY(ARRAY[a.tenant_id]) AND d.account_id = ANY(ARRAY[m.account]) AND d.day = ANY(ARRAY[m.day::date])
		WHERE EXISTS (SELECT FROM tier_limits l WHERE l.tenant_id = a.tenant_id)`

// arrival is a credit that comes into the balance of a locked account.
type arrival struct {
	account uuid.UUID
	entry   *Entry
	kept    money.Amount // of it, after what the platform takes
}

// readTiers reads what the limits of the credits' accounts are compared with. It leaves out
// accounts of tenants without limits.
func readTiers(ctx context.Context, tx pg.Tx, now time.Time, credits []arrival) (map[uuid.UUID]*deposits, error) {
	accounts, days := make([]uuid.UUID, len(credits)), make([]string, len(credits))
	for i, c := range credits {
		accounts[i], days[i] = c.account, clock.Day(c.entry.CreatedAt)
	}
	rows := pg.Rows(ctx, tx, tiersSQL, accounts, days, now)
	out := map[uuid.UUID]*deposits{}
	var account uuid.UUID
	var day string
	var x tier
	var allowed money.Amount
	_, err := pgx.ForEachRow(rows, []any{&account, &day, &x.Number, &x.Deposit, &x.Day, &x.Balance, &allowed}, func() error {
		if out[account] == nil {
			out[account] = &deposits{x, map[string]*money.Amount{}}
		}
		out[account].days[day] = new(allowed)
		return nil
	})
	return out, err
}

// allows returns how much of amount the limits leave room for, given how much of the deposit was
// allowed before, and which limit bounds it. A limit of zero bounds too; the result is never below
// zero.
func (x tier) allows(amount, before, day, free money.Amount) (allowed money.Amount, reason string) {
	allowed = amount
	for _, l := range []struct {
		most *money.Amount
		used money.Amount
		name string
	}{{x.Deposit, before, "maxDeposit"}, {x.Day, day, "maxDay"}, {x.Balance, free, "maxBalance"}} {
		if l.most == nil {
			continue
		}
		if left := l.most.Left(l.used); left.Cmp(allowed) < 0 {
			allowed = left
			reason = l.name + " of tier " + string(rune('0'+x.Number)) + ": NGN " + l.most.String()
		}
	}
	return allowed, reason
}

// heldChange is what one transaction does to what an account's holds of payments keep.
type heldChange struct {
	AccountID   uuid.UUID    `pg:"account_id"`
	Held        money.Amount `pg:"held,numeric"`
	Provisional money.Amount `pg:"provisional,numeric"` // of it, for credits that are provisional
}

// limitHold is a new hold of a payment, by a limit or a policy.
type limitHold struct {
	ID        uuid.UUID    `pg:"id"`
	TenantID  uuid.UUID    `pg:"tenant_id"`
	AccountID uuid.UUID    `pg:"account_id"`
	Amount    money.Amount `pg:"amount,numeric"`
	Reason    string       `pg:"reason"`
	Status    HoldStatus   `pg:"status"`
	Source    HoldSource   `pg:"source"`
	EntryID   uuid.UUID    `pg:"entry_id"`
	CreatedAt time.Time    `pg:"created_at"`
}

// overs is what one transaction does to holds of payments, by limits of tiers and by policies.
type overs struct {
	placed  []limitHold
	ended   []uuid.UUID
	left    []uuid.UUID // policies' holds that end because their money leaves
	changes map[uuid.UUID]*heldChange
	days    map[string]*dayDeposit
}

func newOvers() *overs {
	return &overs{changes: map[uuid.UUID]*heldChange{}, days: map[string]*dayDeposit{}}
}

func (o *overs) change(account uuid.UUID) *heldChange {
	if o.changes[account] == nil {
		o.changes[account] = &heldChange{AccountID: account}
	}
	return o.changes[account]
}

// hold changes what is held of an account, for a credit of the status.
func (o *overs) hold(t *totals, by money.Amount, s Status) {
	c := o.change(t.AccountID)
	c.Held = c.Held.Add(by)
	t.Held, t.HeldOver = t.Held.Add(by), t.HeldOver.Add(by)
	if s == Provisional {
		c.Provisional = c.Provisional.Add(by)
	}
}

// allow counts a deposit's allowed part on its day.
func (o *overs) allow(t *totals, day string, by money.Amount) {
	key := t.AccountID.String() + day
	if o.days[key] == nil {
		o.days[key] = &dayDeposit{TenantID: t.TenantID, AccountID: t.AccountID, Day: day}
	}
	o.days[key].Allowed = o.days[key].Allowed.Add(by)
}

// place holds a part of a credit, or all of it.
func (o *overs) place(t *totals, e *Entry, amount money.Amount, by Policy, now time.Time) {
	o.placed = append(o.placed, limitHold{
		clock.NewID(), t.TenantID, t.AccountID, amount, by.Reason, HoldOpen, by.Source, e.ID, now,
	})
	o.hold(t, amount, e.Status)
}

// arrive applies the limits to credits that have come into their accounts' balances, one after the
// other. The totals already include them.
func (o *overs) arrive(ctx context.Context, tx pg.Tx, b book, now time.Time, credits []arrival) error {
	if len(credits) == 0 {
		return nil
	}
	tiers, err := readTiers(ctx, tx, now, credits)
	if err != nil || len(tiers) == 0 {
		return err
	}
	coming := map[uuid.UUID]money.Amount{} // in the totals, but not checked yet
	for _, c := range credits {
		coming[c.account] = coming[c.account].Add(c.kept)
	}
	for _, c := range credits {
		d := tiers[c.account]
		if d == nil {
			continue
		}
		t, err := b.of(c.account)
		if err != nil {
			return err
		}
		day := clock.Day(c.entry.CreatedAt)
		free := t.net().Sub(coming[c.account]).Sub(t.HeldOver)
		allowed, reason := d.tier.allows(c.entry.Amount, money.Zero, *d.days[day], free)
		coming[c.account] = coming[c.account].Sub(c.kept)
		if least := c.entry.Amount.Sub(c.kept); allowed.Cmp(least) < 0 {
			allowed = least // what the platform takes is gone, and cannot be held
		}
		*d.days[day] = d.days[day].Add(allowed)
		o.allow(t, day, allowed)
		if over := c.entry.Amount.Sub(allowed); over.Sign() > 0 {
			o.place(t, c.entry, over, Policy{HeldByLimit, reason}, now)
		}
	}
	return nil
}

// allowReleased counts what an operator has released of a limit among the deposits of its day, as
// all of it leaves them with its credit.
func allowReleased(ctx context.Context, tx pg.Tx, now time.Time, h Hold) error {
	t, err := lockTotal(ctx, tx, h.AccountID)
	if err != nil {
		return err
	}
	var posted time.Time
	if err := tx.QueryRow(ctx, `SELECT created_at FROM ledger_entries WHERE id = $1`, h.EntryID).Scan(&posted); err != nil {
		return err
	}
	o := newOvers()
	o.allow(t, clock.Day(posted), h.Amount)
	return o.write(ctx, tx, now)
}

// heldOf is an open hold of a payment.
type heldOf struct {
	ID      uuid.UUID
	Account uuid.UUID
	Entry   uuid.UUID
	Amount  money.Amount
	Source  HoldSource
}

// uncountedSQL selects credits that no limit has counted: their tenant had no limits when they last
// came into what limits count (when they were posted, a person confirmed them, or a policy's hold
// other than $2 was released), or a policy has held them since they were posted. Where a limit has
// held a part of one, it has counted it.
const uncountedSQL = `
		SELECT e.id FROM ledger_entries e
		CROSS JOIN LATERAL (SELECT coalesce(bool_or(h.source = 'limit'), false) AS looked_at, coalesce(min(h.created_at) <= e.created_at, false) AS kept,
				max(h.ended_at) FILTER (WHERE h.status = 'released' AND NOT h.left_with AND h.id <> $2) AS released_at
			FROM holds h WHERE h.entry_id = ANY(ARRAY[e.id])) h
		WHERE e.id = ANY($1) AND NOT h.looked_at AND (h.kept AND h.released_at IS NULL OR NOT EXISTS (SELECT FROM tier_limits l WHERE l.tenant_id = e.tenant_id
				AND l.created_at < greatest(e.created_at, CASE WHEN e.review_from_seq IS NOT NULL THEN e.confirmed_at END, h.released_at)))`

// uncounted returns which of the credits no limit has counted, other than at the release of a hold;
// uuid.Nil: of none.
func uncounted(ctx context.Context, tx pg.Tx, credits []arrival, hold uuid.UUID) (map[uuid.UUID]bool, error) {
	if len(credits) == 0 {
		return nil, nil
	}
	ids, out := make([]uuid.UUID, len(credits)), map[uuid.UUID]bool{}
	for i, c := range credits {
		ids[i] = c.entry.ID
	}
	found, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], uncountedSQL, ids, hold)
	for _, id := range found {
		out[id] = true
	}
	return out, err
}

// follow ends the holds of credits that have left their accounts' balances, and takes what was
// allowed of them out of their days. What is held of confirmed credits is no longer provisional.
func (o *overs) follow(ctx context.Context, tx pg.Tx, b book, left, confirmed []arrival) error {
	var entries []uuid.UUID
	for _, list := range [][]arrival{left, confirmed} {
		for _, c := range list {
			t, err := b.of(c.account)
			if err != nil {
				return err
			}
			if t.HeldOver.Sign() != 0 {
				entries = append(entries, c.entry.ID)
			}
		}
	}
	held := map[uuid.UUID]heldOf{}
	if len(entries) > 0 {
		open, err := pg.Collect(ctx, tx, pgx.RowToStructByPos[heldOf],
			`SELECT id, account_id, entry_id, amount, source FROM holds WHERE entry_id = ANY($1) AND status = 'open'`, entries)
		if err != nil {
			return err
		}
		for _, h := range open {
			held[h.Entry] = h
		}
	}
	uncounted, err := uncounted(ctx, tx, left, uuid.Nil)
	if err != nil {
		return err
	}
	for _, c := range left {
		t, h, counted := b.totals[c.account], held[c.entry.ID], c.entry.Amount
		switch h.Source {
		case HeldByPolicy, HeldForRefund:
			o.left = append(o.left, h.ID)
		case HeldByLimit:
			o.ended, counted = append(o.ended, h.ID), counted.Sub(h.Amount)
		}
		if !uncounted[c.entry.ID] {
			o.allow(t, clock.Day(c.entry.CreatedAt), counted.Neg())
		}
		if h.ID != uuid.Nil {
			o.hold(t, h.Amount.Neg(), c.entry.Status)
		}
	}
	for _, c := range confirmed {
		if h := held[c.entry.ID]; h.ID != uuid.Nil {
			held := o.change(c.account)
			held.Provisional = held.Provisional.Sub(h.Amount)
		}
	}
	return nil
}

var (
	insertLimitHolds = pg.Insert[limitHold]("holds", 1)
	updateHeld       = `
		UPDATE ledger_balances b SET held = coalesce(b.held, 0) + m.held, held_over = coalesce(b.held_over, 0) + m.held,
			held_provisional = coalesce(b.held_provisional, 0) + m.provisional
		FROM ` + pg.Unnest[heldChange](1, "m") + ` WHERE b.account_id = m.account_id`
	addDeposits = `
		INSERT INTO deposit_days AS d (tenant_id, account_id, day, allowed) SELECT tenant_id, account_id, day::date, allowed FROM ` + pg.Unnest[dayDeposit](1, "m") + `
		ON CONFLICT (tenant_id, account_id, day) DO UPDATE SET allowed = d.allowed + excluded.allowed`
	takeDeposits = `
		UPDATE deposit_days d SET allowed = greatest(d.allowed + m.allowed, 0) FROM ` + pg.Unnest[dayDeposit](1, "m") + `
		WHERE d.tenant_id = ANY(ARRAY[m.tenant_id]) AND d.account_id = ANY(ARRAY[m.account_id]) AND d.day = ANY(ARRAY[m.day::date])`
)

const endLimitHolds = `UPDATE holds SET status = 'released', ended_at = $2, left_with = $3 WHERE id = ANY($1) AND status = 'open'`

// write does what is queued, by itself.
func (o *overs) write(ctx context.Context, tx pg.Tx, now time.Time) error {
	var batch pgx.Batch
	if o.queue(&batch, now); batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// queue writes what the limits did.
func (o *overs) queue(batch *pgx.Batch, now time.Time) {
	if len(o.ended) > 0 {
		batch.Queue(endLimitHolds, o.ended, now, false)
	}
	if len(o.left) > 0 {
		batch.Queue(endLimitHolds, o.left, now, true)
	}
	if len(o.placed) > 0 {
		batch.Queue(insertLimitHolds, pg.Columns(o.placed)...)
	}
	if len(o.changes) > 0 {
		batch.Queue(updateHeld, pg.Columns(slices.Collect(maps.Values(o.changes)))...)
	}
	var added, taken []*dayDeposit
	for _, d := range o.days {
		switch d.Allowed.Sign() {
		case 1:
			added = append(added, d)
		case -1:
			taken = append(taken, d)
		}
	}
	if len(added) > 0 {
		batch.Queue(addDeposits, pg.Columns(added)...)
	}
	if len(taken) > 0 {
		batch.Queue(takeDeposits, pg.Columns(taken)...)
	}
}
