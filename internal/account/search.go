package account

import (
	"context"

	"github.com/google/uuid"

	"ajo/internal/page"
	"ajo/internal/pg"
)

// Search finds accounts of the tenant: by their whole reference or number, however old they are,
// and by a part of these or of the holder's name among as many as a page of [Service.List] looks
// at. more says that there may be others.
func (s *Service) Search(ctx context.Context, tenantID uuid.UUID, text string, limit int) (found []Listed, more bool, err error) {
	whole, err := pg.Collect(ctx, pg.Reader(ctx, s.Pool), scanListed, `
		SELECT b.balance, `+columns+` FROM (
			(SELECT * FROM accounts WHERE account_ref = $2 AND tenant_id = $1 AND status <> 'provisioning' LIMIT $3)
			UNION ALL (SELECT * FROM accounts WHERE bank_account_number = $2 AND tenant_id = $1 AND status <> 'provisioning' LIMIT $3)) a
		CROSS JOIN LATERAL (SELECT balance FROM ledger_balances WHERE account_id = a.id LIMIT 1) b`, tenantID, text, limit+1)
	if err != nil {
		return nil, false, err
	}
	part, info, err := s.List(ctx, tenantID, Filter{Search: text}, page.Request{Limit: limit})
	found, more = page.Merge(limit, listedID, whole, part)
	return found, more || info.HasMore, err
}
