package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/compact"
	"ajo/internal/page"
	"ajo/internal/partition"
	"ajo/internal/pg"
)

// The log of a tenant's events is its deliveries in the order of their ids, whatever happened to
// them. An id contains the time at which it was made, within the transaction that commits it, so a
// delivery that becomes visible later may have a smaller id. A reader with a cursor would miss it.
// So the log ends before the oldest transaction that may still write an event, and a margin before
// now.

// logMargin is how much earlier the log ends, because the times in ids ([clock.NewID]) may differ
// from Postgres' clock: they follow it, except for how far it has moved since the last sync.
const logMargin = 10 * time.Second

// LogsAll reports whether the tenant's log also has the events that go to no URL.
func (s *Service) LogsAll(ctx context.Context, tenant uuid.UUID) (on bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT event_log FROM tenants WHERE id = $1`, tenant).Scan(&on)
	return on, err
}

// LogAll sets whether the tenant's log also has the events that go to no URL. Earlier ones are not
// added.
func (s *Service) LogAll(ctx context.Context, tenant uuid.UUID, on bool, by audit.By) error {
	return pg.InTx(ctx, s.pool, func(tx pg.Tx) error {
		now := s.clock.Now()
		tag, err := tx.Exec(ctx, `UPDATE tenants SET event_log = $2, updated_at = $3 WHERE id = $1 AND event_log <> $2`, tenant, on, now)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("webhook.log", "tenant:"+tenant.String(), audit.Change{Before: !on, After: on}).Of(tenant))
	})
}

// Logged is an event of the log. Field names and casing are the wire's, here and below.
type Logged struct {
	FeedEvent
	AccountRef         string    `json:"accountRef"`
	TransactionGroupID uuid.UUID `json:"transactionGroupId"`
	delivery           uuid.UUID
}

// LogPage is a part of the log, oldest first.
type LogPage struct {
	Events         []Logged   `json:"events"`
	Next           string     `json:"next"`           // the cursor to go on with
	HasMore        bool       `json:"hasMore"`        // false: there is nothing more yet
	ArchivedBefore *time.Time `json:"archivedBefore"` // earlier events may be in the archive; nil: none is archived
}

// Log reads the events of the tenant that come after the cursor r.After (empty: the oldest that is
// kept). An event that was not there when a page was read comes after that page, whatever the order
// of the commits. Log must read from the primary. A bad cursor is page.ErrCursor.
func (s *Service) Log(ctx context.Context, tenant uuid.UUID, r page.Request) (LogPage, error) {
	after, _, err := page.ParseID(page.EventLog, r.After)
	if err != nil {
		return LogPage{}, err
	}
	// Read the end first and then the events, in two snapshots: a transaction that begins between
	// the two makes ids beyond the end.
	_, end, err := pg.WritersSince(ctx, s.pool, s.onlyReads)
	if err != nil {
		return LogPage{}, err
	}
	before := partition.Floor(end.Add(-s.logMargin))
	found, err := pg.Collect(ctx, s.pool, func(row pgx.CollectableRow) (l Logged, err error) {
		var body []byte
		if err = row.Scan(&l.delivery, &l.TransactionGroupID, &l.EventType, &l.CreatedAt, &body, &l.AccountRef); err != nil {
			return l, err
		}
		body, err = compact.FullDelivery(string(l.EventType), l.TransactionGroupID, body)
		l.ID, l.CreatedAt, l.Body = messageID(l.EventType, l.TransactionGroupID), l.CreatedAt.UTC(), string(body)
		return l, err
	}, `
		SELECT d.id, d.transaction_group_id, d.event_type, d.created_at, d.body, a.account_ref
		FROM (SELECT * FROM deliveries WHERE tenant_id = $1 AND id > $2 AND id < $3 AND copy_of IS NULL ORDER BY id LIMIT $4) d
		CROSS JOIN LATERAL (SELECT account_ref FROM accounts WHERE id = d.account_id LIMIT 1) a ORDER BY d.id`, tenant, after, before, r.Limit+1)
	if err != nil {
		return LogPage{}, err
	}
	l := LogPage{Next: r.After}
	var info page.Info
	l.Events, info = page.Cut(found, r, func(Logged) string { return "" })
	l.HasMore = info.HasMore
	if n := len(l.Events); n > 0 {
		l.Next = page.ID(page.EventLog, l.Events[n-1].delivery)
	} else if l.Next == "" {
		l.Next = page.ID(page.EventLog, uuid.Nil)
	}
	l.ArchivedBefore, err = partition.ArchivedBefore(ctx, s.pool, "deliveries")
	return l, err
}
