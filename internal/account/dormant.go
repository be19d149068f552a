package account

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// expireSlice is how many accounts one transaction ends.
const expireSlice = 200

// ExpireAll ends the active accounts of a tenant; their closes at the bank are due. It may be
// called again, and goes on where it was stopped.
func ExpireAll(ctx context.Context, pool *pg.Pool, now time.Time, tenantID uuid.UUID, reason string) error {
	// the next slice begins behind the last: the index still has what has just ended
	var last uuid.UUID
	for {
		ids, err := pg.Collect(ctx, pool, pgx.RowTo[uuid.UUID], `
			SELECT id FROM accounts WHERE tenant_id = $1 AND id > $2 AND status = 'active' ORDER BY id LIMIT $3`, tenantID, last, expireSlice)
		if err != nil || len(ids) == 0 {
			return err
		}
		err = pg.InTx(ctx, pool, func(tx pg.Tx) error {
			for _, id := range ids {
				if _, err := ExpireTx(ctx, tx, now, id, EventExpire, now, reason); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		last = ids[len(ids)-1]
	}
}

// Unfinished returns the rows of a tenant whose provisioning nobody finishes, some at a time: no
// request is at the bank with them, and [CloseByHand] removes them.
func Unfinished(ctx context.Context, q pg.Querier, now time.Time, tenantID uuid.UUID) ([]uuid.UUID, error) {
	return pg.Collect(ctx, q, pgx.RowTo[uuid.UUID], `
		SELECT id FROM accounts WHERE tenant_id = $1 AND status = 'provisioning' AND coalesce(leased_until, '-infinity') <= $2 ORDER BY id LIMIT $3`,
		tenantID, now, expireSlice)
}

// Dormant is an account that is open at the bank and has had no movement for long.
type Dormant struct {
	ID         uuid.UUID
	TenantName string
	AccountRef string
	Number     string
	Status     Status
	Balance    money.Amount
	CreatedAt  time.Time
	LastAt     *time.Time // its newest entry; nil: it never had one
}

// ListDormant returns a page of the accounts of all tenants that are not closed at the bank and
// have had no entry since a time, newest first. It reads an account's newest entry by its place,
// not the entries. For operators. [page.ErrCursor].
func ListDormant(ctx context.Context, pool *pg.Pool, since time.Time, r page.Request) ([]Dormant, page.Info, error) {
	list := pg.List[Dormant]{Name: page.Accounts, ID: func(d Dormant) uuid.UUID { return d.ID }, Row: pgx.RowToStructByPos[Dormant]}
	return list.Filtered(ctx, pool, r, `accounts WHERE true`, `
		SELECT a.id, t.name, a.account_ref, a.bank_account_number, a.status, b.balance, a.created_at, e.created_at
		FROM accounts a JOIN tenants t ON t.id = a.tenant_id JOIN ledger_balances b ON b.account_id = a.id
		LEFT JOIN ledger_entries e ON e.account_id = b.account_id AND e.seq = b.last_seq
		WHERE a.id < @before AND a.id >= @floor AND a.status <> 'provisioning' AND a.closed_at IS NULL AND coalesce(e.created_at, a.created_at) < @since
		ORDER BY a.id DESC LIMIT @limit`, pgx.NamedArgs{"since": since})
}
