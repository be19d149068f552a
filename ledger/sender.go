package ledger

import (
	"context"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/pg"
)

// ErrSenderKnown refuses to record a sender for an entry that is not a confirmed payment, or whose
// sender is on record already.
var ErrSenderKnown = errs.New(errs.Unprocessable, "the payment is not confirmed, or its sender is already on record")

// RecordSender keeps what the bank's own record says of the payer of a payment (named by its group)
// that was confirmed without it. It is written once. [ErrSenderKnown].
func RecordSender(ctx context.Context, tx pg.Tx, payment uuid.UUID, s Sender) error {
	tag, err := tx.Exec(ctx, `
		UPDATE ledger_entries e SET record_account = $2, record_bank_code = $3, record_session = $4, record_name = nullif($5, e.sender_name), record_bank = nullif($6, e.sender_bank)
		WHERE e.transaction_group_id = $1 AND e.direction = 'credit' AND e.reversal_of IS NULL AND e.status = 'confirmed' AND e.record_account IS NULL`,
		payment, s.AccountNumber, s.BankCode, s.SessionID, s.Name, s.BankName)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrSenderKnown
	}
	return err
}
