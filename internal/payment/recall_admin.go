package payment

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/ledger"
)

// RecallRecord is a recall as operators see it.
type RecallRecord struct {
	Credit
	Held          money.Amount // the part that covers no settlement because of the recall
	EntryStatus   ledger.Status
	Source        RecallSource
	Status        RecallStatus
	OpenedAt      time.Time
	ClosedAt      *time.Time
	Questions     int // to the bank, so far
	NextAttemptAt *time.Time
	LastError     string // the result of the last question
}

const recallQuery = `
	SELECT ` + creditColumns + `, r.held, l.status, r.source, r.status, r.opened_at, r.closed_at, e.attempt_count, w.due_at, e.last_error
	FROM recalls r
	JOIN inbound_events e ON e.id = r.event_id
	JOIN ledger_entries l ON l.transaction_group_id = r.event_id AND l.direction = 'credit'
	JOIN accounts a ON a.id = r.account_id
	JOIN tenants t ON t.id = r.tenant_id
	LEFT JOIN work w ON w.kind = 'confirm' AND w.id = r.event_id`

// Recalls returns a page of the recalls of a status (empty: of all), of the whole service, by their
// payments, newest first. For operators. A bad cursor is [page.ErrCursor], an unknown status
// [ErrFilter].
func (s *Service) Recalls(ctx context.Context, status RecallStatus, r page.Request) ([]RecallRecord, page.Info, error) {
	if !RecallTransitions.Knows(status) {
		return nil, page.Info{}, ErrFilter
	}
	list := pg.List[RecallRecord]{Name: page.Recalls, ID: func(v RecallRecord) uuid.UUID { return v.EventID }, Row: pgx.RowToStructByPos[RecallRecord]}
	return list.Filtered(ctx, s.Pool, r, `(SELECT event_id AS id FROM recalls) r WHERE true`, recallQuery+`
	WHERE r.event_id < @before AND r.event_id >= @floor AND (@status = '' OR r.status = @status)
	ORDER BY r.event_id DESC LIMIT @limit`, pgx.NamedArgs{"status": string(status)})
}

// Recall returns the recall of a payment, or [ErrNoRecall].
func (s *Service) Recall(ctx context.Context, eventID uuid.UUID) (RecallRecord, error) {
	return pg.One(ctx, s.Pool, pgx.RowToStructByPos[RecallRecord], ErrNoRecall, recallQuery+` WHERE r.event_id = $1`, eventID)
}

// OpenRecallByHand opens a recall for an operator: the sum is held, and the bank is asked.
// [ErrEventNotFound]; [ErrNotRecallable] if there is nothing to take back, or a recall is open;
// [ErrReplaced] if the payment counts by another event.
func (s *Service) OpenRecallByHand(ctx context.Context, eventID uuid.UUID, by audit.By) error {
	e, err := s.InboundEvent(ctx, eventID)
	if err != nil {
		return err
	}
	if e.Status != Processed {
		return ErrNotRecallable
	}
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		opened, err := s.openRecalls(ctx, tx, RecallByOperator, []string{e.ProviderTxnRef})
		if err != nil {
			return err
		}
		switch held, ok := opened[e.ProviderTxnRef]; {
		case !ok:
			return ErrNotRecallable
		case held != eventID:
			return ErrReplaced
		}
		return audit.Write(ctx, tx, s.Clock.Now(), by.Entry("recalls.open", "event:"+eventID.String(), struct{ ProviderTxnRef string }{e.ProviderTxnRef}))
	})
}

// reversedBy is the event that takes a credit back from where it is.
var reversedBy = map[ledger.Status]ledger.Event{
	ledger.Provisional: ledger.EventReverse, ledger.Confirmed: ledger.EventRecall, ledger.NeedsReview: ledger.EventReverse,
}

// DecideRecall ends a recall, open or watched, as the bank's record would, for an operator who has
// the bank's word. [RecallReversed]: the payment is taken back, which is final, and may bring the
// balance below zero. [RecallKept]: it was not taken back, and its sum covers settlements again.
// [ErrEventNotFound], [ErrNoRecall].
//
// It locks the payment first, as the confirmation does, so that entry and recall do not change from
// then on.
func (s *Service) DecideRecall(ctx context.Context, eventID uuid.UUID, to RecallStatus, by audit.By) (out Reviewed, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		v, err := lockRecall(ctx, tx, eventID)
		if err != nil {
			return err
		}
		out = Reviewed{EventID: eventID, Status: v.EntryStatus, Amount: v.Amount}
		if err := ledger.LockSplits(ctx, tx, []uuid.UUID{eventID}); err != nil {
			return err
		}
		if to == RecallReversed {
			moved, err := moveOne(ctx, tx, now, ledger.Move{TransactionGroupID: eventID, Event: reversedBy[v.EntryStatus]})
			if err != nil {
				return err
			}
			out.EntryID, out.Status = moved.EntryID, moved.Status
		}
		was, err := endRecall(ctx, tx, eventID, to, now)
		if err != nil {
			return err
		}
		if err := ledger.ReleaseParts(ctx, tx, now, []uuid.UUID{eventID}); err != nil {
			return err
		}
		if err := ledger.ReleaseRecalled(ctx, tx, map[uuid.UUID]money.Amount{v.AccountID: was.Held}); err != nil {
			return err
		}
		var next *time.Time
		if to == RecallKept && v.EntryStatus == ledger.Provisional {
			// a payment that the bank has not confirmed yet is asked about as before
			next = v.NextAttemptAt
		}
		if err := askNext(ctx, tx, now, eventID, next); err != nil {
			return err
		}
		if to == RecallReversed || was.Unpublished {
			if err := s.publish(ctx, tx, map[uuid.UUID]ledger.Status{eventID: out.Status}); err != nil {
				return err
			}
		}
		balance, err := ledger.ReadBalance(ctx, tx, v.AccountID)
		if err != nil {
			return err
		}
		out.Balance = balance.Balance
		return audit.Write(ctx, tx, now, by.Entry("recalls."+map[RecallStatus]string{RecallReversed: "reverse", RecallKept: "keep"}[to], "event:"+eventID.String(), struct {
			AccountID       uuid.UUID
			Amount, Balance money.Amount
			EntryStatus     ledger.Status
			Why             string
		}{v.AccountID, v.Amount, out.Balance, v.EntryStatus, v.LastError}))
	})
	return out, err
}

// lockRecall locks a payment, and returns its unfinished recall.
func lockRecall(ctx context.Context, tx pg.Tx, eventID uuid.UUID) (v RecallRecord, err error) {
	if err := lockPayment(ctx, tx, eventID); err != nil {
		return v, err
	}
	return pg.One(ctx, tx, pgx.RowToStructByPos[RecallRecord], ErrNoRecall, recallQuery+` WHERE r.event_id = $1 AND r.status`+ledger.RecallStands, eventID)
}

// recallDecided applies a person's decision about a review to the open recall of the payment, if
// there is one. A payment that was given up needs no answer; one that counts again is held until
// there is one, and so long payment.confirmed waits. It reports whether the bank must still be
// asked.
func (s *Service) recallDecided(ctx context.Context, tx pg.Tx, eventID uuid.UUID, event ledger.Event) (open bool, err error) {
	now := s.Clock.Now()
	if event == ledger.EventReverse {
		// nothing is held of a payment under review
		_, err := endRecall(ctx, tx, eventID, RecallReversed, now)
		if errors.Is(err, ErrNoRecall) {
			err = nil
		}
		return false, err
	}
	if err := tx.QueryRow(ctx, `SELECT true FROM recalls WHERE event_id = $1 AND status = 'open'`, eventID).Scan(&open); err != nil {
		return false, pg.OrNone(err, nil)
	}
	held, err := ledger.HoldRecalled(ctx, tx, now, []uuid.UUID{eventID})
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, `UPDATE recalls SET held = $2, unpublished = true, successes = 0 WHERE event_id = $1 AND status = 'open'`, eventID, held[eventID].Amount)
	return true, err
}
