package reconcile

import (
	"context"
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
	ErrNoReport = errs.New(errs.Unprocessable, "there is no exception to dismiss: runs only ask about it until bank and books agree")
	ErrOther    = errs.New(errs.Conflict, "the exception has changed: review it again")
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
	return list.Page(ctx, s.pool, r, openSQL, nil)
}

const (
	itemSQL      = `SELECT id, kind, ref, exception, effect, found_at, due_at, ask_count, dismissed_at FROM reconcile_items `
	openSQL      = itemSQL + `WHERE id < @before ORDER BY id DESC LIMIT @limit`
	exceptionSQL = itemSQL + `WHERE ref = $1 ORDER BY exception IS NULL LIMIT 1`
)

// OpenException returns the exception about a reference that can be dismissed. For operators.
// [ErrNotOpen]; [ErrNoReport].
func (s *Service) OpenException(ctx context.Context, ref string) (OpenItem, error) {
	v, err := pg.One(ctx, s.pool, pgx.RowToStructByPos[OpenItem], ErrNotOpen, exceptionSQL, ref)
	if err == nil && v.Exception == nil {
		err = ErrNoReport
	}
	return v, err
}

// Dismiss acknowledges an exception that a person has seen: it is no longer reported, unless the
// bank's or the books' side changes. Nothing is booked, the bank is still asked about it, and it
// stays in the explanation of the float. [ErrNotOpen]; [ErrOther].
func (s *Service) Dismiss(ctx context.Context, seen OpenItem, by audit.By) error {
	return pg.InTx(ctx, s.pool, func(tx pg.Tx) error {
		now := s.clock.Now()
		var stands *Exception
		if err := tx.QueryRow(ctx, `SELECT exception FROM reconcile_items WHERE kind = $1 AND ref = $2 FOR UPDATE`, seen.Kind, seen.Ref).Scan(&stands); err != nil {
			return pg.OrNone(err, ErrNotOpen)
		}
		if !sameException(stands, seen.Exception) {
			return ErrOther
		}
		if _, err := tx.Exec(ctx, `UPDATE reconcile_items SET dismissed_at = coalesce(dismissed_at, $3) WHERE kind = $1 AND ref = $2`, seen.Kind, seen.Ref, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("reconcile.dismiss", seen.Kind+":"+seen.Ref, stands))
	})
}
