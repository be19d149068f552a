package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"ajo/internal/signature"
)

// Tolerance is how far a webhook's timestamp may be from this machine's time, either way.
const Tolerance = 300 * time.Second

// Why [VerifyWebhook] refuses a webhook.
var (
	ErrNoSecret  = signature.ErrNoSecret // the caller gave none
	ErrUnsigned  = signature.ErrMissing
	ErrTime      = signature.ErrTime
	ErrSignature = signature.ErrMismatch
)

// VerifyWebhook checks that a webhook is Ajo's and fresh, and reads it. The body must be the raw
// bytes of the request, as they came; secret is what [Client.WebhookSecret] gives; a tolerance of 0
// is [Tolerance]. Answer 400 on an error. A good event may come again: tell repetitions by
// [Event.Key].
func VerifyWebhook(header http.Header, body []byte, secret string, tolerance time.Duration) (Event, error) {
	var e Event
	if err := verify(header, body, secret, tolerance); err != nil {
		return e, err
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return e, fmt.Errorf("the webhook's body: %w", err)
	}
	return e, nil
}

// verify checks that a body is Ajo's and fresh.
func verify(header http.Header, body []byte, secret string, tolerance time.Duration) error {
	if tolerance <= 0 {
		tolerance = Tolerance
	}
	return signature.Verify(header.Get(signature.Header), body, secret, time.Now(), tolerance)
}

// SetWebhookURL says where webhooks go, but for accounts with a callback URL of their own.
func (c *Client) SetWebhookURL(ctx context.Context, url string) error {
	return c.Do(ctx, "POST", "/auth/webhook-url", map[string]string{"url": url}, nil)
}

// WebhookSecret reads the secret that webhooks are signed with; the first call makes it.
func (c *Client) WebhookSecret(ctx context.Context) (string, error) {
	out, err := call[struct {
		WebhookSecret string `json:"webhookSecret"`
	}](ctx, c, "POST", "/auth/webhook-secret", nil)
	return out.WebhookSecret, err
}

// LoggedEvent is an event of the log.
type LoggedEvent struct {
	ID                 string    `json:"id"` // webhook-id of its webhook
	EventType          string    `json:"eventType"`
	AccountRef         string    `json:"accountRef"`
	TransactionGroupID string    `json:"transactionGroupId"`
	CreatedAt          time.Time `json:"createdAt"`
	Body               string    `json:"body"` // the JSON that its webhook has; see [Event]
}

// EventPage is a part of the log of events, oldest first.
type EventPage struct {
	Events []LoggedEvent `json:"events"`
	// where to go on, at the end too: the Page's After of the next call
	Next    string `json:"next"`
	HasMore bool   `json:"hasMore"` // false: nothing more is there yet
	// events of before may be in the archive; nil: all are here
	ArchivedBefore *time.Time `json:"archivedBefore"`
}

// ListEvents reads the events after p.After, in an order that never changes; at most 100, and as
// many without a limit.
func (c *Client) ListEvents(ctx context.Context, p Page) (EventPage, error) {
	return get[EventPage](ctx, c, p.query("/v1/events"))
}

// DeadLetter is a webhook that was given up after its last attempt.
type DeadLetter struct {
	ID           string
	CallbackURL  string
	Status       string // dead_letter
	AttemptCount int
	LastError    string
	NextRetryAt  *time.Time // always nil
	CreatedAt    time.Time  // when the event was received
}

// DeadLetterPage is a page of dead letters, newest first.
type DeadLetterPage struct {
	DeadLetters []DeadLetter `json:"deadLetters"`
	// older ones may be in the archive; nil: all are here
	ArchivedBefore *time.Time `json:"archivedBefore"`
	Pagination     Pagination `json:"pagination"`
}

// ListDeadLetters reads a page of the dead letters.
func (c *Client) ListDeadLetters(ctx context.Context, p Page) (DeadLetterPage, error) {
	return get[DeadLetterPage](ctx, c, p.query("/v1/webhooks/dead-letters"))
}

// DeadLetters goes through the dead letters, newest first, beginning with the page p.
func (c *Client) DeadLetters(ctx context.Context, p Page) iter.Seq2[DeadLetter, error] {
	return each(p, func(p Page) ([]DeadLetter, Pagination, error) {
		list, err := c.ListDeadLetters(ctx, p)
		return list.DeadLetters, list.Pagination, err
	})
}
