package transfer

import (
	"context"
	"log/slog"
	"time"

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

// submission is a step's row in submitSQL.
type submission struct {
	seen
	Holder  string `pg:"holder"`
	Recalls int64  `pg:"recalls"`
}

// submitSQL leaves alone what the bank has acknowledged, be it since the claim.
var submitSQL = `UPDATE transfers t SET status = 'processing', attempt_count = attempt_count + 1, submitted_at = $2, ask_count = 0, unknown_count = 0,
		account_name = m.holder, next_attempt_at = $3, leased_until = $4, last_error = '', updated_at = $2
	FROM ` + pg.Unnest[submission](5, "m") + `
	WHERE ` + heldSQL + ` AND t.status = ANY($1) AND t.acknowledged_at IS NULL
		AND CASE t.status WHEN 'pending' THEN m.recalls = (SELECT coalesce(r.recall_count, 0) FROM ledger_balances r WHERE r.account_id = t.account_id) ELSE true END
	RETURNING m.n`

// submitAll records many submissions in one statement, each with a lease.
func (s *Service) submitAll(ctx context.Context, tx pg.Tx, items []*step) ([]submitted, error) {
	now := s.Clock.Now()
	lease := now.Add(s.Lease)
	rows := make([]submission, len(items))
	for i, st := range items {
		rows[i] = submission{st.seen(), st.AccountName, st.Recalls}
	}
	held, err := pg.Done(ctx, tx, rows, submitSQL, Transitions.From(EventSubmit), now, now.Add(s.Delays[0]), lease)
	out := make([]submitted, len(items))
	for i := range items {
		if held[i] {
			out[i] = submitted{held: true, at: now, lease: &lease}
		}
	}
	return out, err
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

// postponed is a postponement's row in putOffSQL.
type postponed struct {
	seen
	At      *time.Time `pg:"at"`
	Asks    int        `pg:"asks"`
	Unknown int        `pg:"unknown"`
	Why     string     `pg:"why"`
	learnedRow
}

var putOffSQL = `UPDATE transfers t SET next_attempt_at = m.at, ask_count = m.asks, unknown_count = unknown_count + m.unknown, leased_until = NULL,
		` + learnedSQL("$1") + `, last_error = CASE WHEN status IN ('pending', 'processing') THEN m.why ELSE last_error END
	FROM ` + pg.Unnest[postponed](2, "m") + ` WHERE ` + heldSQL + ` RETURNING m.n`

// putOff stores the postponements whose claim still stands, in one statement, and tells which these
// are.
func (s *Service) putOff(ctx context.Context, tx pg.Tx, items []postponement) ([]bool, error) {
	if len(items) == 0 {
		return nil, nil
	}
	rows := make([]postponed, len(items))
	for i, p := range items {
		rows[i] = postponed{p.seen(), p.at, p.asks, p.unknown, p.why, p.learned.row()}
	}
	return pg.Done(ctx, tx, rows, putOffSQL, s.Clock.Now())
}
