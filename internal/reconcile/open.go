package reconcile

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// Refusals of a dismissal.
var (
	ErrNotOpen  = errs.New(errs.NotFound, "no open exception of a reconciliation has this reference")
	ErrNoReport = errs.New(errs.Unprocessable, "it is only waited for: there is no exception to dismiss")
)

// OpenItem is something that reconciliations have found, and that each run asks about until bank
// and books agree. For operators.
type OpenItem struct {
	ID   uuid.UUID
	Kind string // payment or payout
	Ref  string // the bank's transaction id, or the merchantTxRef
	// as it was last reported; absent while only the bank's record is not final yet, or only the
	// float needs the effect
	Exception   *Exception
	Effect      money.Amount
	FoundAt     time.Time
	NextAt      time.Time
	AskCount    int
	DismissedAt *time.Time
}

// OpenItems returns a page of what reconciliations have left open, newest first. A bad cursor is
// [page.ErrCursor].
func (s *Service) OpenItems(ctx context.Context, r page.Request) ([]OpenItem, page.Info, error) {
	list := pg.List[OpenItem]{Name: page.OpenItems, ID: func(v OpenItem) uuid.UUID { return v.ID }, Row: pgx.RowToStructByPos[OpenItem]}
	return list.Page(ctx, s.pool, r, `
		SELECT id, kind, ref, exception, effect, found_at, due_at, ask_count, dismissed_at
		FROM reconcile_items WHERE id < @before ORDER BY id DESC LIMIT @limit`, nil)
}

// Dismiss acknowledges an exception: it is no longer reported, unless the bank's or the books' side
// changes. Nothing is booked, the bank is still asked about it, and it stays in the explanation of
// the float. [ErrNotOpen]; [ErrNoReport].
func (s *Service) Dismiss(ctx context.Context, ref string, by audit.By) (Exception, error) {
	var x *Exception
	err := pg.InTx(ctx, s.pool, func(tx pg.Tx) error {
		now := s.clock.Now()
		var body []byte
		var kind string
		err := tx.QueryRow(ctx, `SELECT kind, exception FROM reconcile_items WHERE ref = $1 ORDER BY exception IS NULL LIMIT 1 FOR UPDATE`, ref).Scan(&kind, &body)
		switch {
		case err != nil:
			return pg.OrNone(err, ErrNotOpen)
		case body == nil:
			return ErrNoReport
		}
		if err := json.Unmarshal(body, &x); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE reconcile_items SET dismissed_at = coalesce(dismissed_at, $3) WHERE kind = $1 AND ref = $2`, kind, ref, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("reconcile.dismiss", kind+":"+ref, x))
	})
	if err != nil {
		return Exception{}, err
	}
	return *x, nil
}
