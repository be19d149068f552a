package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// work is a pending delivery as an attempt needs it.
type work struct {
	id            uuid.UUID
	tenant        uuid.UUID
	group         uuid.UUID
	event         Type
	url           string
	body          []byte
	nextAttemptAt time.Time
	leasedUntil   *time.Time
	createdAt     time.Time // as the delivery's
	secrets       sealedSecrets
	traceparent   string
}

// due is the time from which the delivery can be claimed.
func (w *work) due() time.Time {
	if w.leasedUntil != nil && w.leasedUntil.After(w.nextAttemptAt) {
		return *w.leasedUntil
	}
	return w.nextAttemptAt
}

const loadSQL = `
		SELECT d.id, d.tenant_id, d.transaction_group_id, d.event_type, d.callback_url, d.body, d.next_attempt_at, d.leased_until, d.created_at,
			t.webhook_secret, t.webhook_secret_previous, t.webhook_secret_previous_until, d.traceparent
		FROM deliveries d JOIN tenants t ON t.id = d.tenant_id
		WHERE d.id = ANY($1) AND d.status = $2`

// load reads the deliveries that are pending. It takes no lock.
func (s *Service) load(ctx context.Context, tx pg.Tx, ids []uuid.UUID) ([]*work, error) {
	found, err := pg.Collect(ctx, tx, readWork, loadSQL, ids, string(Pending))
	return pg.Match(ids, found, func(w *work) uuid.UUID { return w.id }), err
}

func readWork(row pgx.CollectableRow) (*work, error) {
	var w work
	return &w, row.Scan(&w.id, &w.tenant, &w.group, &w.event, &w.url, &w.body, &w.nextAttemptAt, &w.leasedUntil, &w.createdAt,
		&w.secrets.current, &w.secrets.previous, &w.secrets.previousUntil, &w.traceparent)
}

// hold is a delivery that found no place in its lane: whoever saw it due at one time puts it off to
// another.
type hold struct {
	ID   uuid.UUID `pg:"id"`
	Seen time.Time `pg:"seen"`
	To   time.Time `pg:"held_until"`
}

func (h hold) id() uuid.UUID { return h.ID }

var holdSQL = `
		UPDATE deliveries d SET next_attempt_at = h.held_until
		FROM ` + pg.Unnest[hold](3, "h") + `
		WHERE d.id = ANY(ARRAY[h.id]) AND coalesce(d.next_attempt_at, 'infinity') = h.seen AND d.status = $1
			AND (d.leased_until IS NULL OR d.leased_until <= $2)
		RETURNING h.n`

// hold puts deliveries off, and tells for each whether it did: one that somebody has claimed, ended
// or put off meanwhile stays as it is.
func (s *Service) hold(ctx context.Context, tx pg.Tx, holds []hold) ([]bool, error) {
	return pg.Done(ctx, tx, holds, holdSQL, string(Pending), s.clock.Now())
}

// claim is the right to make one attempt and record it. The end of the lease is its token: no two
// claims of a delivery have the same, because the second can only be made after the first has run
// out.
type claim struct {
	id       uuid.UUID
	lease    time.Time
	attempts int // made before
}

// For the forms of the conditions see package pg, plans.go. Whoever waits for a row tries the
// condition again on what the other made of it.
const claimSQL = `
		UPDATE deliveries d SET leased_until = $4 FROM unnest($1::uuid[]) AS w (id)
		WHERE d.id = ANY(ARRAY[w.id]) AND d.status = ANY($2) AND coalesce(d.next_attempt_at, 'infinity') <= $3
			AND (d.leased_until IS NULL OR d.leased_until <= $3)
		RETURNING d.id, d.attempt_count`

// claim takes the deliveries that are due, each once, and returns nil for the others.
func (s *Service) claim(ctx context.Context, tx pg.Tx, ids []uuid.UUID) ([]*claim, error) {
	now := s.clock.Now()
	lease := now.Add(s.opts.Lease).Truncate(time.Microsecond)
	found, err := pg.Collect(ctx, tx, func(r pgx.CollectableRow) (*claim, error) {
		c := claim{lease: lease}
		return &c, r.Scan(&c.id, &c.attempts)
	}, claimSQL, ids, Transitions.From(EventSucceed), now, lease)
	return pg.Match(ids, found, func(c *claim) uuid.UUID { return c.id }), err
}

// attempt is what one attempt came to.
type attempt struct {
	ID            uuid.UUID  `pg:"id"`
	Lease         time.Time  `pg:"lease"`  // of the claim that it was made under
	Status        Status     `pg:"status"` // by the event
	StartedAt     time.Time  `pg:"started_at"`
	DurationMS    int32      `pg:"duration_ms"`
	StatusCode    *int32     `pg:"status_code"`     // nil: no answer came
	Failure       string     `pg:"failure"`         // empty: delivered
	Body          []byte     `pg:"body"`            // of the answer; any bytes
	NextAttemptAt *time.Time `pg:"next_attempt_at"` // set for EventFail
	DeliveredAt   *time.Time `pg:"delivered_at"`    // set for EventSucceed
	event         Event
}

func (a attempt) id() uuid.UUID { return a.ID }

var recordSQL = `
		WITH moved AS (
			UPDATE deliveries d
			SET status = m.status, attempt_count = d.attempt_count + 1, last_error = m.failure, next_attempt_at = m.next_attempt_at,
				leased_until = NULL, delivered_at = m.delivered_at
			FROM ` + pg.Unnest[attempt](2, "m") + `
			WHERE d.id = ANY(ARRAY[m.id]) AND d.leased_until = m.lease AND d.status = $1
			RETURNING m.n, d.id, d.attempt_count, m.started_at, m.duration_ms, m.status_code, m.failure, m.body
		), kept AS (
			INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, status_code, error, response_body)
			SELECT id, attempt_count, started_at, duration_ms, status_code, failure, body FROM moved
		)
		SELECT n FROM moved`

// record moves the deliveries and adds their attempts, with one statement, and tells for each
// whether it did: an attempt whose claim has gone to somebody else changes nothing.
func (s *Service) record(ctx context.Context, tx pg.Tx, attempts []attempt) ([]bool, error) {
	for i := range attempts {
		a := &attempts[i]
		var ok bool
		if a.Status, ok = Transitions.Next(Pending, a.event); !ok {
			panic("webhook: no such move: " + string(a.event))
		}
		if a.Body == nil {
			a.Body = []byte{} // never NULL
		}
	}
	return pg.Done(ctx, tx, attempts, recordSQL, string(Pending))
}

// Due is a delivery whose time has passed.
type Due struct {
	ID      uuid.UUID
	Attempt int // the number of the attempt that is due, from 1
}

// Due lists pending deliveries that should have been tried before overdueBefore and are not
// claimed, oldest first, at most limit. The sweeper enqueues each.
func (s *Service) Due(ctx context.Context, now, overdueBefore time.Time, limit int) ([]Due, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, attempt_count + 1 FROM deliveries
		WHERE next_attempt_at < $1 AND (leased_until IS NULL OR leased_until <= $2)
		ORDER BY next_attempt_at LIMIT $3`, overdueBefore, now, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Due])
}

// Postpone puts off the work on a delivery whose handling failed, longer with each failure; see
// [pg.Postpone]. The tenant reads no more than that it was our fault.
func (s *Service) Postpone(ctx context.Context, id uuid.UUID, _ error) (time.Time, error) {
	return pg.Postpone(ctx, s.pool, pg.PostponeDelivery, id, s.clock.Now(), errOurs)
}

var errOurs = errors.New("not sent: an error on our side; it will be tried again")
