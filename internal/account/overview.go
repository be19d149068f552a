package account

import (
	"context"

	"github.com/google/uuid"

	"ajo/internal/pg"
	"ajo/ledger"
)

// Overview is the answer of GET /auth/overview.
type Overview struct {
	ledger.Overview
	Accounts int  `json:"accounts"` // active and expired ones
	Posted   bool `json:"posted"`   // something was posted to one of them, however long ago
}

// Overview reads what a tenant has, and how it moved in the last days. The tenant's own session may
// ask.
func (s *Service) Overview(ctx context.Context, tenantID uuid.UUID, days int) (Overview, error) {
	q := pg.Reader(ctx, s.Pool)
	money, err := ledger.ReadOverview(ctx, q, tenantID, s.Clock.Now(), days)
	if err != nil {
		return Overview{}, err
	}
	out := Overview{Overview: money}
	err = q.QueryRow(ctx, `
		SELECT count(*), EXISTS (SELECT FROM ledger_balances WHERE tenant_id = $1 AND last_seq > 0)
		FROM accounts WHERE tenant_id = $1 AND status <> 'provisioning'`, tenantID).Scan(&out.Accounts, &out.Posted)
	return out, err
}
