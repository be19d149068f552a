package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ajo/internal/pg"
)

const (
	// storeTimeout is how long the bank is kept waiting for Postgres before an event goes to the spool.
	storeTimeout = 5 * time.Second
	// awayFor is how long Postgres is taken for gone after it failed: not every event waits for it.
	awayFor = time.Second
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

// spooled is an event in the spool: what the bank sent, and when.
type spooled struct {
	Delivery
	ReceivedAt time.Time
}

// spool keeps an event that Postgres did not take. Forged ones are never kept there: anybody could fill the disk with them.
func (s *Service) spool(ctx context.Context, e *inbound, d Delivery, why error) (Receipt, error) {
	if s.Spool == nil || !e.authentic || pg.IsData(why) {
		return Receipt{}, errors.Join(ErrNotStored, why)
	}
	b, err := json.Marshal(spooled{d, e.receivedAt})
	if err == nil {
		err = s.Spool.Append(ctx, b)
	}
	if err != nil {
		return Receipt{}, errors.Join(ErrNotStored, why, err)
	}
	s.Log.Warn("postgres is away; an event went to the spool", slog.String("alert", "spooling"), slog.Any("err", why))
	return Receipt{Spooled: true}, nil
}

// Unspool stores one record of the spool, and returns its receipt; the caller rings. An error leaves the record where it is.
func (s *Service) Unspool(ctx context.Context, record []byte) (Receipt, error) {
	var k spooled
	if err := json.Unmarshal(record, &k); err != nil {
		// It is sound by its checksum, so another version wrote it. A person must look; the others must not wait behind it.
		s.Log.Error("a spooled event cannot be read", slog.String("alert", "spool_unreadable"), slog.Any("err", err), slog.Int("bytes", len(record)))
		return Receipt{}, nil
	}
	r, err := s.store.Do(ctx, s.read(k.Delivery, k.ReceivedAt))
	if err != nil {
		return r, fmt.Errorf("store a spooled event: %w", err)
	}
	return r, nil
}
