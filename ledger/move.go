package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// Move asks for one entry's status to change by an event of [Transitions]. The entry is named by
// its group and direction.
type Move struct {
	TransactionGroupID uuid.UUID
	Direction          Direction
	Event              Event
	// for a confirmation by the bank's own record: the payer that it names; else nil
	Sender *Sender
	// for a payment that returns from a review: as of a [Posting]
	Gone money.Amount
}

// Sender is the payer as the bank's own record has it. What it does not say is empty.
type Sender struct {
	Name, AccountNumber, BankCode, BankName string
	SessionID                               string // the interbank switch's id of the payment
}

// Moved is the result of a [Move].
type Moved struct {
	EntryID uuid.UUID
	Status  Status // the entry's status now
	// the account's balance after the move; below zero only when paid-out money proved false
	Balance money.Amount
	// [ErrEntryNotFound] or [ErrMove]: this move changed nothing, its neighbours stand
	Err error
}

// stored is an entry as read under its account's lock.
type stored struct {
	Entry
	AccountID uuid.UUID
	Contra    SystemAccount
	Price     *uuid.UUID // of a payment's credit
	Split     *string    // of a payment's credit, as JSON: how it is split once it is confirmed
	charged   []*stored  // of a credit with a price: what the platform takes of it
	charges   *stored    // of such a charge: the credit
	// the account's last number, if this move begins or ends the entry's review
	reviewFrom, reviewTo *int64
	record               *Sender // what this move brings
}

// MoveEntries applies the moves in order, in one transaction, and returns a result for each. A move
// to reversed also posts the reversal entry: opposite direction, same amount, itself reversed,
// pointing at the original. The platform's charges on a payment move with its credit.
func MoveEntries(ctx context.Context, tx pg.Tx, now time.Time, moves []Move) ([]Moved, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	book, entries, err := lockEntries(ctx, tx, moves)
	if err != nil {
		return nil, err
	}
	out := make([]Moved, len(moves))
	changed := map[uuid.UUID]Status{} // entry → the status it had
	var reversals []row
	var left, confirmed, back []arrival // credits that leave the balance, stay in it, return to it
	for i, m := range moves {
		e, ok := entries[entryKey{m.TransactionGroupID, m.Direction}]
		if !ok {
			out[i].Err = ErrEntryNotFound
			continue
		}
		t, err := book.of(e.AccountID)
		if err != nil {
			return nil, err
		}
		to, ok := next(e.Direction, e.Status, m.Event)
		if !ok || e.ReversalOf != nil {
			out[i] = Moved{EntryID: e.ID, Status: e.Status, Balance: t.net(), Err: ErrMove}
			continue
		}
		if _, again := changed[e.ID]; again {
			return nil, fmt.Errorf("ledger: entry %s moved twice in one call", e.ID)
		}
		if m.Event == EventRecall {
			t.recalled(money.Zero, e.kept())
		}
		for _, c := range append(e.charged, e) { // the charges first: what goes back covers the reversal
			changed[c.ID] = c.Status
			if r := t.carry(c, to, now); r != nil {
				reversals = append(reversals, *r)
			}
			book.days.carry(t.TenantID, c, to)
			if c != e {
				c.Status = to
			}
		}
		if to == Confirmed {
			e.record = m.Sender
		}
		if e.Direction == Credit && e.Kind == "" {
			was := e.Entry // as its hold was counted
			switch a := (arrival{e.AccountID, &was, e.kept()}); {
			case !inBalance(to) && inBalance(e.Status):
				left = append(left, a)
			case e.Status == Provisional:
				confirmed = append(confirmed, a)
			case inBalance(to):
				was.Status, a.kept = to, a.kept.Left(m.Gone)
				back = append(back, a)
			}
		}
		e.Status = to
		out[i] = Moved{EntryID: e.ID, Status: to, Balance: t.net()}
	}
	if len(changed) == 0 {
		return out, nil
	}
	over := newOvers()
	if err := over.moved(ctx, tx, book, now, left, confirmed, back); err != nil {
		return nil, err
	}
	var batch pgx.Batch
	queueStatuses(&batch, now, entries, changed)
	over.queue(&batch, now)
	if _, err = write(ctx, tx, &batch, book, reversals); err != nil {
		return nil, err
	}
	return out, splitMoved(ctx, tx, now, entries, changed)
}

// For the form of the conditions see package pg, plans.go.
const confirmDebitsSQL = `
	UPDATE ledger_entries e SET status = 'confirmed' FROM unnest($1::uuid[]) AS m (id)
	WHERE e.transaction_group_id = ANY(ARRAY[m.id]) AND CASE e.direction WHEN 'debit' THEN e.status = 'provisional' AND e.reversal_of IS NULL ELSE false END`

// ConfirmDebits confirms the provisional debits of transaction groups: all of them or, with
// [ErrMove], none. It moves no money: a debit left the balance when it was posted. So it locks no
// balance, and need not wait while settlements of these accounts are accepted. The caller has
// locked the settlements' items of work, so that nobody else moves their debits meanwhile.
func ConfirmDebits(ctx context.Context, tx pg.Tx, groups []uuid.UUID) error {
	if len(groups) == 0 {
		return nil
	}
	tag, err := tx.Exec(ctx, confirmDebitsSQL, groups)
	if err == nil && int(tag.RowsAffected()) != len(groups) {
		err = fmt.Errorf("ledger: %d of %d debits confirmed: %w", tag.RowsAffected(), len(groups), ErrMove)
	}
	return err
}

// carry applies an entry's change of status to the totals, and returns the reversal entry if there
// is one.
func (t *totals) carry(e *stored, to Status, now time.Time) *row {
	switch {
	case e.Status != Provisional:
	case e.Direction == Credit:
		t.ProvisionalCredits, t.changed = t.ProvisionalCredits.Sub(e.Amount), true
	case e.charges != nil:
		t.ProvisionalCredits, t.changed = t.ProvisionalCredits.Add(e.Amount), true
	}
	switch {
	case to == NeedsReview: // leaves the balance until a person decides
		t.add(e.Direction, e.Amount.Neg())
		at := t.LastSeq
		e.reviewFrom = &at
	case e.Status == NeedsReview: // comes back
		t.add(e.Direction, e.Amount)
		at := t.LastSeq
		e.reviewTo = &at
	}
	if to != Reversed {
		return nil
	}
	t.add(e.Direction.opposite(), e.Amount)
	original := e.ID
	r := t.next(Entry{
		Direction: e.Direction.opposite(), Amount: e.Amount, Status: Reversed, Narration: "Reversal: " + e.Narration,
		ProviderTxnRef: e.ProviderTxnRef, TransactionGroupID: e.TransactionGroupID, TransferRef: e.TransferRef,
		ReversalOf: &original, CreatedAt: now, SenderName: e.SenderName, SenderBank: e.SenderBank, Kind: e.Kind,
	}, e.Contra)
	return &r
}

type entryKey struct {
	group     uuid.UUID
	direction Direction
}

func groups(moves []Move) []uuid.UUID {
	ids := make([]uuid.UUID, len(moves))
	for i, m := range moves {
		ids[i] = m.TransactionGroupID
	}
	return ids
}

// lockEntries locks the balances of the accounts that the moves' entries belong to (an entry's
// account never changes), in the order of their ids, and then reads the entries, which nothing
// changes meanwhile. Both statements are sent together; the second starts, with its own snapshot,
// when the first has all its locks.
func lockEntries(ctx context.Context, tx pg.Tx, moves []Move) (b book, entries map[entryKey]*stored, err error) {
	var batch pgx.Batch
	batch.Queue(selectTotals+`
		WHERE account_id IN (SELECT account_id FROM ledger_entries WHERE transaction_group_id = ANY($1)) ORDER BY account_id FOR NO KEY UPDATE`,
		groups(moves)).Query(func(rows pgx.Rows) error {
		b, err = readTotals(rows)
		return err
	})
	batch.Queue(storedSQL, groups(moves)).Query(func(rows pgx.Rows) error {
		entries = map[entryKey]*stored{}
		list, err := pgx.CollectRows(rows, scanStored)
		for _, s := range list {
			entries[entryKey{s.TransactionGroupID, s.Direction}] = s
		}
		return err
	})
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return b, nil, err
	}
	return b, entries, readCharges(ctx, tx, entries)
}

// fields are the scan targets of an entry, in the order in which every query here names the
// columns.
func (e *Entry) fields() []any {
	return []any{
		&e.ID, &e.Direction, &e.Amount, &e.Fee, &e.Currency, &e.Status, &e.Narration, &e.ProviderTxnRef,
		&e.TransactionGroupID, &e.TransferRef, &e.ReversalOf, &e.CreatedAt, &e.SenderName, &e.SenderBank, &e.SenderAccount, &e.SenderBankCode, &e.SessionID, &e.Kind,
	}
}

// newStatus is a row of statusesSQL.
type newStatus struct {
	ID         uuid.UUID `pg:"id"`
	From       Status    `pg:"status_from"`
	To         Status    `pg:"status_to"`
	ReviewFrom *int64    `pg:"review_from"`
	ReviewTo   *int64    `pg:"review_to"`
	// what the bank's record says of the payer; all nil: nothing
	Account  *string `pg:"account"`
	BankCode *string `pg:"bank_code"`
	Session  *string `pg:"session"`
	Name     *string `pg:"name"`
	Bank     *string `pg:"bank"`
	// of a confirmed credit; nil: unchanged
	ConfirmedAt *time.Time `pg:"confirmed_at"`
}

var statusesSQL = `
		UPDATE ledger_entries e SET status = m.status_to,
			review_from_seq = coalesce(m.review_from, e.review_from_seq), review_to_seq = coalesce(m.review_to, e.review_to_seq),
			record_account = coalesce(m.account, e.record_account), record_bank_code = coalesce(m.bank_code, e.record_bank_code),
			record_session = coalesce(m.session, e.record_session), record_name = coalesce(nullif(m.name, e.sender_name), e.record_name),
			record_bank = coalesce(nullif(m.bank, e.sender_bank), e.record_bank), confirmed_at = coalesce(m.confirmed_at, e.confirmed_at)
		FROM ` + pg.Unnest[newStatus](1, "m") + `
		WHERE e.id = m.id AND e.status = m.status_from`

// queueStatuses writes the new statuses.
func queueStatuses(batch *pgx.Batch, now time.Time, entries map[entryKey]*stored, from map[uuid.UUID]Status) {
	var rows []newStatus
	for _, e := range entries {
		if old, ok := from[e.ID]; ok {
			row := newStatus{ID: e.ID, From: old, To: e.Status, ReviewFrom: e.reviewFrom, ReviewTo: e.reviewTo}
			if e.Direction == Credit && e.Status == Confirmed {
				row.ConfirmedAt = &now
			}
			if s := e.record; s != nil {
				row.Account, row.BankCode, row.Session, row.Name, row.Bank = &s.AccountNumber, &s.BankCode, &s.SessionID, &s.Name, &s.BankName
			}
			rows = append(rows, row)
		}
	}
	batch.Queue(statusesSQL, pg.Columns(rows)...).Exec(func(tag pgconn.CommandTag) error {
		if int(tag.RowsAffected()) != len(rows) {
			return fmt.Errorf("ledger: %d of %d entries moved: a status changed without its account's lock", tag.RowsAffected(), len(rows))
		}
		return nil
	})
}
