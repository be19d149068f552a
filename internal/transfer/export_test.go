package transfer

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/batch"
	"ajo/internal/idempotency"
	"ajo/internal/pg"
	"ajo/internal/retry"
)

// FundsSQL and ClaimedSQL are for the tests of the rows that they read.
var (
	FundsSQL   = fundsSQL
	ClaimedSQL = claimedSQL
)

// Ask is a settle request, as [Service.Settle] takes it.
type Ask struct {
	Tenant uuid.UUID
	Ref    string
	Order  Order
	Key    idempotency.Request
}

// SettleTogether has requests accepted in one batch, in the order given.
func (s *Service) SettleTogether(ctx context.Context, asks []Ask) []batch.Outcome[Settled] {
	requests := make([]*request, len(asks))
	for i, a := range asks {
		amount, err := a.Order.check()
		if err != nil && !errors.Is(err, ErrNarration) { // what Postgres refuses must get there
			panic(err)
		}
		requests[i] = &request{account: account.Ref{TenantID: a.Tenant, AccountRef: a.Ref}, amount: amount, order: a.Order, key: a.Key, asked: s.Clock.Now()}
	}
	return flat(s.accepts.Together(ctx, requests))
}

func flat[R any](all []batch.Outcome[batch.Outcome[R]]) (out []batch.Outcome[R]) {
	for _, o := range all {
		v, err := pg.Flat(o.Value, o.Err)
		out = append(out, batch.Outcome[R]{Value: v, Err: err})
	}
	return out
}

// Claim is a transfer that a worker has claimed.
type Claim = claimed

// ClaimTogether claims transfers in one batch: the claim, or an error where it is a wait; nil and
// nil where there is nothing.
func (s *Service) ClaimTogether(ctx context.Context, ids ...uuid.UUID) (claims []*Claim, errs []error) {
	for _, o := range s.claims.Together(ctx, ids) {
		err := o.Err
		if err == nil {
			err = o.Value.wait
		}
		claims, errs = append(claims, o.Value.transfer), append(errs, err)
	}
	return claims, errs
}

// SubmitTogether records submissions in one batch, and reports whose claims still stood.
func (s *Service) SubmitTogether(ctx context.Context, claims []*Claim) (held []bool) {
	for _, c := range claims {
		c.AccountName = "ADA OBI"
	}
	for i, o := range s.submits.Together(ctx, claims) {
		if o.Err != nil {
			panic(o.Err)
		}
		if held = append(held, o.Value.claim != nil); held[i] {
			claims[i].Status, claims[i].Attempts, claims[i].Claim = Processing, claims[i].Attempts+1, *o.Value.claim
		}
	}
	return held
}

// EndTogether ends transfers as paid in one batch.
func (s *Service) EndTogether(ctx context.Context, claims []*Claim) []batch.Outcome[bool] {
	return s.endTogether(ctx, claims, EventPaid)
}

// RejectTogether ends transfers as rejected in one batch.
func (s *Service) RejectTogether(ctx context.Context, claims []*Claim) []batch.Outcome[bool] {
	return s.endTogether(ctx, claims, EventReject)
}

func (s *Service) endTogether(ctx context.Context, claims []*Claim, event Event) []batch.Outcome[bool] {
	items := make([]ending, len(claims))
	for i, c := range claims {
		items[i] = s.ending(c, s.Clock.Now(), outcome{event: event, by: byBank})
	}
	return s.ends.Together(ctx, items)
}

// AcknowledgeLate records the bank's acknowledgement for a worker whose claim may have gone.
func (s *Service) AcknowledgeLate(ctx context.Context, c *Claim) error {
	c.learned.Acked = true
	err := s.postpone(ctx, c, false, errRecheck)
	if _, wait := retry.When(err); wait {
		return nil
	}
	return err
}

// GiveUp ends a transfer that the bank knows nothing of.
func (s *Service) GiveUp(ctx context.Context, c *Claim) error {
	return s.conclude(ctx, c, outcome{event: EventReject, by: bySilence, reason: reasonNotMade})
}
