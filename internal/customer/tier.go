package customer

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/freeze"
	"ajo/internal/pg"
	"ajo/ledger"
)

// tierSlice is how many holds of limits one transaction looks at: others wait for its locks of the
// balances, for a quarter of a second or so. One customer may have any number of holds, each that
// of a payment above a limit.
const tierSlice = 5000

// applyTier releases what limits of the customer's tier held and no longer hold, as far as one
// transaction does: the customer's row then says how far that is, and [Service.ReleaseRest] goes
// on. A settlement that waits for the money continues at once: its item of work is made due after
// the commit, and what a death leaves behind looks again by its own schedule.
func (s *Service) applyTier(ctx context.Context, tx pg.Tx, c Customer) error {
	return s.release(ctx, tx, c.ID, ledger.HeldAt{})
}

// release releases one slice. The caller has locked the customer's row.
func (s *Service) release(ctx context.Context, tx pg.Tx, id uuid.UUID, after ledger.HeldAt) error {
	now := s.Clock.Now()
	released, last, err := ledger.ApplyTier(ctx, tx, now, id, after, s.slice)
	if err != nil {
		return err
	}
	if len(released) > 0 {
		tx.AfterCommit(func(ctx context.Context) { _ = freeze.Resume(ctx, s.Pool, now, freeze.Account, released...) })
	}
	var account, entry *uuid.UUID
	if last != (ledger.HeldAt{}) {
		account, entry = &last.Account, &last.Entry
	}
	_, err = tx.Exec(ctx, `
		UPDATE customers SET release_account = $2, release_entry = $3 WHERE id = $1 AND (release_account IS NOT NULL OR $2::uuid IS NOT NULL)`, id, account, entry)
	return err
}

// ReleaseRest releases what changes of tiers allow and their own transactions left, a slice of each
// customer in turn, until none is left or one has failed. Any number of processes may do so at
// once. Workers call it again and again.
func (s *Service) ReleaseRest(ctx context.Context) error {
	for {
		ids, err := pg.Collect(ctx, s.Pool, pgx.RowTo[uuid.UUID], `SELECT id FROM customers WHERE release_account IS NOT NULL ORDER BY id LIMIT 100`)
		if err != nil || len(ids) == 0 {
			return err
		}
		var failed []error
		for _, id := range ids {
			if err := s.releaseNext(ctx, id); err != nil {
				failed = append(failed, err)
			}
		}
		if len(failed) > 0 {
			return errors.Join(failed...)
		}
	}
}

// releaseNext releases a customer's next slice, in a transaction of its own.
func (s *Service) releaseNext(ctx context.Context, id uuid.UUID) error {
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		var after ledger.HeldAt
		err := tx.QueryRow(ctx, `SELECT release_account, release_entry FROM customers WHERE id = $1 AND release_account IS NOT NULL FOR NO KEY UPDATE`, id).
			Scan(&after.Account, &after.Entry)
		if pg.IsNoRows(err) {
			return nil // another process has released the rest meanwhile
		}
		if err != nil {
			return err
		}
		return s.release(ctx, tx, id, after)
	})
}
