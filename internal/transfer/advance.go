package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"ajo/internal/failpoint"
	"ajo/internal/provider"
	"ajo/internal/trace"
)

const (
	// A reference that the bank does not know after resubmitAfter questions was not submitted:
	// submitting it again is safe, as the bank would recognise it. The fifth such attempt ends the
	// transfer, and gives the money back: that takes giveUpAfter questions. Only questions at their
	// time by the schedule count, so both are times as well: see [DefaultDelays].
	resubmitAfter = 3
	giveUpAfter   = 7
)

// Advance does the next step of a transfer: waits for cover, names the holder, submits, asks, or
// ends it. It returns nil when nothing is left, and a [retry] error with the time of the next step
// otherwise. Running it twice, late, or after a crash at any line changes nothing: a step is
// claimed first, and what it finds is recorded only while that claim stands.
func (s *Service) Advance(ctx context.Context, id uuid.UUID) error {
	begun := time.Now()
	st, err := s.claim(ctx, id)
	if err != nil || st == nil {
		return err
	}
	ctx, span := trace.Resume(provider.ForTenant(ctx, st.TenantID), "settle", st.Traceparent, begun)
	defer span.End()
	if span.Traced() {
		span.Text("transfer", id.String())
		span.Text("status", string(st.Status))
	}
	switch st.Status {
	case Pending:
		return s.submitFirst(ctx, st)
	case Processing:
		return s.ask(ctx, st)
	default:
		return s.recheck(ctx, st)
	}
}

// submitFirst names the holder of the destination and makes the first submission. A destination
// that definitely does not exist ends the transfer before anything was submitted.
func (s *Service) submitFirst(ctx context.Context, st *step) error {
	failpoint.At("transfer/before-lookup")
	asking, span := trace.Step(ctx, "look up the holder")
	h, err := s.Bank.Lookup(asking, st.BankCode, st.AccountNumber)
	span.End()
	failpoint.At("transfer/after-lookup")
	var rejected *provider.Rejection
	switch {
	case errors.As(err, &rejected):
		return s.conclude(ctx, st, outcome{EventReject, byBank, "no such destination account: " + rejected.Msg, reasonNoAccount})
	case err != nil: // only a question; it is asked again
		return s.postpone(ctx, st, false, fmt.Errorf("look up the destination: %w", err))
	}
	st.AccountName = h.AccountName
	return s.submit(ctx, st)
}

// submit counts the attempt, commits, and only then calls the bank. From that commit on the outcome
// is the bank's to tell: whatever happens to this process or to the answer, the next step asks by
// reference.
func (s *Service) submit(ctx context.Context, st *step) error {
	made, err := s.submits.Do(ctx, st)
	if err != nil || !made.held {
		return err // another worker has the transfer
	}
	st.Status, st.Attempts, st.Asks, st.Unknown, st.Since, st.Early = Processing, st.Attempts+1, 0, 0, made.at, true
	st.token = token{lease: made.lease}
	failpoint.At("transfer/before-pay")
	paying, span := trace.Step(ctx, "pay")
	p, err := s.Bank.Pay(paying, provider.NewPayout{
		Ref: st.Ref, Amount: st.Amount, BankCode: st.BankCode, AccountNumber: st.AccountNumber, AccountName: st.AccountName,
		SenderName: st.SenderName, Narration: st.Narration,
	})
	span.End()
	failpoint.At("transfer/after-pay")
	// What an answer means here: a Rejection is definite, and the call had no effect; but of a
	// second submission it says nothing about the first, so only questions end that. Success,
	// failed and refunded are the bank's word on this reference. A duplicate shows that the bank
	// has it. All else (a timeout, a cut connection, a 5xx) may have paid.
	var rejected *provider.Rejection
	switch {
	case errors.As(err, &rejected) && st.Attempts == 1:
		return s.conclude(ctx, st, outcome{EventReject, byBank, rejected.Error(), reasonRefused})
	case err != nil:
		st.acknowledged = errors.Is(err, provider.ErrDuplicate)
		return s.postpone(ctx, st, false, fmt.Errorf("submission %d: %w", st.Attempts, err))
	}
	return s.applyRecord(ctx, st, p)
}

// ask asks the bank by reference what became of a submission.
func (s *Service) ask(ctx context.Context, st *step) error {
	p, err := s.payout(ctx, st)
	switch {
	case errors.Is(err, provider.ErrUnknown):
		return s.handleUnknown(ctx, st)
	case err != nil:
		return s.postpone(ctx, st, false, fmt.Errorf("ask the bank: %w", err))
	}
	return s.applyRecord(ctx, st, p)
}

func (s *Service) payout(ctx context.Context, st *step) (provider.Payout, error) {
	failpoint.At("transfer/before-ask")
	ctx, span := trace.Step(ctx, "ask the bank")
	p, err := s.Bank.Payout(ctx, st.Ref)
	span.End()
	failpoint.At("transfer/after-ask")
	return p, err
}

// handleUnknown acts on a reference that the bank does not know: after a few questions it is
// submitted again, and after the fifth attempt, and more questions, the transfer has definitely not
// been made. A question before its time proves nothing: a fresh transfer may not be found at once,
// and who expedites transfers must not be able to hurry their end. Once the bank has acknowledged
// the reference, its not finding it means nothing, however often it is asked: it is asked on.
func (s *Service) handleUnknown(ctx context.Context, st *step) error {
	n := st.Unknown + 1
	switch {
	case st.Acknowledged:
		if n >= resubmitAfter {
			s.alert(ctx, st, "acknowledged_not_found", "the bank has acknowledged a transfer and does not find it; it may pay it yet", slog.Int("questions", n))
		}
		return s.postpone(ctx, st, true, errors.New("the bank has acknowledged the reference, and does not find it"))
	case st.Early:
	case st.Attempts < MaxAttempts && n >= resubmitAfter:
		return s.submit(ctx, st)
	case st.Attempts >= MaxAttempts && n >= giveUpAfter:
		return s.conclude(ctx, st, outcome{EventReject, bySilence, fmt.Sprintf("%d submissions, and the bank knows of none", st.Attempts), reasonNotMade})
	}
	return s.postpone(ctx, st, true, fmt.Errorf("the bank does not know the reference after submission %d", st.Attempts))
}

// applyRecord acts on the bank's own record of the transfer. A record of another reference is no
// answer, and one of another sum ends nothing.
func (s *Service) applyRecord(ctx context.Context, st *step, p provider.Payout) error {
	if p.Ref != st.Ref {
		return s.postpone(ctx, st, false, fmt.Errorf("the bank's record is of %s", p.Ref))
	}
	s.learn(ctx, st, p)
	if *st.difference != "" {
		return s.postpone(ctx, st, false, errors.New(*st.difference))
	}
	switch p.Status {
	case provider.Success:
		return s.conclude(ctx, st, paid)
	case provider.Failed:
		return s.conclude(ctx, st, failed)
	case provider.Refunded:
		return s.conclude(ctx, st, givenBack)
	}
	return s.postpone(ctx, st, false, errors.New("the bank says that it is under way"))
}

// errRecheck is why a transfer that has ended has a next step.
var errRecheck = errors.New("ended; asked again in case the bank changes its word")

// recheck asks about a transfer that has ended. A refund of all that was paid is booked. Whatever
// else the bank's record says otherwise than the books is a difference that no rule puts right: a
// person is told, and ends it ([Service.Resolve]).
func (s *Service) recheck(ctx context.Context, st *step) error {
	p, err := s.payout(ctx, st)
	if err != nil || p.Ref != st.Ref { // no answer is no news
		return s.postpone(ctx, st, false, errRecheck)
	}
	s.learn(ctx, st, p)
	if st.Status == Success && p.Status == provider.Refunded && *st.difference == "" {
		return s.conclude(ctx, st, givenBack)
	}
	return s.postpone(ctx, st, false, errRecheck)
}
