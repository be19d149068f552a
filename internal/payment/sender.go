package payment

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/ledger"
)

// ErrNoSender refuses a record of the bank that does not name the payer's account.
var ErrNoSender = errs.New(errs.Unprocessable, "the bank's record does not say from which account the payment came: it cannot be refunded; the tenant can settle it to any account instead")

// Sender asks the bank for its record of a payment, and returns the payer that it names. For
// operators. [ErrEventNotFound], [ErrNoTxnRef], [ErrNotAtBank], [ErrNoSender], [provider.ErrNotSet]
// without a bank, and a refusal that says what the bank's record has.
func (s *Service) Sender(ctx context.Context, eventID uuid.UUID) (ledger.Sender, error) {
	return s.senderBy(ctx, eventID, func(t provider.Transaction) (bool, error) { return s.countsRest(ctx, t) })
}

// countsRest reports whether the books count of a payment what the bank's record of it leaves,
// which says that a part of it went back ([Entry.IsRest]).
func (s *Service) countsRest(ctx context.Context, t provider.Transaction) (bool, error) {
	entries, err := s.entriesOf(ctx, []string{t.ID})
	e := entries[t.ID]
	return err == nil && e != nil && (e.Status == ledger.Provisional || e.Status == ledger.Confirmed) && e.IsRest(t), err
}

// senderBy is [Service.Sender], and takes a record that says refunded if it is of a part, and the
// rest counts.
func (s *Service) senderBy(ctx context.Context, eventID uuid.UUID, isRest func(provider.Transaction) (bool, error)) (ledger.Sender, error) {
	e, err := s.InboundEvent(ctx, eventID)
	if err != nil {
		return ledger.Sender{}, err
	}
	t, err := s.successRecord(ctx, e.ProviderTxnRef)
	if err != nil && t.Status == provider.Refunded {
		rest, failed := isRest(t)
		if rest || failed != nil {
			err = failed
		}
	}
	if err != nil {
		return ledger.Sender{}, err
	}
	sender := senderOf(t)
	if sender.AccountNumber == "" {
		return ledger.Sender{}, ErrNoSender
	}
	return *sender, nil
}

// senderIfAny returns the payer of a payment that a person confirms or corrects, by the bank's
// record, or nil and the reason, which does not stop the person. What is corrected may be what the
// bank's record leaves of the payment.
func (s *Service) senderIfAny(ctx context.Context, eventID uuid.UUID, corrected bool) (sender *ledger.Sender, why string) {
	found, err := s.senderBy(ctx, eventID, func(provider.Transaction) (bool, error) { return corrected, nil })
	if err != nil {
		return nil, err.Error()
	}
	return &found, ""
}

// RecordSender stores the payer that the bank's record names ([Service.Sender]) for a payment that
// a person confirmed while the record could not be read, so that it can be refunded. For operators.
// ledger.ErrSenderKnown.
func (s *Service) RecordSender(ctx context.Context, eventID uuid.UUID, sender ledger.Sender, by audit.By) error {
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if err := ledger.RecordSender(ctx, tx, eventID, sender); err != nil {
			return err
		}
		return audit.Write(ctx, tx, s.Clock.Now(), by.Entry("review.sender", "event:"+eventID.String(), sender))
	})
}

// senderOf returns the payer by the bank's record. A field that is not storable text, or longer
// than any name, is left empty.
func senderOf(t provider.Transaction) *ledger.Sender {
	short := func(s string) string {
		if s = strings.TrimSpace(Clean(s)); utf8.RuneCountInString(s) > maxSender {
			return ""
		}
		return s
	}
	return &ledger.Sender{
		Name: short(t.SenderName), AccountNumber: short(t.SenderAccount), BankCode: short(t.SenderBankCode), BankName: short(t.SenderBank), SessionID: short(t.SessionID),
	}
}

const maxSender = 200 // characters; as a bank's names are in the API
