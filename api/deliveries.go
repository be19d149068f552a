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

// deliveryView is a delivery as its tenant sees it.
type deliveryView struct {
	ID                 uuid.UUID      `json:"id"`
	EventType          webhook.Type   `json:"eventType"`
	TransactionGroupID uuid.UUID      `json:"transactionGroupId"`
	AccountRef         string         `json:"accountRef"`
	AccountID          uuid.UUID      `json:"accountId"`
	CallbackURL        string         `json:"callbackUrl"`
	Status             webhook.Status `json:"status"`
	AttemptCount       int            `json:"attemptCount"`
	LastError          string         `json:"lastError"`
	NextAttemptAt      *time.Time     `json:"nextAttemptAt"`
	CreatedAt          time.Time      `json:"createdAt"`
	DeliveredAt        *time.Time     `json:"deliveredAt"`
	EndpointID         *uuid.UUID     `json:"endpointId"`
	Resent             bool           `json:"resent"`
}

func viewDelivery(d webhook.Delivery) deliveryView {
	return deliveryView{
		ID: d.ID, EventType: d.EventType, TransactionGroupID: d.TransactionGroupID, AccountRef: d.AccountRef, AccountID: d.AccountID, CallbackURL: d.CallbackURL,
		Status: d.Status, AttemptCount: d.AttemptCount, LastError: d.LastError, NextAttemptAt: d.NextAttemptAt, CreatedAt: d.CreatedAt,
		DeliveredAt: d.DeliveredAt, EndpointID: d.EndpointID, Resent: d.Resent,
	}
}

// attemptView is one delivery attempt.
type attemptView struct {
	Attempt      int       `json:"attempt"`
	StartedAt    time.Time `json:"startedAt"`
	DurationMs   int64     `json:"durationMs"`
	StatusCode   *int      `json:"statusCode"`
	Error        string    `json:"error"`
	ResponseBody string    `json:"responseBody"` // invalid UTF-8 is replaced
}

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
	views := make([]deliveryView, len(list))
	for i, d := range list {
		views[i] = viewDelivery(d)
	}
	archived, err := e.Webhooks.ArchivedBefore(c.UserContext())
	return answer(c, struct {
		Deliveries     []deliveryView `json:"deliveries"`
		ArchivedBefore *time.Time     `json:"archivedBefore"`
		Pagination     page.Info      `json:"pagination"`
	}{views, archived, info}, err)
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
	if err != nil {
		return err
	}
	attempts := make([]attemptView, len(d.Attempts))
	for i, a := range d.Attempts {
		attempts[i] = attemptView{a.Number, a.StartedAt, a.Duration.Milliseconds(), a.StatusCode, a.Error, string(a.Body)}
	}
	return c.JSON(struct {
		deliveryView
		Body     string        `json:"body"`
		Attempts []attemptView `json:"attempts"`
	}{viewDelivery(d.Delivery), d.Body, attempts})
}

// replayDelivery is POST /auth/deliveries/:id/replay.
func (e *edge) replayDelivery(c *fiber.Ctx) error {
	id, err := deliveryID(c)
	if err != nil {
		return err
	}
	d, err := e.Webhooks.ReplayOwn(c.UserContext(), caller(c).ID, id, e.acting(c))
	return answer(c, viewDelivery(d), err)
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
	archived, err := e.Webhooks.ArchivedBefore(c.UserContext())
	if err != nil {
		return err
	}
	n, more, err := e.Webhooks.ReplaySince(c.UserContext(), caller(c).ID, *since, e.acting(c))
	return answer(c, struct {
		Count          int        `json:"count"`
		HasMore        bool       `json:"hasMore"`
		ArchivedBefore *time.Time `json:"archivedBefore"`
	}{n, more, archived}, err)
}
