package transfer

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// ErrStatus refuses a list of an unknown status.
var ErrStatus = errs.New(errs.Invalid, "status must be pending, processing, success, failed or refunded")

// Get finds a tenant's transfer by its merchantTxRef. Unknown, or another tenant's: [ErrNotFound].
func (s *Service) Get(ctx context.Context, tenantID uuid.UUID, merchantTxRef string) (Transfer, error) {
	var t Transfer
	err := s.Pool.QueryRow(ctx, `
		SELECT `+columns+` FROM transfers t JOIN accounts a ON a.id = t.account_id WHERE t.merchant_tx_ref = $2 AND t.tenant_id = $1`,
		tenantID, merchantTxRef).Scan(t.fields()...)
	if pg.IsNoRows(err) {
		return t, ErrNotFound
	}
	return t, err
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	AccountRef string // as in a path
	Status     Status
	// a part of the transfer's reference, the account's reference or the number it goes to, in any
	// case
	Search string
}

// List returns a page of the tenant's transfers, newest first. A bad cursor is [page.ErrCursor], an
// unknown status [ErrStatus], an unknown account account.ErrNotFound.
func (s *Service) List(ctx context.Context, tenantID uuid.UUID, f Filter, r page.Request) ([]Transfer, page.Info, error) {
	switch f.Status {
	case "", Pending, Processing, Success, Failed, Refunded:
	default:
		return nil, page.Info{}, ErrStatus
	}
	var accountID *uuid.UUID
	if f.AccountRef != "" {
		a, err := account.Find(ctx, s.Pool, tenantID, f.AccountRef)
		if err != nil {
			return nil, page.Info{}, err
		}
		accountID = &a.ID
	}
	list := pg.List[Transfer]{Name: page.Transfers, ID: func(t Transfer) uuid.UUID { return t.ID }, Row: func(row pgx.CollectableRow) (t Transfer, err error) { return t, row.Scan(t.fields()...) }}
	return list.Page(ctx, s.Pool, r, `
		SELECT `+columns+` FROM transfers t JOIN accounts a ON a.id = t.account_id
		WHERE t.tenant_id = $3 AND t.id < $1 AND ($4::uuid IS NULL OR t.account_id = $4) AND ($5 = '' OR t.status = $5)
			AND ($6 = '' OR strpos(lower(t.merchant_tx_ref), lower($6)) > 0 OR strpos(lower(a.account_ref), lower($6)) > 0 OR strpos(t.account_number, $6) > 0)
		ORDER BY t.id DESC LIMIT $2`, tenantID, accountID, f.Status, f.Search)
}

// RefOf returns the reference of a transfer of any tenant. For operators. [ErrNotFound].
func (s *Service) RefOf(ctx context.Context, id uuid.UUID) (merchantTxRef string, err error) {
	err = s.Pool.QueryRow(ctx, `SELECT merchant_tx_ref FROM transfers WHERE id = $1`, id).Scan(&merchantTxRef)
	if pg.IsNoRows(err) {
		return "", ErrNotFound
	}
	return merchantTxRef, err
}
