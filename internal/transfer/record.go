package transfer

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"ajo/internal/batch"
	"ajo/internal/failpoint"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/trace"
)

// submitted is what recording a submission came to.
type submitted struct {
	// false: it is in another worker's hands, or its account had a recall, and nothing may be
	// submitted
	held  bool
	at    time.Time
	lease *time.Time // the new one
}

// submitSQL leaves alone what the bank has acknowledged, be it since the claim.
const submitSQL = `UPDATE transfers t SET status = 'processing', attempt_count = attempt_count + 1, submitted_at = $6, ask_count = 0, unknown_count = 0,
		account_name = m.holder, next_attempt_at = $7, leased_until = $8, last_error = '', updated_at = $6
	FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::text[], $9::bigint[]) WITH ORDINALITY AS m (id, lease, due, holder, recalls, n)
	WHERE ` + heldSQL + ` AND t.status = ANY($5) AND t.acknowledged_at IS NULL
		AND CASE t.status WHEN 'pending' THEN m.recalls = (SELECT coalesce(r.recall_count, 0) FROM ledger_balances r WHERE r.account_id = t.account_id) ELSE true END
	RETURNING m.n`

// submitBatch records many submissions in one statement, each with a lease. It locks the rows in
// the order of their ids.
func (s *Service) submitBatch(ctx context.Context, items []*step) []batch.Outcome[submitted] {
	return pg.Isolate(items, func(items []*step) ([]batch.Outcome[submitted], error) {
		now := s.Clock.Now()
		lease := now.Add(s.Lease)
		m := tokensOf(items, func(st *step) *step { return st })
		holders, recalls := make([]string, len(items)), make([]int64, len(items))
		for i, place := range m.places {
			holders[i], recalls[i] = items[place].AccountName, items[place].Recalls
		}
		failpoint.At("transfer/before-submit-commit")
		held, err := pg.Batch(ctx, s.Pool, pgx.RowTo[int], submitSQL,
			m.id, m.lease, m.due, holders, Transitions.From(EventSubmit), now, now.Add(s.Delays[0]), lease, recalls)
		if err != nil {
			return nil, err
		}
		if len(held) > 0 {
			failpoint.At("transfer/after-submit-commit")
		}
		out := make([]batch.Outcome[submitted], len(items))
		for _, n := range held {
			out[m.places[n-1]].Value = submitted{held: true, at: now, lease: &lease}
		}
		return out, err
	})
}

// postponement gives a claimed transfer back until its next look.
type postponement struct {
	*step
	at      *time.Time // nil: never again
	asks    int
	unknown int // 1 when the bank did not know it, in a look that counts
	why     string
}

func (s *Service) postponement(st *step, now time.Time, unknown bool, why error) postponement {
	p := postponement{step: st, why: why.Error()}
	p.at, p.asks = s.next(st, now)
	if unknown && !st.Early {
		p.unknown = 1
	}
	return p
}

// postpone gives a claimed transfer back until its next step. Unknown tells that the bank did not
// know it. One that is long under way is reported each time, and goes on.
func (s *Service) postpone(ctx context.Context, st *step, unknown bool, why error) error {
	now := s.Clock.Now()
	p := s.postponement(st, now, unknown, why)
	held, err := s.postpones.Do(ctx, p)
	if err == nil && !held {
		err = s.keepAcknowledgement(ctx, st)
	}
	if err != nil {
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

// postponeBatch stores many postponements, and answers each whether its claim still stood.
func (s *Service) postponeBatch(ctx context.Context, items []postponement) []batch.Outcome[bool] {
	return pg.Isolate(items, func(items []postponement) ([]batch.Outcome[bool], error) {
		out := make([]batch.Outcome[bool], len(items))
		failpoint.At("transfer/before-postpone-commit")
		err := pg.InBatch(ctx, s.Pool, func(tx pg.Tx) error {
			held, err := putOff(ctx, tx, s.Clock.Now(), items)
			for i := range held {
				out[i].Value = held[i]
			}
			return err
		})
		failpoint.At("transfer/after-postpone-commit")
		return out, err
	})
}

var putOffSQL = `UPDATE transfers t SET next_attempt_at = m.at, ask_count = m.asks, unknown_count = unknown_count + m.unknown, leased_until = NULL,
		` + learnedSQL("$8") + `, last_error = CASE WHEN status IN ('pending', 'processing') THEN m.why ELSE last_error END
	FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::int[], $6::int[], $7::text[],
		$9::bool[], $10::text[], $11::text[]) WITH ORDINALITY AS m (id, lease, due, at, asks, unknown, why, acked, fee, difference, n)
	WHERE ` + heldSQL + ` RETURNING m.n`

// putOff stores the postponements whose claim still stands, in one statement, and tells which these
// are. It locks the rows in the order of their ids.
func putOff(ctx context.Context, tx pg.Tx, now time.Time, items []postponement) (held []bool, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	m := tokensOf(items, func(p postponement) *step { return p.step })
	var at []*time.Time
	var asks, unknown []int32
	var why []string
	var l learnedColumns
	for _, i := range m.places {
		p := items[i]
		at, asks, unknown, why = append(at, p.at), append(asks, int32(p.asks)), append(unknown, int32(p.unknown)), append(why, p.why)
		l.add(&p.learned)
	}
	rows, err := tx.Query(ctx, putOffSQL, m.id, m.lease, m.due, at, asks, unknown, why, now, l.acked, l.fee, l.differences)
	if err != nil {
		return nil, err
	}
	stored, err := pgx.CollectRows(rows, pgx.RowTo[int])
	held = make([]bool, len(items))
	for _, n := range stored {
		held[m.places[n-1]] = true
	}
	return held, err
}
