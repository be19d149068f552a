package transfer

import (
	"context"

	"github.com/google/uuid"

	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// Search finds transfers of the tenant: by the whole merchantTxRef, however old they are, and,
// among as many as a page of [Service.List] reads, by the sum (nil: none) and by whatever its
// search filter covers. more reports that there may be others.
func (s *Service) Search(ctx context.Context, tenantID uuid.UUID, text string, sum *money.Amount, limit int) (found []Transfer, more bool, err error) {
	whole, err := pg.Collect(ctx, pg.Reader(ctx, s.Pool), scanTransfer, `
		SELECT `+columns+` FROM transfers t JOIN accounts a ON a.id = t.account_id WHERE t.merchant_tx_ref = $2 AND t.tenant_id = $1`, tenantID, text)
	if err != nil {
		return nil, false, err
	}
	var ofSum []Transfer
	var left, moreOfSum page.Info
	if sum != nil {
		if ofSum, moreOfSum, err = s.List(ctx, tenantID, Filter{Amount: sum}, page.Request{Limit: limit}); err != nil {
			return nil, false, err
		}
	}
	part, left, err := s.List(ctx, tenantID, Filter{Search: text}, page.Request{Limit: limit})
	found, more = page.Merge(limit, transferID, whole, ofSum, part)
	return found, more || moreOfSum.HasMore || left.HasMore, err
}
