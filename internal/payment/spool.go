package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ajo/internal/metrics"
	"ajo/internal/pg"
)

const (
	// storeTimeout is how long the bank is kept waiting for Postgres before an event goes to the spool.
	storeTimeout = 5 * time.Second
	// awayFor is how long Postgres is taken for gone after it failed: not every event waits for it.
	awayFor = time.Second
	// unspoolTimeout bounds one commit of spooled events; above Postgres' own limit for a statement (package pg).
	unspoolTimeout = 20 * time.Second
)

var errAway = errors.New("payment: postgres was away a moment ago")

// storeSoon stores an event, unless Postgres does not take it soon. It may be stored all the same, after we stopped waiting:
// its copy in the spool is then a duplicate.
func (s *Service) storeSoon(ctx context.Context, e *inbound) (Receipt, error) {
	if s.Spool == nil {
		return s.store.Do(ctx, e)
	}
	if time.Now().UnixNano() < s.away.Load() {
		return Receipt{}, errAway
	}
	soon, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	r, err := s.store.Do(soon, e)
	if err != nil && !pg.IsData(err) {
		s.away.Store(time.Now().Add(awayFor).UnixNano())
	}
	return r, err
}

// spooled is an event in the spool: what the bank sent, when, and the trace that it belongs to.
type spooled struct {
	Delivery
	ReceivedAt  time.Time
	Traceparent string `json:",omitempty"`
}

// spool keeps an event that Postgres did not take. Forged ones are never kept there: anybody could fill the disk with them.
func (s *Service) spool(ctx context.Context, e *inbound, d Delivery, why error) (Receipt, error) {
	if s.Spool == nil || !e.authentic || pg.IsData(why) {
		metrics.EventRefused.Inc()
		return Receipt{}, errors.Join(ErrNotStored, why)
	}
	b, err := json.Marshal(spooled{d, e.receivedAt, e.traceparent})
	if err == nil {
		err = s.Spool.Append(ctx, b)
	}
	if err != nil {
		metrics.EventRefused.Inc()
		return Receipt{}, errors.Join(ErrNotStored, why, err)
	}
	metrics.EventSpooled.Inc()
	s.Log.WarnContext(ctx, "postgres is away; an event went to the spool", slog.String("alert", "spooling"), slog.Any("err", why))
	return Receipt{Spooled: true}, nil
}

// Unspool stores records of the spool, in their order and one commit, and returns the receipts of those that were stored; the
// caller rings, whatever the error. An error says that some are not, and leaves them all where they are.
func (s *Service) Unspool(ctx context.Context, records [][]byte) ([]Receipt, error) {
	events := make([]*inbound, 0, len(records))
	for _, record := range records {
		var k spooled
		if err := json.Unmarshal(record, &k); err != nil {
			// It is sound by its checksum, so another version wrote it. A person must look; the others must not wait behind it.
			s.Log.Error("a spooled event cannot be read", slog.String("alert", "spool_unreadable"), slog.Any("err", err), slog.Int("bytes", len(record)))
			continue
		}
		e := s.read(k.Delivery, k.ReceivedAt)
		e.traceparent = k.Traceparent
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, unspoolTimeout)
	defer cancel()
	var stored []Receipt
	var failed error
	for _, o := range s.storeBatch(ctx, events) {
		if o.Err != nil {
			failed = fmt.Errorf("store a spooled event: %w", o.Err)
			continue
		}
		stored = append(stored, o.Value)
	}
	return stored, failed
}
