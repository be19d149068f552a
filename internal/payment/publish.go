package payment

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/webhook"
	"ajo/ledger"
)

// eventTypes maps an entry's statuses to the events that are published for them, besides its
// posting.
var eventTypes = map[ledger.Status]webhook.Type{ledger.Confirmed: webhook.PaymentConfirmed, ledger.Reversed: webhook.PaymentReversed}

// publishFindings publishes the events of the findings' moves. For tenants that are subscribed to
// none it does nothing.
func (s *Service) publishFindings(ctx context.Context, tx pg.Tx, findings []*finding, moved []ledger.Moved) error {
	now := map[uuid.UUID]ledger.Status{}
	i := 0
	for _, f := range findings {
		if f.event == "" {
			continue
		}
		if m := moved[i]; f.publish && m.Err == nil {
			now[f.ID] = m.Status
		}
		i++
	}
	return s.publish(ctx, tx, now)
}

// publish publishes the events of payments whose entries were moved, in the same transaction, by
// the status that each has now.
func (s *Service) publish(ctx context.Context, tx pg.Tx, moved map[uuid.UUID]ledger.Status) error {
	var ids []uuid.UUID
	for id, status := range moved {
		if eventTypes[status] != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	at := s.Clock.Now()
	events, err := pg.Collect(ctx, tx, func(r pgx.CollectableRow) (webhook.NewDelivery, error) {
		d := webhook.NewDelivery{CreatedAt: at}
		var p webhook.Payment
		var fee money.Amount
		err := r.Scan(&d.TransactionGroupID, &d.AccountID, &p.GrossAmount, &fee, &p.SenderName, &p.Narration, &d.Traceparent)
		p.ProviderFee, p.Amount = fee, p.GrossAmount.Sub(fee)
		d.Type, d.Payload = eventTypes[moved[d.TransactionGroupID]], p
		return d, err
	}, `SELECT id, account_id, amount, fee, sender_name, narration, traceparent FROM `+eventsNamed+` ORDER BY id`, ids)
	if err != nil {
		return err
	}
	_, err = webhook.Publish(ctx, tx, at, events)
	return err
}
