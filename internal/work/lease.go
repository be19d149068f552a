package work

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/clock"
	"ajo/internal/pg"
)

// Term is how long an item stays leased after its holder's last sign of life.
const Term = 10 * time.Second

const (
	// renewEvery is how often a process checks which of its leases to renew.
	renewEvery = 500 * time.Millisecond
	// renewTimeout bounds one renewal: a process that cannot reach the database loses its leases.
	renewTimeout = 3 * time.Second
	// skew is by how much the clocks of two processes may differ, since each follows the database's
	// to within [clock.Slack]. A holder treats its lease as ended that much earlier.
	skew = 2 * clock.Slack
)

// ErrLeaseEnded says that a lease has ended: another worker may have the item.
var ErrLeaseEnded = errors.New("the lease has ended: another worker may have the item")

// Kept is a lease that is renewed while its holder is at work.
type Kept struct {
	ctx   context.Context
	pool  *pg.Pool
	clock clock.Clock
	kind  Kind
	claim Claim
	term  time.Duration

	mu    sync.Mutex
	until time.Time
}

// holders are the leases that this process keeps, by pool. A goroutine for each pool with leases
// renews them.
var holders = struct {
	sync.Mutex
	kept map[*pg.Pool]map[*Kept]struct{}
}{kept: map[*pg.Pool]map[*Kept]struct{}{}}

// KeepLease renews the lease of a claim, which [Lease] returned, for a term at a time, until it is
// released or the context ends. So a lease can be short, and its item is free soon after the holder
// has died, hangs or cannot reach the database. A process renews all its leases together, once a
// third of the term has passed, so a call that is answered sooner costs no statement. The claim
// does not change. A lease that has ended is not renewed.
func KeepLease(ctx context.Context, pool *pg.Pool, c clock.Clock, kind Kind, claim Claim, term time.Duration) *Kept {
	h := &Kept{ctx: ctx, pool: pool, clock: c, kind: kind, claim: claim, term: term, until: claim.until}
	holders.Lock()
	defer holders.Unlock()
	if holders.kept[pool] == nil {
		holders.kept[pool] = map[*Kept]struct{}{}
		go renewAll(pool)
	}
	holders.kept[pool][h] = struct{}{}
	return h
}

// Release ends the renewals. The lease then stands until it ends, or the item is given back.
func (h *Kept) Release() {
	holders.Lock()
	defer holders.Unlock()
	delete(holders.kept[h.pool], h)
}

// Stands returns [ErrLeaseEnded] unless the item is leased to its holder for certain. Check it
// right before what must not happen once another worker has the item: this process may have been
// stopped for any length of time since the last check.
func (h *Kept) Stands() error {
	if h.remaining() <= 0 {
		return ErrLeaseEnded
	}
	return nil
}

// remaining is how long the lease certainly still stands.
func (h *Kept) remaining() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until.Add(-skew).Sub(h.clock.Now())
}

// renewAll renews the leases that are kept through the pool until there are none. Failures need no
// report: the leases end, and an outage of the database is reported elsewhere.
func renewAll(pool *pg.Pool) {
	for {
		time.Sleep(renewEvery)
		var due []*Kept
		holders.Lock()
		all := holders.kept[pool]
		for h := range all {
			if left := h.remaining(); h.ctx.Err() == nil && left > 0 && left < h.term*2/3 {
				due = append(due, h)
			}
		}
		idle := len(all) == 0
		if idle {
			delete(holders.kept, pool)
		}
		holders.Unlock()
		if idle {
			return
		}
		if len(due) > 0 {
			_ = renew(pool, due)
		}
	}
}

// renewal is a lease in renewSQL.
type renewal struct {
	Kind    Kind      `pg:"kind"`
	ID      uuid.UUID `pg:"id"`
	Version int64     `pg:"version"`
	Until   time.Time `pg:"until"`
}

// renewSQL skips what is locked: somebody is recording or claiming that item at this moment. So it
// neither waits nor holds anybody up.
var renewSQL = `
	UPDATE work w SET leased_until = m.until FROM (
		SELECT w.kind, w.id, m.until, m.n FROM ` + pg.Unnest[renewal](1, "m") + ` JOIN work w ON w.id = ANY(ARRAY[m.id])
		WHERE CASE w.kind WHEN m.kind THEN w.version = m.version ELSE false END FOR NO KEY UPDATE OF w SKIP LOCKED) m
	WHERE w.id = ANY(ARRAY[m.id]) AND CASE w.kind WHEN m.kind THEN true ELSE false END RETURNING m.n`

// renew renews the leases whose claims stand.
func renew(pool *pg.Pool, due []*Kept) error {
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	rows := make([]renewal, len(due))
	for i, h := range due {
		rows[i] = renewal{h.kind, h.claim.ID, h.claim.Version, h.clock.Now().Add(h.term)}
	}
	renewed, err := pg.Collect(ctx, pool, pgx.RowTo[int], renewSQL, pg.Columns(rows)...)
	for _, n := range renewed {
		// A holder that learns of the renewal only after the lease has ended must not rely on it:
		// another worker may have read the item in between, and leases it by its version.
		if h := due[n-1]; h.remaining() > 0 {
			h.mu.Lock()
			h.until = rows[n-1].Until
			h.mu.Unlock()
		}
	}
	return err
}
