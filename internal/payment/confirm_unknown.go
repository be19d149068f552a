package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/provider"
)

// KnownAtBank returns the transaction id of a payment that the bank has certainly recorded, because
// it has confirmed it, and no person: the newest, other than the given one; empty if there is none,
// or none at the account at the bank that the books are of. It reads a bounded number of rows.
func KnownAtBank(ctx context.Context, q pg.Querier, but uuid.UUID) (ref string, err error) {
	err = q.QueryRow(ctx, `
		SELECT e.provider_txn_ref
		FROM (
			(SELECT id, provider_txn_ref, occurred_at, replaces FROM inbound_events ORDER BY id DESC LIMIT 5000)
			UNION
			(SELECT id, provider_txn_ref, occurred_at, replaces FROM inbound_events ORDER BY id LIMIT 1000)) e
		JOIN ledger_entries l ON l.transaction_group_id = e.id AND l.direction = 'credit' AND l.status = 'confirmed' AND l.review_from_seq IS NULL
		WHERE e.replaces IS NULL AND e.provider_txn_ref <> '' AND e.id <> $1 AND (e.occurred_at < `+account.WalletSince+`) IS NOT TRUE
		ORDER BY e.id DESC LIMIT 1`, but).Scan(&ref)
	return ref, pg.OrNone(err, nil)
}

// AtOtherAccount reports whether a payment was made when the books were of another account at the
// bank (ajo wallet move).
func AtOtherAccount(ctx context.Context, q pg.Querier, txnRef string) (other bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+eventsOf+` WHERE e.occurred_at < `+account.WalletSince+`)`, []string{txnRef}).Scan(&other)
	return other, err
}

// The bank's list around the time of a payment that it does not know by its id: the seconds around
// it, where it mostly is, and as far as the times of event and list may lie apart.
var (
	listSeconds = listPart{time.Second, 40}
	listMinute  = listPart{AlikeWithin, 20}
)

// listPart is a part of the bank's list, of which at most so many pages are read.
type listPart struct {
	around time.Duration
	pages  int
}

// errProvenUnknown is a "not found" of the bank that may be acted upon.
var errProvenUnknown = fmt.Errorf("%w, and other records are found", provider.ErrUnknown)

var errLongList = errs.New(errs.Unprocessable, "the bank does not know it, and its list is too long to be read")

// errLongMinute is an errProvenUnknown: on a busy service, only the seconds around a payment can be
// read for it alone.
var errLongMinute = fmt.Errorf("%w, but its list of the minute is too long to be read", errProvenUnknown)

// proveUnknown verifies a "not found" that would reverse a payment: the bank must find a record
// that it has confirmed before, and its list must not show the payment either. If the list has a
// record, that is the answer; an error means that there is none. A bank that has confirmed nothing
// yet cannot be verified.
func (s *Service) proveUnknown(ctx context.Context, c *check) (provider.Transaction, error) {
	known, err := KnownAtBank(ctx, s.Pool, c.ID)
	if err == nil && known != "" {
		_, err = s.BankRecord(ctx, known)
	}
	if err != nil {
		s.Log.ErrorContext(ctx, "the bank does not find a payment that it has confirmed: what it does not find is not believed",
			slog.String("alert", "not_found_doubted"), slog.String("event", c.ID.String()), slog.String("known", known), slog.Any("err", err))
		return provider.Transaction{}, errors.New("the bank does not know it, but finds no other payment either: " + err.Error())
	}
	return s.findListed(ctx, &c.booked)
}

// findListed looks for the payment in the bank's list of its time. errProvenUnknown (errLongMinute)
// if it is not there.
func (s *Service) findListed(ctx context.Context, b *booked) (provider.Transaction, error) {
	t, err := s.findAround(ctx, b, listSeconds)
	if errors.Is(err, errProvenUnknown) {
		if t, err = s.findAround(ctx, b, listMinute); errors.Is(err, errLongList) {
			err = errLongMinute
		}
	}
	return t, err
}

// findAround looks for the payment in a part of the bank's list.
func (s *Service) findAround(ctx context.Context, b *booked, part listPart) (provider.Transaction, error) {
	if b.OccurredAt == nil {
		return provider.Transaction{}, errProvenUnknown
	}
	at := b.OccurredAt.Truncate(time.Second)
	cursor := ""
	for range part.pages {
		page, err := s.Bank.Transactions(ctx, at.Add(-part.around), at.Add(part.around+time.Second), cursor)
		if err != nil {
			return provider.Transaction{}, fmt.Errorf("the bank does not know it, and its list could not be read: %w", err)
		}
		for _, t := range page.Transactions {
			if t.ID == b.TxnRef {
				return t, nil
			}
		}
		for _, u := range page.Unreadable {
			if u.ID == b.TxnRef {
				return provider.Transaction{}, errors.New("the bank does not know it by its id, and its record in the list cannot be read: " + u.Why)
			}
		}
		if cursor = page.Next; cursor == "" {
			return provider.Transaction{}, errProvenUnknown
		}
	}
	return provider.Transaction{}, errLongList
}

// reversedRecord is [Service.successRecord] of a payment whose credit is reversed: what the bank
// lists is there, though it is not found by its id, and the new credit is confirmed by the list.
func (s *Service) reversedRecord(ctx context.Context, b *booked) (provider.Transaction, error) {
	t, err := s.successRecord(ctx, b.TxnRef)
	if !errors.Is(err, ErrNotAtBank) {
		return t, err
	}
	t, err = s.findListed(ctx, b)
	switch {
	case errors.Is(err, errLongMinute):
		return t, errLongList
	case errors.Is(err, provider.ErrUnknown):
		return t, ErrNotAtBank
	case err != nil:
		return t, err
	}
	return t, saysSuccess(t)
}
