package payment

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/ledger"
)

// Refusals of a second attempt to post an event.
var (
	ErrNotUnposted = errs.New(errs.Unprocessable, "event is not a processing error")
	ErrNoTxnRef    = errs.New(errs.Unprocessable, "the event has no transaction id by which the bank could be asked")
	ErrNotAtBank   = errs.New(errs.Unprocessable, "the bank does not know the transaction")
)

// Repostable is what [Service.Repost] would post.
type Repostable struct {
	Event  InboundEvent
	Record provider.Transaction // the bank's own, from which the event is posted
}

// PlanRepost asks the bank for its record of an event that could not be posted, with the refusals
// of [Service.Repost], and changes nothing.
func (s *Service) PlanRepost(ctx context.Context, eventID uuid.UUID) (p Repostable, err error) {
	if p.Event, err = s.InboundEvent(ctx, eventID); err != nil {
		return p, err
	}
	if p.Event.Category != CategoryProcessingError {
		return p, ErrNotUnposted
	}
	p.Record, err = s.successRecord(ctx, p.Event.ProviderTxnRef)
	if err == nil && Unfit(p.Record) != "" {
		err = errs.New(errs.Unprocessable, "the bank's own record cannot be posted: "+Unfit(p.Record))
	}
	if p.Record.Time.IsZero() && p.Event.OccurredAt != nil {
		p.Record.Time = *p.Event.OccurredAt
	}
	return p, err
}

// successRecord asks the bank for its record of a payment, which must say success. [ErrNoTxnRef],
// [ErrNotAtBank], [provider.ErrNotSet] without a bank, and a refusal that quotes the record.
func (s *Service) successRecord(ctx context.Context, txnRef string) (provider.Transaction, error) {
	if txnRef == "" {
		return provider.Transaction{}, ErrNoTxnRef
	}
	t, err := s.BankRecord(ctx, txnRef)
	switch {
	case errors.Is(err, provider.ErrUnknown):
		return t, ErrNotAtBank
	case err != nil:
		return t, fmt.Errorf("ask the bank: %w", err)
	}
	return t, saysSuccess(t)
}

func saysSuccess(t provider.Transaction) error {
	if t.Status != provider.Success {
		return errs.New(errs.Unprocessable, "the bank says "+string(t.Status))
	}
	return nil
}

// lockEvent locks an event of a category, or refuses one of another. [ErrEventNotFound].
func lockEvent(ctx context.Context, tx pg.Tx, id uuid.UUID, want Category, refusal error) error {
	var category Category
	err := tx.QueryRow(ctx, `SELECT category FROM inbound_events WHERE id = $1 FOR NO KEY UPDATE`, id).Scan(&category)
	if err == nil && category != want {
		err = refusal
	}
	return pg.OrNone(err, ErrEventNotFound)
}

// Repost posts an event that could not be posted, or was held back, from the bank's own record:
// account, sum and fee are the bank's. Like any payment, it is confirmed before it can be paid out.
// For operators. [ErrEventNotFound]; [ErrNotUnposted], also for all but the first of those who
// repost at once; [ErrNoTxnRef]; [ErrNotAtBank]; and a refusal that says what the bank's record has
// wrong. An account that is not found makes it misdirected: that is no error, and the event can be
// assigned.
func (s *Service) Repost(ctx context.Context, eventID uuid.UUID, by audit.By) (Posted, error) {
	if err := by.Check(); err != nil {
		return Posted{}, err
	}
	p, err := s.PlanRepost(ctx, eventID)
	if err != nil {
		return Posted{}, err
	}
	return s.postRecord(ctx, eventID, p.Record, func(tx pg.Tx, e *posting) error {
		return audit.Write(ctx, tx, s.Clock.Now(), by.Entry("events.repost", "event:"+eventID.String(), struct {
			Category       Category
			ProviderTxnRef string
			Amount, Fee    money.Amount
			AccountNumber  string
			Why            string
			LookAlikeOf    *uuid.UUID
		}{e.result.Category, e.TxnRef, *e.Amount, *e.Fee, e.Number, p.Event.ErrorMessage, p.Event.LookAlikeOf}))
	})
}

// postRecord posts a failed event with the fields of the bank's record, and calls also in the same
// transaction (nil: nothing). Locks are taken in the order of any posting (docs/architecture.md).
func (s *Service) postRecord(ctx context.Context, id uuid.UUID, t provider.Transaction, also func(pg.Tx, *posting) error) (Posted, error) {
	var e *posting
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		if err := lockEvent(ctx, tx, id, CategoryProcessingError, ErrNotUnposted); err != nil {
			return err
		}
		row, err := pg.One(ctx, tx, pgx.RowToStructByPos[eventRow], ErrEventNotFound, `
			WITH listed AS (UPDATE listed_payments SET amount = $2, alias_number = $6, occurred_at = $7 WHERE event_id = $1)
			UPDATE inbound_events SET amount = $2, fee = $3, currency = $4, alias = $5, alias_number = $6, occurred_at = $7,
				sender_name = coalesce(nullif(sender_name, ''), $8), narration = coalesce(nullif(narration, ''), $9)
			WHERE id = $1 RETURNING `+pg.Names[eventRow](),
			id, t.Amount, t.Fee, t.Currency, Clean(t.AccountRef), Clean(t.AccountNumber), t.Time, Clean(t.SenderName), Clean(t.Narration))
		if err != nil {
			return err
		}
		e = &posting{eventRow: row, reposted: true}
		targets, ambiguous, err := account.Match(ctx, tx, []account.Alias{{Ref: e.Alias, Number: e.Number, At: *e.OccurredAt}})
		if err != nil {
			return err
		}
		e.target = targets[0]
		e.decide(ambiguous[0])
		good := []*posting{e}
		if e.result.Category != CategoryPayment {
			good = nil
		} else if err := e.endOneTime(ctx, tx, now); err != nil {
			return err
		}
		if err := s.recordPosted(ctx, tx, now, []*posting{e}); err != nil {
			return err
		}
		if err := s.writeCredits(ctx, tx, now, good, suspended(ledger.Credit, []*posting{e})); err != nil || also == nil {
			return err
		}
		return also(tx, e)
	})
	if err != nil {
		return Posted{}, err
	}
	return e.posted, nil
}
