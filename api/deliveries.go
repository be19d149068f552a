package api

import (
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/webhook"
)

var errEndpointFilter = errs.New(errs.Invalid, "endpointId must be an endpoint's id, or default")

// endpointFilter reads the filter by endpoint; "default" is the accounts' and the tenant's URL.
func endpointFilter(c *fiber.Ctx, f *webhook.Filter) error {
	switch id := c.Query("endpointId"); id {
	case "":
	case "default":
		f.Endpoint = new(uuid.Nil)
	default:
		parsed, err := uuid.Parse(id)
		if err != nil || parsed == uuid.Nil {
			return errEndpointFilter
		}
		f.Endpoint = &parsed
	}
	return nil
}

// listDeliveries is GET /auth/deliveries: newest first, filtered by status, type, account and
// endpoint; and before when they may be in the archive.
func (e *edge) listDeliveries(c *fiber.Ctx) error {
	f := webhook.Filter{TenantID: caller(c).ID, Status: webhook.Status(c.Query("status")), EventType: webhook.Type(c.Query("eventType"))}
	if ref := c.Query("accountRef"); ref != "" {
		if !storable(ref) {
			return account.ErrNotFound
		}
		a, err := e.Accounts.Get(c.UserContext(), f.TenantID, ref)
		if err != nil {
			return err
		}
		f.AccountID = a.ID
	}
	if err := endpointFilter(c, &f); err != nil {
		return err
	}
	r, err := pageRequest(c, page.DefaultList)
	if err != nil {
		return err
	}
	list, info, err := e.Webhooks.List(c.UserContext(), f, r)
	if err != nil {
		return err
	}
	own := make([]webhook.Delivery, len(list))
	for i, d := range list {
		own[i] = d.Delivery
	}
	archived, err := e.Webhooks.ArchivedBefore(c.UserContext())
	return answer(c, struct {
		Deliveries     []webhook.Delivery `json:"deliveries"`
		ArchivedBefore *time.Time         `json:"archivedBefore"`
		Pagination     page.Info          `json:"pagination"`
	}{own, archived, info}, err)
}

// deliveryID is the delivery that the path names; uuid.Nil when it is not an id.
func deliveryID(c *fiber.Ctx) (uuid.UUID, error) {
	id, err := uuid.Parse(pathParam(c, "id"))
	if err != nil {
		return id, webhook.ErrNotFound
	}
	return id, nil
}

// getDelivery is GET /auth/deliveries/:id: with the body and the attempts, the last one first.
func (e *edge) getDelivery(c *fiber.Ctx) error {
	id, err := deliveryID(c)
	if err != nil {
		return err
	}
	d, err := e.Webhooks.Show(c.UserContext(), caller(c).ID, id)
	return answer(c, d, err)
}

// replayDelivery is POST /auth/deliveries/:id/replay.
func (e *edge) replayDelivery(c *fiber.Ctx) error {
	id, err := deliveryID(c)
	if err != nil {
		return err
	}
	d, err := e.Webhooks.ReplayOwn(c.UserContext(), caller(c).ID, id, e.acting(c))
	return answer(c, d, err)
}

// replaySince is POST /auth/deliveries/replay, an addition: the dead letters of a time and later.
func (e *edge) replaySince(c *fiber.Ctx) error {
	in := readBody(c)
	since := in.time("since")
	if since == nil {
		in.refuse("since", "is required")
	}
	if err := in.err(); err != nil {
		return err
	}
	n, more, err := e.Webhooks.ReplaySince(c.UserContext(), caller(c).ID, *since, e.acting(c))
	if err != nil {
		return err
	}
	archived, err := e.Webhooks.ArchivedBefore(c.UserContext()) // last: what is archived meanwhile is not sent
	return answer(c, struct {
		Count          int        `json:"count"`
		HasMore        bool       `json:"hasMore"`
		ArchivedBefore *time.Time `json:"archivedBefore"`
	}{n, more, archived}, err)
}
