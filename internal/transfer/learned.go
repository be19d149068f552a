package transfer

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/work"
)

// learned is what the bank's answers during one claim show besides the outcome. It is stored with
// the result (recordSQL).
type learned struct {
	Acked bool `pg:"acked"` // the bank has the reference
	bankCharges
	Kept bool // the payout failed or came back, and the bank keeps its charges
	// how its record differs from the books, "" if they agree; nil: no record was seen
	Difference *string `pg:"difference"`
}

// learn keeps what the bank's own record of the transfer shows, and raises an alert if the books
// differ.
func (s *Service) learn(ctx context.Context, st *claimed, p provider.Payout) {
	name, text := st.compare(p)
	st.learned = learned{Acked: true, bankCharges: bankChargesOf(p), Kept: p.FeeKept, Difference: &text}
	// it agrees, or an operator has dealt with the difference
	if name == "" || text == st.Difference && !st.Differs {
		return
	}
	s.alert(ctx, st, name, "the bank's record of a transfer is not what the books say; a person must act", slog.String("difference", text))
}

// compare returns how the bank's record differs from the books, and the name of the alert; both are
// empty if it does not differ.
func (st *claimed) compare(p provider.Payout) (name, text string) {
	if name = st.contradiction(p); name != "" {
		text = p.Beside(string(st.Status), st.Paid)
	}
	return name, text
}

// contradiction returns the alert's name for the way in which the bank's record differs from the
// books; "" if they agree, or will agree once the outcome in the record is booked.
func (st *claimed) contradiction(p provider.Payout) string {
	whole := p.Amount.Equal(st.Paid)
	switch {
	case st.Status == Success && p.Status == provider.Refunded && (!whole || p.Amount.Equal(st.Amount.Sub(st.Paid))):
		// What came back may be the part that a person has already booked; the other part is not
		// given back because of it.
		return "partial_refund"
	case st.Status == Success && p.Status == provider.Failed:
		return "paid_then_failed"
	case st.Status == Success && p.Status == provider.Pending:
		return "paid_then_pending"
	case st.Status == Failed && (p.Status == provider.Success || p.Status == provider.Pending):
		return "failed_then_paid"
	case st.Status == Refunded && (p.Status == provider.Success || p.Status == provider.Pending):
		return "refunded_then_paid"
	case !whole:
		return "another_sum"
	}
	return ""
}

// differsNow reports whether, once this step is recorded, a difference waits for a person (see
// recordSQL).
func (st *claimed) differsNow() bool {
	if d := st.learned.Difference; d != nil && *d != st.Difference {
		return *d != ""
	}
	return st.Differs
}

// keepAcknowledgement stores that the bank has the reference, although the claim is lost: the
// worker that has the transfer now must neither submit it again nor return the money because the
// bank does not find it. If the transfer is pending again, another database has taken over that
// lacks its submission.
func (s *Service) keepAcknowledgement(ctx context.Context, st *claimed) error {
	if !st.learned.Acked || st.Acknowledged {
		return nil
	}
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		tag, err := tx.Exec(ctx, `UPDATE transfers SET acknowledged_at = $2 WHERE id = $1 AND acknowledged_at IS NULL AND status <> 'pending'`, st.ID, now)
		if err == nil && tag.RowsAffected() == 0 {
			_, err = takeUp(ctx, tx, now, st.Ref)
		}
		return err
	})
}

// AcknowledgeListed stores that the bank has the reference of a transfer under way, since its list,
// or its record, shows it: from here on, no "not found" submits it again or gives its money back.
func (s *Service) AcknowledgeListed(ctx context.Context, merchantTxRef string) error {
	_, err := s.Pool.Exec(ctx, `UPDATE transfers SET acknowledged_at = $2 WHERE merchant_tx_ref = $1 AND acknowledged_at IS NULL AND status = 'processing'`,
		merchantTxRef, s.Clock.Now())
	return err
}

// acknowledgedSQL locks transfers, and returns those that the bank has acknowledged. Without the
// OFFSET, the planner would apply the outer condition before the lock, so the other rows would not
// be locked.
const acknowledgedSQL = `SELECT id FROM (SELECT id, acknowledged_at FROM transfers t WHERE id = ANY($1) ORDER BY id OFFSET 0 FOR NO KEY UPDATE) t
	WHERE acknowledged_at IS NOT NULL`

// keepAcknowledged drops the ends that rest on the bank's silence if the bank has acknowledged the
// transfer since the claim ([Service.keepAcknowledgement]). The bank is asked about these again at
// once.
func keepAcknowledged(ctx context.Context, tx pg.Tx, now time.Time, ends []ending, held []bool) error {
	var silent []uuid.UUID
	for i, e := range ends {
		if held[i] && e.by == bySilence {
			silent = append(silent, e.ID)
		}
	}
	if len(silent) == 0 {
		return nil
	}
	known, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], acknowledgedSQL, silent)
	if err != nil {
		return err
	}
	var again []work.Item
	for i, e := range ends {
		if held[i] && slices.Contains(known, e.ID) {
			held[i], again = false, append(again, e.item(now))
		}
	}
	return work.Schedule(ctx, tx, again...)
}

// alertAfter is the age from which a transfer in progress is reported at each step.
const alertAfter = 10 * time.Minute

func (s *Service) alert(ctx context.Context, st *claimed, name, text string, more ...any) {
	s.Log.ErrorContext(ctx, text, append([]any{slog.String("alert", name), slog.String("transfer", st.Ref)}, more...)...)
}
