package webhook

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/failpoint"
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

// load reads the deliveries that are pending, in the order of ids, and nil for each that is not. It
// takes no lock.
func (s *Service) load(ctx context.Context, ids []uuid.UUID) ([]*work, error) {
	found, err := pg.Batch(ctx, s.pool, readWork, loadSQL, ids, string(Pending))
	if err != nil {
		return nil, err
	}
	byID := make(map[uuid.UUID]*work, len(found))
	for _, w := range found {
		byID[w.id] = w
	}
	out := make([]*work, len(ids))
	for i, id := range ids {
		out[i] = byID[id]
	}
	return out, nil
}

func readWork(row pgx.CollectableRow) (*work, error) {
	var w work
	return &w, row.Scan(&w.id, &w.tenant, &w.group, &w.event, &w.url, &w.body, &w.nextAttemptAt, &w.leasedUntil, &w.createdAt,
		&w.secrets.current, &w.secrets.previous, &w.secrets.previousUntil, &w.traceparent)
}

// held is a delivery that found no place in its lane: whoever saw it due at one time puts it off to
// another.
type held struct {
	id       uuid.UUID
	seen, to time.Time
}

// hold puts deliveries off, and tells for each whether it did: one that somebody has claimed, ended
// or put off meanwhile stays as it is. It locks the rows in the order of their ids.
func (s *Service) hold(ctx context.Context, holds []held) ([]bool, error) {
	var ids []uuid.UUID
	var seen, to []time.Time
	for _, h := range holds {
		ids, seen, to = append(ids, h.id), append(seen, h.seen), append(to, h.to)
	}
	failpoint.At("webhook/before-hold-commit")
	rows, err := s.pool.Query(ctx, `
		WITH waiting AS (
			SELECT d.id, h.held_until FROM deliveries d
			JOIN unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) AS h (id, seen, held_until) ON d.id = h.id AND d.next_attempt_at = h.seen
			WHERE d.status = $4 AND (d.leased_until IS NULL OR d.leased_until <= $5)
			ORDER BY d.id FOR NO KEY UPDATE OF d
		)
		UPDATE deliveries d SET next_attempt_at = waiting.held_until FROM waiting WHERE d.id = waiting.id
		RETURNING d.id, d.next_attempt_at`, ids, seen, to, string(Pending), s.clock.Now())
	if err != nil {
		return nil, err
	}
	moved := make(map[uuid.UUID]time.Time, len(holds))
	var id uuid.UUID
	var at time.Time
	if _, err := pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		moved[id] = at
		return nil
	}); err != nil {
		return nil, err
	}
	failpoint.At("webhook/after-hold-commit")
	out := make([]bool, len(holds))
	for i, h := range holds {
		at, ok := moved[h.id]
		out[i] = ok && at.Equal(h.to)
	}
	return out, nil
}

// claim is the right to make one attempt and record it. The end of the lease is its token: no two
// claims of a delivery have the same, because the second can only be made after the first has run
// out.
type claim struct {
	lease    time.Time
	attempts int // made before
}

// claimSQL and recordSQL look up one id after the other, and so lock the rows in the order of the
// array, which is sorted; whoever waits for a row tries the condition again on what the other made
// of it. "= ANY(ARRAY[id])" leaves the planner nothing but the lookup: with "= id", a plan that was
// made when the table had less than a hundred rows reads all of it for each batch. And coalesce
// hides the appointment, as on a young table the planner would go by the index of all that is due.
const claimSQL = `
		UPDATE deliveries d SET leased_until = $4 FROM unnest($1::uuid[]) AS w (id)
		WHERE d.id = ANY(ARRAY[w.id]) AND d.status = ANY($2) AND coalesce(d.next_attempt_at, 'infinity') <= $3
			AND (d.leased_until IS NULL OR d.leased_until <= $3)
		RETURNING d.id, d.attempt_count`

// claim takes the deliveries that are due, each once, and returns nil for the others. It locks the
// rows in the order of their ids. A delivery that is named twice goes to the first who named it.
func (s *Service) claim(ctx context.Context, ids []uuid.UUID) ([]*claim, error) {
	now := s.clock.Now()
	lease := now.Add(s.opts.Lease).Truncate(time.Microsecond)
	failpoint.At("webhook/before-claim-commit")
	type due struct {
		ID       uuid.UUID
		Attempts int
	}
	sorted := slices.Clone(ids)
	slices.SortFunc(sorted, pg.CompareIDs)
	found, err := pg.Batch(ctx, s.pool, pgx.RowToStructByPos[due], claimSQL, slices.Compact(sorted), Transitions.From(EventSucceed), now, lease)
	if err != nil {
		return nil, err
	}
	attempts := make(map[uuid.UUID]int, len(ids))
	for _, d := range found {
		attempts[d.ID] = d.Attempts
	}
	if len(attempts) > 0 {
		failpoint.At("webhook/after-claim-commit")
	}
	out := make([]*claim, len(ids))
	for i, id := range ids {
		if n, ok := attempts[id]; ok {
			out[i] = &claim{lease: lease, attempts: n}
			delete(attempts, id)
		}
	}
	return out, nil
}

// attempt is what one attempt came to.
type attempt struct {
	id            uuid.UUID
	lease         time.Time // of the claim that it was made under
	event         Event
	startedAt     time.Time
	durationMS    int32
	statusCode    *int32     // nil: no answer came
	failure       string     // empty: delivered
	body          []byte     // of the answer; any bytes
	nextAttemptAt *time.Time // set for EventFail
	deliveredAt   *time.Time // set for EventSucceed
}

const recordSQL = `
		WITH moved AS (
			UPDATE deliveries d
			SET status = m.status, attempt_count = d.attempt_count + 1, last_error = m.failure, next_attempt_at = m.next_attempt_at,
				leased_until = NULL, delivered_at = m.delivered_at
			FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
				$7::timestamptz[], $8::integer[], $9::integer[], $10::bytea[])
				AS m (id, lease, status, failure, next_attempt_at, delivered_at, started_at, duration_ms, status_code, body)
			WHERE d.id = ANY(ARRAY[m.id]) AND d.leased_until = m.lease AND d.status = $11
			RETURNING d.id, d.attempt_count, m.lease, m.started_at, m.duration_ms, m.status_code, m.failure, m.body
		), kept AS (
			INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, status_code, error, response_body)
			SELECT id, attempt_count, started_at, duration_ms, status_code, failure, body FROM moved
		)
		SELECT id, lease FROM moved`

// record moves the deliveries and adds their attempts, with one statement, and tells for each
// whether it did: an attempt whose claim has gone to somebody else changes nothing. It locks the
// rows in the order of their ids.
func (s *Service) record(ctx context.Context, attempts []attempt) ([]bool, error) {
	var c struct {
		id                []uuid.UUID
		from, to, failure []string
		lease, started    []time.Time
		next, delivered   []*time.Time
		durationMS        []int32
		statusCode        []*int32
		body              [][]byte
	}
	sorted := make([]*attempt, len(attempts))
	for i := range attempts {
		sorted[i] = &attempts[i]
	}
	slices.SortStableFunc(sorted, func(a, b *attempt) int { return pg.CompareIDs(a.id, b.id) })
	for _, a := range sorted {
		to, ok := Transitions.Next(Pending, a.event)
		if !ok {
			panic("webhook: no such move: " + string(a.event))
		}
		c.id, c.lease, c.to = append(c.id, a.id), append(c.lease, a.lease), append(c.to, string(to))
		c.failure, c.next, c.delivered = append(c.failure, a.failure), append(c.next, a.nextAttemptAt), append(c.delivered, a.deliveredAt)
		c.started, c.durationMS = append(c.started, a.startedAt), append(c.durationMS, a.durationMS)
		// never NULL
		c.statusCode, c.body = append(c.statusCode, a.statusCode), append(c.body, append([]byte{}, a.body...))
	}
	failpoint.At("webhook/before-record-commit")
	type kept struct {
		ID    uuid.UUID
		Lease time.Time
	}
	recorded, err := pg.Batch(ctx, s.pool, pgx.RowToStructByPos[kept], recordSQL,
		c.id, c.lease, c.to, c.failure, c.next, c.delivered, c.started, c.durationMS, c.statusCode, c.body, string(Pending))
	if err != nil {
		return nil, err
	}
	held := make(map[uuid.UUID]time.Time, len(attempts))
	for _, k := range recorded {
		held[k.ID] = k.Lease
	}
	failpoint.At("webhook/after-record-commit")
	out := make([]bool, len(attempts))
	for i, a := range attempts {
		if lease, ok := held[a.id]; ok && lease.Equal(a.lease) {
			out[i] = true
			delete(held, a.id) // one attempt was kept, the first
		}
	}
	return out, nil
}

// Due is a delivery whose time has passed.
type Due struct {
	ID      uuid.UUID
	Attempt int // the number of the attempt that is due, from 1
}

// Due lists pending deliveries that should have been tried before overdueBefore and are not
// claimed, oldest first, at most limit. The sweeper rings for each.
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
