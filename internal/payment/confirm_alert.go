package payment

import (
	"context"
	"log/slog"

	"ajo/internal/trace"
	"ajo/ledger"
)

// alert logs what operators must know: payments that proved false, and those that a person must
// check.
func (s *Service) alert(ctx context.Context, findings []*finding, moved []ledger.Moved) {
	i := 0
	for _, f := range findings {
		if f.watched {
			s.Log.WarnContext(ctx, "recall watched: the bank's record shows the payment as kept; its amount is available again, and the bank is still asked",
				slog.String("alert", "recall_watched"), slog.String("event", f.ID.String()))
		}
		if f.again {
			s.Log.WarnContext(ctx, "recall reopened: the bank's record no longer shows the payment as kept; its amount is held until the record is clear",
				slog.String("alert", "recall_held_again"), slog.String("event", f.ID.String()), slog.String("why", f.Why))
		}
		if f.event == "" {
			continue
		}
		m := moved[i]
		i++
		ctx := trace.Within(ctx, f.Traceparent)
		log := s.Log.With(slog.String("event", f.ID.String()), slog.String("account", f.AccountID.String()), slog.String("why", f.Why))
		switch {
		case m.Err != nil:
			log.WarnContext(ctx, "the entry was moved by somebody else", slog.Any("err", m.Err))
		case m.Status == ledger.NeedsReview:
			log.ErrorContext(ctx, "a payment needs review", slog.String("alert", "needs_review"))
		case f.event == ledger.EventRecall:
			log.ErrorContext(ctx, "the bank has taken back a confirmed payment", slog.String("alert", "recalled"))
		case m.Status == ledger.Reversed:
			log.WarnContext(ctx, "a payment was reversed", slog.String("alert", "reversed"))
		}
		if m.Balance.Sign() < 0 {
			log.ErrorContext(ctx, "a balance is below zero", slog.String("alert", "negative_balance"), slog.String("balance", m.Balance.String()))
		}
	}
}
