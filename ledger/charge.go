package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// Charge is a movement between a tenant's account and a system account: the tenant's share of a
// cost that the platform has paid. It does not change the wallet.
type Charge struct {
	AccountID uuid.UUID
	Amount    money.Amount // debited; below zero: given back
	Contra    SystemAccount
	Kind      Kind
	Narration string
	// of the payout
	TransferRef *string
	// a second charge of the same group and direction is refused by the schema
	TransactionGroupID uuid.UUID
}

var availableOfSQL = `SELECT b.account_id, ` + Available("false", "$2") + ` FROM ledger_balances b WHERE b.account_id = ANY($1)`

// readAvailable reads what is available on accounts. Their balances must be locked.
func readAvailable(ctx context.Context, tx pg.Tx, accounts []uuid.UUID, now time.Time) (map[uuid.UUID]money.Amount, error) {
	rows := pg.Rows(ctx, tx, availableOfSQL, accounts, now)
	available := map[uuid.UUID]money.Amount{}
	var account uuid.UUID
	var sum money.Amount
	_, err := pgx.ForEachRow(rows, []any{&account, &sum}, func() error {
		available[account] = sum
		return nil
	})
	return available, err
}

// PostCharges posts charges, which stand at once, as if one after the other, and returns how much
// of each was posted. A debit takes only [Available] money, and less than was asked if there is not
// enough. So it takes the cover of no earlier debit, and does not bring the balance below zero.
func PostCharges(ctx context.Context, tx pg.Tx, now time.Time, charges []Charge) ([]money.Amount, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	ids := make([]uuid.UUID, len(charges))
	for i, c := range charges {
		ids[i] = c.AccountID
	}
	book, err := lockTotals(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	// The locks are taken, so the rows and their holds do not change after they are read.
	available, err := readAvailable(ctx, tx, ids, now)
	if err != nil {
		return nil, err
	}
	out := make([]money.Amount, len(charges))
	var rows []row
	for i, c := range charges {
		t, err := book.of(c.AccountID)
		if err != nil {
			return nil, err
		}
		if out[i] = c.Amount; out[i].Cmp(available[c.AccountID]) > 0 && out[i].IsPositive() {
			out[i] = available[c.AccountID]
			if out[i].Sign() < 0 {
				out[i] = money.Zero
			}
		}
		available[c.AccountID] = available[c.AccountID].Sub(out[i])
		e := Entry{
			Direction: Debit, Amount: out[i], Status: Confirmed, Narration: c.Narration, TransactionGroupID: c.TransactionGroupID, TransferRef: c.TransferRef,
			CreatedAt: now, Kind: c.Kind,
		}
		switch out[i].Sign() {
		case 0:
			continue
		case -1:
			e.Direction, e.Amount, e.Narration = Credit, out[i].Neg(), givenBack+c.Narration
		}
		t.add(e.Direction, e.Amount)
		rows = append(rows, t.next(e, c.Contra))
	}
	_, err = write(ctx, tx, new(pgx.Batch), book, rows)
	return out, err
}

// givenBack begins the narration of a charge that is given back.
const givenBack = "Given back: "
