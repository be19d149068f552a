package statement

import (
	"io"
	"time"

	"ajo/internal/clock"
	"ajo/ledger"
)

// paymentColumns are the first line of a file of payments.
var paymentColumns = []string{
	"time", "status", "grossAmount", "fee", "amount", "currency", "senderName", "senderBank", "senderAccount", "senderBankCode", "sessionId", "narration",
	"providerTxnRef", "accountRef", "accountNumber", "customerRef", "customerName", "confirmedAt", "id", "transactionGroupId",
}

// PaymentsCSV writes the payments that each reads, in the form of [CSV]. It returns the first error
// of each or w.
func PaymentsCSV(w io.Writer, each func(func(ledger.Payment) error) error) error {
	out, err := beginCSV(w, paymentColumns)
	if err != nil {
		return err
	}
	err = each(func(p ledger.Payment) error {
		number, confirmed := "", ""
		if p.AccountNumber != nil {
			number = *p.AccountNumber
		}
		if p.ConfirmedAt != nil {
			confirmed = inLagos(*p.ConfirmedAt)
		}
		return out.Write([]string{
			inLagos(p.CreatedAt), string(p.Status), p.GrossAmount.String(), p.Fee.String(), p.Amount.String(), p.Currency,
			harmless(p.SenderName), harmless(p.SenderBank), harmless(p.SenderAccount), harmless(p.SenderBankCode), harmless(p.SessionID), harmless(p.Narration),
			harmless(p.ProviderTxnRef), harmless(p.AccountRef), number, harmless(p.CustomerRef), harmless(p.CustomerName), confirmed,
			p.ID.String(), p.TransactionGroupID.String(),
		})
	})
	if err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

func inLagos(t time.Time) string { return t.In(clock.Lagos).Format(time.RFC3339) }
