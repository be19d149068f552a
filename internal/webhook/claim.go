package webhook

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/compact"
	"ajo/internal/pg"
	"ajo/internal/work"
)

// dueDelivery has what an attempt needs to know about a delivery, with the claim under which it was
// read.
type dueDelivery struct {
	work.Claim  // leased, unless it is not due yet
	tenant      uuid.UUID
	endpoint    *uuid.UUID // nil: the account's or the tenant's URL
	twin        *uuid.UUID // the endpoint that has this URL too; nil: none
	pausedAt    *time.Time // the endpoint is, since then
	removed     bool       // the endpoint is
	long        bool       // the endpoint's retries go on for a day
	resent      bool       // it is a resend that somebody asked for
	group       uuid.UUID
	event       Type
	url         string
	body        []byte
	attempts    int       // made so far
	before      int       // of these, before its last replay
	createdAt   time.Time // as the delivery's
	secrets     sealedSecrets
	twins       sealedSecrets // the twin's, which sign too
	traceparent string
}

const loadSQL = `
		SELECT d.id, d.tenant_id, d.transaction_group_id, d.event_type, d.callback_url, d.body, d.attempt_count, coalesce(d.replayed_after, 0), d.created_at,
			t.webhook_secret, t.webhook_secret_previous, t.webhook_secret_previous_until, d.traceparent, d.endpoint_id, d.resent,
			CASE WHEN d.endpoint_id IS NULL AND t.webhook_endpoints > 0 THEN (
				SELECT e.id FROM webhook_endpoints e WHERE e.tenant_id = d.tenant_id AND e.url = d.callback_url AND e.removed_at IS NULL) END
		FROM unnest($1::uuid[]) AS m (id) JOIN deliveries d ON d.id = ANY(ARRAY[m.id])
		JOIN tenants t ON t.id = ANY(ARRAY[d.tenant_id])`

// claimDue reads the deliveries that are due, or will be in a moment, and leases those that are. It
// returns nil for those that somebody else has claimed, and for repeated ids.
func (s *Service) claimDue(ctx context.Context, tx pg.Tx, ids []uuid.UUID) ([]*dueDelivery, error) {
	now := s.clock.Now()
	due, err := work.Due(ctx, tx, work.Deliver, now.Add(early), ids)
	if err != nil || len(due) == 0 {
		return make([]*dueDelivery, len(ids)), err
	}
	found, err := pg.Collect(ctx, tx, readPending, loadSQL, slices.Collect(maps.Keys(due)))
	if err != nil {
		return nil, err
	}
	ready := make([]work.Claim, 0, len(found))
	for _, d := range found {
		if d.Claim = due[d.ID]; !d.DueAt.After(now) {
			ready = append(ready, d.Claim)
		}
	}
	leased, err := work.Lease(ctx, tx, work.Deliver, now.Add(work.Term), ready)
	if err != nil {
		return nil, err
	}
	claimed := found[:0]
	for _, d := range found {
		if d.DueAt.After(now) {
			claimed = append(claimed, d)
			continue
		}
		if c := leased[0]; c != nil {
			d.Claim = *c
			claimed = append(claimed, d)
		}
		leased = leased[1:]
	}
	if err := readEndpoints(ctx, tx, claimed); err != nil {
		return nil, err
	}
	return pg.Match(ids, claimed, func(d *dueDelivery) uuid.UUID { return d.ID }), nil
}

// readEndpoints reads the endpoints of deliveries as they are now, so that the next attempt goes to
// a corrected URL, which the delivery then shows. It runs no statement if none of the deliveries is
// to an endpoint or to the URL of one.
func readEndpoints(ctx context.Context, tx pg.Tx, claimed []*dueDelivery) error {
	var ids []uuid.UUID
	for _, d := range claimed {
		if of := cmp.Or(d.endpoint, d.twin); of != nil {
			ids = append(ids, *of)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	type endpointRow struct {
		ID      uuid.UUID
		URL     string
		Paused  *time.Time
		Removed bool
		Long    bool
		secrets sealedSecrets
	}
	byID := map[uuid.UUID]endpointRow{}
	_, err := pg.Collect(ctx, tx, func(row pgx.CollectableRow) (struct{}, error) {
		e := endpointRow{secrets: sealedSecrets{of: ofEndpoint}}
		err := row.Scan(&e.ID, &e.URL, &e.Paused, &e.Removed, &e.Long, &e.secrets.current, &e.secrets.previous, &e.secrets.previousUntil)
		byID[e.ID] = e
		return struct{}{}, err
	}, `
		SELECT id, url, paused_at, removed_at IS NOT NULL, retries = 'day', secret, secret_previous, secret_previous_until FROM webhook_endpoints WHERE id = ANY($1)`, ids)
	if err != nil {
		return err
	}
	type move struct {
		ID  uuid.UUID `pg:"id"`
		URL string    `pg:"url"`
	}
	var moves []move
	for _, d := range claimed {
		if d.endpoint == nil {
			if d.twin != nil {
				d.twins = byID[*d.twin].secrets
			}
			continue
		}
		e := byID[*d.endpoint]
		if d.pausedAt, d.removed, d.long, d.secrets = e.Paused, e.Removed, e.Long, e.secrets; e.URL != d.url {
			d.url, moves = e.URL, append(moves, move{d.ID, e.URL})
		}
	}
	if len(moves) == 0 {
		return nil
	}
	slices.SortFunc(moves, pg.ByID(func(m move) uuid.UUID { return m.ID }))
	_, err = tx.Exec(ctx, `UPDATE deliveries d SET callback_url = m.url FROM `+pg.Unnest[move](1, "m")+` WHERE d.id = ANY(ARRAY[m.id])`, pg.Columns(moves)...)
	return err
}

func readPending(row pgx.CollectableRow) (*dueDelivery, error) {
	d := dueDelivery{secrets: sealedSecrets{of: ofTenant}}
	err := row.Scan(&d.ID, &d.tenant, &d.group, &d.event, &d.url, &d.body, &d.attempts, &d.before, &d.createdAt,
		&d.secrets.current, &d.secrets.previous, &d.secrets.previousUntil, &d.traceparent, &d.endpoint, &d.resent, &d.twin)
	if err == nil {
		d.body, err = compact.FullDelivery(string(d.event), d.group, d.body)
	}
	return &d, err
}

// attemptResult is the result of one attempt.
type attemptResult struct {
	claim         work.Claim // under which it was made
	ID            uuid.UUID  `pg:"id"`
	Status        Status     `pg:"status"` // after the event
	StartedAt     time.Time  `pg:"started_at"`
	DurationMS    int32      `pg:"duration_ms"`
	StatusCode    *int32     `pg:"status_code"`  // nil: no answer came
	Failure       string     `pg:"failure"`      // empty: delivered
	Body          []byte     `pg:"body"`         // of the answer; may be any bytes
	DeliveredAt   *time.Time `pg:"delivered_at"` // set for EventSucceed
	NextAttemptAt *time.Time // set for EventFail
	event         Event
}

func (a attemptResult) id() uuid.UUID { return a.claim.ID }

// recordSQL moves deliveries. The attempt that delivered one, the only one of nearly all, is stored
// in its row; those that failed have rows of their own. For the forms of the conditions see package
// pg, plans.go.
var recordSQL = `
		WITH moved AS (
			UPDATE deliveries d
			SET status = m.status, attempt_count = d.attempt_count + 1, last_error = m.failure, delivered_at = m.delivered_at,
				duration_ms = CASE WHEN m.failure = '' THEN m.duration_ms END, status_code = CASE WHEN m.failure = '' THEN m.status_code END,
				response_body = CASE WHEN m.failure = '' THEN m.body END
			FROM ` + pg.Unnest[attemptResult](2, "m") + `
			WHERE d.id = ANY(ARRAY[m.id]) AND d.status = $1
			RETURNING d.id, d.attempt_count, m.started_at, m.duration_ms, m.status_code, m.failure, m.body
		)
		INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, status_code, error, response_body)
		SELECT id, attempt_count, started_at, duration_ms, status_code, failure, body FROM moved WHERE failure <> ''`

// record moves the deliveries and adds their attempts, and reports for each whether it did: an
// attempt whose claim is lost changes nothing.
func (s *Service) record(ctx context.Context, tx pg.Tx, attempts []attemptResult) ([]bool, error) {
	outcomes := make([]work.Outcome, len(attempts))
	for i, a := range attempts {
		outcomes[i] = work.Outcome{Claim: a.claim, Next: a.NextAttemptAt}
	}
	held, err := work.Finish(ctx, tx, work.Deliver, outcomes)
	if err != nil {
		return nil, err
	}
	var ours []attemptResult
	for i, a := range attempts {
		if !held[i] {
			continue
		}
		var ok bool
		if a.Status, ok = Transitions.Next(Pending, a.event); !ok {
			panic("webhook: no such move: " + string(a.event))
		}
		if a.ID = a.claim.ID; a.Body == nil {
			a.Body = []byte{} // never NULL
		}
		ours = append(ours, a)
	}
	if len(ours) > 0 {
		_, err = tx.Exec(ctx, recordSQL, pg.Columns(ours, string(Pending))...)
	}
	return held, err
}
