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

// toldAs are the statuses of an entry that a tenant can be told of, beside its posting.
var toldAs = map[ledger.Status]webhook.Type{ledger.Confirmed: webhook.PaymentConfirmed, ledger.Reversed: webhook.PaymentReversed}

// tellFindings queues what the findings' moves are to be told as. For tenants that have chosen
// nothing it does nothing.
func (s *Service) tellFindings(ctx context.Context, tx pg.Tx, findings []*finding, moved []ledger.Moved) error {
	now := map[uuid.UUID]ledger.Status{}
	i := 0
	for _, f := range findings {
		if f.event == "" {
			continue
		}
		if m := moved[i]; f.tells && m.Err == nil {
			now[f.ID] = m.Status
		}
		i++
	}
	return s.tell(ctx, tx, now)
}

// tell queues the events of payments whose entries were moved, in the same transaction, by the
// status that each has now.
func (s *Service) tell(ctx context.Context, tx pg.Tx, moved map[uuid.UUID]ledger.Status) error {
	var ids []uuid.UUID
	for id, status := range moved {
		if toldAs[status] != "" {
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
		d.Type, d.Payload = toldAs[moved[d.TransactionGroupID]], p
		return d, err
	}, `SELECT id, account_id, amount, fee, sender_name, narration, traceparent FROM inbound_events WHERE id = ANY($1) ORDER BY id`, ids)
	if err != nil {
		return err
	}
	_, err = webhook.Tell(ctx, tx, at, events)
	return err
}
