package transfer

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/ledger"
)

// A refund of a misdirected payment may fail, so that the payment is in suspense again and is
// assigned to an account, and the bank pay the refund after all. Then that account has what went
// back to the sender, and suspense has nothing to pay it from: the refund is the account's.

// ErrAssignedOpen is the refusal to resolve such a refund as paid while its account may lose the
// payment: then its debit would be false.
var ErrAssignedOpen = errs.New(errs.Unprocessable,
	"the payment that it refunds was assigned to an account since, and is not confirmed there yet: resolve the transfer once it is, or once its review is decided (ajo review list)")

const (
	// lockRefundedSQL locks the event of the payment that an entry of suspense is of, as an
	// assignment does: from then on it is assigned, or never will be.
	lockRefundedSQL = `
	SELECT e.id FROM ledger_entries l JOIN event_keys k ON k.transaction = ANY(ARRAY[event_key(nullif(l.provider_txn_ref, ''))])
	JOIN inbound_events e ON e.id = ANY(ARRAY[k.event_id]) WHERE l.id = $1 ORDER BY e.id FOR NO KEY UPDATE OF e`
	// countsAsSQL reads the credit by which that payment counts.
	countsAsSQL = `
	SELECT c.id, c.account_id, c.tenant_id, c.status FROM ledger_entries l JOIN event_keys k ON k.transaction = ANY(ARRAY[event_key(nullif(l.provider_txn_ref, ''))])
	JOIN ledger_entries c ON c.transaction_group_id = k.event_id AND c.direction = 'credit' AND c.kind = '' AND c.reversal_of IS NULL AND c.status <> 'reversed'
	WHERE l.id = $1`
)

// countsAs is the credit by which a payment counts.
type countsAs struct {
	Entry, AccountID, TenantID uuid.UUID
	Status                     ledger.Status
}

// passOn makes a refund out of suspense, which is locked and whose money has come back, the refund
// of the account that its payment was assigned to since, if it was. Nothing changes of any other
// transfer. [ErrAssignedOpen].
func (s *Service) passOn(ctx context.Context, tx pg.Tx, now time.Time, st *claimed) error {
	if st.TenantID != suspense.TenantID || st.refundOf == nil || st.Status != Failed && st.Status != Refunded {
		return nil
	}
	if _, err := tx.Exec(ctx, lockRefundedSQL, *st.refundOf); err != nil {
		return err
	}
	c, err := pg.One(ctx, tx, pgx.RowToStructByPos[countsAs], nil, countsAsSQL, *st.refundOf)
	if err != nil || c.Entry == uuid.Nil {
		return err
	}
	if err := ledger.LockAvailable(ctx, tx, now, c.AccountID); err != nil {
		return err
	}
	// under the lock of its account's balance it stays as it is now
	switch c, err = pg.One(ctx, tx, pgx.RowToStructByPos[countsAs], nil, countsAsSQL, *st.refundOf); {
	case err != nil:
		return err
	case c.Status != ledger.Confirmed:
		return ErrAssignedOpen
	}
	if _, err := tx.Exec(ctx, `UPDATE transfers SET tenant_id = $2, account_id = $3, refund_of = $4 WHERE id = $1`, st.ID, c.TenantID, c.AccountID, c.Entry); err != nil {
		return err
	}
	found, err := s.read(ctx, tx, now, st.ID)
	if err != nil {
		return err
	}
	found[0].itemMade, found[0].learned = st.itemMade, st.learned
	*st = *found[0]
	return nil
}
