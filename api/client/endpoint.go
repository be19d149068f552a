package client

import (
	"context"
	"time"
)

// WebhookEndpoint is a URL that gets events beside the webhook URL.
type WebhookEndpoint struct {
	ID                  string     `json:"id"`
	URL                 string     `json:"url"`
	Events              []string   `json:"events"`
	AccountRefs         []string   `json:"accountRefs"`         // nil: all accounts
	Retries             string     `json:"retries"`             // standard or day
	PausedAt            *time.Time `json:"pausedAt"`            // nil: its deliveries are sent
	PreviousSecretUntil *time.Time `json:"previousSecretUntil"` // nil: only one secret signs
	CreatedAt           time.Time  `json:"createdAt"`
	UpdatedAt           time.Time  `json:"updatedAt"`
}

// ShownEndpoint is an endpoint with a secret that is shown once.
type ShownEndpoint struct {
	WebhookSecret string          `json:"webhookSecret"`
	Endpoint      WebhookEndpoint `json:"endpoint"`
}

// EndpointChange is what to set of an endpoint; what is left out stays.
type EndpointChange struct {
	URL    string   `json:"url,omitempty"`
	Events []string `json:"events,omitempty"` // of a new endpoint empty: all
	// nil: as they are, of a new endpoint all accounts; a nil list: all accounts
	AccountRefs *[]string `json:"accountRefs,omitempty"`
	Paused      *bool     `json:"paused,omitempty"`
	Retries     string    `json:"retries,omitempty"` // day: for 24 hours
}

// WebhookEndpoints lists the endpoints beside the webhook URL, the oldest first.
func (c *Client) WebhookEndpoints(ctx context.Context) ([]WebhookEndpoint, error) {
	out, err := get[struct {
		Endpoints []WebhookEndpoint `json:"endpoints"`
	}](ctx, c, "/auth/webhook-endpoints")
	return out.Endpoints, err
}

// AddWebhookEndpoint makes an endpoint. Keep its secret: it is shown only here. 409 when events are
// sent to its URL already, or there are twenty.
func (c *Client) AddWebhookEndpoint(ctx context.Context, n EndpointChange) (ShownEndpoint, error) {
	return call[ShownEndpoint](ctx, c, "POST", "/auth/webhook-endpoints", n)
}

// ChangeWebhookEndpoint changes, pauses or resumes an endpoint.
func (c *Client) ChangeWebhookEndpoint(ctx context.Context, id string, ch EndpointChange) (WebhookEndpoint, error) {
	return call[WebhookEndpoint](ctx, c, "PATCH", path("/auth/webhook-endpoints/", id), ch)
}

// RemoveWebhookEndpoint ends an endpoint.
func (c *Client) RemoveWebhookEndpoint(ctx context.Context, id string) error {
	return c.Do(ctx, "DELETE", path("/auth/webhook-endpoints/", id), nil, nil)
}

// RotateEndpointSecret gives an endpoint a new secret; the one before signs for another day. 409
// while such a one signs, as after an answer that was lost: see [Client.ReplaceEndpointSecret].
func (c *Client) RotateEndpointSecret(ctx context.Context, id string) (ShownEndpoint, error) {
	return call[ShownEndpoint](ctx, c, "POST", path("/auth/webhook-endpoints/", id, "/rotate-secret"), nil)
}

// ReplaceEndpointSecret is [Client.RotateEndpointSecret] where the newest secret is not in use,
// such as one whose answer was lost: it stops at once, and the one before signs until its time.
func (c *Client) ReplaceEndpointSecret(ctx context.Context, id string) (ShownEndpoint, error) {
	return call[ShownEndpoint](ctx, c, "POST", path("/auth/webhook-endpoints/", id, "/rotate-secret")+"?replace=true", nil)
}

// Delivery is an event on its way to one endpoint.
type Delivery struct {
	ID                 string     `json:"id"`
	EventType          string     `json:"eventType"`
	TransactionGroupID string     `json:"transactionGroupId"`
	AccountRef         string     `json:"accountRef"`
	AccountID          string     `json:"accountId"`
	CallbackURL        string     `json:"callbackUrl"`
	Status             string     `json:"status"` // pending, delivered, dead_letter
	AttemptCount       int        `json:"attemptCount"`
	LastError          string     `json:"lastError"`
	NextAttemptAt      *time.Time `json:"nextAttemptAt"`
	CreatedAt          time.Time  `json:"createdAt"`
	DeliveredAt        *time.Time `json:"deliveredAt"`
	EndpointID         *string    `json:"endpointId"` // nil: the account's or the tenant's URL
	Resent             bool       `json:"resent"`
}

// ResendEvent sends an event once more, to an endpoint or, without one, to the account's or your
// URL. 404 when there is no such event.
func (c *Client) ResendEvent(ctx context.Context, group, eventType, endpointID string) (Delivery, error) {
	order := map[string]string{"transactionGroupId": group, "eventType": eventType}
	if endpointID != "" {
		order["endpointId"] = endpointID
	}
	return call[Delivery](ctx, c, "POST", "/auth/events/resend", order)
}
