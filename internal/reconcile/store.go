package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ajo/internal/failpoint"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/transfer"
)

// recordTimeout bounds recording how a run ended, which is done even after the run's own deadline.
const recordTimeout = 10 * time.Second

// recentPerHour is how many payments an hour of the bank's list had, at most, in the last runs.
func (r *comparison) recentPerHour(ctx context.Context) (n int64, err error) {
	err = r.pool.QueryRow(ctx, `
		SELECT coalesce(max(bank_count / greatest(extract(epoch FROM window_to - window_from), 1) * 3600), 0)::bigint
		FROM (SELECT bank_count, window_from, window_to FROM reconciliations WHERE status = 'finished' ORDER BY id DESC LIMIT 100) x`).Scan(&n)
	return n, err
}

// begin records a run that a person has asked for.
func (r *comparison) begin(ctx context.Context) error {
	if err := r.endDead(ctx); err != nil {
		return err
	}
	lease := r.clock.Now().Add(runLease)
	_, err := r.pool.Exec(ctx, `
		INSERT INTO reconciliations (id, kind, window_from, window_to, status, started_at, leased_until) VALUES ($1, 'manual', $2, $3, 'running', $4, $5)`,
		r.report.ID, r.report.From, r.report.To, r.report.StartedAt, lease)
	if err == nil {
		r.lease = lease
	}
	return err
}

// endDead ends the runs by people whose process has given no sign of life for the length of a
// lease: nobody takes them over, and they would be listed as running for ever.
func (r *comparison) endDead(ctx context.Context) error {
	_, err := r.pool.Exec(ctx, `
		UPDATE reconciliations SET status = 'failed', finished_at = $2, leased_until = NULL, last_error = $3
		WHERE kind = $1 AND status = 'running' AND leased_until <= $2`, kindManual, r.report.StartedAt, errDiedRun.Error())
	return err
}

// clockAhead is how far in the future a stored time must be to have come from a clock that has
// since been corrected: each process follows the database's clock, and another server may have
// taken over.
const clockAhead = time.Minute

// outrun invalidates finished runs of the kind whose windows lie in the future: they read a time
// that was yet to come, and no run would be due until then.
func (r *comparison) outrun(ctx context.Context) error {
	tag, err := r.pool.Exec(ctx, `UPDATE reconciliations SET kind = 'manual' WHERE kind = $1 AND status = 'finished' AND window_to > $2`,
		r.report.Kind, r.report.StartedAt.Add(clockAhead))
	if n := tag.RowsAffected(); err == nil && n > 0 {
		r.log.ErrorContext(ctx, "the database's clock was ahead: reconciliations dated in the future are ignored", slog.String("alert", "clock"), slog.Int64("runs", n))
	}
	return err
}

// resume takes over a run of the kind that failed, that is waiting for its time, or whose worker
// has given no sign of life for the length of a lease. It continues where that one stopped.
func (r *comparison) resume(ctx context.Context) (bool, error) {
	var partial []byte
	var readTo *time.Time
	lease := r.clock.Now().Add(runLease)
	failpoint.At("reconcile/before-run-commit")
	err := r.pool.QueryRow(ctx, `
		UPDATE reconciliations SET status = 'running', started_at = $2, leased_until = $3, finished_at = NULL
		WHERE id = (SELECT id FROM reconciliations WHERE kind = $1 AND (status = 'failed' OR (status IN ('running', 'waiting') AND leased_until <= $2)
				OR (status = 'running' AND leased_until > $4))
				ORDER BY window_from, id LIMIT 1 FOR UPDATE)
		RETURNING id, window_from, window_to, read_to, partial, failing_since`, r.report.Kind, r.report.StartedAt, lease, lease.Add(clockAhead)).
		Scan(&r.report.ID, &r.report.From, &r.report.To, &readTo, &partial, &r.failing)
	if err != nil {
		return false, pg.OrNone(err, nil)
	}
	failpoint.At("reconcile/after-run-commit")
	r.lease, r.readTo = lease, r.report.From
	if readTo == nil {
		return true, nil
	}
	r.readTo = *readTo
	id, started := r.report.ID, r.report.StartedAt
	err = json.Unmarshal(partial, &r.report)
	r.report.ID, r.report.StartedAt = id, started
	return err == nil, err
}

// claim takes over a run that was not finished, or else begins the one of the given window, which
// follows the newest finished one; unless there is none, or another worker has one of the kind.
func (r *comparison) claim(ctx context.Context, window func(last *time.Time) (from, to time.Time)) (bool, error) {
	for _, step := range []func(context.Context) error{r.endDead, r.outrun} {
		if err := step(ctx); err != nil {
			return false, err
		}
	}
	if resumed, err := r.resume(ctx); resumed || err != nil {
		return resumed, err
	}
	var last *time.Time
	if err := r.pool.QueryRow(ctx, `SELECT max(window_to) FROM reconciliations WHERE kind = $1 AND status = 'finished'`, r.report.Kind).Scan(&last); err != nil {
		return false, err
	}
	since, err := transfer.WalletSince(ctx, r.pool)
	if err != nil {
		return false, err
	}
	if last != nil && last.Before(since) {
		last = &since
	}
	from, to := window(last)
	if !from.Before(to) {
		return false, nil
	}
	r.report.From, r.report.To, r.readTo = from, to, from
	lease := r.clock.Now().Add(runLease)
	failpoint.At("reconcile/before-run-commit")
	tag, err := r.pool.Exec(ctx, `
		INSERT INTO reconciliations (id, kind, window_from, window_to, status, due_at, started_at, leased_until) VALUES ($1, $2, $3, $4, 'running', $5, $5, $6)
		ON CONFLICT DO NOTHING`, r.report.ID, r.report.Kind, from, to, r.report.StartedAt, lease)
	if err != nil || tag.RowsAffected() == 0 {
		return false, err
	}
	failpoint.At("reconcile/after-run-commit")
	r.lease = lease
	return true, nil
}

// checkpoint stores how far a run has come and what it has found, so that a worker that takes over
// can continue there, and keeps the run's claim alive. A slice whose list was behind is scheduled
// to be read again, together with those before it: but for no longer a time than it waits, since a
// list that is always behind would put it off each time. Of a run by a person, only the claim is
// kept alive.
func (r *comparison) checkpoint(ctx context.Context, s *slice) error {
	if r.report.Kind == kindManual {
		return r.extend(ctx)
	}
	partial, err := json.Marshal(r.report)
	if err != nil {
		return err
	}
	lease := r.lease
	failpoint.At("reconcile/before-slice-commit")
	err = pg.InTx(ctx, r.pool, func(tx pg.Tx) error {
		r.lease = lease // a repeated transaction starts over
		if err := r.keepClaim(ctx, tx, &r.readTo, partial); err != nil || !s.young || r.behind == 0 {
			return err
		}
		now := r.clock.Now()
		tag, err := tx.Exec(ctx, `
			UPDATE reconciliations SET window_to = $3, leased_until = $4, due_at = $4 WHERE kind = $1 AND status = 'waiting' AND window_to = $2 AND window_from >= $5`,
			kindAgain, s.from, s.to, s.to.Add(r.behind), s.to.Add(-r.behind))
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO reconciliations (id, kind, window_from, window_to, status, due_at, started_at, leased_until) VALUES ($1, $2, $3, $4, 'waiting', $6, $5, $6)`,
			uuid.Must(uuid.NewV7()), kindAgain, s.from, s.to, now, s.to.Add(r.behind))
		return err
	})
	failpoint.At("reconcile/after-slice-commit")
	return err
}

// extend keeps a run's claim alive, about once a minute. [errLostRun] when another worker has it,
// or it counts as ended.
func (r *comparison) extend(ctx context.Context) error {
	now := r.clock.Now()
	if r.lease.Sub(now) > runLease-time.Minute {
		return nil
	}
	return r.keepClaim(ctx, r.pool, nil, nil)
}

// execer is the pool or a transaction.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// keepClaim extends the claim, and stores how far the run has come if that is given.
func (r *comparison) keepClaim(ctx context.Context, db execer, readTo *time.Time, partial []byte) error {
	lease := r.clock.Now().Add(runLease)
	tag, err := db.Exec(ctx, `
		UPDATE reconciliations SET leased_until = $3, read_to = coalesce($4, read_to), partial = coalesce($5, partial),
			failing_since = CASE WHEN $4 IS NULL THEN failing_since END
		WHERE id = $1 AND status = 'running' AND leased_until = $2`, r.report.ID, r.lease, lease, readTo, partial)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return errLostRun
	}
	r.lease = lease
	return nil
}

// finish keeps the report.
func (r *comparison) finish(ctx context.Context) error {
	r.report.FinishedAt = r.clock.Now()
	body, err := json.Marshal(r.report)
	if err != nil {
		return err
	}
	bank, books := r.report.Bank.Success, r.report.Books.counted()
	failpoint.At("reconcile/before-report-commit")
	err = pg.InTx(ctx, r.pool, func(tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `
		UPDATE reconciliations SET status = 'finished', finished_at = $3, leased_until = NULL, read_to = NULL, partial = NULL, failing_since = NULL, last_error = '', report = $4,
			bank_count = $5, bank_amount = $6, bank_fee = $7, books_count = $8, books_amount = $9, books_fee = $10, stored_count = $11, exception_count = $12
		WHERE id = $1 AND status = 'running' AND leased_until = $2`,
			r.report.ID, r.lease, r.report.FinishedAt, body, bank.Count, bank.Amount, bank.Fee, books.Count, books.Amount, books.Fee,
			r.report.Counts[MissingEvent], r.report.ExceptionCount())
		if err == nil && tag.RowsAffected() != 1 {
			err = errLostRun
		}
		return err
	})
	failpoint.At("reconcile/after-report-commit")
	return err
}

// fail records that the window was not read to its end; it is due again. It does so even if the
// run's context has ended.
func (r *comparison) fail(why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	_, err := r.pool.Exec(ctx, `
		UPDATE reconciliations SET status = 'failed', finished_at = $3, leased_until = NULL, last_error = $4,
			failing_since = coalesce(failing_since, CASE WHEN $5 THEN $3::timestamptz END)
		WHERE id = $1 AND status = 'running' AND leased_until = $2`, r.report.ID, r.lease, r.clock.Now(), why.Error(), errors.Is(why, errUnlisted))
	return err
}

// Run is a reconciliation as the list of them shows it.
type Run struct {
	ID         uuid.UUID
	Kind       string
	From, To   time.Time
	Status     string // waiting, running, finished or failed
	StartedAt  time.Time
	FinishedAt *time.Time
	Stored     *int // payments whose event never came; absent unless finished
	Exceptions *int
	LastError  string
}

// Reconciliations returns a page of the runs, newest first. For operators. A bad cursor is
// [page.ErrCursor].
func (s *Service) Reconciliations(ctx context.Context, r page.Request) ([]Run, page.Info, error) {
	list := pg.List[Run]{Name: page.Runs, ID: func(v Run) uuid.UUID { return v.ID }, Row: pgx.RowToStructByPos[Run]}
	return list.Page(ctx, s.pool, r, `
		SELECT id, kind, window_from, window_to, status, started_at, finished_at, stored_count, exception_count, last_error
		FROM reconciliations WHERE id < @before ORDER BY id DESC LIMIT @limit`, nil)
}

// Reconciliation returns the report of a finished run. [ErrRunUnfinished] for one that has none
// yet, [ErrRunNotFound] for no run.
func (s *Service) Reconciliation(ctx context.Context, id uuid.UUID) (Report, error) {
	var r Report
	var status string
	var body []byte
	err := s.pool.QueryRow(ctx, `SELECT status, report FROM reconciliations WHERE id = $1`, id).Scan(&status, &body)
	switch {
	case err != nil:
		return r, pg.OrNone(err, ErrRunNotFound)
	case status != "finished":
		return r, fmt.Errorf("%w: it is %s", ErrRunUnfinished, status)
	}
	return r, json.Unmarshal(body, &r)
}

// LastReconciliation returns the report of the workers' last run, which the alerts and "ajo status"
// are about; [ErrRunNotFound] before the first has finished.
func (s *Service) LastReconciliation(ctx context.Context) (Report, error) {
	var r Report
	var body []byte
	err := s.pool.QueryRow(ctx, `
		SELECT report FROM reconciliations WHERE kind = 'periodic' AND status = 'finished' ORDER BY window_to DESC LIMIT 1`).Scan(&body)
	if err != nil {
		return r, pg.OrNone(err, ErrRunNotFound)
	}
	return r, json.Unmarshal(body, &r)
}
