package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// BookTransfer asks to move money from one account of a tenant to another account of the same
// tenant.
type BookTransfer struct {
	ID        uuid.UUID // the group of both entries; a second one of the same id is refused by the schema
	From, To  uuid.UUID
	Amount    money.Amount // above zero
	Narration string
}

// The locks are taken before it begins, so the row and its holds do not change after it has read
// them.
var availableSQL = `SELECT ` + Available("false", "$2") + ` FROM ledger_balances b WHERE b.account_id = $1`

// PostBookTransfer posts the debit and the credit of a book transfer, both confirmed. It takes only
// [Available] money, or fails with [ErrInsufficientFunds]. So it takes the cover of no earlier
// debit, and money that the bank may still take back is not moved on.
func PostBookTransfer(ctx context.Context, tx pg.Tx, now time.Time, b BookTransfer) (debit, credit Entry, err error) {
	locked, err := lockTotals(ctx, tx, []uuid.UUID{b.From, b.To})
	if err != nil {
		return debit, credit, err
	}
	var available money.Amount
	if err := tx.QueryRow(ctx, availableSQL, b.From, now).Scan(&available); err != nil {
		return debit, credit, err
	}
	if available.Cmp(b.Amount) < 0 {
		return debit, credit, ErrInsufficientFunds
	}
	now = locked.dated(now, b.From, b.To)
	side := func(account uuid.UUID, d Direction) (row, error) {
		t, err := locked.of(account)
		if err != nil {
			return row{}, err
		}
		t.add(d, b.Amount)
		return t.next(Entry{
			Direction: d, Amount: b.Amount, Status: Confirmed, Narration: b.Narration, TransactionGroupID: b.ID, CreatedAt: now, Kind: KindBookTransfer,
		}, ""), nil
	}
	from, err := side(b.From, Debit)
	if err != nil {
		return debit, credit, err
	}
	to, err := side(b.To, Credit)
	if err != nil {
		return debit, credit, err
	}
	entries, err := write(ctx, tx, new(pgx.Batch), locked, []row{from, to})
	if err != nil {
		return debit, credit, err
	}
	return entries[0], entries[1], nil
}
