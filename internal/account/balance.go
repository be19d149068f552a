package account

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/freeze"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/ledger"
)

// Funds are the parts of a balance. They are additions to the specification, and no sum: money may
// be in two of them, as when a provisional payment is recalled.
type Funds struct {
	Balance money.Amount `json:"balance"` // confirmed and provisional credits less such debits
	// what a settlement that is asked for now may take at once; 0.00 while payouts are frozen
	Available   money.Amount `json:"available"`
	Provisional money.Amount `json:"provisional"` // posted, and not confirmed by the bank
	// what stands still until somebody decides: the tenant's holds and recalls, which are in the
	// balance, and what payments under review would bring, which is not
	Held     money.Amount `json:"held"`
	Currency string       `json:"currency"`
}

// Balance is the answer of the balance endpoint.
type Balance struct {
	AccountRef string `json:"accountRef"`
	Funds
}

// Balance reads what an account has.
func (s *Service) Balance(ctx context.Context, tenantID uuid.UUID, ref string) (Balance, error) {
	a, err := s.Get(ctx, tenantID, ref)
	if err != nil {
		return Balance{}, err
	}
	f, err := s.funds(ctx, `account_id = $1`, a.ID)
	return Balance{AccountRef: a.AccountRef, Funds: f}, err
}

// TenantBalance reads what all accounts of a tenant have. Its cost goes with their number.
func (s *Service) TenantBalance(ctx context.Context, tenantID uuid.UUID) (Funds, error) {
	return s.funds(ctx, `tenant_id = $1`, tenantID)
}

// funds sums up the accounts that the condition names, as of one moment. What a settlement may take
// is what the cover of payouts goes by (package transfer); an account that lacks cover lends
// nothing to the others.
func (s *Service) funds(ctx context.Context, of string, id uuid.UUID) (Funds, error) {
	return pgx.CollectExactlyOneRow(pg.Rows(ctx, s.Pool, `
		SELECT coalesce(sum(b.balance), 0),
			coalesce(sum(greatest(`+ledger.Available("$3", "$2")+`, 0)) FILTER (WHERE NOT EXISTS (
				SELECT FROM freezes f WHERE `+freeze.On("b.account_id", "b.tenant_id", "$2")+`)), 0),
			coalesce(sum(b.provisional_credits), 0),
			coalesce(sum(`+ledger.Kept("$2")+`), 0) + (SELECT coalesce(sum(CASE e.direction WHEN 'credit' THEN e.amount ELSE -e.amount END), 0) FROM ledger_entries e WHERE e.`+of+`
				AND e.status = 'needs_review' AND e.review_from_seq IS NOT NULL AND e.review_to_seq IS NULL), $4
		FROM ledger_balances b WHERE b.`+of, id, s.Clock.Now(), s.Provisional, money.Currency), pgx.RowToStructByPos[Funds])
}
