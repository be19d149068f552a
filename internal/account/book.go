package account

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/freeze"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/ledger"
)

const maxNarration = 140 // characters; as of a settlement

// Refusals of a book transfer.
var (
	ErrBookTo        = errs.New(errs.Invalid, "toAccountRef is required")
	ErrBookSame      = errs.New(errs.Invalid, "toAccountRef must be another account")
	ErrBookNarration = errs.New(errs.Invalid, "narration must be at most 140 characters, without control characters")
	ErrBookNotFound  = errs.New(errs.NotFound, "toAccountRef: account not found")
	ErrBookNotActive = errs.New(errs.Unprocessable, "toAccountRef: account is not active")
)

// BookOrder is a request to move money to another account of the tenant.
type BookOrder struct {
	ToAccountRef string
	Amount       string // decimal naira, as the client wrote it
	Narration    string
	Standing     audit.Standing `json:"-"`
}

// BookTransfer is the answer to a [BookOrder]: both entries are posted and confirmed.
type BookTransfer struct {
	ID             uuid.UUID    `json:"id"` // the TransactionGroupID of both entries
	FromAccountRef string       `json:"fromAccountRef"`
	ToAccountRef   string       `json:"toAccountRef"`
	Amount         money.Amount `json:"amount"`
	Currency       string       `json:"currency"`
	Narration      string       `json:"narration"`
	DebitEntryID   uuid.UUID    `json:"debitEntryId"`
	CreditEntryID  uuid.UUID    `json:"creditEntryId"`
	CreatedAt      time.Time    `json:"createdAt"`
}

func (o *BookOrder) check() (amount money.Amount, err error) {
	o.ToAccountRef = strings.TrimSpace(o.ToAccountRef)
	amount, err = parseAmount(o.Amount)
	switch {
	case err != nil:
		return amount, err
	case o.ToAccountRef == "":
		return amount, ErrBookTo
	case !errs.Plain(o.Narration, maxNarration):
		return amount, ErrBookNarration
	}
	return amount, nil
}

// Transfer moves money between two accounts of a tenant, at once: a debit, a credit and the kept
// answer are one transaction, under the locks of both balances. It takes only what is available:
// confirmed, not held, and not on its way out. A settlement of the other account that waits for
// money goes on at once. Refusals: [ErrAmount], [ErrBookTo],
// [ErrBookNarration], [ErrNotFound], [ErrBookNotFound], [ErrBookSame], [ErrBookNotActive],
// [ErrFrozen], ledger.ErrInsufficientFunds, and those of package idempotency.
func (s *Service) Transfer(ctx context.Context, tenantID uuid.UUID, ref string, o BookOrder, key idempotency.Request) (idempotency.Result, error) {
	amount, err := o.check()
	if err != nil {
		return idempotency.Result{}, err
	}
	return idempotency.Once(ctx, s.Pool, s.Clock, http.StatusCreated, key, func(tx pg.Tx, now time.Time) (any, error) {
		from, to, err := bookAccounts(ctx, tx, now, tenantID, ref, o.ToAccountRef)
		if err != nil {
			return nil, err
		}
		if err := ledger.LockBalances(ctx, tx, []uuid.UUID{from.ID, to.ID}); err != nil {
			return nil, err
		}
		// once more: a freeze or an end that was committed while the locks were waited for stops it
		if from, to, err = bookAccounts(ctx, tx, now, tenantID, ref, o.ToAccountRef); err != nil {
			return nil, err
		}
		if err := o.Standing.Check(ctx, tx); err != nil {
			return nil, err
		}
		b := ledger.BookTransfer{ID: uuid.Must(uuid.NewV7()), From: from.ID, To: to.ID, Amount: amount, Narration: o.Narration}
		debit, credit, err := ledger.PostBookTransfer(ctx, tx, now, b)
		if err != nil {
			return nil, err
		}
		tx.AfterCommit(func(ctx context.Context) { _ = freeze.Resume(ctx, s.Pool, now, freeze.Account, to.ID) })
		return BookTransfer{
			ID: b.ID, FromAccountRef: from.AccountRef, ToAccountRef: to.AccountRef, Amount: amount, Currency: from.Currency,
			Narration: o.Narration, DebitEntryID: debit.ID, CreditEntryID: credit.ID, CreatedAt: now,
		}, nil
	})
}

var bookAccountsSQL = payersSQL(`EXISTS (SELECT FROM freezes f WHERE f.scope = 'account' AND (r.n = 1 OR f.requests) AND ` + freeze.On("found.id", "found.id", "$4") + `),
			false, '{f,f}'::boolean[], false`)

// bookAccounts finds the accounts of a book transfer. A freeze of the account stops its debits; one
// that refuses requests, its credits from other accounts too.
func bookAccounts(ctx context.Context, tx pg.Tx, now time.Time, tenantID uuid.UUID, fromRef, toRef string) (from, to *Account, err error) {
	refs := []Ref{{TenantID: tenantID, AccountRef: fromRef}, {TenantID: tenantID, AccountRef: toRef}}
	found, err := readPayers(pg.Rows(ctx, tx, bookAccountsSQL, refArgs(refs, now)...), len(refs))
	if err != nil {
		return nil, nil, err
	}
	from, to = found[0].Account, found[1].Account
	switch {
	case from == nil:
		return nil, nil, ErrNotFound
	case to == nil:
		return nil, nil, ErrBookNotFound
	case from.ID == to.ID:
		return nil, nil, ErrBookSame
	case to.Status != Active:
		return nil, nil, ErrBookNotActive
	case found[0].Frozen || found[1].Frozen:
		return nil, nil, ErrFrozen
	}
	return from, to, nil
}
