package customer

import (
	"context"

	"github.com/google/uuid"

	"ajo/internal/page"
	"ajo/internal/pg"
)

// Search finds customers of the tenant: by the whole reference, however old they are, and by a part
// of it or of the name among as many as a page of [Service.List] looks at. more says that there may
// be others.
func (s *Service) Search(ctx context.Context, tenantID uuid.UUID, text string, limit int) (found []Customer, more bool, err error) {
	whole, err := pg.Collect(ctx, pg.Reader(ctx, s.Pool), scanCustomer, `
		SELECT `+columns+` FROM customers c WHERE c.tenant_id = $1 AND c.external_ref = $2`, tenantID, text)
	if err != nil {
		return nil, false, err
	}
	part, info, err := s.List(ctx, tenantID, Filter{Search: text}, page.Request{Limit: limit})
	found, more = page.Merge(limit, func(c Customer) uuid.UUID { return c.ID }, whole, part)
	return found, more || info.HasMore, err
}
