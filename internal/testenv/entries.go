package testenv

import (
	"context"

	"github.com/google/uuid"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/ledger"
)

// Credit posts a payment to an account, which is provisional, and returns its group.
func (e *Env) Credit(account uuid.UUID, amount string) (group uuid.UUID) {
	e.T.Helper()
	group = uuid.Must(uuid.NewV7())
	e.Post(ledger.Posting{AccountID: account, Amount: money.Must(amount), TransactionGroupID: group, ProviderTxnRef: group.String()})
	return group
}

// Post posts payments at the test's time.
func (e *Env) Post(payments ...ledger.Posting) {
	e.T.Helper()
	ctx := context.Background()
	must(e.T, pg.InTx(ctx, e.Pool, func(tx pg.Tx) error {
		_, err := ledger.PostCredits(ctx, tx, e.Clock.Now(), payments)
		return err
	}))
}

// MoveCredit moves the entry of a payment, as its confirmation or an operator does.
func (e *Env) MoveCredit(group uuid.UUID, event ledger.Event) {
	e.T.Helper()
	e.Move(ledger.Move{TransactionGroupID: group, Direction: ledger.Credit, Event: event})
}

// Move moves entries at the test's time, all or none of them.
func (e *Env) Move(moves ...ledger.Move) {
	e.T.Helper()
	ctx := context.Background()
	must(e.T, pg.InTx(ctx, e.Pool, func(tx pg.Tx) error {
		moved, err := ledger.MoveEntries(ctx, tx, e.Clock.Now(), moves)
		for i := 0; err == nil && i < len(moved); i++ {
			err = moved[i].Err
		}
		return err
	}))
}
