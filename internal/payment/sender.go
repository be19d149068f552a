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
	e, err := s.InboundEvent(ctx, eventID)
	if err != nil {
		return ledger.Sender{}, err
	}
	t, err := s.successRecord(ctx, e.ProviderTxnRef)
	if err != nil {
		return ledger.Sender{}, err
	}
	sender := senderOf(t)
	if sender.AccountNumber == "" {
		return ledger.Sender{}, ErrNoSender
	}
	return *sender, nil
}

// senderIfAny returns the payer of a payment that a person confirms, by the bank's record, or nil
// and the reason, which does not stop the person.
func (s *Service) senderIfAny(ctx context.Context, eventID uuid.UUID) (sender *ledger.Sender, why string) {
	found, err := s.Sender(ctx, eventID)
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
