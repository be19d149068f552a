package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/batch"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/trace"
	"ajo/ledger"
)

// SuspenseRefund asks to refund a misdirected payment to its sender.
type SuspenseRefund struct {
	EventID uuid.UUID
	Record  provider.Transaction // the bank's own, which names the sender
	// another account of the sender; empty: the record's
	BankCode, AccountNumber string
	// locks the payment's event in the refund's transaction, and refuses one that is not
	// misdirected any more
	Lock func(context.Context, pg.Tx) error
}

// suspense is the account from which misdirected payments are refunded, as package transfer
// represents accounts.
var suspense = &account.Account{ID: ledger.Suspense.ID(), TenantID: ledger.Suspense.ID(), AccountRef: string(ledger.Suspense), Currency: money.Currency}

// kindOf returns the kind of a debit on an account: only entries of system accounts have one.
func kindOf(tenant, account uuid.UUID) ledger.Kind {
	if tenant == account {
		return ledger.KindSuspense
	}
	return ""
}

// RefundSuspense refunds a misdirected payment to the sender that the bank's own record names: all
// of it, or what came back of an earlier refund, by a transfer from the account suspense, which
// continues like a tenant's refund: it fails unless the bank names the sender as the account's
// holder. For operators. It returns the transfer's reference. [ErrNoSender]; [ErrBankCode];
// [ErrAccountNumber]; [ErrRefunded] once all of it is refunded or being refunded;
// ledger.ErrEntryNotFound for what is not in suspense; and the refusals of Lock.
func (s *Service) RefundSuspense(ctx context.Context, r SuspenseRefund, by audit.By) (ref string, err error) {
	if err := by.Check(); err != nil {
		return "", err
	}
	group := ledger.GroupOf(ledger.KindSuspense, ledger.Suspense, r.EventID)
	entry, err := pg.One(ctx, s.Pool, pgx.RowTo[uuid.UUID], ledger.ErrEntryNotFound,
		`SELECT id FROM ledger_entries WHERE transaction_group_id = $1 AND direction = 'credit'`, group)
	if err != nil {
		return "", err
	}
	p := refundable{Recorded: true, Name: r.Record.SenderName, Account: r.Record.SenderAccount, BankCode: r.Record.SenderBankCode, BankName: r.Record.SenderBank}
	switch elsewhere := r.BankCode != "" || r.AccountNumber != ""; {
	case elsewhere && !bankCodeForm.MatchString(r.BankCode):
		return "", ErrBankCode
	case elsewhere && !accountForm.MatchString(r.AccountNumber):
		return "", ErrAccountNumber
	case elsewhere:
		p.Account, p.BankCode, p.BankName = r.AccountNumber, r.BankCode, ""
	}
	to, err := s.backTo(ctx, &p)
	if err != nil {
		return "", err
	}
	to.trace, to.refund = trace.Parent(ctx), &refund{of: entry, name: r.Record.SenderName, txnRef: r.Record.ID}
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		if err := r.Lock(ctx, tx); err != nil {
			return err
		}
		a, err := s.acceptSuspense(ctx, tx, now, to)
		if err != nil {
			return err
		}
		ref = a.MerchantTxRef
		return audit.Write(ctx, tx, now, by.Entry("events.refund", "event:"+r.EventID.String(), struct {
			MerchantTxRef           string
			Amount                  money.Amount
			Name, Account, BankCode string
			ProviderTxnRef          string
		}{ref, a.amount, to.refund.name, to.order.AccountNumber, to.order.BankCode, r.Record.ID}))
	})
	return ref, err
}

// acceptSuspense is acceptRefund for the account suspense, which is locked after all others.
func (s *Service) acceptSuspense(ctx context.Context, tx pg.Tx, now time.Time, to *request) (*acceptance, error) {
	if err := ledger.LockAvailable(ctx, tx, now, suspense.ID); err != nil {
		return nil, err
	}
	p, err := s.readRefundable(ctx, tx, now, suspense.TenantID, to.refund.of)
	if err != nil {
		return nil, err
	}
	switch to.amount = p.Net.Sub(p.RefundedSum); {
	case !to.amount.IsPositive():
		return nil, ErrRefunded
	case to.amount.Cmp(p.Available) > 0:
		return nil, ledger.ErrInsufficientFunds
	}
	ref, err := to.suspenseRef(ctx, tx)
	if err != nil {
		return nil, err
	}
	a := to.accept(account.Payer{Account: suspense})
	a.MerchantTxRef = ref
	out := make([]batch.Outcome[Settled], 1)
	_, err = s.debit(ctx, tx, now, []*acceptance{a}, out)
	return a, errors.Join(err, out[0].Err)
}

// suspenseRef makes the merchantTxRef of a refund out of suspense. The first refund of a payment
// always has the same, and so has each next one: books that were restored from before a refund make
// the same reference again, and the bank does not pay again.
func (r *request) suspenseRef(ctx context.Context, tx pg.Tx) (string, error) {
	txn := sha256.Sum256([]byte(r.refund.txnRef))
	used, err := pg.Collect(ctx, tx, pgx.RowTo[string], `SELECT merchant_tx_ref FROM transfers WHERE refund_of = $1`, r.refund.of)
	for n := 1; err == nil; n++ {
		var key idempotency.Request
		if key, err = idempotency.NewRequest(suspense.ID, fmt.Sprintf("refund %d of misdirected: %x", n, txn), "", "", nil); err != nil {
			break
		}
		if ref := r.newRef(suspense.ID, key); !slices.Contains(used, ref) {
			return ref, nil
		}
	}
	return "", err
}
