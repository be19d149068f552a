package api

import (
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/page"
	"ajo/internal/webhook"
)

// deliveryView is a delivery as its tenant sees it.
type deliveryView struct {
	ID                 uuid.UUID      `json:"id"`
	EventType          webhook.Type   `json:"eventType"`
	TransactionGroupID uuid.UUID      `json:"transactionGroupId"`
	AccountRef         string         `json:"accountRef"`
	CallbackURL        string         `json:"callbackUrl"`
	Status             webhook.Status `json:"status"`
	AttemptCount       int            `json:"attemptCount"`
	LastError          string         `json:"lastError"`
	NextAttemptAt      *time.Time     `json:"nextAttemptAt"`
	CreatedAt          time.Time      `json:"createdAt"`
	DeliveredAt        *time.Time     `json:"deliveredAt"`
}

func viewDelivery(d webhook.Delivery) deliveryView {
	return deliveryView{
		ID: d.ID, EventType: d.EventType, TransactionGroupID: d.TransactionGroupID, AccountRef: d.AccountRef, CallbackURL: d.CallbackURL,
		Status: d.Status, AttemptCount: d.AttemptCount, LastError: d.LastError, NextAttemptAt: d.NextAttemptAt, CreatedAt: d.CreatedAt,
		DeliveredAt: d.DeliveredAt,
	}
}

// attemptView is one delivery attempt.
type attemptView struct {
	Attempt      int       `json:"attempt"`
	StartedAt    time.Time `json:"startedAt"`
	DurationMs   int64     `json:"durationMs"`
	StatusCode   *int      `json:"statusCode"`
	Error        string    `json:"error"`
	ResponseBody string    `json:"responseBody"` // bytes that are no UTF-8 are replaced
}

// listDeliveries is GET /auth/deliveries: newest first, filtered by status, type and account; and
// before when they may be in the archive.
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
	d, err := e.Webhooks.ReplayOwn(c.UserContext(), caller(c).ID, id, e.by(c))
	if err != nil {
		return err
	}
	return c.JSON(viewDelivery(d))
}
