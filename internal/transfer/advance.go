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
	"ajo/internal/retry"
	"ajo/internal/trace"
	"ajo/internal/work"
)

const (
	// After resubmitAfter questions, a reference that the bank does not know is taken not to have
	// reached it. Submitting it again is safe, because the bank would recognise the reference.
	// After the fifth attempt, giveUpAfter questions end the transfer, and the money is back. Only
	// questions at their scheduled times count, so both numbers are also times: see
	// AJO_SETTLE_DELAYS.
	resubmitAfter = 3
	giveUpAfter   = 7
)

// Advance does the next step of a transfer: waits for cover, names the holder, submits, asks, or
// ends it. It returns nil when nothing is left, and a [retry] error with the time of the next step
// otherwise. Running it twice, late, or after a crash at any line changes nothing: a step is
// claimed first, and its result is recorded only while that claim stands.
//
// What the bank's answer means, by the transfer's status:
//
//	answer                pending        processing                      ended
//	look-up: a holder     submit         -                               -
//	look-up: refused      failed         -                               -
//	look-up: another name failed         -                               -
//	its payment is gone   a refund: failed not again                     -
//	submission: refused   -              the first: failed; else ask     -
//	submission: duplicate -              acknowledged, ask again         -
//	unreadable record     -              acknowledged, ask again         ask again
//	success               -              success                         agrees, or differs
//	failed                -              failed                          agrees, or differs
//	refunded              -              refunded                        success: refunded
//	under way             -              acknowledged, ask again         differs
//	of another sum        -              differs, ask again              differs
//	not known             -              see handleUnknown               failed: agrees
//	any other, or none    look up again  ask again                       ask again
//
// Another name is another one than that of the payer who is refunded, or than the one that the
// settlement or its beneficiary names. A difference waits for a person.
func (s *Service) Advance(ctx context.Context, id uuid.UUID) error {
	begun := time.Now()
	c, err := s.claims.Do(ctx, id)
	if err != nil || c.transfer == nil {
		return errors.Join(err, c.wait)
	}
	st := c.transfer
	ctx, span := trace.Resume(provider.ForTenant(ctx, st.TenantID), "settle", st.Traceparent, begun)
	defer span.End()
	if span.Traced() {
		span.Text("transfer", id.String())
		span.Text("status", string(st.Status))
	}
	switch {
	case st.awaiting:
		return s.askHook(ctx, st)
	case st.Status == Pending:
		return s.submitFirst(ctx, st)
	case st.Status == Processing:
		return s.ask(ctx, st)
	default:
		return s.recheck(ctx, st)
	}
}

// submitFirst names the holder of the destination and makes the first submission. A destination
// that definitely does not exist, or whose holder is another one than was expected, ends the
// transfer before anything was submitted.
func (s *Service) submitFirst(ctx context.Context, st *claimed) error {
	failpoint.At("transfer/before-lookup")
	asking, span := trace.Step(ctx, "look up the holder")
	h, err := s.Bank.Lookup(asking, st.BankCode, st.AccountNumber)
	span.End()
	failpoint.At("transfer/after-lookup")
	if err == nil && h.AccountNumber != st.AccountNumber {
		err = errStrangersName
	}
	var rejected *provider.Rejection
	switch {
	case errors.As(err, &rejected):
		return s.conclude(ctx, st, outcome{EventReject, byBank, "no such destination account: " + rejected.Msg, reasonNoAccount})
	case err != nil: // this was only a question, so it is asked again
		st.unanswered = errors.Is(err, provider.ErrBusy)
		return s.postpone(ctx, st, false, fmt.Errorf("look up the destination: %w", err))
	}
	if st.refundName != nil && !sameHolder(*st.refundName, h.AccountName) {
		return s.conclude(ctx, st, otherHolder)
	}
	if st.ExpectedName != "" && foldName(h.AccountName) != st.ExpectedName {
		return s.conclude(ctx, st, otherName)
	}
	switch is, err := s.atBank(ctx, st); {
	case err != nil:
		st.unanswered = errors.Is(err, provider.ErrBusy)
		return s.postpone(ctx, st, false, err)
	case is == paymentGone:
		return s.conclude(ctx, st, takenBack)
	case is == paymentRecalled:
		return s.postpone(ctx, st, false, errPaymentRecalled)
	}
	st.AccountName = h.AccountName
	return s.submit(ctx, st)
}

// errRefused is why a submission was not made and the transfer is due again.
var errRefused = errors.New("its account had a recall or was frozen, or the bank has acknowledged it, since it was claimed")

// submit counts the attempt, commits, and only then calls the bank. From that commit on, only the
// bank can say what the outcome is: whatever happens to this process or to the answer, the next
// step asks by reference. Once the lease has ended, nothing more is submitted, since another worker
// may be asking.
func (s *Service) submit(ctx context.Context, st *claimed) error {
	made, err := s.submits.Do(ctx, st)
	switch {
	case err != nil:
		return err
	case made.refused != nil:
		return retry.At(made.at, made.refused)
	case made.claim == nil:
		return nil // another worker has the transfer
	}
	st.Status, st.Attempts, st.Asks, st.Unknown, st.Since, st.Early = Processing, st.Attempts+1, 0, 0, made.at, true
	st.Claim = *made.claim
	lease := s.keepLease(ctx, st)
	defer lease.Release()
	failpoint.At("transfer/before-pay")
	paying, span := trace.Step(provider.OnlyWhile(ctx, lease.Stands), "pay")
	p, err := s.Bank.Pay(paying, provider.NewPayout{
		Ref: st.Ref, Amount: st.Amount, BankCode: st.BankCode, AccountNumber: st.AccountNumber, AccountName: st.AccountName,
		SenderName: st.SenderName, Narration: st.Narration,
	})
	span.End()
	failpoint.At("transfer/after-pay")
	// What an answer means here: a Rejection is definite, and the call had no effect. But the
	// rejection of a second submission says nothing about the first, so then only questions end the
	// transfer. Success, failed and refunded are the bank's statement about this reference. A
	// duplicate, or a record that cannot be read, shows that the bank has it. After anything else
	// (a timeout, a cut connection, a 5xx) the bank may have paid.
	var rejected *provider.Rejection
	switch {
	case errors.As(err, &rejected) && st.Attempts == 1:
		return s.conclude(ctx, st, outcome{EventReject, byBank, rejected.Error(), reasonRefused})
	case err != nil:
		st.learned.Acked = shows(err)
		return s.postpone(ctx, st, false, fmt.Errorf("submission %d: %w", st.Attempts, err))
	}
	return s.applyRecord(ctx, st, p)
}

// shows reports whether an answer without a record shows that the bank has the reference.
func shows(err error) bool {
	return errors.Is(err, provider.ErrDuplicate) || errors.Is(err, provider.ErrUnreadable)
}

// ask asks the bank by reference for the result of a submission.
func (s *Service) ask(ctx context.Context, st *claimed) error {
	p, err := s.payout(ctx, st)
	switch {
	case errors.Is(err, provider.ErrUnknown):
		return s.handleUnknown(ctx, st)
	case err != nil:
		st.learned.Acked, st.unanswered = shows(err), errors.Is(err, provider.ErrBusy)
		return s.postpone(ctx, st, false, fmt.Errorf("ask the bank: %w", err))
	}
	return s.applyRecord(ctx, st, p)
}

func (s *Service) payout(ctx context.Context, st *claimed) (provider.Payout, error) {
	defer s.keepLease(ctx, st).Release()
	failpoint.At("transfer/before-ask")
	ctx, span := trace.Step(ctx, "ask the bank")
	p, err := s.Bank.Payout(ctx, st.Ref)
	span.End()
	failpoint.At("transfer/after-ask")
	return p, err
}

// keepLease renews the lease of a step while the bank is called.
func (s *Service) keepLease(ctx context.Context, st *claimed) *work.Kept {
	return work.KeepLease(ctx, s.Pool, s.Clock, work.Settle, st.Claim, s.Lease)
}

// handleUnknown acts on a reference that the bank does not know. After a few questions it is
// submitted again, and after the fifth attempt and more questions, the transfer has definitely not
// been made. A question before its scheduled time proves nothing: a new transfer may not be found
// at once, and expediting a transfer must not hasten its end. Once the bank has acknowledged the
// reference, "not found" means nothing, however often it is the answer: the questions continue.
func (s *Service) handleUnknown(ctx context.Context, st *claimed) error {
	n := st.Unknown + 1
	switch {
	case st.Acknowledged:
		if n >= resubmitAfter {
			s.alert(ctx, st, "acknowledged_not_found", "the bank has acknowledged a transfer and does not find it; it may pay it yet", slog.Int("questions", n))
		}
		return s.postpone(ctx, st, true, errors.New("the bank has acknowledged the reference, and does not find it"))
	case st.Early:
	case st.payment == paymentGone && n >= giveUpAfter:
		return s.conclude(ctx, st, outcome{EventReject, bySilence, "the bank knows of no submission, and the payment that it refunds was taken back", reasonTakenBack})
	case st.payment != "":
		return s.postpone(ctx, st, true, errPaymentRecalled)
	case st.Attempts < MaxAttempts && n >= resubmitAfter:
		return s.resubmit(ctx, st)
	case st.Attempts >= MaxAttempts && n >= giveUpAfter:
		return s.conclude(ctx, st, outcome{EventReject, bySilence, fmt.Sprintf("%d submissions, and the bank knows of none", st.Attempts), reasonNotMade})
	}
	return s.postpone(ctx, st, true, fmt.Errorf("the bank does not know the reference after submission %d", st.Attempts))
}

// resubmit submits a transfer again, unless it is frozen, or refunds a payment that the bank has
// taken back or may have taken back.
func (s *Service) resubmit(ctx context.Context, st *claimed) (err error) {
	switch st.payment, err = s.atBank(ctx, st); {
	case err != nil:
		return s.postpone(ctx, st, true, err)
	case st.payment != "":
		return s.handleUnknown(ctx, st)
	case st.frozen != nil:
		return s.postpone(ctx, st, true, errFrozen)
	}
	return s.submit(ctx, st)
}

// applyRecord acts on the bank's own record of the transfer. A record of another reference is no
// answer, and one of another sum ends nothing.
func (s *Service) applyRecord(ctx context.Context, st *claimed, p provider.Payout) error {
	if p.Ref != st.Ref {
		return s.postpone(ctx, st, false, fmt.Errorf("the bank's record is of %s", p.Ref))
	}
	s.learn(ctx, st, p)
	if *st.learned.Difference != "" {
		return s.postpone(ctx, st, false, errors.New(*st.learned.Difference))
	}
	switch p.Status {
	case provider.Success:
		return s.conclude(ctx, st, paid)
	case provider.Failed:
		return s.conclude(ctx, st, notPaid)
	case provider.Refunded:
		return s.conclude(ctx, st, givenBack)
	}
	return s.postpone(ctx, st, false, errors.New("the bank says that it is under way"))
}

// errRecheck is why a transfer that has ended still has a next step.
var errRecheck = errors.New("ended; asked again in case the bank changes its word")

// recheck asks about a transfer that has ended. A refund of all that was paid is booked. Any other
// way in which the bank's record differs from the books is not corrected by a rule: a person is
// notified, and ends it ([Service.Resolve]), unless a later record agrees. A question without an
// answer does not count, since the bank's record may have changed meanwhile.
func (s *Service) recheck(ctx context.Context, st *claimed) error {
	p, err := s.payout(ctx, st)
	if err != nil || p.Ref != st.Ref {
		// "not known" is an answer about a failed transfer, or one that a person has found unpaid,
		// and agrees with the books; and nobody answers about one that left another account
		unpaid := st.Status == Failed || st.Status == Refunded && st.byHand
		st.unfound = errors.Is(err, provider.ErrUnknown) && st.Status == Success && st.byHand
		st.unanswered = !(errors.Is(err, provider.ErrUnknown) && unpaid || st.unfound || errors.Is(err, provider.ErrOtherAccount))
		return s.postpone(ctx, st, false, errRecheck)
	}
	s.learn(ctx, st, p)
	if st.Status == Success && p.Status == provider.Refunded && *st.learned.Difference == "" {
		return s.conclude(ctx, st, givenBack)
	}
	return s.postpone(ctx, st, false, errRecheck)
}

// conclude ends a claimed transfer, or moves it on from success, in one transaction with its debit.
// A lost claim is not an error: the other worker records the result.
func (s *Service) conclude(ctx context.Context, st *claimed, o outcome) error {
	e := s.ending(st, s.Clock.Now(), o)
	held, err := s.ends.Do(ctx, e)
	if err == nil && !held {
		return s.keepAcknowledgement(ctx, st)
	}
	if err != nil {
		return err
	}
	trace.Of(ctx).Text("outcome", string(o.event))
	if e.next == nil {
		return nil
	}
	return retry.At(*e.next, errRecheck)
}

// postpone gives a claimed transfer back until its next step. Unknown says that the bank did not
// know it. One that has been in progress for long is reported each time, and continues.
func (s *Service) postpone(ctx context.Context, st *claimed, unknown bool, why error) error {
	now := s.Clock.Now()
	p := s.postponement(st, now, unknown, why)
	held, err := s.postpones.Do(ctx, p)
	if err == nil && !held {
		err = s.keepAcknowledgement(ctx, st)
	}
	if err != nil {
		return err
	}
	trace.Of(ctx).Text("outcome", "later")
	if p.next == nil {
		return nil
	}
	if age := now.Sub(st.Since); age >= alertAfter {
		switch st.Status {
		case Pending:
			s.alert(ctx, st, "not_submitted", "a transfer could not be submitted yet", slog.Duration("age", age), slog.Any("why", why))
		case Processing:
			s.alert(ctx, st, "unknown_outcome", "the outcome of a transfer is still unknown", slog.Duration("age", age), slog.Any("why", why))
		}
	}
	return retry.At(*p.next, why)
}

// postponement puts a claimed transfer off by the schedule of its status ([Service.next]).
func (s *Service) postponement(st *claimed, now time.Time, unknown bool, why error) postponement {
	p := st.waitUntil(nil, why)
	p.next, p.asks = s.next(st, now)
	if unknown && !st.Early {
		p.unknown++
	}
	return p
}

// gaps is the schedule of the transfer's status.
func (s *Service) gaps(st *claimed) []time.Duration {
	if st.ended() {
		return s.Rechecks
	}
	return s.Delays
}

// countsFrom is the earliest due time that the transfer's schedule gives its next question; an
// earlier one was brought about by an event of the bank or by an operator. So n questions that
// counted took at least the first n gaps.
func (s *Service) countsFrom(st *claimed) time.Time {
	at, gaps := st.Since, s.gaps(st)
	for i := range min(st.Asks+1, len(gaps)) {
		at = at.Add(gaps[i])
	}
	return at
}

// next returns when a transfer is due again, and its count of questions. A question before its
// scheduled time changes neither. Questions about a transfer that has ended stop at some point
// (nil), but not while the bank's record differs from the books and nobody has dealt with that, or
// the bank does not find what a person has found paid. One that does not count is asked again after
// the same gap.
func (s *Service) next(st *claimed, now time.Time) (at *time.Time, asks int) {
	gaps, asks := s.gaps(st), st.Asks
	if st.unanswered && len(gaps) > 0 {
		return new(now.Add(gaps[min(asks, len(gaps)-1)])), asks
	}
	if !st.Early {
		asks++
	}
	switch {
	case st.ended() && asks >= len(gaps) && (len(gaps) == 0 || !st.unfound && !st.differsNow()):
		return nil, asks
	case st.Early:
		return new(s.countsFrom(st)), asks
	}
	return new(now.Add(gaps[min(asks, len(gaps)-1)])), asks
}

// ending is the end of a transfer now. If the transfer was ever submitted, the bank is asked about
// it again later.
func (s *Service) ending(st *claimed, now time.Time, o outcome) ending {
	e := ending{claimed: st, outcome: o}
	if st.Attempts > 0 && len(s.Rechecks) > 0 {
		e.next = new(now.Add(s.Rechecks[0]))
	}
	return e
}
