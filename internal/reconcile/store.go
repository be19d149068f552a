package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/failpoint"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// recordTimeout bounds the record of how a run ended: it is written also when the run's own time is
// over.
const recordTimeout = 10 * time.Second

// dueWindow is the window of the next periodic run: the last one before tick, or after a time
// without runs the one that follows the last finished run, overlapping it by every. gap says what
// is too long ago to be read by itself.
func (s *Service) dueWindow(ctx context.Context, tick time.Time, every, window time.Duration) (from, to time.Time, gap string, err error) {
	var last *time.Time
	err = s.pool.QueryRow(ctx, `SELECT max(window_to) FROM reconciliations WHERE kind = 'periodic' AND status = 'finished'`).Scan(&last)
	from, to = tick.Add(-window), tick
	if err != nil || last == nil || !last.Before(from) {
		return from, to, "", err
	}
	if oldest := tick.Add(-maxWindow); last.Before(oldest) {
		gap = fmt.Sprintf("no run has read %s to %s: run ajo reconcile", last.Format(time.RFC3339), oldest.Format(time.RFC3339))
		last = &oldest
	}
	from = last.Add(-every)
	if end := last.Add(window); end.Before(to) {
		to = end
	}
	return from, to, gap, nil
}

// begin records a run at a person's word.
func (r *comparison) begin(ctx context.Context) error {
	_, err := r.pool.Exec(ctx, `
		INSERT INTO reconciliations (id, kind, window_from, window_to, status, started_at) VALUES ($1, 'manual', $2, $3, 'running', $4)`,
		r.report.ID, r.report.From, r.report.To, r.report.StartedAt)
	return err
}

// claim takes the window, unless it is done or another worker has claimed it. A run that failed, or
// whose worker has not been heard of for the length of a lease, is begun anew under its own id.
func (r *comparison) claim(ctx context.Context) (bool, error) {
	lease := r.clock.Now().Add(runLease)
	failpoint.At("reconcile/before-run-commit")
	err := r.pool.QueryRow(ctx, `
		INSERT INTO reconciliations AS c (id, kind, window_from, window_to, status, started_at, leased_until)
		VALUES ($1, $6, $2, $3, 'running', $4, $5)
		ON CONFLICT (window_from, window_to) WHERE kind = '`+r.report.Kind+`' DO UPDATE
		SET status = 'running', started_at = $4, leased_until = $5, finished_at = NULL
		WHERE c.status = 'failed' OR (c.status = 'running' AND c.leased_until <= $4)
		RETURNING id`, r.report.ID, r.report.From, r.report.To, r.report.StartedAt, lease, r.report.Kind).Scan(&r.report.ID)
	if pg.IsNoRows(err) {
		return false, nil
	}
	if err == nil {
		failpoint.At("reconcile/after-run-commit")
	}
	r.lease = lease
	return err == nil, err
}

// extend keeps a periodic run's claim alive, about once a minute. [errLostRun] when another worker
// has it.
func (r *comparison) extend(ctx context.Context) error {
	now := r.clock.Now()
	if r.lease.IsZero() || r.lease.Sub(now) > runLease-time.Minute {
		return nil
	}
	lease := now.Add(runLease)
	tag, err := r.pool.Exec(ctx, `UPDATE reconciliations SET leased_until = $3 WHERE id = $1 AND status = 'running' AND leased_until = $2`, r.report.ID, r.lease, lease)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return errLostRun
	}
	r.lease = lease
	return nil
}

func (r *comparison) leaseOrNull() *time.Time {
	if r.lease.IsZero() {
		return nil
	}
	return &r.lease
}

// finish keeps the report, and what it leaves open.
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
		UPDATE reconciliations SET status = 'finished', finished_at = $3, leased_until = NULL, last_error = '', report = $4,
			bank_count = $5, bank_amount = $6, bank_fee = $7, books_count = $8, books_amount = $9, books_fee = $10, stored_count = $11, exception_count = $12
		WHERE id = $1 AND status = 'running' AND leased_until IS NOT DISTINCT FROM $2`,
			r.report.ID, r.leaseOrNull(), r.report.FinishedAt, body, bank.Count, bank.Amount, bank.Fee, books.Count, books.Amount, books.Fee,
			len(r.report.ToPost), r.report.ExceptionCount())
		if err == nil && tag.RowsAffected() != 1 {
			err = errLostRun
		}
		if err != nil {
			return err
		}
		return r.storeItems(ctx, tx)
	})
	failpoint.At("reconcile/after-report-commit")
	return err
}

// fail records that the window was not read to its end; it is due again. It says so also when the
// run's context has ended.
func (r *comparison) fail(why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	_, err := r.pool.Exec(ctx, `
		UPDATE reconciliations SET status = 'failed', finished_at = $3, leased_until = NULL, last_error = $4
		WHERE id = $1 AND status = 'running' AND leased_until IS NOT DISTINCT FROM $2`, r.report.ID, r.leaseOrNull(), r.clock.Now(), why.Error())
	return err
}

// Run is a reconciliation as the list of them shows it.
type Run struct {
	ID         uuid.UUID
	Kind       string
	From, To   time.Time
	Status     string // running, finished or failed
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
		FROM reconciliations WHERE id < $1 ORDER BY id DESC LIMIT $2`)
}

// Reconciliation returns the report of a finished run; [ErrRunNotFound] for any other.
func (s *Service) Reconciliation(ctx context.Context, id uuid.UUID) (Report, error) {
	var r Report
	var body []byte
	err := s.pool.QueryRow(ctx, `SELECT report FROM reconciliations WHERE id = $1 AND status = 'finished'`, id).Scan(&body)
	if err != nil {
		return r, pg.OrNone(err, ErrRunNotFound)
	}
	return r, json.Unmarshal(body, &r)
}
