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

// AnyHold is an open hold as operators see it.
type AnyHold struct {
	Hold
	TenantName string
}

// HoldFilter selects open holds; zero fields select all.
type HoldFilter struct {
	TenantID uuid.UUID
	Source   HoldSource
	Before   time.Time // placed before it
}

// openHolds are the holds h of the filter, of accounts a and tenants t.
const openHolds = `
		FROM holds h JOIN accounts a ON a.id = h.account_id JOIN tenants t ON t.id = h.tenant_id
		WHERE h.status = 'open' AND coalesce(h.until, 'infinity') > @now
			AND (@tenant = '00000000-0000-0000-0000-000000000000'::uuid OR h.tenant_id = @tenant) AND (@source = '' OR h.source = @source) AND h.created_at < @placed`

func (f HoldFilter) args(now time.Time) pgx.NamedArgs {
	if f.Before.IsZero() {
		f.Before = now.Add(time.Hour) // clocks differ
	}
	return pgx.NamedArgs{"now": now, "tenant": f.TenantID, "source": string(f.Source), "placed": f.Before}
}

// ListHolds reads a page of the open holds of all tenants, newest first. For operators.
// [page.ErrCursor].
func ListHolds(ctx context.Context, q pg.Querier, now time.Time, f HoldFilter, r page.Request) ([]AnyHold, page.Info, error) {
	list := pg.List[AnyHold]{Name: page.Holds, ID: func(h AnyHold) uuid.UUID { return h.ID }, Row: pgx.RowToStructByPos[AnyHold]}
	return list.Filtered(ctx, q, r, `holds WHERE true`, `
		SELECT `+holdColumns+`, t.name`+openHolds+` AND h.id < @before AND h.id >= @floor ORDER BY h.id DESC LIMIT @limit`, f.args(now))
}

// HoldSum is the sum that one source holds of a tenant's money.
type HoldSum struct {
	TenantID   uuid.UUID
	TenantName string
	Source     HoldSource
	Count      int64
	Amount     money.Amount
	Oldest     time.Time
}

// SumHolds sums up the open holds by tenant and source, the largest sum first. For operators.
func SumHolds(ctx context.Context, q pg.Querier, now time.Time, f HoldFilter) ([]HoldSum, error) {
	return pg.Collect(ctx, q, pgx.RowToStructByPos[HoldSum], `
		SELECT t.id, t.name, h.source, count(*), sum(h.amount), min(h.created_at)`+openHolds+` GROUP BY t.id, t.name, h.source ORDER BY 5 DESC, 2, 3`, f.args(now))
}
