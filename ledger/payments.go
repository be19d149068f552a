package ledger

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// Payment is a payment that was posted: its credit, its account and the account's customer. An
// addition to the specification.
type Payment struct {
	ID                 uuid.UUID    `json:"id"` // of the entry, as refunds and statements name it
	TransactionGroupID uuid.UUID    `json:"transactionGroupId"`
	Status             Status       `json:"status"`
	GrossAmount        money.Amount `json:"grossAmount"` // what the payer sent
	Fee                money.Amount `json:"fee"`         // the provider's, outside the balance
	Amount             money.Amount `json:"amount"`      // net: what is, or was, credited to the balance
	Currency           string       `json:"currency"`
	// who paid: as in [Entry]
	SenderName     string     `json:"senderName"`
	SenderBank     string     `json:"senderBank"`
	SenderAccount  string     `json:"senderAccount"`
	SenderBankCode string     `json:"senderBankCode"`
	SessionID      string     `json:"sessionId"`
	Narration      string     `json:"narration"`
	ProviderTxnRef string     `json:"providerTxnRef"`
	CreatedAt      time.Time  `json:"createdAt"`   // when it was posted
	ConfirmedAt    *time.Time `json:"confirmedAt"` // nil: it has not been confirmed
	AccountRef     string     `json:"accountRef"`
	AccountNumber  *string    `json:"accountNumber"`
	CustomerID     uuid.UUID  `json:"customerId"`
	CustomerRef    string     `json:"customerRef"`
	CustomerName   string     `json:"customerName"`
	AccountID      uuid.UUID  `json:"-"`
	seq            int64
}

// PaymentFilter narrows a list of payments; empty fields do not.
type PaymentFilter struct {
	From, To  time.Time // posted at or after From, and before To
	AccountID uuid.UUID
	Status    Status
	Amount    *money.Amount // gross or net
	// a part of the payer's name or account number, of the bank's transaction id or of the session
	// id, in any case
	Search string
}

// narrow says whether the filter drops rows that the index of its list holds.
func (f PaymentFilter) narrow() bool { return f.Status != "" || f.Amount != nil || f.Search != "" }

// ofAccount is what a statement's filter has of it.
func (f PaymentFilter) ofAccount() Filter {
	return Filter{From: f.From, To: f.To, Direction: Credit, Status: f.Status, NewestFirst: true}
}

func (f PaymentFilter) args(tenant uuid.UUID, r page.Request) pgx.NamedArgs {
	return pgx.NamedArgs{
		"tenant": tenant, "account": f.AccountID, "from": f.ofAccount().from(), "to": f.ofAccount().to(), "status": string(f.Status), "amount": f.Amount,
		"search": f.Search, "limit": r.Limit + 1,
	}
}

// The payments of a tenant stand in the order of their times, those of an account in that of their
// places, so that either list is read by an index. A page of a filtered list looks at so many rows
// as [pg.ScanLimit] says.
const (
	isPayment  = `direction = 'credit' AND kind = '' AND reversal_of IS NULL`
	paymentSQL = `
		SELECT e.id, e.transaction_group_id, e.status, e.amount + e.fee, e.fee, e.amount, e.currency, ` + senderColumns + `,
			e.narration, e.provider_txn_ref, e.created_at, e.confirmed_at, a.account_ref, a.bank_account_number, a.customer_id, c.external_ref, c.name, e.account_id, e.seq
		FROM (`
	paymentEnds = `) e
		CROSS JOIN LATERAL (SELECT * FROM accounts WHERE id = e.account_id LIMIT 1) a
		CROSS JOIN LATERAL (SELECT * FROM customers WHERE id = a.customer_id LIMIT 1) c`

	ofTenantSQL = `
			SELECT * FROM ledger_entries
			WHERE tenant_id = @tenant AND created_at <= @at AND (created_at, id) < (@at, @id::uuid) AND created_at >= @floor AND ` + chosenSQL + `
			ORDER BY created_at DESC, id DESC LIMIT @limit`
	ofTenantOrder = ` ORDER BY e.created_at DESC, e.id DESC`
	tenantCutSQL  = `
		SELECT created_at FROM ledger_entries WHERE tenant_id = @tenant AND created_at <= @at AND created_at >= @from AND created_at < @to AND ` + isPayment + `
		ORDER BY created_at DESC OFFSET @last LIMIT 1`
	ofAccountSQL = `
			SELECT * FROM ledger_entries
			WHERE account_id = @account AND seq > @begin AND seq <= @end AND ` + chosenSQL + `
			ORDER BY seq DESC LIMIT @limit`
	ofAccountOrder = ` ORDER BY e.seq DESC`
	chosenSQL      = isPayment + ` AND created_at >= @from AND created_at < @to
				AND (@status = '' OR status = @status) AND (@status <> 'reversed' OR reversed) AND (@status <> 'needs_review' OR review_from_seq IS NOT NULL)
				AND (@amount::numeric IS NULL OR amount = @amount OR amount + fee = @amount)
				AND (@search = '' OR strpos(lower(coalesce(record_name, sender_name)), lower(@search)) > 0 OR strpos(record_account, @search) > 0
					OR strpos(lower(provider_txn_ref), lower(@search)) > 0 OR strpos(record_session, @search) > 0)`
)

func scanPayment(row pgx.CollectableRow) (p Payment, err error) {
	err = row.Scan(&p.ID, &p.TransactionGroupID, &p.Status, &p.GrossAmount, &p.Fee, &p.Amount, &p.Currency,
		&p.SenderName, &p.SenderBank, &p.SenderAccount, &p.SenderBankCode, &p.SessionID, &p.Narration, &p.ProviderTxnRef, &p.CreatedAt, &p.ConfirmedAt,
		&p.AccountRef, &p.AccountNumber, &p.CustomerID, &p.CustomerRef, &p.CustomerName, &p.AccountID, &p.seq)
	p.CreatedAt = p.CreatedAt.UTC()
	if p.ConfirmedAt != nil {
		at := p.ConfirmedAt.UTC()
		p.ConfirmedAt = &at
	}
	return p, err
}

// Payments returns a page of the payments of a tenant, or of its account that the filter names,
// newest first. A bad cursor is [page.ErrCursor]; [ErrStatus].
func Payments(ctx context.Context, q pg.Querier, tenant uuid.UUID, f PaymentFilter, r page.Request) ([]Payment, page.Info, error) {
	if err := f.ofAccount().check(); err != nil {
		return nil, page.Info{}, err
	}
	if f.AccountID != uuid.Nil {
		return paymentsOfAccount(ctx, q, tenant, f, r)
	}
	at, id, _, err := page.ParseDue(page.Payments, r.After)
	if err != nil {
		return nil, page.Info{}, err
	}
	args := f.args(tenant, r)
	if args["at"], args["id"] = at, id; r.After == "" {
		args["at"], args["id"] = Filter{}.to(), uuid.Max
	}
	floor, err := f.lastLookedAt(ctx, q, args, pg.ScanLimit-1)
	if err != nil {
		return nil, page.Info{}, err
	}
	args["floor"] = floor
	list, err := pg.Collect(ctx, q, scanPayment, paymentSQL+ofTenantSQL+paymentEnds+ofTenantOrder, args)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, info := page.Cut(list, r, func(p Payment) string { return page.Due(page.Payments, p.CreatedAt, p.ID, 0) })
	if !info.HasMore && !floor.IsZero() {
		next := page.Due(page.Payments, floor, uuid.Nil, 0)
		info.NextCursor, info.HasMore = &next, true
	}
	if r.Total {
		args = maps.Clone(args)
		args["at"], args["id"], args["limit"] = Filter{}.to(), uuid.Max, page.CountLimit+1
		if floor, err = f.lastLookedAt(ctx, q, args, page.CountLimit); err == nil {
			args["floor"] = floor
			info.Total, err = pg.Total(ctx, q, floor.IsZero(), ofTenantSQL, args)
		}
	}
	return list, info, err
}

// lastLookedAt is the time of the tenant's payment that last others are before; the zero time when
// there is none, or when all that is looked at is shown.
func (f PaymentFilter) lastLookedAt(ctx context.Context, q pg.Querier, args pgx.NamedArgs, last int) (at time.Time, err error) {
	if !f.narrow() {
		return at, nil
	}
	args = maps.Clone(args)
	args["last"] = last
	if err = q.QueryRow(ctx, tenantCutSQL, args).Scan(&at); pg.IsNoRows(err) {
		return time.Time{}, nil
	}
	return at.UTC(), err
}

func paymentsOfAccount(ctx context.Context, q pg.Querier, tenant uuid.UUID, f PaymentFilter, r page.Request) ([]Payment, page.Info, error) {
	after, err := page.ParseSeq(page.Payments, f.AccountID, r.After)
	if err != nil {
		return nil, page.Info{}, err
	}
	lines := f.ofAccount()
	first, last, err := lines.span(ctx, q, f.AccountID)
	if err != nil {
		return nil, page.Info{}, err
	}
	args := f.args(tenant, r)
	end := last
	if after > 0 {
		end = min(after-1, end)
	}
	begin, end, cut, err := lines.window(ctx, q, f.AccountID, first, end, pg.ScanLimit)
	if err != nil {
		return nil, page.Info{}, err
	}
	args["begin"], args["end"] = begin, end
	list, err := pg.Collect(ctx, q, scanPayment, paymentSQL+ofAccountSQL+paymentEnds+ofAccountOrder, args)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, info := page.Cut(list, r, func(p Payment) string { return page.Seq(page.Payments, f.AccountID, p.seq) })
	if !info.HasMore && cut > 0 {
		next := page.Seq(page.Payments, f.AccountID, cut)
		info.NextCursor, info.HasMore = &next, true
	}
	if r.Total {
		if begin, end, cut, err = lines.window(ctx, q, f.AccountID, first, last, page.CountLimit+1); err == nil {
			args["begin"], args["end"], args["limit"] = begin, end, page.CountLimit+1
			info.Total, err = pg.Total(ctx, q, cut == 0, ofAccountSQL, args)
		}
	}
	return list, info, err
}

// EachPayment reads all payments that [Payments] lists, in its order and in one statement. More
// than limit of them is a refusal that says so.
func EachPayment(ctx context.Context, q pg.Querier, tenant uuid.UUID, f PaymentFilter, limit int, each func(Payment) error) error {
	lines := f.ofAccount()
	if err := lines.check(); err != nil {
		return err
	}
	args := f.args(tenant, page.Request{Limit: limit})
	args["at"], args["id"], args["floor"] = Filter{}.to(), uuid.Max, time.Time{}
	sql := paymentSQL + ofTenantSQL + paymentEnds + ofTenantOrder
	if f.AccountID != uuid.Nil {
		begin, end, err := lines.span(ctx, q, f.AccountID)
		if err != nil {
			return err
		}
		args["begin"], args["end"] = begin, end
		sql = paymentSQL + ofAccountSQL + paymentEnds + ofAccountOrder
	}
	rows, err := q.Query(ctx, sql, args)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 0; rows.Next(); n++ {
		if n == limit {
			return errs.New(errs.Unprocessable, fmt.Sprintf("there are more than %d payments: narrow them by from and to", limit))
		}
		p, err := scanPayment(rows)
		if err == nil {
			err = each(p)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// FindPayment finds a tenant's payment by its entry's id or its group's. Unknown, another tenant's,
// or no payment: none.
func FindPayment(ctx context.Context, q pg.Querier, tenant, id uuid.UUID, none error) (Payment, error) {
	return pg.One(ctx, q, scanPayment, none, paymentSQL+`SELECT * FROM ledger_entries WHERE (id = $2 OR transaction_group_id = $2) AND tenant_id = $1 AND `+isPayment+paymentEnds, tenant, id)
}
