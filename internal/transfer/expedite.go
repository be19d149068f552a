package transfer

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
	"ajo/internal/work"
)

// Expedite makes the next step of a transfer due at once, because the bank's list has news about
// it; ok is false if there is nothing to ask. The list is not believed: the step asks the bank, and
// does not count towards an end.
func (s *Service) Expedite(ctx context.Context, merchantTxRef string) (ok bool, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		asked, others, err := mentioned(ctx, tx, now, merchantTxRef)
		if err != nil {
			return err
		}
		items := append(asked, others...)
		ok = len(items) > 0
		return makeDue(ctx, tx, now, items...)
	})
	return ok && err == nil, err
}

// ExpediteTx is [Service.Expedite] for many, in the transaction that stores the bank's events. So
// an event about a transfer that ended long ago, and is not asked about any more, is not lost. The
// bank's record may lag behind the event, so such a transfer is asked about as often as after its
// end.
func (s *Service) ExpediteTx(ctx context.Context, tx pg.Tx, merchantTxRefs []string) error {
	now := s.Clock.Now()
	asked, others, err := mentioned(ctx, tx, now, merchantTxRefs...)
	if err != nil {
		return err
	}
	if len(asked) > 0 {
		// the items are changed in two groups
		if err := work.Lock(ctx, tx, work.Settle, itemIDs(slices.Concat(asked, others))...); err != nil {
			return err
		}
		if err := askAnew(ctx, tx, asked); err != nil {
			return err
		}
	}
	return makeDue(ctx, tx, now, others...)
}

const mentionedSQL = `SELECT id, tenant_id, status NOT IN ('pending', 'processing') AND ask_count > 0 FROM transfers
	WHERE merchant_tx_ref = ANY($1) AND attempt_count > 0`

// mentioned returns the next steps of transfers that were submitted: those that have ended and were
// asked about since, and the others.
func mentioned(ctx context.Context, tx pg.Tx, now time.Time, refs ...string) (asked, others []work.Item, err error) {
	_, err = pg.Collect(ctx, tx, func(r pgx.CollectableRow) (m work.Item, err error) {
		var again bool
		m = work.Item{Kind: work.Settle, DueAt: now}
		if err = r.Scan(&m.ID, &m.TenantID, &again); err != nil {
			return m, err
		}
		if again {
			asked = append(asked, m)
		} else {
			others = append(others, m)
		}
		return m, nil
	}, mentionedSQL, refs)
	return asked, others, err
}

const askAnewSQL = `UPDATE transfers SET ask_count = 0 WHERE id = ANY($1) AND status NOT IN ('pending', 'processing')`

// askAnew begins the questions about transfers that have ended anew. Claims on them are lost: what
// a worker that has one records would end the questions again.
func askAnew(ctx context.Context, tx pg.Tx, items []work.Item) error {
	if err := work.Schedule(ctx, tx, items...); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, askAnewSQL, itemIDs(items))
	return err
}

// makeDue makes the next steps of transfers due now. A transfer that has ended and has no more
// questions gets one more.
func makeDue(ctx context.Context, tx pg.Tx, now time.Time, items ...work.Item) error {
	if len(items) == 0 {
		return nil
	}
	found, err := work.Expedite(ctx, tx, work.Settle, now, itemIDs(items)...)
	if err != nil {
		return err
	}
	return work.Schedule(ctx, tx, slices.DeleteFunc(items, func(m work.Item) bool { return slices.Contains(found, m.ID) })...)
}

func itemIDs(items []work.Item) []uuid.UUID {
	ids := make([]uuid.UUID, len(items))
	for i, m := range items {
		ids[i] = m.ID
	}
	return ids
}
