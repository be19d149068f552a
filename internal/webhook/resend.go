package webhook

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/work"
)

// Refusals of a resend, beside [errType].
var (
	ErrEventNotFound    = errs.New(errs.NotFound, "event not found: none was created, or it is archived")
	ErrEndpointNotFound = errs.New(errs.NotFound, "webhook endpoint not found")
	errNoResendURL      = errs.New(errs.Conflict, "no webhook URL is set")
)

// Resent is the header of a delivery that somebody asked for again.
const Resent = "X-Ajo-Resent"

// Resend makes one more delivery of an event, whatever happened to the earlier ones: to an
// endpoint, or (nil) to the account's or the tenant's URL as it is now. It has the event's
// webhook-id and body and the header [Resent], and is retried like any other. It and the record of
// who asked are one commit. [errType], [ErrEventNotFound], [ErrEndpointNotFound], [errNoResendURL].
func (s *Service) Resend(ctx context.Context, tenant, group uuid.UUID, event Type, endpoint *uuid.UUID, by audit.By) (Delivery, error) {
	if !slices.Contains(Types, event) {
		return Delivery{}, errType
	}
	id := clock.NewID()
	err := pg.InTx(ctx, s.pool, func(tx pg.Tx) error {
		now := s.clock.Now()
		var first uuid.UUID
		var url string
		err := tx.QueryRow(ctx, `
			SELECT d.id, coalesce(nullif(a.callback_url, ''), t.webhook_url)
			FROM deliveries d JOIN accounts a ON a.id = d.account_id JOIN tenants t ON t.id = d.tenant_id
			WHERE d.transaction_group_id = $2 AND d.event_type = $3 AND d.copy_of IS NULL AND d.tenant_id = $1 ORDER BY d.id LIMIT 1`, tenant, group, string(event)).Scan(&first, &url)
		if err != nil {
			return pg.OrNone(err, ErrEventNotFound)
		}
		if endpoint != nil {
			err := tx.QueryRow(ctx, `SELECT url FROM webhook_endpoints WHERE id = $1 AND tenant_id = $2 AND removed_at IS NULL`, endpoint, tenant).Scan(&url)
			if err != nil {
				return pg.OrNone(err, ErrEndpointNotFound)
			}
		}
		if url == "" {
			return errNoResendURL
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at, endpoint_id, copy_of, resent)
			SELECT $2, tenant_id, account_id, transaction_group_id, event_type, $3, body, $4, $5, $6, id, true FROM deliveries WHERE id = $1`,
			first, id, url, string(Pending), now, endpoint); err != nil {
			return err
		}
		if err := work.Schedule(ctx, tx, work.Item{Kind: work.Deliver, ID: id, TenantID: tenant, DueAt: now}); err != nil {
			return err
		}
		detail := struct {
			TransactionGroupID uuid.UUID
			EventType          Type
			EndpointID         *uuid.UUID
		}{group, event, endpoint}
		return audit.Write(ctx, tx, now, by.Entry("deliveries.resend", "delivery:"+id.String(), detail).Of(tenant))
	})
	if err != nil {
		return Delivery{}, err
	}
	d, err := s.find(ctx, tenant, id)
	return d.Delivery, err
}
