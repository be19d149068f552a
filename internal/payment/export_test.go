package payment

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// AwayUntil has Postgres taken for away until a time of the machine's clock.
func (s *Service) AwayUntil(at time.Time) { s.away.Store(at.UnixNano()) }

// KeepForged sets how many events without a valid signature are kept.
func (s *Service) KeepForged(most int) { s.forgedMax = most }

// ReceiveTogether stores events in one batch.
func (s *Service) ReceiveTogether(ctx context.Context, requests ...InboundRequest) (err error) {
	events := make([]*inbound, len(requests))
	for i, r := range requests {
		events[i] = s.read(r, s.Clock.Now(), s.verify)
	}
	for _, o := range s.store.Together(ctx, events) {
		err = errors.Join(err, o.Err)
	}
	return err
}

// PostTogether posts events in one batch.
func (s *Service) PostTogether(ctx context.Context, ids ...uuid.UUID) (err error) {
	for _, o := range s.post.Together(ctx, ids) {
		err = errors.Join(err, o.Err)
	}
	return err
}

// ConfirmTogether asks the bank about payments that are due, and records its answers in one batch.
func (s *Service) ConfirmTogether(ctx context.Context, ids ...uuid.UUID) (err error) {
	var findings []*finding
	for _, id := range ids {
		c, err := s.checks.Do(ctx, id)
		if err != nil || c == nil {
			return errors.Join(err, errors.New("payment: nothing is due"))
		}
		t, err := s.BankRecord(ctx, c.TxnRef)
		findings = append(findings, s.judge(c, t, err))
	}
	for _, o := range s.record.Together(ctx, findings) {
		err = errors.Join(err, o.Err)
	}
	return err
}

// ListTogether looks for the lists of payments that are due in one batch, and waits until those
// that are worth it are read.
func (s *Service) ListTogether(ctx context.Context, ids ...uuid.UUID) (err error) {
	checks := make([]*check, len(ids))
	for i, id := range ids {
		if checks[i], err = s.checks.Do(ctx, id); err != nil || checks[i] == nil {
			return errors.Join(err, errors.New("payment: nothing is due"))
		}
	}
	for _, o := range s.findLists(ctx, checks) {
		err = errors.Join(err, o.Err)
	}
	s.lists.reading.Wait()
	return err
}
