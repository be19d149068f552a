package payment

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/work"
	"ajo/ledger"
)

// Refusals of what an operator asks for.
var (
	ErrEventNotFound = errs.New(errs.NotFound, "event not found")
	ErrNotInReview   = errs.New(errs.Unprocessable, "the payment does not need review")
)

// Credit is a posted payment in the lists of operators.
type Credit struct {
	EventID        uuid.UUID // also the entry's TransactionGroupID
	TenantID       uuid.UUID
	TenantName     string
	AccountID      uuid.UUID
	AccountRef     string
	Amount         money.Amount // net, as credited
	ProviderTxnRef string
	SenderName     string
}

// creditColumns are those of a [Credit], of its event e, entry l, account a and tenant t.
const creditColumns = `e.id, t.id, t.name, a.id, a.account_ref, l.amount, e.provider_txn_ref, e.sender_name`

// Review is a posted payment that the bank's records did not settle: its entry is needs_review, out
// of the balance, until a person decides.
type Review struct {
	Credit
	EntryID     uuid.UUID
	GrossAmount money.Amount
	Fee         money.Amount
	Why         string // what the last check found
	PostedAt    time.Time
	// needs_review; reversed if only a correction can follow ([Service.Correctable])
	Status ledger.Status
	// what a confirmation brings the account: Amount, less what the platform takes of it
	Brings money.Amount
	Split  bool // its account had a split when it was posted, which passes a part of Brings on
}

var reviewQuery = `
	SELECT ` + creditColumns + `, l.id, e.amount, l.fee, e.last_error, l.created_at, l.status, ` + ledger.Brought("l") + `, l.split IS NOT NULL
	FROM ledger_entries l
	JOIN inbound_events e ON e.id = l.transaction_group_id
	JOIN accounts a ON a.id = l.account_id
	JOIN tenants t ON t.id = l.tenant_id`

// Reviews returns a page of the payments under review, of the whole service, newest first. For
// operators. A bad cursor is [page.ErrCursor].
func (s *Service) Reviews(ctx context.Context, r page.Request) ([]Review, page.Info, error) {
	list := pg.List[Review]{Name: page.Reviews, ID: func(v Review) uuid.UUID { return v.EventID }, Row: pgx.RowToStructByPos[Review]}
	return list.Page(ctx, s.Pool, r, reviewQuery+` WHERE l.status = 'needs_review' AND l.review_from_seq IS NOT NULL AND l.review_to_seq IS NULL AND l.transaction_group_id < @before ORDER BY l.transaction_group_id DESC LIMIT @limit`, nil)
}

// Review returns one payment under review. [ErrEventNotFound], or [ErrNotInReview] for a payment in
// any other state.
func (s *Service) Review(ctx context.Context, eventID uuid.UUID) (Review, error) {
	v, err := findReview(ctx, s.Pool, ledger.NeedsReview, eventID)
	if err != nil {
		return v, err
	}
	if v.EventID != uuid.Nil {
		return v, nil
	}
	_, err = s.InboundEvent(ctx, eventID)
	if err == nil {
		err = ErrNotInReview
	}
	return v, err
}

// Compared is a payment's event with the bank's record of it.
type Compared struct {
	Event  InboundEvent
	Review *Review               // nil: it is not under review
	Bank   *provider.Transaction // nil: NoBank says why
	NoBank string                `json:",omitempty"`
}

// Compare asks the bank for its record of a payment. It decides nothing, and no answer of the bank
// is not an error. For operators. [ErrEventNotFound].
func (s *Service) Compare(ctx context.Context, eventID uuid.UUID) (c Compared, err error) {
	if c.Event, err = s.InboundEvent(ctx, eventID); err != nil {
		return c, err
	}
	v, err := findReview(ctx, s.Pool, ledger.NeedsReview, eventID)
	if err != nil {
		return c, err
	}
	if v.EventID != uuid.Nil {
		c.Review = &v
	}
	if c.Event.ProviderTxnRef == "" {
		c.NoBank = ErrNoTxnRef.Error()
		return c, nil
	}
	t, err := s.BankRecord(ctx, c.Event.ProviderTxnRef)
	switch {
	case errors.Is(err, provider.ErrUnknown):
		c.NoBank = ErrNotAtBank.Error()
	case err != nil:
		c.NoBank = err.Error()
	default:
		c.Bank = &t
	}
	return c, nil
}

// findReview reads the credit of an event that has a status; its zero value when it has another.
func findReview(ctx context.Context, q pg.Querier, status ledger.Status, eventID uuid.UUID) (Review, error) {
	return pg.One(ctx, q, pgx.RowToStructByPos[Review], nil, reviewQuery+`
	WHERE l.transaction_group_id = $1 AND l.direction = 'credit' AND l.status = $2 AND e.status = 'processed'`, eventID, status)
}

// Reviewed is the result of a person's decision.
type Reviewed struct {
	EventID uuid.UUID
	EntryID uuid.UUID
	Status  ledger.Status // confirmed or reversed
	Amount  money.Amount
	Balance money.Amount // the account's, after it
	// of a confirmation: why the payer is not on record, so that it cannot be refunded yet
	// ([Service.RecordSender]); empty: it is
	NoSender string `json:",omitempty"`
}

// DecideReview ends the review of a payment, for an operator who has asked the bank.
// ledger.EventConfirm counts it as received: its entry becomes confirmed, is in the balance again,
// and may be paid out; its sender is the one that the bank's record names, if it can be read now.
// ledger.EventReverse gives it up: its entry becomes reversed, a reversal is posted beside it, and
// the payment stays out of the balance, which is final. [ErrEventNotFound]; [ErrNotInReview] in any
// other state, and for all but the first of several simultaneous callers.
//
// It moves the entry, publishes what the tenant is subscribed to, and records who decided, in one
// transaction. Item and event are locked first, as in the confirmation, so that nobody else changes
// the entry's status afterwards.
func (s *Service) DecideReview(ctx context.Context, eventID uuid.UUID, event ledger.Event, by audit.By) (Reviewed, error) {
	var out Reviewed
	var sender *ledger.Sender
	var noSender string
	if event == ledger.EventConfirm {
		sender, noSender = s.senderIfAny(ctx, eventID, false)
	}
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		v, err := lockReview(ctx, tx, eventID)
		if err != nil {
			return err
		}
		m := ledger.Move{TransactionGroupID: eventID, Event: event, Sender: sender}
		if event == ledger.EventConfirm {
			if m.Gone, err = goneBefore(ctx, tx, eventID); err != nil {
				return err
			}
		}
		moved, err := moveOne(ctx, tx, now, m)
		if err != nil {
			return err
		}
		out = Reviewed{EventID: eventID, EntryID: moved.EntryID, Status: moved.Status, Amount: v.Amount, Balance: moved.Balance, NoSender: noSender}
		open, err := s.recallDecided(ctx, tx, eventID, event)
		if err != nil {
			return err
		}
		var next *time.Time
		notify := map[uuid.UUID]ledger.Status{eventID: moved.Status}
		if open {
			next, notify = &now, nil // the recall's end publishes it
		}
		if err := endChecks(ctx, tx, now, eventID, event, v.Why, next); err != nil {
			return err
		}
		if err := s.publish(ctx, tx, notify); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("review."+string(event), "event:"+eventID.String(), struct {
			EntryID, AccountID uuid.UUID
			Amount, Balance    money.Amount
			Why                string
		}{v.EntryID, v.AccountID, v.Amount, out.Balance, v.Why}))
	})
	return out, err
}

// endChecks ends the checks of the event, unless a recall is open: next is its next check. A
// reversed payment keeps the text of what the bank's record had wrong; a confirmed one has no
// error.
func endChecks(ctx context.Context, tx pg.Tx, now time.Time, eventID uuid.UUID, event ledger.Event, why string, next *time.Time) error {
	if event == ledger.EventConfirm {
		why = ""
	}
	if _, err := tx.Exec(ctx, `UPDATE inbound_events SET last_error = $2 WHERE id = $1`, eventID, why); err != nil {
		return err
	}
	return askNext(ctx, tx, now, eventID, next)
}

// askNext schedules the next question to the bank about a payment, or ends the questions (nil); a
// payment that its account's policy refunds is then due to be refunded, if it may be. An answer to
// a question that is being asked now does not count.
func askNext(ctx context.Context, tx pg.Tx, now time.Time, eventID uuid.UUID, next *time.Time) error {
	m := work.Item{Kind: work.Confirm, ID: eventID, DueAt: now}
	var tenant *uuid.UUID
	var goesBack bool
	if err := tx.QueryRow(ctx, `SELECT tenant_id, traceparent, coalesce(policy = 'refund', false) FROM inbound_events WHERE id = $1`, eventID).
		Scan(&tenant, &m.Traceparent, &goesBack); err != nil {
		return err
	}
	switch {
	case next != nil:
		m.DueAt = *next
	case !goesBack:
		return work.Cancel(ctx, tx, work.Confirm, eventID)
	}
	if tenant != nil {
		m.TenantID = *tenant
	}
	return work.Schedule(ctx, tx, m)
}
