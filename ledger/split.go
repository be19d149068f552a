package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// An account may pass shares of each confirmed payment on to other accounts of its tenant. The
// split that applies is the account's at the time of posting, which is stored with the credit. The
// confirmation posts each part as a debit and a credit of [KindSplit], in its transaction, and
// lists the parts in split_parts, the account's own among them: they sum to what the payment
// brought. A split moves only available money: a payment that is held or recalled at that moment,
// or that earlier debits wait for, becomes one part, the account's own. So does a payment to a
// frozen account, or one with a party whose account is frozen for everything: book transfers are
// refused there too.
//
// While a recall is open, what the parties still have of their parts is held. If the bank takes the
// payment back, they return what they still have. The account bears the rest, as for any money that
// has moved on. If the payment is posted again, what a party kept counts towards its new share:
// from then on it is a part of the payment, and another recall takes it back. That recall holds it
// as far as the party has it; the rest is held on the account, which has it in the party's place.

// Split says how a payment is split, in the order of its shares.
type Split struct {
	Shares []Share `json:"shares"`
}

// Share is one party's: a percentage, an amount, or all that the others leave.
type Share struct {
	AccountID uuid.UUID     `json:"accountId"`
	Percent   *money.Rate   `json:"percent,omitempty"` // of what the payment brought
	Amount    *money.Amount `json:"amount,omitempty"`
	Remainder bool          `json:"remainder,omitempty"`
}

// Parts returns the shares' parts of a sum, in their order, and what is left for the account
// itself. No part is below zero, and together they are the sum. Amounts come before percentages,
// and each share gets at most what the earlier ones leave.
func (s *Split) Parts(whole money.Amount) (parts []money.Amount, own money.Amount) {
	parts, own = make([]money.Amount, len(s.Shares)), whole
	take := func(i int, a money.Amount) {
		if a.Cmp(own) > 0 {
			a = own
		}
		parts[i], own = a, own.Sub(a)
	}
	for i, x := range s.Shares {
		if x.Amount != nil {
			take(i, *x.Amount)
		}
	}
	for i, x := range s.Shares {
		if x.Percent != nil {
			take(i, x.Percent.Of(whole))
		}
	}
	for i, x := range s.Shares {
		if x.Remainder {
			take(i, own)
		}
	}
	return parts, own
}

// splitNarration is the narration of a part, which names the payment.
func splitNarration(payment uuid.UUID) string { return "Split of payment " + payment.String() }

// lockPartiesSQL names the accounts of payments, and of the parties of those with a split: also of
// those that may have kept a part of it when it was posted before.
const lockPartiesSQL = `
		SELECT account_id FROM ledger_entries e WHERE transaction_group_id = ANY($1)
		UNION SELECT (s ->> 'accountId')::uuid FROM ledger_entries e CROSS JOIN LATERAL jsonb_array_elements(e.split -> 'shares') AS s
		WHERE transaction_group_id = ANY($1) AND CASE WHEN e.split IS NULL THEN false ELSE true END
		UNION SELECT p.account_id FROM ledger_entries e JOIN split_parts p ON p.entry_id = ANY(payment_entries(e))
		WHERE e.transaction_group_id = ANY($1) AND CASE WHEN e.status = 'provisional' THEN false ELSE true END`

// LockSplits locks the balances of the payments' accounts, of the parties of their splits and of
// other accounts together, in the order of their ids. Call it before moving payments that may have
// a split.
func LockSplits(ctx context.Context, tx pg.Tx, payments []uuid.UUID, others ...uuid.UUID) error {
	return lockNamed(ctx, tx, lockPartiesSQL, payments, others...)
}

// partsHeldSQL names the accounts of payments, and of the parties of those that were shared out,
// also when they were posted before.
const partsHeldSQL = `
		SELECT account_id FROM ledger_entries e WHERE transaction_group_id = ANY($1)
		UNION SELECT p.account_id FROM ledger_entries e JOIN split_parts p ON p.entry_id = ANY(payment_entries(e))
		WHERE e.transaction_group_id = ANY($1) AND CASE WHEN e.status = 'provisional' THEN false ELSE true END`

// lockNamed locks the balances of the accounts that a statement names for payments, and of others.
func lockNamed(ctx context.Context, tx pg.Tx, sql string, payments []uuid.UUID, others ...uuid.UUID) error {
	accounts, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], sql, payments)
	if err != nil {
		return err
	}
	_, err = lockTotals(ctx, tx, append(accounts, others...))
	return err
}

// Parties returns the accounts that an account's split (JSON) names; nil: it has no split.
func Parties(split *string) (accounts []uuid.UUID, err error) {
	if split == nil {
		return nil, nil
	}
	var s Split
	if err := json.Unmarshal([]byte(*split), &s); err != nil {
		return nil, fmt.Errorf("ledger: a split: %w", err)
	}
	for _, x := range s.Shares {
		accounts = append(accounts, x.AccountID)
	}
	return accounts, nil
}

// part is a row of split_parts of another account than the payment's.
type part struct {
	Of        uuid.UUID // the payment's credit, or an earlier one of the same payment
	Account   uuid.UUID
	Amount    money.Amount
	Group     uuid.UUID // of its two entries
	TakenBack money.Amount
	Credit    uuid.UUID // the party's entry
}

// has is what the party has not returned of its part.
func (p *part) has() money.Amount { return p.Amount.Sub(p.TakenBack) }

const partsSQL = `
		SELECT p.entry_id, p.account_id, p.amount, p.group_id, p.taken_back, e.id
		FROM ledger_entries c JOIN split_parts p ON p.entry_id = ANY(payment_entries(c)) AND p.group_id IS NOT NULL
		JOIN ledger_entries e ON e.transaction_group_id = ANY(ARRAY[p.group_id]) AND CASE e.direction WHEN 'credit' THEN true ELSE false END
		WHERE c.id = $1 ORDER BY p.account_id, p.entry_id <> c.id, p.entry_id`

// readParts reads the parties' parts of a payment's credit, and behind them what they may have kept
// of earlier credits of the same payment, which the bank took back before it was posted again.
func readParts(ctx context.Context, q pg.Querier, entry uuid.UUID) ([]part, error) {
	return pg.Collect(ctx, q, pgx.RowToStructByPos[part], partsSQL, entry)
}

// splitMoved takes back the parts of the payments that were just reversed, also what was kept of
// them when their account had a split, and splits those that were just confirmed. Their balances,
// and their parties', are locked ([LockSplits]).
func splitMoved(ctx context.Context, tx pg.Tx, now time.Time, entries map[entryKey]*stored, from map[uuid.UUID]Status) error {
	var confirmed, reversed []*stored
	for _, e := range entries {
		switch was, ok := from[e.ID]; {
		case !ok || e.Direction != Credit || e.Kind != "":
		case e.Status == Confirmed && e.Split != nil:
			confirmed = append(confirmed, e)
		case e.Status == Reversed && was == Confirmed:
			reversed = append(reversed, e)
		}
	}
	for _, list := range [][]*stored{confirmed, reversed} {
		slices.SortFunc(list, func(a, b *stored) int { return pg.CompareIDs(a.ID, b.ID) })
	}
	for _, e := range reversed {
		if err := takeBack(ctx, tx, now, e); err != nil {
			return err
		}
	}
	if len(confirmed) == 0 {
		return nil
	}
	return shareOut(ctx, tx, now, confirmed)
}

// wholeSQL selects the payments that must not be split: they are held or recalled, or their account
// is frozen, or a party's account is frozen for everything. Each comes with its own account and
// those of its parties ($4).
const wholeSQL = `
		SELECT m.entry FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::boolean[]) AS m (entry, payment, account, party)
		WHERE EXISTS (SELECT FROM holds h WHERE h.entry_id = ANY(ARRAY[m.entry]) AND h.status = 'open')
			OR EXISTS (SELECT FROM recalls r WHERE r.event_id = ANY(ARRAY[m.payment]) AND r.status = 'open')
			OR EXISTS (SELECT FROM freezes f WHERE f.subject = ANY(ARRAY[m.account]) AND f.scope = 'account' AND (f.requests OR NOT m.party)
				AND f.lifted_at IS NULL AND coalesce(f.until, 'infinity') > $5)`

var insertParts = pg.Insert[newPart]("split_parts", 1)

// newPart is a row of split_parts to be inserted.
type newPart struct {
	EntryID   uuid.UUID    `pg:"entry_id"`
	AccountID uuid.UUID    `pg:"account_id"`
	Amount    money.Amount `pg:"amount,numeric"`
	GroupID   *uuid.UUID   `pg:"group_id"`
}

// shareOut splits payments one after the other, each by what the earlier ones leave available, and
// writes all their parts and entries at once.
func shareOut(ctx context.Context, tx pg.Tx, now time.Time, payments []*stored) error {
	splits := make([]Split, len(payments))
	var ids, groups, accounts []uuid.UUID
	var party []bool
	for i, e := range payments {
		if err := json.Unmarshal([]byte(*e.Split), &splits[i]); err != nil {
			return fmt.Errorf("ledger: the split of entry %s: %w", e.ID, err)
		}
		ids, groups, accounts, party = append(ids, e.ID), append(groups, e.TransactionGroupID), append(accounts, e.AccountID), append(party, false)
		for _, x := range splits[i].Shares {
			ids, groups, accounts, party = append(ids, e.ID), append(groups, e.TransactionGroupID), append(accounts, x.AccountID), append(party, true)
		}
	}
	b, err := lockTotals(ctx, tx, accounts)
	if err != nil {
		return err
	}
	whole, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], wholeSQL, ids, groups, accounts, party, now)
	if err != nil {
		return err
	}
	available, err := readAvailable(ctx, tx, accounts, now)
	if err != nil {
		return err
	}
	had, stays, err := readKeptParts(ctx, tx, ids)
	if err != nil {
		return err
	}
	whole = append(whole, stays...)
	var rows []row
	var list []newPart
	for i, e := range payments {
		parts, own := splits[i].Parts(e.kept())
		for j, x := range splits[i].Shares {
			rest := parts[j].Left(had[keptPart{e.ID, x.AccountID}])
			parts[j], own = rest, own.Add(parts[j].Sub(rest))
		}
		if slices.Contains(whole, e.ID) || available[e.AccountID].Cmp(e.kept().Sub(own)) < 0 {
			list = append(list, newPart{e.ID, e.AccountID, e.kept(), nil})
			continue
		}
		list = append(list, newPart{e.ID, e.AccountID, own, nil})
		for j, x := range splits[i].Shares {
			if !parts[j].IsPositive() {
				continue
			}
			group := GroupOf(KindSplit, SystemAccount(x.AccountID.String()), e.TransactionGroupID)
			sides, err := b.between(e.AccountID, x.AccountID, parts[j], group, splitNarration(e.TransactionGroupID), now)
			if err != nil {
				return err
			}
			available[e.AccountID] = available[e.AccountID].Sub(parts[j])
			available[x.AccountID] = available[x.AccountID].Add(parts[j])
			rows, list = append(rows, sides...), append(list, newPart{e.ID, x.AccountID, parts[j], &group})
		}
	}
	var batch pgx.Batch
	batch.Queue(insertParts, pg.Columns(list)...)
	_, err = write(ctx, tx, &batch, b, rows)
	return err
}

// keptPart is what an account has kept of a payment, named by its credit.
type keptPart struct{ Credit, Account uuid.UUID }

const keptPartsSQL = `
		SELECT c.id, p.account_id, p.amount - p.taken_back, p.group_id IS NULL, count(p.group_id) OVER (PARTITION BY c.id, p.entry_id) = 0
		FROM unnest($1::uuid[]) AS m (entry) JOIN ledger_entries c ON c.id = ANY(ARRAY[m.entry])
		JOIN split_parts p ON p.entry_id = ANY(payment_entries(c)) WHERE p.entry_id <> c.id GROUP BY c.id, p.entry_id, p.account_id`

// readKeptParts reads what parties did not return of payments that were posted before and then
// taken back by the bank, and which of these were kept whole. They stay whole: a part of one may
// have left, or stand against a debit, by now.
func readKeptParts(ctx context.Context, q pg.Querier, credits []uuid.UUID) (kept map[keptPart]money.Amount, whole []uuid.UUID, err error) {
	rows := pg.Rows(ctx, q, keptPartsSQL, credits)
	kept = map[keptPart]money.Amount{}
	var of keptPart
	var sum money.Amount
	var own, all bool
	_, err = pgx.ForEachRow(rows, []any{&of.Credit, &of.Account, &sum, &own, &all}, func() error {
		if all {
			whole = append(whole, of.Credit)
		}
		if !own {
			kept[of] = kept[of].Add(sum)
		}
		return nil
	})
	return kept, whole, err
}

// between are the entries of a movement of a split.
func (b book) between(from, to uuid.UUID, amount money.Amount, group uuid.UUID, narration string, now time.Time) ([]row, error) {
	rows := make([]row, 2)
	now = b.dated(now, from, to)
	for i, side := range []struct {
		account   uuid.UUID
		direction Direction
	}{{from, Debit}, {to, Credit}} {
		t, err := b.of(side.account)
		if err != nil {
			return nil, err
		}
		t.add(side.direction, amount)
		rows[i] = t.next(Entry{
			Direction: side.direction, Amount: amount, Status: Confirmed, Narration: narration, TransactionGroupID: group, CreatedAt: now, Kind: KindSplit,
		}, "")
	}
	return rows, nil
}

// takeBack returns the parties' parts of a payment that the bank has taken back, as far as they
// still have them.
func takeBack(ctx context.Context, tx pg.Tx, now time.Time, e *stored) error {
	parts, err := readParts(ctx, tx, e.ID)
	if err != nil {
		return err
	}
	accounts := []uuid.UUID{e.AccountID}
	for _, p := range parts {
		accounts = append(accounts, p.Account)
	}
	for _, p := range parts {
		if err := SetPolicyHold(ctx, tx, now, PolicyHold{AccountID: p.Account, EntryID: p.Credit}); err != nil {
			return err
		}
		b, err := lockTotals(ctx, tx, accounts)
		if err != nil {
			return err
		}
		var available money.Amount
		if err := tx.QueryRow(ctx, availableSQL, p.Account, now).Scan(&available); err != nil {
			return err
		}
		take := p.has()
		if take.Cmp(available) > 0 {
			take = available
		}
		if !take.IsPositive() {
			continue
		}
		var again SystemAccount // an earlier recall may have taken back some of it
		if p.Of != e.ID {
			again = SystemAccount(e.ID.String())
		}
		rows, err := b.between(p.Account, e.AccountID, take, GroupOf(KindSplit, again, p.Group), givenBack+splitNarration(e.TransactionGroupID), now)
		if err != nil {
			return err
		}
		if _, err := write(ctx, tx, new(pgx.Batch), b, rows); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE split_parts SET taken_back = taken_back + $3 WHERE entry_id = $1 AND account_id = $2`, p.Of, p.Account, take); err != nil {
			return err
		}
	}
	return nil
}

// holdParts holds what the parties of a recalled payment still have of it, and returns what its
// account need not hold: what the parties received of this credit, and what is held of their parts
// of earlier ones. (What they have spent of those, the account has been given in their place.)
func holdParts(ctx context.Context, tx pg.Tx, now time.Time, e *stored) (passed money.Amount, err error) {
	if e.Status != Confirmed {
		return passed, nil
	}
	parts, err := readParts(ctx, tx, e.ID)
	if err != nil {
		return passed, err
	}
	for _, p := range parts {
		var available money.Amount
		if err := tx.QueryRow(ctx, availableSQL, p.Account, now).Scan(&available); err != nil {
			return passed, err
		}
		if p.has().Cmp(available) < 0 {
			available = p.has()
		}
		if p.Of == e.ID {
			passed = passed.Add(p.has())
		}
		if !available.IsPositive() {
			continue
		}
		if p.Of != e.ID {
			passed = passed.Add(available)
		}
		if err := SetPolicyHold(ctx, tx, now, PolicyHold{
			AccountID: p.Account, EntryID: p.Credit, Amount: available, Policy: Policy{Source: HeldByRecall, Reason: "the bank may have taken back the payment that it is a part of"},
		}); err != nil {
			return passed, err
		}
	}
	return passed, nil
}

// ReleaseParts ends what the parties of payments hold for recalls. Their balances are locked
// ([LockSplits]).
func ReleaseParts(ctx context.Context, tx pg.Tx, now time.Time, payments []uuid.UUID) error {
	held, err := pg.Collect(ctx, tx, pgx.RowToStructByPos[struct{ Account, Entry uuid.UUID }], `
		SELECT h.account_id, h.entry_id FROM ledger_entries e JOIN split_parts p ON p.entry_id = ANY(payment_entries(e))
		JOIN ledger_entries c ON c.transaction_group_id = ANY(ARRAY[p.group_id]) AND CASE c.direction WHEN 'credit' THEN true ELSE false END
		JOIN holds h ON h.entry_id = ANY(ARRAY[c.id]) AND h.status = 'open'
		WHERE e.transaction_group_id = ANY($1) ORDER BY h.account_id`, payments)
	for _, h := range held {
		if err == nil {
			err = SetPolicyHold(ctx, tx, now, PolicyHold{AccountID: h.Account, EntryID: h.Entry})
		}
	}
	return err
}

// splitsSQL compares what payments brought with the parts that they were shared out in, and each
// part with its entries.
const splitsSQL = `
		WITH p AS (SELECT entry_id, sum(amount) AS whole, count(*) FILTER (WHERE group_id IS NULL) AS own FROM split_parts GROUP BY 1)
		SELECT e.id::text, format('%s of %s; its parts are %s', e.status, e.amount, coalesce(p.whole, 0))
		FROM ledger_entries e LEFT JOIN p ON p.entry_id = e.id
		WHERE e.split IS NOT NULL AND (e.status = 'confirmed' AND p.entry_id IS NULL OR p.entry_id IS NOT NULL AND (p.own <> 1 OR p.whole <> e.amount - CASE WHEN e.price_id IS NULL THEN 0 ELSE (
				SELECT coalesce(sum(f.amount), 0) FROM ledger_entries f WHERE f.account_id = e.account_id AND f.kind = 'platform_fee' AND f.reversal_of IS NULL
					AND f.transaction_group_id IN (event_key('platform_fee:platform_revenue:' || e.transaction_group_id), event_key('platform_fee:taxes:' || e.transaction_group_id))) END))
		UNION ALL
		SELECT p.entry_id::text, format('the part %s of %s has not its two entries', p.amount, p.account_id)
		FROM split_parts p JOIN ledger_entries e ON e.id = p.entry_id
		WHERE p.group_id IS NOT NULL AND (SELECT count(*) FROM ledger_entries s WHERE s.transaction_group_id = p.group_id AND s.kind = 'split' AND s.status = 'confirmed' AND s.amount = p.amount
			AND s.account_id = CASE s.direction WHEN 'credit' THEN p.account_id ELSE e.account_id END AND s.tenant_id = e.tenant_id) <> 2`
