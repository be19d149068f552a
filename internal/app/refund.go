package app

import (
	"context"

	"ajo/internal/audit"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/transfer"
)

// Return pays a misdirected payment back to its sender, to the account that the bank's record names
// or, if one is given, to another one of the sender. It returns the transfer's reference.
func (t *Tools) Return(ctx context.Context, p payment.Returnable, bankCode, accountNumber string, by audit.By) (merchantTxRef string, err error) {
	return t.Transfers.RefundSuspense(ctx, transfer.SuspenseRefund{
		EventID: p.Event.ID, Record: p.Record, BankCode: bankCode, AccountNumber: accountNumber,
		Lock: func(ctx context.Context, tx pg.Tx) error { return payment.LockMisdirected(ctx, tx, p.Event.ID) },
	}, by)
}
