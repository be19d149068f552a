package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/retry"
)

const (
	// advanceLease is how long one worker may take over a step; longer than the bank's deadlines for a lookup and a payout.
	advanceLease = 2 * time.Minute
	// A reference that the bank does not know after resubmitAfter questions was not submitted: submitting it again is safe,
	// as the bank would recognise it. The fifth such attempt ends the transfer, and gives the money back: that takes
	// giveUpAfter questions, since a fresh transfer may not be found at once and the interbank leg takes minutes.
	resubmitAfter = 3
	giveUpAfter   = 7
	// alertAfter is the age from which an outcome that is still unknown is reported at each question.
	alertAfter = 10 * time.Minute
)

// recheckDelays are when a paid transfer is asked about again: the event of a refund may never come.
var recheckDelays = []time.Duration{15 * time.Minute, 2 * time.Hour, 24 * time.Hour}

var errCover = errors.New("waits until the bank has confirmed the money that it pays out")

// step is a due transfer that is ours to advance until lease.
type step struct {
	ID            uuid.UUID
	AccountID     uuid.UUID
	Ref           string
	Status        Status
	Amount        money.Amount
	BankCode      string
	AccountNumber string
	AccountName   string
	Narration     string
	SenderName    string
	Attempts      int
	SubmittedAt   *time.Time
	Asks          int
	Unknown       int
	Lease         time.Time
}

// Advance does the next step of a transfer: waits for cover, names the holder, submits, asks, or ends it. It returns nil
// when nothing is left, and a [retry] error with the time of the next step otherwise. Running it twice, late, or after a
// crash at any line changes nothing: a step is claimed first, and what it finds is recorded only under that claim.
func (s *Service) Advance(ctx context.Context, id uuid.UUID) error {
	st, err := s.claim(ctx, id)
	if err != nil || st == nil {
		return err
	}
	switch st.Status {
	case Pending:
		return s.first(ctx, st)
	case Processing:
		return s.ask(ctx, st)
	default:
		return s.recheck(ctx, st)
	}
}

// claim takes the lease of a due transfer, or answers what is to be done about one that lacks cover.
func (s *Service) claim(ctx context.Context, id uuid.UUID) (*step, error) {
	var st *step
	var wait error
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		st, wait = nil, nil
		now := s.Clock.Now()
		c := step{Lease: now.Add(advanceLease)}
		err := tx.QueryRow(ctx, `
			SELECT t.id, t.account_id, t.merchant_tx_ref, t.status, t.amount, t.bank_code, t.account_number, t.account_name, t.narration, n.name,
				t.attempt_count, t.submitted_at, t.ask_count, t.unknown_count
			FROM transfers t JOIN tenants n ON n.id = t.tenant_id
			WHERE t.id = $1 AND t.next_attempt_at <= $2 AND coalesce(t.leased_until, '-infinity') <= $2 FOR NO KEY UPDATE OF t`, id, now).
			Scan(&c.ID, &c.AccountID, &c.Ref, &c.Status, &c.Amount, &c.BankCode, &c.AccountNumber, &c.AccountName, &c.Narration, &c.SenderName,
				&c.Attempts, &c.SubmittedAt, &c.Asks, &c.Unknown)
		if pg.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.Status == Pending && !s.Provisional {
			covered, err := s.cover(ctx, tx, &c, now)
			if err != nil || covered != nil {
				wait = covered
				return err
			}
		}
		if c.Status == Failed { // cover ended it
			return nil
		}
		st = &c
		_, err = tx.Exec(ctx, `UPDATE transfers SET leased_until = $2 WHERE id = $1`, id, c.Lease)
		return err
	})
	return st, errors.Join(err, wait)
}

// cover decides whether confirmed credits cover a pending transfer together with every debit that stands before it. Pending
// transfers behind it do not count: the earlier one goes first. Not covered yet: a wait. Never to be covered, not even if
// all that is provisional were confirmed: the transfer ends as failed, and its debit is reversed.
func (s *Service) cover(ctx context.Context, tx pg.Tx, c *step, now time.Time) (wait, err error) {
	var confirmed, behind, provisional money.Amount
	err = tx.QueryRow(ctx, `
		SELECT b.balance - b.provisional_credits, b.provisional_credits,
			(SELECT coalesce(sum(amount), 0) FROM transfers WHERE account_id = $1 AND status = 'pending' AND id > $2)
		FROM ledger_balances b WHERE b.account_id = $1`, c.AccountID, c.ID).Scan(&confirmed, &provisional, &behind)
	if err != nil {
		return nil, err
	}
	left := confirmed.Add(behind)
	switch {
	case left.Sign() >= 0:
		return nil, nil
	case left.Add(provisional).Sign() < 0:
		err := s.end(ctx, tx, c, EventReject, "the money that it pays out proved false", now)
		c.Status = Failed
		return nil, err
	}
	at := now.Add(s.delay(c.Asks))
	_, err = tx.Exec(ctx, `UPDATE transfers SET next_attempt_at = $2, ask_count = ask_count + 1, last_error = $3 WHERE id = $1`, c.ID, at, errCover.Error())
	return retry.At(at, errCover), err
}

// first names the holder of the destination and makes the first submission. A destination that definitely does not exist
// ends the transfer before anything was submitted.
func (s *Service) first(ctx context.Context, st *step) error {
	h, err := s.Bank.Lookup(ctx, st.BankCode, st.AccountNumber)
	var rejected *provider.Rejection
	switch {
	case errors.As(err, &rejected):
		return s.conclude(ctx, st, EventReject, "no such destination account: "+rejected.Msg)
	case err != nil: // only a question; it is asked again
		return s.postpone(ctx, st, false, fmt.Errorf("look up the destination: %w", err))
	}
	st.AccountName = h.AccountName
	return s.submit(ctx, st)
}

// submit counts the attempt, commits, and only then calls the bank. From that commit on the outcome is the bank's to tell:
// whatever happens to this process or to the answer, the next step asks by reference.
func (s *Service) submit(ctx context.Context, st *step) error {
	now := s.Clock.Now()
	lease := now.Add(advanceLease)
	tag, err := s.Pool.Exec(ctx, `
		UPDATE transfers SET status = 'processing', attempt_count = attempt_count + 1, submitted_at = $3, ask_count = 0, unknown_count = 0, account_name = $4,
			next_attempt_at = $5, leased_until = $6, last_error = '', updated_at = $3
		WHERE id = $1 AND leased_until = $2 AND status = ANY($7)`,
		st.ID, st.Lease, now, st.AccountName, now.Add(s.delay(0)), lease, Transitions.From(EventSubmit))
	if err != nil || tag.RowsAffected() == 0 {
		return err // the claim has gone to another worker
	}
	st.Status, st.Attempts, st.SubmittedAt, st.Asks, st.Unknown, st.Lease = Processing, st.Attempts+1, &now, 0, 0, lease
	p, err := s.Bank.Pay(ctx, provider.NewPayout{
		Ref: st.Ref, Amount: st.Amount, BankCode: st.BankCode, AccountNumber: st.AccountNumber, AccountName: st.AccountName,
		SenderName: st.SenderName, Narration: st.Narration,
	})
	// What an answer means here: a Rejection is definite, and the call had no effect; but of a second submission it says
	// nothing about the first, so only questions end that. Success, failed and refunded are the bank's word on this
	// reference. All else (a timeout, a cut connection, a 5xx, "processing", a duplicate) may have paid.
	var rejected *provider.Rejection
	switch {
	case errors.As(err, &rejected) && st.Attempts == 1:
		return s.conclude(ctx, st, EventReject, rejected.Error())
	case err != nil:
		return s.postpone(ctx, st, false, fmt.Errorf("submission %d: %w", st.Attempts, err))
	}
	return s.heed(ctx, st, p)
}

// ask asks the bank by reference what became of a submission.
func (s *Service) ask(ctx context.Context, st *step) error {
	p, err := s.Bank.Payout(ctx, st.Ref)
	switch {
	case errors.Is(err, provider.ErrUnknown):
		return s.unknown(ctx, st)
	case err != nil:
		return s.postpone(ctx, st, false, fmt.Errorf("ask the bank: %w", err))
	}
	return s.heed(ctx, st, p)
}

// unknown acts on a reference that the bank does not know: after a few questions it is submitted again, and after the fifth
// attempt, and more questions, the transfer has definitely not been made.
func (s *Service) unknown(ctx context.Context, st *step) error {
	switch n := st.Unknown + 1; {
	case st.Attempts < MaxAttempts && n >= resubmitAfter:
		return s.submit(ctx, st)
	case st.Attempts >= MaxAttempts && n >= giveUpAfter:
		return s.conclude(ctx, st, EventReject, fmt.Sprintf("%d submissions, and the bank knows of none", st.Attempts))
	}
	return s.postpone(ctx, st, true, fmt.Errorf("the bank does not know the reference after submission %d", st.Attempts))
}

// heed acts on the bank's own record of the transfer. A record of another reference or amount is no answer.
func (s *Service) heed(ctx context.Context, st *step, p provider.Payout) error {
	if p.Status != provider.Pending && (p.Ref != st.Ref || !p.Amount.Equal(st.Amount)) {
		return s.postpone(ctx, st, false, fmt.Errorf("the bank's record is of %s and %s", p.Ref, p.Amount))
	}
	switch p.Status {
	case provider.Success:
		return s.conclude(ctx, st, EventPaid, "")
	case provider.Failed:
		return s.conclude(ctx, st, EventReject, "the bank says that it failed")
	case provider.Refunded:
		return s.conclude(ctx, st, EventRefund, "the bank gave it back")
	}
	return s.postpone(ctx, st, false, errors.New("the bank says that it is under way"))
}

// recheck asks about a transfer that was paid: only a refund changes it.
func (s *Service) recheck(ctx context.Context, st *step) error {
	p, err := s.Bank.Payout(ctx, st.Ref)
	if err == nil && p.Ref == st.Ref && p.Status == provider.Refunded {
		return s.conclude(ctx, st, EventRefund, "the bank gave it back")
	}
	if err == nil && p.Status == provider.Failed {
		s.Log.Error("the bank calls a paid transfer failed; a person must ask it", slog.String("alert", "paid_then_failed"), slog.String("transfer", st.Ref))
	}
	var next *time.Time
	if st.Asks+1 < len(recheckDelays) {
		at := s.Clock.Now().Add(recheckDelays[st.Asks+1])
		next = &at
	}
	_, dbErr := s.Pool.Exec(ctx, `UPDATE transfers SET next_attempt_at = $3, ask_count = ask_count + 1, leased_until = NULL WHERE id = $1 AND leased_until = $2`,
		st.ID, st.Lease, next)
	if dbErr != nil || next == nil {
		return dbErr
	}
	return retry.At(*next, errors.New("paid; asked again in case the bank gives it back"))
}
