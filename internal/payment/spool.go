package payment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ajo/internal/clock"
	"ajo/internal/metrics"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/spool"
)

const (
	// storeTimeout is how long the bank is kept waiting for Postgres before an event goes to the
	// spool.
	storeTimeout = 5 * time.Second
	// awayFor is how long Postgres is assumed to be away after it failed, so that not every event
	// waits for it.
	awayFor = time.Second
	// unspoolTimeout bounds one commit of spooled events; above Postgres' own limit for a statement
	// (package pg).
	unspoolTimeout = 20 * time.Second
)

var errAway = errors.New("payment: postgres was away a moment ago")

// isAway reports whether Postgres failed recently, within awayFor.
func (s *Service) isAway() bool { return clock.Pauses(s.away.Load(), awayFor) }

// soon bounds how long an event waits for Postgres, if there is a spool for it to go to.
func (s *Service) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Spool == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, storeTimeout)
}

// noteAway notes that Postgres failed to store an event for which there is a spool.
func (s *Service) noteAway(err error) {
	if s.Spool != nil && err != nil && !pg.IsData(err) {
		s.away.Store(time.Now().Add(awayFor).UnixNano())
	}
}

// spooled is an event in the spool: what the bank sent, when, and the trace that it belongs to.
type spooled struct {
	InboundRequest
	ReceivedAt  time.Time
	Traceparent string `json:",omitempty"`
	// Seal proves that this service wrote the record after it had verified the event, since the
	// bank's secret may have changed meanwhile.
	Seal []byte `json:",omitempty"`
}

// sealPlace is where a record's seal is opened. The sealed text is the record's hash, which binds
// it to the record.
var sealPlace = secret.Place{Table: "spool", Column: "event", Row: "sha256"}

// hash covers every field but the seal, each with its length.
func (k *spooled) hash() []byte {
	h := sha256.New()
	for _, part := range []string{string(k.Body), k.Signature, k.Timestamp, k.ReceivedAt.UTC().Format(time.RFC3339Nano), k.Traceparent} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part)))
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// errChanged says that a record of the spool has been changed since it was written.
var errChanged = errors.New("payment: a record of the spool is not as it was written")

// checkOf returns how the record's event is to be verified: by its seal alone, whatever the bank's
// secret is now. A record of an earlier version has no seal, and a seal cannot be opened once its
// encryption key is gone; then the bank's signature decides.
func (s *Service) checkOf(k *spooled) (verifier, error) {
	if s.Box == nil || k.Seal == nil {
		return s.verify, nil
	}
	hash, err := s.Box.Open(sealPlace, k.Seal)
	switch {
	case errors.Is(err, secret.ErrUnknownKey):
		return s.verify, nil
	case err != nil || subtle.ConstantTimeCompare(hash, k.hash()) == 0:
		return nil, errChanged
	}
	return verified, nil
}

// spool keeps an event that Postgres did not take. Forged events never go there, because anybody
// could fill the disk with them.
func (s *Service) spool(ctx context.Context, e *inbound, in InboundRequest, why error) (Receipt, error) {
	if s.Spool == nil || !e.Authentic || pg.IsData(why) {
		metrics.EventRefused.Inc()
		return Receipt{}, errors.Join(ErrNotStored, why)
	}
	k := spooled{InboundRequest: in, ReceivedAt: e.ReceivedAt, Traceparent: e.Traceparent}
	if s.Box != nil {
		k.Seal = s.Box.Seal(sealPlace, k.hash())
	}
	b, err := json.Marshal(k)
	if err == nil {
		err = s.Spool.Append(ctx, b)
	}
	if err != nil {
		metrics.EventRefused.Inc()
		return Receipt{}, errors.Join(ErrNotStored, why, err)
	}
	metrics.EventSpooled.Inc()
	s.Log.WarnContext(ctx, "postgres is unavailable; an event went to the spool", slog.String("alert", "spooling"), slog.Any("err", why))
	return Receipt{Spooled: true}, nil
}

// Unspool stores records of the spool in their order, in one commit. [spool.ErrSetAside] says that
// some can never be stored, and that all others have been; any other error leaves all of them in
// the spool.
func (s *Service) Unspool(ctx context.Context, records [][]byte) error {
	events := make([]*inbound, 0, len(records))
	var aside error
	for _, record := range records {
		e, err := s.unseal(record)
		if err != nil {
			// A person must look at it; the others must not wait behind it.
			s.Log.Error("a spooled event cannot be stored", slog.String("alert", "spool_unreadable"), slog.Any("err", err), slog.Int("bytes", len(record)))
			aside = errors.Join(spool.ErrSetAside, err)
			continue
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return aside
	}
	ctx, cancel := context.WithTimeout(ctx, unspoolTimeout)
	defer cancel()
	var failed error
	for i, o := range s.store.Together(ctx, events) {
		switch {
		case pg.IsData(o.Err): // a repeat would be refused again
			s.Log.Error("a spooled event cannot be stored", slog.String("alert", "spool_unreadable"), slog.Any("err", o.Err),
				slog.String("transaction", events[i].TxnRef))
			aside = errors.Join(spool.ErrSetAside, o.Err)
		case o.Err != nil:
			failed = fmt.Errorf("store a spooled event: %w", o.Err)
		}
	}
	return cmp.Or(failed, aside)
}

// unseal reads a record of the spool. Its event was verified before it was spooled, and is not
// verified again, because the secret may have changed.
func (s *Service) unseal(record []byte) (*inbound, error) {
	var k spooled
	if err := json.Unmarshal(record, &k); err != nil {
		return nil, fmt.Errorf("payment: not a record of the spool: %w", err)
	}
	check, err := s.checkOf(&k)
	if err != nil {
		return nil, err
	}
	e := s.read(k.InboundRequest, k.ReceivedAt, check)
	if !e.Authentic {
		return nil, fmt.Errorf("payment: a record of the spool has neither a seal that can be opened nor a signature that holds: %s", e.Problem)
	}
	e.Traceparent = k.Traceparent
	return e, nil
}
