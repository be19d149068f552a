package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// RecallStands is SQL that follows a recall's status, and is true if the recall has not ended: it
// holds the payment's money, or is watched.
const RecallStands = ` IN ('open', 'watched')`

// recallChange is what one transaction does to an account's recalls.
type recallChange struct {
	AccountID uuid.UUID    `pg:"account_id"`
	Held      money.Amount `pg:"held,numeric"`     // added to what is held; below zero: released
	Reversed  money.Amount `pg:"reversed,numeric"` // taken back for good
}

func (t *totals) recalled(held, reversed money.Amount) {
	if t.recall == nil {
		t.recall = &recallChange{AccountID: t.AccountID}
	}
	t.recall.Held, t.recall.Reversed = t.recall.Held.Add(held), t.recall.Reversed.Add(reversed)
}

// Held is what a hold of a payment found.
type Held struct {
	Status Status       // of its credit; empty: there is none
	Amount money.Amount // held now: what the credit brought, if it is in the balance
}

// HoldRecalled keeps the credits of payments (named by their groups) from paying for settlements
// that leave, until [ReleaseRecalled], because the bank may have taken them back. The balance and
// the statement do not change. Nothing is held of a credit that is not in the balance. A second
// call holds a second time: the caller stores what is held of each payment.
func HoldRecalled(ctx context.Context, tx pg.Tx, now time.Time, payments []uuid.UUID) (map[uuid.UUID]Held, error) {
	// A payment that was posted just now has no parts yet: its account is locked already, and its
	// parties must not be locked after that.
	if err := lockNamed(ctx, tx, partsHeldSQL, payments); err != nil {
		return nil, err
	}
	moves := make([]Move, len(payments))
	for i, id := range payments {
		moves[i].TransactionGroupID = id
	}
	b, entries, err := lockEntries(ctx, tx, moves)
	if err != nil {
		return nil, err
	}
	out := map[uuid.UUID]Held{}
	for _, id := range payments {
		e, ok := entries[entryKey{id, Credit}]
		if !ok || e.ReversalOf != nil {
			continue
		}
		h := Held{Status: e.Status}
		if e.Status == Provisional || e.Status == Confirmed {
			t, err := b.of(e.AccountID)
			if err != nil {
				return nil, err
			}
			passed, err := holdParts(ctx, tx, now, e)
			if err != nil {
				return nil, err
			}
			// Parties may have more of it than it brings: if it was posted again, by another split
			// or with another sum.
			h.Amount = e.kept().Left(passed)
			t.recalled(h.Amount, money.Zero)
		}
		out[id] = h
	}
	_, err = write(ctx, tx, new(pgx.Batch), b, nil)
	return out, err
}

// ReleaseRecalled releases what was held of payments, in the order of their accounts' ids.
func ReleaseRecalled(ctx context.Context, tx pg.Tx, held map[uuid.UUID]money.Amount) error {
	var accounts []uuid.UUID
	for id := range held {
		accounts = append(accounts, id)
	}
	b, err := lockTotals(ctx, tx, accounts)
	if err != nil {
		return err
	}
	for id, amount := range held {
		t, err := b.of(id)
		if err != nil {
			return err
		}
		t.recalled(amount.Neg(), money.Zero)
	}
	_, err = write(ctx, tx, new(pgx.Batch), b, nil)
	return err
}

// queueRecalls stores the changes to accounts' recalls, in a statement of its own, because hardly
// any account has a recall.
func queueRecalls(batch *pgx.Batch, all map[uuid.UUID]*totals) {
	var changes []*recallChange
	for _, t := range all {
		if t.recall != nil {
			changes = append(changes, t.recall)
			t.recall = nil
		}
	}
	if len(changes) > 0 {
		batch.Queue(updateRecalls, pg.Columns(changes)...)
	}
}

var updateRecalls = `
		UPDATE ledger_balances b SET recall_held = coalesce(b.recall_held, 0) + m.held,
			recall_reversed = coalesce(b.recall_reversed, 0) + m.reversed, recall_count = coalesce(b.recall_count, 0) + 1
		FROM ` + pg.Unnest[recallChange](1, "m") + ` WHERE b.account_id = m.account_id`
