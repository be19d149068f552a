package tenant

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/freeze"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/ledger"
)

// openSQL counts what keeps a tenant from being closed.
const openSQL = `
	SELECT (SELECT count(*) FROM ledger_balances WHERE tenant_id = $1 AND balance <> 0),
		(SELECT count(*) FROM holds WHERE tenant_id = $1 AND status = 'open' AND coalesce(until, 'infinity') > $2),
		(SELECT count(*) FROM work w JOIN transfers t ON t.id = ANY(ARRAY[w.id]) WHERE w.kind = 'settle' AND t.tenant_id = $1 AND t.status IN ('pending', 'processing')),
		(SELECT count(*) FROM ledger_balances WHERE tenant_id = $1 AND provisional_credits <> 0),
		(SELECT count(*) FROM ledger_entries WHERE tenant_id = $1 AND status = 'needs_review' AND review_from_seq IS NOT NULL AND review_to_seq IS NULL AND direction = 'credit'),
		(SELECT count(*) FROM recalls WHERE tenant_id = $1 AND status` + ledger.RecallStands + `)`

// empty refuses a tenant that has money, or money under way, and says what there is.
func (s *Service) empty(ctx context.Context, q pg.Querier, id uuid.UUID) error {
	names := []string{"accounts with money", "holds", "transfers under way", "accounts with unconfirmed payments", "payments under review", "open recalls"}
	counts, into := make([]int64, len(names)), make([]any, len(names))
	for i := range counts {
		into[i] = &counts[i]
	}
	if err := q.QueryRow(ctx, openSQL, id, s.Clock.Now()).Scan(into...); err != nil {
		return err
	}
	var open []string
	for i, n := range counts {
		if n > 0 {
			open = append(open, fmt.Sprintf("%s: %d", names[i], n))
		}
	}
	if len(open) == 0 {
		return nil
	}
	return errs.New(errs.Unprocessable, "the tenant is not empty; "+strings.Join(open, ", "))
}

// BeginClose suspends a tenant that is to be closed, and records that its accounts are to end,
// which nobody can take back. It answers whether the tenant is closed already, and refuses one that
// has money or money under way. For operators; [ErrNotFound], and freeze.ErrOpen as of
// [Service.Suspend].
func (s *Service) BeginClose(ctx context.Context, id uuid.UUID, by audit.By) (closed bool, err error) {
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		if closed = t.Status == Closed; closed {
			return nil
		}
		if err := s.empty(ctx, tx, id); err != nil {
			return err
		}
		accounts, err := openAccounts(ctx, tx, id)
		if err != nil || t.Status == Suspended && accounts == 0 { // a call before this one has recorded it
			return err
		}
		if err := enter(ctx, tx, now, id, Suspended); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("tenant.begin-close", target(id), struct {
			Name, From, To string
			Accounts       int64 // that end
		}{t.Name, t.Status, Suspended, accounts}).Of(id))
	})
	if err != nil || closed {
		return closed, err
	}
	return false, freeze.AwaitSubmissions(ctx, s.Pool)
}

// OpenAccounts is how many accounts of a tenant are active. For operators.
func (s *Service) OpenAccounts(ctx context.Context, id uuid.UUID) (int64, error) {
	return openAccounts(ctx, s.Pool, id)
}

func openAccounts(ctx context.Context, q pg.Querier, id uuid.UUID) (n int64, err error) {
	err = q.QueryRow(ctx, `SELECT count(*) FROM accounts WHERE tenant_id = $1 AND status = 'active'`, id).Scan(&n)
	return n, err
}

// FinishClose closes a suspended tenant whose accounts are all closed at the bank, and returns how
// many are not: then nothing was changed. What came in since [Service.BeginClose] is refused as
// there. Its keys and its sessions are no more, nor are its paused endpoints, whose pause nobody
// could end: what waits for them becomes a dead letter. Its books stay. For operators;
// [ErrNotFound].
func (s *Service) FinishClose(ctx context.Context, id uuid.UUID, by audit.By) (waiting int64, err error) {
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		if t.Status == Closed {
			return nil
		}
		if err := s.empty(ctx, tx, id); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `SELECT count(*) FROM accounts WHERE tenant_id = $1 AND (status <> 'expired' OR closed_at IS NULL)`, id).Scan(&waiting)
		if err != nil || waiting > 0 {
			return err
		}
		if err := removeEndpoints(ctx, tx, now, id, nil); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE tenants SET status = $2, updated_at = $3 WHERE id = $1`, id, Closed, now); err != nil {
			return err
		}
		// as endKey does
		if _, err := tx.Exec(ctx, `
			UPDATE api_keys SET main = false, revoked_at = $2, expires_at = least(expires_at, $2) WHERE tenant_id = $1 AND revoked_at IS NULL`, id, now); err != nil {
			return err
		}
		if _, err := deleteSessions(ctx, tx, now, id, uuid.Nil, secret.Redacted{}); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("tenant.close", target(id), struct{ Name, From, To string }{t.Name, t.Status, Closed}).Of(id))
	})
	return waiting, err
}
