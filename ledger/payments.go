package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
	AccountID      uuid.UUID  `json:"accountId"` // a reference may have many one-time accounts
	AccountNumber  *string    `json:"accountNumber"`
	CustomerID     uuid.UUID  `json:"customerId"`
	CustomerRef    string     `json:"customerRef"`
	CustomerName   string     `json:"customerName"`
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

// narrow reports whether the filter drops rows that the index of its list contains.
func (f PaymentFilter) narrow() bool { return f.Status != "" || f.Amount != nil || f.Search != "" }

// ofAccount is the part of the filter that a statement's filter has too.
func (f PaymentFilter) ofAccount(s page.Sort) Filter {
	return Filter{From: f.From, To: f.To, Direction: Credit, Status: f.Status, NewestFirst: !s.Ascending}
}

func (f PaymentFilter) args(tenant uuid.UUID, r page.Request) pgx.NamedArgs {
	lines := f.ofAccount(r.Sort)
	return pgx.NamedArgs{
		"tenant": tenant, "account": f.AccountID, "from": lines.from(), "to": lines.to(), "status": string(f.Status), "amount": f.Amount,
		"search": f.Search, "limit": r.Limit + 1,
	}
}

// A tenant's payments are listed in the order of their times, an account's in the order of their
// sequence numbers, so that an index serves either list. A page of a filtered list reads at most
// [pg.ScanLimit] rows.
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
	ofTenantOrder   = ` ORDER BY e.created_at DESC, e.id DESC`
	fromTheFirstSQL = `
			SELECT * FROM ledger_entries
			WHERE tenant_id = @tenant AND created_at >= @at AND (created_at, id) > (@at, @id::uuid) AND created_at <= @ceiling AND ` + chosenSQL + `
			ORDER BY created_at, id LIMIT @limit`
	fromTheFirstOrder = ` ORDER BY e.created_at, e.id`
	tenantCutSQL      = `
		SELECT created_at FROM ledger_entries WHERE tenant_id = @tenant AND created_at <= @at AND created_at >= @from AND created_at < @to AND ` + isPayment + `
		ORDER BY created_at DESC OFFSET @last LIMIT 1`
	firstCutSQL = `
		SELECT created_at FROM ledger_entries WHERE tenant_id = @tenant AND created_at >= @at AND created_at >= @from AND created_at < @to AND ` + isPayment + `
		ORDER BY created_at OFFSET @last LIMIT 1`
	inAccountSQL = `
			SELECT * FROM ledger_entries
			WHERE account_id = @account AND seq > @begin AND seq <= @end AND ` + chosenSQL
	ofAccountSQL       = inAccountSQL + ` ORDER BY seq DESC LIMIT @limit`
	ofAccountOrder     = ` ORDER BY e.seq DESC`
	upAccountSQL       = inAccountSQL + ` ORDER BY seq LIMIT @limit`
	upAccountOrder     = ` ORDER BY e.seq`
	largestFirstSQL    = ` s WHERE @first OR (amount + fee, id) < (@value::numeric, @row::uuid) ORDER BY amount + fee DESC, id DESC LIMIT @rows`
	largestFirstOrder  = ` ORDER BY e.amount + e.fee DESC, e.id DESC`
	smallestFirstSQL   = ` s WHERE @first OR (amount + fee, id) > (@value::numeric, @row::uuid) ORDER BY amount + fee, id LIMIT @rows`
	smallestFirstOrder = ` ORDER BY e.amount + e.fee, e.id`
	chosenSQL          = isPayment + ` AND created_at >= @from AND created_at < @to
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

// FindPayment finds a tenant's payment by its entry's id or its group's. Unknown, another tenant's,
// or no payment: none.
func FindPayment(ctx context.Context, q pg.Querier, tenant, id uuid.UUID, none error) (Payment, error) {
	found, err := FindPayments(ctx, q, tenant, []uuid.UUID{id})
	if err == nil && len(found) == 0 {
		err = none
	}
	if err != nil {
		return Payment{}, err
	}
	return found[0], nil
}

// FindPayments is [FindPayment] for several; those that are not found are left out.
func FindPayments(ctx context.Context, q pg.Querier, tenant uuid.UUID, ids []uuid.UUID) ([]Payment, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return pg.Collect(ctx, q, scanPayment, paymentSQL+`
			SELECT * FROM ledger_entries WHERE (id = ANY($2) OR transaction_group_id = ANY($2)) AND tenant_id = $1 AND `+isPayment+paymentEnds+ofTenantOrder, tenant, ids)
}

const passedOnSQL = `
		SELECT coalesce(sum(p.amount - p.taken_back), 0) FROM ledger_entries e
		JOIN split_parts p ON p.entry_id = ANY(CASE e.status WHEN 'confirmed' THEN payment_entries(e) ELSE ARRAY[e.id] END) AND p.group_id IS NOT NULL
		WHERE e.id = $1 AND e.tenant_id = $2`

// PassedOn reads what the split of a tenant's payment, named by its credit, has passed on to other
// accounts, less what these have returned. Once a payment that was posted again is confirmed, that
// includes what they have kept of it from before.
func PassedOn(ctx context.Context, q pg.Querier, tenant, entry uuid.UUID) (passed money.Amount, err error) {
	err = q.QueryRow(ctx, passedOnSQL, entry, tenant).Scan(&passed)
	return passed, err
}
