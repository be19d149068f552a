package transfer

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/batch"
	"ajo/internal/failpoint"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/trace"
)

// submission is a claimed transfer that is about to be submitted.
type submission struct {
	id     uuid.UUID
	lease  time.Time
	holder string // of the destination, as the bank names it
}

// submitted is what recording a submission came to.
type submitted struct {
	held  bool // false: the claim has gone to another worker, and nothing may be submitted
	at    time.Time
	lease time.Time // the new one
}

// submitBatch records many submissions in one statement. It locks the rows in the order of their ids.
func (s *Service) submitBatch(ctx context.Context, items []submission) []batch.Outcome[submitted] {
	return pg.Isolate(items, func(items []submission) ([]batch.Outcome[submitted], error) {
		now := s.Clock.Now()
		lease := now.Add(s.Lease)
		ids, leases, holders := make([]uuid.UUID, len(items)), make([]time.Time, len(items)), make([]string, len(items))
		for i, m := range items {
			ids[i], leases[i], holders[i] = m.id, m.lease, m.holder
		}
		failpoint.At("transfer/before-submit-commit")
		held, err := pg.Batch(ctx, s.Pool, pgx.RowTo[int], `
			WITH held AS (
				SELECT t.id, m.holder, m.n FROM transfers t
				JOIN unnest($1::uuid[], $2::timestamptz[], $3::text[]) WITH ORDINALITY AS m (id, lease, holder, n) ON t.id = m.id AND t.leased_until = m.lease
				WHERE t.status = ANY($4) ORDER BY t.id FOR NO KEY UPDATE OF t)
			UPDATE transfers t SET status = 'processing', attempt_count = attempt_count + 1, submitted_at = $5, ask_count = 0, unknown_count = 0,
				account_name = held.holder, next_attempt_at = $6, leased_until = $7, last_error = '', updated_at = $5
			FROM held WHERE t.id = held.id RETURNING held.n`,
			ids, leases, holders, Transitions.From(EventSubmit), now, now.Add(s.Delays[0]), lease)
		if err != nil {
			return nil, err
		}
		if len(held) > 0 {
			failpoint.At("transfer/after-submit-commit")
		}
		out := make([]batch.Outcome[submitted], len(items))
		for _, n := range held {
			out[n-1].Value = submitted{held: true, at: now, lease: lease}
		}
		return out, err
	})
}

// postponement gives a claimed transfer back until its next look.
type postponement struct {
	id      uuid.UUID
	lease   time.Time
	at      *time.Time // nil: never again
	asks    int
	unknown int // 1 when the bank did not know it, in a look that counts
	why     string
}

func (s *Service) postponement(st *step, now time.Time, unknown bool, why error) postponement {
	p := postponement{id: st.ID, lease: st.Lease, why: why.Error()}
	p.at, p.asks = s.next(st, now)
	if unknown && !st.Early {
		p.unknown = 1
	}
	return p
}

// postpone gives a claimed transfer back until its next step. Unknown tells that the bank did not know it. One that is long
// under way is reported each time, and goes on.
func (s *Service) postpone(ctx context.Context, st *step, unknown bool, why error) error {
	now := s.Clock.Now()
	p := s.postponement(st, now, unknown, why)
	if _, err := s.postpones.Do(ctx, p); err != nil {
		return err
	}
	trace.Of(ctx).Text("outcome", "later")
	if p.at == nil {
		return nil
	}
	if age := now.Sub(st.Since); age >= alertAfter {
		switch st.Status {
		case Pending:
			s.alert(ctx, st, "not_submitted", "a transfer could not be submitted yet", slog.Duration("age", age), slog.Any("why", why))
		case Processing:
			s.alert(ctx, st, "unknown_outcome", "the outcome of a transfer is still unknown", slog.Duration("age", age), slog.Any("why", why))
		}
	}
	return retry.At(*p.at, why)
}

func (s *Service) postponeBatch(ctx context.Context, items []postponement) []batch.Outcome[struct{}] {
	return pg.Isolate(items, func(items []postponement) ([]batch.Outcome[struct{}], error) {
		failpoint.At("transfer/before-postpone-commit")
		err := pg.InBatch(ctx, s.Pool, func(tx pg.Tx) error { return putOff(ctx, tx, items) })
		failpoint.At("transfer/after-postpone-commit")
		return make([]batch.Outcome[struct{}], len(items)), err
	})
}

// putOff stores the postponements whose claim still stands, in one statement. It locks the rows in the order of their ids.
func putOff(ctx context.Context, tx pg.Tx, items []postponement) error {
	if len(items) == 0 {
		return nil
	}
	var ids []uuid.UUID
	var leases []time.Time
	var at []*time.Time
	var asks, unknown []int32
	var why []string
	for _, p := range items {
		ids, leases, at = append(ids, p.id), append(leases, p.lease), append(at, p.at)
		asks, unknown, why = append(asks, int32(p.asks)), append(unknown, int32(p.unknown)), append(why, p.why)
	}
	_, err := tx.Exec(ctx, `
		WITH held AS (
			SELECT t.id, m.at, m.asks, m.unknown, m.why FROM transfers t
			JOIN unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::int[], $5::int[], $6::text[]) AS m (id, lease, at, asks, unknown, why)
				ON t.id = m.id AND t.leased_until = m.lease
			ORDER BY t.id FOR NO KEY UPDATE OF t)
		UPDATE transfers t SET next_attempt_at = held.at, ask_count = held.asks, unknown_count = unknown_count + held.unknown, leased_until = NULL,
			last_error = CASE WHEN status IN ('pending', 'processing') THEN held.why ELSE last_error END
		FROM held WHERE t.id = held.id`, ids, leases, at, asks, unknown, why)
	return err
}
