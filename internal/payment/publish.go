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

// publishedSQL reads what a payment's event says, but for the payer, who is the statement's: once
// the payment is confirmed, the one of the bank's own record, and nobody where a person has
// confirmed it without that record. It also reads what the account's policy holds the payment for:
// a held one is confirmed all the same, but nobody should deliver on it. Nor on one that is posted
// again and not held, since all of it went back before.
const publishedSQL = `
	SELECT e.id, e.account_id, e.amount, e.fee, coalesce((
		SELECT CASE WHEN l.status = 'confirmed' AND l.record_account IS NULL THEN '' ELSE coalesce(l.record_name, l.sender_name) END FROM ledger_entries l
		WHERE l.transaction_group_id = e.id AND l.direction = 'credit' AND l.reversal_of IS NULL), e.sender_name), e.narration, e.traceparent, CASE WHEN e.policy IS NULL THEN '' ELSE coalesce((
		SELECT CASE h.source WHEN 'policy' THEN 'hold' ELSE 'refund' END FROM ledger_entries l JOIN holds h ON h.entry_id = ANY(ARRAY[l.id])
		WHERE l.transaction_group_id = e.id AND l.direction = 'credit' AND l.reversal_of IS NULL AND h.status = 'open' AND h.source IN ('policy', 'refund')), (
		SELECT 'refund' FROM ledger_entries l WHERE l.transaction_group_id = e.id AND l.direction = 'credit' AND l.status = 'confirmed' AND e.replaces IS NOT NULL
			AND NOT EXISTS (SELECT FROM holds h WHERE h.entry_id = ANY(ARRAY[l.id]))), '') END, e.replaces, e.tenant_id
	FROM ` + eventsNamed + ` ORDER BY e.id`

// publishFindings publishes the events of the findings' moves, and those that waited for the end of
// a recall. For tenants that are subscribed to none it does nothing.
func (s *Service) publishFindings(ctx context.Context, tx pg.Tx, findings []*finding, moved []ledger.Moved) error {
	now := map[uuid.UUID]ledger.Status{}
	i := 0
	for _, f := range findings {
		if f.publish && f.counts {
			now[f.ID] = ledger.Confirmed
		}
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
		err := r.Scan(&d.TransactionGroupID, &d.AccountID, &p.GrossAmount, &fee, &p.SenderName, &p.Narration, &d.Traceparent, &p.Policy, &p.Replaces, &d.TenantID)
		p.ProviderFee, p.Amount = fee, p.GrossAmount.Sub(fee)
		d.Type, d.Payload = eventTypes[moved[d.TransactionGroupID]], p
		return d, err
	}, publishedSQL, ids)
	if err != nil {
		return err
	}
	for i := range events {
		p := events[i].Payload.(webhook.Payment)
		if p.Replaces == nil {
			continue
		}
		if p.Replaces, err = ownBefore(ctx, tx, *p.Replaces, events[i].TenantID); err != nil {
			return err
		}
		events[i].Payload = p
	}
	_, err = webhook.Publish(ctx, tx, at, events)
	return err
}
