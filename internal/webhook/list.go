package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/compact"
	"ajo/internal/page"
	"ajo/internal/partition"
	"ajo/internal/pg"
)

// Delivery is a delivery as its tenant sees it. Field names and casing are the wire's, also of
// [Attempt] and [Detail].
type Delivery struct {
	ID                 uuid.UUID  `json:"id"`
	EventType          Type       `json:"eventType"`
	TransactionGroupID uuid.UUID  `json:"transactionGroupId"`
	AccountRef         string     `json:"accountRef"`
	AccountID          uuid.UUID  `json:"accountId"`
	CallbackURL        string     `json:"callbackUrl"`
	Status             Status     `json:"status"`
	AttemptCount       int        `json:"attemptCount"`
	LastError          string     `json:"lastError"`
	NextAttemptAt      *time.Time `json:"nextAttemptAt"`
	CreatedAt          time.Time  `json:"createdAt"`
	DeliveredAt        *time.Time `json:"deliveredAt"`
	EndpointID         *uuid.UUID `json:"endpointId"` // nil: the account's or the tenant's URL
	Resent             bool       `json:"resent"`     // it is a resend that somebody asked for
}

// Record is a delivery as operators see it.
type Record struct {
	Delivery
	TenantID    uuid.UUID
	LeasedUntil *time.Time
}

// selectDelivery shows a tenant that an error of ours occurred, but not its text.
const selectDelivery = `
	SELECT d.id, d.event_type, d.transaction_group_id, a.account_ref, d.account_id, d.callback_url, d.status, d.attempt_count,
		CASE WHEN w.attempts > 0 THEN 'not sent: an error on our side; it will be tried again' ELSE d.last_error END,
		w.due_at, d.created_at, d.delivered_at, d.endpoint_id, d.resent, d.tenant_id, w.leased_until`

const deliveryQuery = selectDelivery + `
	FROM deliveries d JOIN accounts a ON a.id = d.account_id LEFT JOIN work w ON w.kind = 'deliver' AND w.id = d.id`

// Attempt is one attempt to deliver.
type Attempt struct {
	Number     int       `json:"attempt"` // from 1
	StartedAt  time.Time `json:"startedAt"`
	DurationMS int64     `json:"durationMs"`
	StatusCode *int      `json:"statusCode"`   // nil when no answer came
	Error      string    `json:"error"`        // empty when delivered
	Body       string    `json:"responseBody"` // at most 16 KiB, as it came; JSON replaces what is not UTF-8
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	TenantID  uuid.UUID
	AccountID uuid.UUID
	Status    Status
	EventType Type
	Endpoint  *uuid.UUID // uuid.Nil: deliveries to the accounts' and the tenant's URL; nil: to any
}

// maxAttempts bounds what [Service.Attempts] returns.
const maxAttempts = 100

// List lists deliveries, newest first: of all tenants, for operators, or of the one that the filter
// names. [ErrStatus], [errType], or page.ErrCursor.
func (s *Service) List(ctx context.Context, f Filter, r page.Request) ([]Record, page.Info, error) {
	if !Transitions.Knows(f.Status) {
		return nil, page.Info{}, ErrStatus
	}
	if f.EventType != "" && !slices.Contains(Types, f.EventType) {
		return nil, page.Info{}, errType
	}
	q := pg.Reader(ctx, s.pool)
	list := pg.List[Record]{Name: page.Deliveries, ID: func(d Record) uuid.UUID { return d.ID }, Row: pgx.RowToStructByPos[Record]}
	args := pgx.NamedArgs{
		"tenant": unlessNil(f.TenantID), "account": unlessNil(f.AccountID), "status": string(f.Status), "type": string(f.EventType),
		"endpoint": uuid.NullUUID{}, "default": f.Endpoint != nil && *f.Endpoint == uuid.Nil,
	}
	if f.Endpoint != nil {
		args["endpoint"] = unlessNil(*f.Endpoint)
	}
	scan := `deliveries WHERE tenant_id = @tenant`
	switch chosen := f.EventType != "" && f.EventType != PaymentReceived; {
	case f.TenantID == uuid.Nil: // the indexes of rare rows are in the order of one tenant's rows
		scan = `deliveries WHERE true`
	case f.Endpoint != nil && *f.Endpoint != uuid.Nil:
		scan += ` AND endpoint_id = @endpoint`
	case f.Status == Dead:
		scan += ` AND dead`
	case chosen:
		scan += ` AND event_type = @type AND event_type <> 'payment.received'`
	}
	if f.Status == Pending {
		const byWork = `work WHERE true`
		own, err := pg.Shorter(ctx, q, scan, byWork, args)
		if err != nil {
			return nil, page.Info{}, err
		}
		if !own {
			return list.Filtered(ctx, q, r, byWork, pendingSQL, args)
		}
	}
	return list.Filtered(ctx, q, r, scan, listSQL, args)
}

// pendingSQL finds pending deliveries by their items of work: an index on a status that every
// delivery passes through would be written for every delivery. The LIMIT and the OFFSET keep the
// planner from reading the deliveries in another order. A further condition lets it use an index of
// rare rows.
const (
	listSQL    = deliveryQuery + filterSQL
	pendingSQL = selectDelivery + `
	FROM (SELECT * FROM work WHERE kind = 'deliver' AND id < @before AND id >= @floor ORDER BY id DESC OFFSET 0) w
	CROSS JOIN LATERAL (SELECT * FROM deliveries WHERE id = w.id LIMIT 1) d JOIN accounts a ON a.id = d.account_id` + filterSQL
	filterSQL = `
	WHERE d.id < @before AND d.id >= @floor AND (@tenant::uuid IS NULL OR d.tenant_id = @tenant) AND (@account::uuid IS NULL OR d.account_id = @account)
		AND (@endpoint::uuid IS NULL OR d.endpoint_id = @endpoint) AND (NOT @default OR d.endpoint_id IS NULL)
		AND (@status = '' OR d.status = @status) AND (@status <> 'dead_letter' OR d.dead)
		AND (@type = '' OR d.event_type = @type) AND (@type IN ('', 'payment.received') OR d.event_type <> 'payment.received')
	ORDER BY d.id DESC LIMIT @limit`
)

func unlessNil(id uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil} }

// Get returns a delivery of any tenant, for operators, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, id uuid.UUID) (Record, error) {
	return s.find(ctx, uuid.Nil, id)
}

// find returns a delivery of the tenant, or of any (uuid.Nil).
func (s *Service) find(ctx context.Context, tenant, id uuid.UUID) (Record, error) {
	d, err := pg.One(ctx, s.pool, pgx.RowToStructByPos[Record], ErrNotFound, deliveryQuery+` WHERE d.id = $1 AND ($2::uuid IS NULL OR d.tenant_id = $2)`, id, unlessNil(tenant))
	if errors.Is(err, ErrNotFound) {
		err = missing(ctx, s.pool, tenant, id)
	}
	return d, err
}

// missing returns why there is no delivery with an id: [ErrArchived] if it would be in an archived
// partition, which it names for operators; else [ErrNotFound]. The id alone decides, so that a
// tenant learns nothing of another's.
func missing(ctx context.Context, q pg.Querier, tenant, id uuid.UUID) error {
	name, err := partition.Archived(ctx, q, "deliveries", id)
	switch {
	case err != nil:
		return err
	case name == "":
		return ErrNotFound
	case tenant != uuid.Nil:
		return ErrArchived
	}
	return fmt.Errorf("%w: if there is such a delivery, it is in %s (ajo archive restore %[2]s)", ErrArchived, name)
}

// ArchivedBefore is the time before which deliveries may be in the archive, and so in no list; nil:
// none is archived.
func (s *Service) ArchivedBefore(ctx context.Context) (*time.Time, error) {
	return partition.ArchivedBefore(ctx, pg.Reader(ctx, s.pool), "deliveries")
}

// Detail is a delivery with what was sent and each attempt.
type Detail struct {
	Delivery
	Body     string    `json:"body"`     // the JSON that is signed and sent
	Attempts []Attempt `json:"attempts"` // the last one first, at most a hundred
}

// Show returns a delivery of the tenant, or [ErrNotFound].
func (s *Service) Show(ctx context.Context, tenant, id uuid.UUID) (Detail, error) {
	d, err := s.find(ctx, tenant, id)
	if err != nil {
		return Detail{}, err
	}
	var body []byte
	if err := s.pool.QueryRow(ctx, `SELECT body FROM deliveries WHERE id = $1`, id).Scan(&body); err != nil {
		return Detail{}, err
	}
	if body, err = compact.FullDelivery(string(d.EventType), d.TransactionGroupID, body); err != nil {
		return Detail{}, err
	}
	attempts, err := s.Attempts(ctx, id)
	return Detail{Delivery: d.Delivery, Body: string(body), Attempts: attempts}, err
}

// The attempt that delivered it is in the delivery's own row.
const attemptsSQL = `
		SELECT attempt_count AS attempt, delivered_at - duration_ms * interval '1 millisecond', duration_ms, status_code, '', response_body
		FROM deliveries WHERE id = $1 AND duration_ms IS NOT NULL
		UNION ALL SELECT attempt, started_at, duration_ms, status_code, error, response_body FROM delivery_attempts WHERE delivery_id = $1
		ORDER BY attempt DESC LIMIT $2`

// Attempts returns the delivery's attempts, the last one first, at most a hundred. The caller has
// checked that the delivery may be shown.
func (s *Service) Attempts(ctx context.Context, id uuid.UUID) ([]Attempt, error) {
	return pg.Collect(ctx, s.pool, func(row pgx.CollectableRow) (a Attempt, err error) {
		var body []byte
		err = row.Scan(&a.Number, &a.StartedAt, &a.DurationMS, &a.StatusCode, &a.Error, &body)
		a.Body = string(body)
		return a, err
	}, attemptsSQL, id, maxAttempts)
}
