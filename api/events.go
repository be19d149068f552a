package api

import (
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"ajo/internal/page"
	"ajo/internal/webhook"
)

// loggedEvent is an event in the answer of GET /v1/events.
type loggedEvent struct {
	ID                 uuid.UUID    `json:"id"`
	EventType          webhook.Type `json:"eventType"`
	AccountRef         string       `json:"accountRef"`
	TransactionGroupID uuid.UUID    `json:"transactionGroupId"`
	CreatedAt          time.Time    `json:"createdAt"`
	Body               string       `json:"body"`
}

// listEvents is GET /v1/events, an addition: the log of the tenant's events, oldest first. Unlike a
// list it has a cursor at its end too, since there will be more.
func (e *edge) listEvents(c *fiber.Ctx) error {
	r, err := pageRequest(c, page.Max)
	if err != nil {
		return err
	}
	l, err := e.Webhooks.Log(c.UserContext(), caller(c).ID, r)
	if err != nil {
		return err
	}
	views := make([]loggedEvent, len(l.Events))
	for i, v := range l.Events {
		views[i] = loggedEvent{v.ID, v.EventType, v.AccountRef, v.TransactionGroupID, v.CreatedAt, v.Body}
	}
	return c.JSON(struct {
		Events         []loggedEvent `json:"events"`
		Next           string        `json:"next"`
		HasMore        bool          `json:"hasMore"`
		ArchivedBefore *time.Time    `json:"archivedBefore"`
	}{views, l.Next, l.HasMore, l.ArchivedBefore})
}
