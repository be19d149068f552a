package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/compact"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/work"
	"ajo/ledger"
)

// A payment that is reversed in the ledger can still be genuine: with another sum than its event's
// (correct), because the bank's record said failed and now says success (restore), or on another
// account (assign). An entry is never changed, so the payment gets another event, the replacement,
// with a credit of its own. Of all events of one transaction, at most one counts.

// sourceReplacement is the source of replacement events.
const sourceReplacement = "replacement"

// The types of replacements, which are followed by the replaced event's id. No type of the bank's
// has a colon, since its signature allows none.
const (
	typeCorrected = "payment_corrected"
	typeRestored  = "payment_restored"
	typeAssigned  = "payment_assigned" // maybe of another tenant
)

// Refusals of a correction and of a restoration.
var (
	ErrSums        = errs.New(errs.Invalid, "the fee must not be below zero, and the amount must be above the fee")
	ErrSameSums    = errs.New(errs.Unprocessable, "amount and fee are those of the event: confirm or restore the payment instead")
	ErrNotReversed = errs.New(errs.Unprocessable, "the payment's credit is not reversed: there is nothing to restore")
	ErrCounts      = errs.New(errs.Unprocessable, "the payment already counts, by another event of the same transaction")
	ErrDecided     = errs.New(errs.Unprocessable, "the payment was not reversed by the bank's first word alone: a person must decide")
	ErrReplaced    = errs.New(errs.Unprocessable, "another event was posted in the place of this one: look at that one")
)

// Replaced is the result of a correction or a restoration.
type Replaced struct {
	EventID     uuid.UUID // the one that stays reversed
	Replacement uuid.UUID // the event that replaces it; also its entry's TransactionGroupID
	AccountID   uuid.UUID
	Status      ledger.Status // of the new entry
	Amount      money.Amount  // net, of the new entry
	Fee         money.Amount
	Balance     money.Amount // of the account, afterwards
	NoSender    string       `json:",omitempty"` // as of [Reviewed]
	Posted      Posted       `json:"-"`          // what is to be enqueued for the replacement
}

// Correction is the true sum of a payment.
type Correction struct {
	Amount money.Amount // gross, as the payer sent it
	Fee    money.Amount
}

// Correctable returns the payment that [Service.Correct] would correct, with the same refusals, and
// changes nothing.
func (s *Service) Correctable(ctx context.Context, eventID uuid.UUID) (Review, error) {
	v, err := s.Review(ctx, eventID)
	if errors.Is(err, ErrNotInReview) {
		v, err = findCorrectable(ctx, s.Pool, eventID)
	}
	return v, err
}

// findCorrectable reads a reversed credit that no other event replaces.
func findCorrectable(ctx context.Context, q pg.Querier, eventID uuid.UUID) (Review, error) {
	_, err := findReversed(ctx, q, eventID)
	switch {
	case errors.Is(err, ErrNotReversed), errors.Is(err, ErrCounts), errors.Is(err, ErrReplaced):
		return Review{}, ErrNotInReview
	case err != nil:
		return Review{}, err
	}
	return findReview(ctx, q, ledger.Reversed, eventID)
}

// Correct counts a payment with its true sum, which is neither the event's nor zero, by the word of
// an operator who has asked the bank. The payment is under review, or its credit is reversed and no
// other event counts in its place. A held entry is reversed; a credit of the true sum is posted in
// its place and confirmed, all in one transaction. The tenant is notified of both. The sender
// is the one that the bank's record names, if it can be read now.
// [ErrEventNotFound]; [ErrNotInReview], also for all but the first of those who decide at once;
// [ErrSums]; [ErrSameSums].
func (s *Service) Correct(ctx context.Context, eventID uuid.UUID, to Correction, by audit.By) (Replaced, error) {
	var out Replaced
	sender, noSender := s.senderIfAny(ctx, eventID, true)
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		v, err := lockReview(ctx, tx, eventID)
		if errors.Is(err, ErrNotInReview) {
			v, err = findCorrectable(ctx, tx, eventID) // the lock stays
		}
		if err != nil {
			return err
		}
		if err := to.Validate(v); err != nil {
			return err
		}
		target, err := targetOf(ctx, tx, v.AccountID)
		if err != nil {
			return err
		}
		// lock those of both payments together: the account's split may have changed since
		parties, err := ledger.Parties(target.Split)
		if err != nil {
			return err
		}
		if err := ledger.LockSplits(ctx, tx, []uuid.UUID{eventID}, parties...); err != nil {
			return err
		}
		notify := map[uuid.UUID]ledger.Status{}
		if v.Status == ledger.NeedsReview {
			if err := s.reverseLocked(ctx, tx, now, v); err != nil {
				return err
			}
			notify[eventID] = ledger.Reversed
		}
		e, err := s.postReplacement(ctx, tx, now, eventID, typeCorrected, to, target, to)
		if err != nil {
			return err
		}
		confirmed, err := moveOne(ctx, tx, now, ledger.Move{TransactionGroupID: e.ID, Event: ledger.EventConfirm, Sender: sender})
		if err != nil {
			return err
		}
		// the bank is not asked again: the operator has asked
		if err := endChecks(ctx, tx, now, e.ID, ledger.EventConfirm, "", nil); err != nil {
			return err
		}
		e.posted.ConfirmAt = time.Time{}
		out = newReplaced(eventID, e, confirmed)
		out.NoSender = noSender
		notify[e.ID] = confirmed.Status
		if err := s.publish(ctx, tx, notify); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("review.correct", "event:"+eventID.String(), struct {
			EntryID, AccountID, Replacement, NewEntryID uuid.UUID
			FromAmount, FromFee, ToAmount, ToFee        money.Amount
			Balance                                     money.Amount
			Why                                         string
		}{v.EntryID, v.AccountID, e.ID, confirmed.EntryID, v.GrossAmount, v.Fee, to.Amount, to.Fee, out.Balance, v.Why}))
	})
	return out, err
}

// reverseLocked reverses the credit of a payment under review, whose event is locked.
func (s *Service) reverseLocked(ctx context.Context, tx pg.Tx, now time.Time, v Review) error {
	if _, err := moveOne(ctx, tx, now, ledger.Move{TransactionGroupID: v.EventID, Event: ledger.EventReverse}); err != nil {
		return err
	}
	if _, err := s.recallDecided(ctx, tx, v.EventID, ledger.EventReverse); err != nil {
		return err
	}
	return endChecks(ctx, tx, now, v.EventID, ledger.EventReverse, v.Why, nil)
}

// Validate refuses what cannot be the true sum of a payment.
func (c Correction) Validate(v Review) error {
	switch {
	case c.Fee.Sign() < 0 || c.Amount.Cmp(c.Fee) <= 0:
		return ErrSums
	case c.Amount.Equal(v.GrossAmount) && c.Fee.Equal(v.Fee):
		return ErrSameSums
	}
	return nil
}

// Restorable is what [Service.RestoreReversed] would post.
type Restorable struct {
	Event  InboundEvent
	Record provider.Transaction // the bank's own
	Amount money.Amount         // net: what would be in the balance
}

// PlanRestore asks the bank for its record of a payment whose credit is reversed, by its id or else
// in the list, with the refusals of [Service.RestoreReversed], and changes nothing.
func (s *Service) PlanRestore(ctx context.Context, eventID uuid.UUID) (p Restorable, err error) {
	if p.Event, err = s.InboundEvent(ctx, eventID); err != nil {
		return p, err
	}
	if p.Event.ProviderTxnRef == "" {
		return p, ErrNoTxnRef
	}
	e, err := findReversed(ctx, s.Pool, eventID)
	if err != nil {
		return p, err
	}
	p.Amount = e.Amount.Sub(e.Fee)
	if p.Record, err = s.reversedRecord(ctx, &e.booked); err != nil {
		return p, err
	}
	return p, e.supportedBy(p.Record)
}

// supportedBy refuses a record of the bank unless it says success for the same payment.
func (e *Entry) supportedBy(t provider.Transaction) error {
	err := saysSuccess(t)
	if err == nil && e.Differs(t) != "" {
		err = errs.New(errs.Unprocessable, "the bank's record differs: "+e.Differs(t))
	}
	return err
}

// RestoreReversed posts a payment again whose credit was wrongly reversed: the bank's own record
// must say success for the same transaction, sum, fee, currency and account. The reversed entry
// stays as it is; the new credit is provisional, and the bank is asked to confirm it as any. For
// operators. [ErrEventNotFound]; [ErrNotReversed]; [ErrCounts], also for all but the first of those
// who restore at once; [ErrReplaced]; [ErrNoTxnRef]; [ErrNotAtBank]; and a refusal that says what
// the bank's record has.
func (s *Service) RestoreReversed(ctx context.Context, eventID uuid.UUID, by audit.By) (Replaced, error) {
	if err := by.Check(); err != nil {
		return Replaced{}, err
	}
	p, err := s.PlanRestore(ctx, eventID)
	if err != nil {
		return Replaced{}, err
	}
	return s.restore(ctx, eventID, p.Record, by, func(pg.Tx) (string, error) { return p.Event.LastError, nil })
}

// RestoreListed is [Service.RestoreReversed] without an operator's decision, for a payment that was
// reversed because the bank said failed or not found: the bank's list says success now, and so does
// record, the bank's own, which was asked for by its id. [ErrDecided] where a person reversed it,
// the bank took it back after it was confirmed, an event of the bank says that it took it back (its
// record may lag), or it is a replacement already.
func (s *Service) RestoreListed(ctx context.Context, eventID uuid.UUID, record provider.Transaction, by audit.By) (Replaced, error) {
	return s.restore(ctx, eventID, record, by, func(tx pg.Tx) (string, error) { return reversedByBank(ctx, tx, eventID) })
}

// reversedByBank returns [ErrDecided] for a payment that was not reversed by the bank's first
// answer alone; why says what it was reversed by.
func reversedByBank(ctx context.Context, tx pg.Tx, eventID uuid.UUID) (why string, err error) {
	var byBank bool
	err = tx.QueryRow(ctx, `
		SELECT e.replaces IS NULL AND NOT EXISTS (SELECT FROM ledger_entries l WHERE l.transaction_group_id = e.id AND l.review_from_seq IS NOT NULL)
			AND NOT EXISTS (SELECT FROM recalls r WHERE r.event_id = e.id) AND NOT `+reversalStored+`, e.last_error
		FROM inbound_events e WHERE e.id = $1`, eventID).Scan(&byBank, &why)
	if err == nil && !byBank {
		err = ErrDecided
	}
	return why, pg.OrNone(err, ErrNotReversed)
}

// restore posts a reversed payment again. All events of the transaction are locked first, in the
// order of their ids, so that only one of several reversed events is restored, and what
// whatReversed reads afterwards does not change.
func (s *Service) restore(ctx context.Context, eventID uuid.UUID, record provider.Transaction, by audit.By, whatReversed func(pg.Tx) (string, error)) (out Replaced, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		if _, err := tx.Exec(ctx, lockPaymentsSQL, []string{record.ID}); err != nil {
			return err
		}
		why, err := whatReversed(tx)
		if err != nil {
			return err
		}
		was, err := findReversed(ctx, tx, eventID)
		if err != nil {
			return err
		}
		if err := was.supportedBy(record); err != nil {
			return err
		}
		target, err := targetOf(ctx, tx, was.AccountID)
		if err != nil {
			return err
		}
		e, err := s.postReplacement(ctx, tx, now, eventID, typeRestored, Correction{was.Amount, was.Fee}, target, record)
		if err != nil {
			return err
		}
		balance, err := ledger.ReadBalance(ctx, tx, was.AccountID)
		if err != nil {
			return err
		}
		out = newReplaced(eventID, e, ledger.Moved{Status: ledger.Provisional, Balance: balance.Balance})
		return audit.Write(ctx, tx, now, by.Entry("review.restore", "event:"+eventID.String(), struct {
			AccountID, Replacement uuid.UUID
			ProviderTxnRef         string
			Amount, Fee, Balance   money.Amount
			Why                    string
		}{was.AccountID, out.Replacement, was.TxnRef, out.Amount, out.Fee, out.Balance, why}))
	})
	return out, err
}

func newReplaced(eventID uuid.UUID, e *posting, m ledger.Moved) Replaced {
	return Replaced{
		EventID: eventID, Replacement: e.ID, AccountID: e.target.ID, Status: m.Status, Amount: e.Amount.Sub(*e.Fee), Fee: *e.Fee, Balance: m.Balance, Posted: e.posted,
	}
}

// findReversed reads the reversed credit of a payment that may be restored.
func findReversed(ctx context.Context, q pg.Querier, eventID uuid.UUID) (*Entry, error) {
	found, err := pg.One(ctx, q, pgx.RowToStructByPos[Entry], ErrNotReversed, `
		SELECT `+entryColumns+` FROM inbound_events e
		JOIN ledger_entries l ON l.transaction_group_id = e.id AND l.direction = 'credit'
		JOIN accounts a ON a.id = l.account_id
		WHERE e.id = $1 AND e.status = 'processed'`, eventID)
	switch {
	case err != nil:
		return nil, err
	case found.Status != ledger.Reversed:
		return nil, ErrNotReversed
	}
	var counts, was bool
	err = q.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM event_keys k JOIN ledger_entries l ON l.transaction_group_id = k.event_id AND l.direction = 'credit'
				WHERE k.transaction = event_key(nullif($1, '')) AND l.status <> 'reversed'),
			EXISTS (SELECT FROM event_keys WHERE request = event_key($2))`, found.TxnRef, replacementID(eventID)).Scan(&counts, &was)
	switch {
	case err != nil:
		return nil, err
	case counts:
		return nil, ErrCounts
	case was:
		return nil, ErrReplaced
	}
	return &found, nil
}

// replacementID is the requestId of a replacement. It is unique, so an event is replaced only once.
// No id of the bank has a colon.
func replacementID(eventID uuid.UUID) string { return sourceReplacement + ":" + eventID.String() }

// targetOf reads the account to post to, and locks it if a payment may end it.
func targetOf(ctx context.Context, tx pg.Tx, accountID uuid.UUID) (*account.Target, error) {
	targets, _, err := account.Match(ctx, tx, []account.Alias{{Ref: accountID.String()}})
	if err == nil && (targets[0] == nil || targets[0].ID != accountID) {
		err = account.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return targets[0], nil
}

// lockPayment locks a payment's item of work and then its event, as the confirmation does.
// [ErrEventNotFound].
func lockPayment(ctx context.Context, tx pg.Tx, eventID uuid.UUID) error {
	if err := work.Lock(ctx, tx, work.Confirm, eventID); err != nil {
		return err
	}
	var locked uuid.UUID
	err := tx.QueryRow(ctx, `SELECT id FROM inbound_events WHERE id = $1 FOR NO KEY UPDATE`, eventID).Scan(&locked)
	return pg.OrNone(err, ErrEventNotFound)
}

// lockReview locks a payment, and returns its review.
func lockReview(ctx context.Context, tx pg.Tx, eventID uuid.UUID) (Review, error) {
	if err := lockPayment(ctx, tx, eventID); err != nil {
		return Review{}, err
	}
	// a separate statement, so that it reads nothing older than the lock
	v, err := findReview(ctx, tx, ledger.NeedsReview, eventID)
	if err == nil && v.EventID == uuid.Nil {
		err = ErrNotInReview
	}
	return v, err
}

// moveOne moves the credit of a payment whose event is locked.
func moveOne(ctx context.Context, tx pg.Tx, now time.Time, m ledger.Move) (ledger.Moved, error) {
	if err := ledger.LockSplits(ctx, tx, []uuid.UUID{m.TransactionGroupID}); err != nil {
		return ledger.Moved{}, err
	}
	m.Direction = ledger.Credit
	moved, err := ledger.MoveEntries(ctx, tx, now, []ledger.Move{m})
	if err != nil {
		return ledger.Moved{}, err
	}
	if moved[0].Err != nil {
		return ledger.Moved{}, fmt.Errorf("payment: the entry of event %s was moved without its event's lock: %w", m.TransactionGroupID, moved[0].Err)
	}
	return moved[0], nil
}

var replaceSQL = `
		WITH key AS (
			INSERT INTO event_keys (request, transaction, event_id, event_type)
			SELECT event_key($4), event_key(nullif(provider_txn_ref, '')), $2, $5 FROM inbound_events WHERE id = $1),
		body AS (INSERT INTO event_bodies (event_id, body) SELECT $2, $9 FROM inbound_events WHERE id = $1)
		INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, error_message, amount, fee,
			currency, alias, alias_number, sender_name, sender_bank, narration, occurred_at, digest, session_id, traceparent, received_at, replaces)
		SELECT $2, $3, false, true, $4, provider_txn_ref, $5, 'received', error_message, $6, $7,
			currency, alias, alias_number, sender_name, sender_bank, narration, occurred_at, $8, session_id, traceparent, $10, id
		FROM inbound_events WHERE id = $1 RETURNING ` + pg.Names[eventRow]()

// postReplacement stores a replacement event, and posts it to its account as posting does: a
// provisional credit, and a delivery if there is a URL, since what was published about the other
// event is no longer true.
func (s *Service) postReplacement(ctx context.Context, tx pg.Tx, now time.Time, eventID uuid.UUID, kind string, to Correction, target *account.Target, word any) (*posting, error) {
	body, err := json.Marshal(word)
	if err != nil {
		return nil, err
	}
	id := clock.NewID()
	row, err := pg.One(ctx, tx, pgx.RowToStructByPos[eventRow], ErrEventNotFound, replaceSQL,
		eventID, id, sourceReplacement, replacementID(eventID), kind+":"+eventID.String(), to.Amount, to.Fee, firstHalf(body), compact.Event(body), now)
	if err != nil {
		return nil, err
	}
	e := &posting{eventRow: row, target: target}
	if e.replaces, err = ownBefore(ctx, tx, eventID, target.TenantID); err != nil {
		return nil, err
	}
	e.decided(CategoryPayment, e.Problem)
	if e.Problem == "" && kind != typeAssigned {
		e.applyPolicy()
	}
	if err := e.endOneTime(ctx, tx, now); err != nil {
		return nil, err
	}
	if err := e.readLeft(ctx, tx, now, eventID, kind == typeRestored); err != nil {
		return nil, err
	}
	if err := s.recordPosted(ctx, tx, now, []*posting{e}); err != nil {
		return nil, err
	}
	return e, s.writeCredits(ctx, tx, now, []*posting{e}, nil)
}
