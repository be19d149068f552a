package work

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/pg"
)

// retryDetail is what an item's row no longer shows after a retry.
type retryDetail struct {
	Kind      Kind
	DueAt     time.Time
	Attempts  int
	LastError string `json:",omitempty"`
}

// Retry makes the items about a row due now, of one kind or ("") of all, forgets their failures and
// enqueues them. It does not interrupt work: while an item is leased, it refuses with a text that
// says until when. [ErrNoItems]. For operators.
func Retry(ctx context.Context, pool *pg.Pool, now time.Time, id uuid.UUID, kind Kind, by audit.By) ([]Record, error) {
	var items []Record
	err := pg.InTx(ctx, pool, func(tx pg.Tx) (err error) {
		if items, err = readItems(ctx, tx, itemsSQL+` FOR UPDATE OF w`, id, kind); err != nil {
			return err
		}
		for _, m := range items {
			if err := m.Retriable(now); err != nil {
				return err
			}
		}
		for i := range items {
			m := &items[i]
			detail := retryDetail{m.Kind, m.DueAt, m.Attempts, m.LastError}
			if err := audit.Write(ctx, tx, now, by.Entry("work.retry", "work:"+id.String(), detail)); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE work SET attempts = 0, last_error = '' WHERE id = $1 AND kind = $2`, id, string(m.Kind)); err != nil {
				return err
			}
			if _, err := Expedite(ctx, tx, m.Kind, now, id); err != nil {
				return err
			}
			m.Attempts, m.LastError = 0, ""
			if m.DueAt.After(now) {
				m.DueAt = now
			}
		}
		return nil
	})
	return items, err
}

// Retriable refuses a retry of an item that somebody has leased.
func (r *Record) Retriable(now time.Time) error {
	if !r.Leased(now) {
		return nil
	}
	return errs.New(errs.Conflict, fmt.Sprintf("a worker has the %s item leased until %s; retry it after that, if it is still there", r.Kind, r.LeasedUntil.UTC().Format(time.RFC3339)))
}
