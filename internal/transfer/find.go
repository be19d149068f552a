package transfer

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/money"
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
	return t, pg.OrNone(err, ErrNotFound)
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	AccountRef string // as in a path
	Status     Status
	Awaiting   string        // "approval": only those that wait for it
	Amount     *money.Amount // ordered, or left in its place
	// a part of the transfer's reference, of the account's reference, or of the number or the name
	// that it goes to, in any case
	Search string
}

func transferID(t Transfer) uuid.UUID { return t.ID }

func scanTransfer(row pgx.CollectableRow) (t Transfer, err error) { return t, row.Scan(t.fields()...) }

// List returns a page of the tenant's transfers: newest first, or by creation or amount. A bad
// cursor is [page.ErrCursor], an unknown status [ErrStatus], another Awaiting [ErrAwaiting], an
// unknown account account.ErrNotFound; [page.ErrSort].
func (s *Service) List(ctx context.Context, tenantID uuid.UUID, f Filter, r page.Request) ([]Transfer, page.Info, error) {
	if !Transitions.Knows(f.Status) {
		return nil, page.Info{}, ErrStatus
	}
	if f.Awaiting != "" && f.Awaiting != AwaitingApproval {
		return nil, page.Info{}, ErrAwaiting
	}
	q := pg.Reader(ctx, s.Pool)
	var accountID *uuid.UUID
	if f.AccountRef != "" {
		a, err := account.Find(ctx, q, tenantID, f.AccountRef)
		if err != nil {
			return nil, page.Info{}, err
		}
		accountID = &a.ID
	}
	list := pg.List[Transfer]{Name: page.Transfers, ID: transferID, Row: scanTransfer}
	args := pgx.NamedArgs{"tenant": tenantID, "account": accountID, "status": string(f.Status), "search": f.Search, "awaiting": f.Awaiting != "", "amount": f.Amount}
	scan := `transfers WHERE tenant_id = @tenant`
	if f.Status == Failed || f.Status == Refunded {
		scan += ` AND unpaid`
	} else if accountID != nil {
		scan += ` AND account_id = @account`
	}
	if f.Status == Pending || f.Status == Processing || f.Awaiting != "" {
		own, err := pg.Shorter(ctx, q, scan, workScan, args)
		if err != nil {
			return nil, page.Info{}, err
		}
		if !own {
			return list.Sorted(ctx, q, r, workScan, `SELECT `+columns+` FROM `+openSQL+listSQL, transferOrders, args)
		}
	}
	return list.Sorted(ctx, q, r, scan, `SELECT `+columns+` FROM transfers t`+listSQL, transferOrders, args)
}

// workScan are the rows that a list of open transfers reads, unless the tenant's own transfers are
// fewer: all items of work, of whatever kind and tenant.
const workScan = `work WHERE true`

// openSQL selects the transfers that have an item of work, which include all that are pending or
// processing: an index on a status that every transfer passes through would be written for every
// transfer. The LIMITs and the OFFSET keep the planner from choosing another join order and from
// reading all accounts. The second condition on the status lets it use the index of failed
// transfers.
const (
	openSQL = `(
		SELECT t.* FROM (SELECT id FROM work WHERE kind = 'settle' AND id < @before AND id >= @floor ORDER BY id DESC OFFSET 0) w
		CROSS JOIN LATERAL (SELECT * FROM transfers WHERE id = w.id LIMIT 1) t) t`
	listSQL = ` CROSS JOIN LATERAL (SELECT account_ref FROM accounts WHERE id = t.account_id LIMIT 1) a
		WHERE t.tenant_id = @tenant AND t.id < @before AND t.id >= @floor AND (@account::uuid IS NULL OR t.account_id = @account)
			AND (@status = '' OR t.status = @status) AND (@status NOT IN ('failed', 'refunded') OR t.unpaid)
			AND (@search = '' OR strpos(lower(t.merchant_tx_ref), lower(@search)) > 0 OR strpos(lower(a.account_ref), lower(@search)) > 0
				OR strpos(t.account_number, @search) > 0 OR strpos(lower(t.account_name), lower(@search)) > 0)
			AND (@amount::numeric IS NULL OR t.amount = @amount OR t.paid_amount = @amount)
			AND (NOT @awaiting OR ` + awaitsApproval + `)`
)

// transferOrders are the list's orders other than by id.
var transferOrders = map[page.Key]pg.Order[Transfer]{page.Amount: {
	Ascending:  ` WHERE @first OR (s.amount, s.id) > (@value::numeric, @id::uuid) ORDER BY s.amount, s.id LIMIT @rows`,
	Descending: ` WHERE @first OR (s.amount, s.id) < (@value::numeric, @id::uuid) ORDER BY s.amount DESC, s.id DESC LIMIT @rows`,
	Value:      func(t Transfer) money.Amount { return t.Amount },
}}

// RefOf returns the reference of a transfer of any tenant. For operators. [ErrNotFound].
func (s *Service) RefOf(ctx context.Context, id uuid.UUID) (merchantTxRef string, err error) {
	err = s.Pool.QueryRow(ctx, `SELECT merchant_tx_ref FROM transfers WHERE id = $1`, id).Scan(&merchantTxRef)
	return merchantTxRef, pg.OrNone(err, ErrNotFound)
}
