package api

import (
	"cmp"
	"net/http"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/tenant"
	"ajo/internal/webhook"
	"ajo/ratelimit"
)

var errReplace = errs.New(errs.Invalid, "replace must be true or false")

// webhookEndpoints is GET /auth/webhook-endpoints, an addition: at most twenty.
func (e *edge) webhookEndpoints(c *fiber.Ctx) error {
	list, err := e.Tenants.Endpoints(c.UserContext(), caller(c).ID)
	return answer(c, struct {
		Endpoints []tenant.Endpoint `json:"endpoints"`
	}{notNull(list)}, err)
}

// shownEndpoint is the answer with a new secret, which is shown only once.
type shownEndpoint struct {
	WebhookSecret string          `json:"webhookSecret"`
	Endpoint      tenant.Endpoint `json:"endpoint"`
}

// readEndpoint reads the fields of an endpoint that are to be set. accountRefs may be null: all
// accounts.
func readEndpoint(in *body) tenant.EndpointChange {
	ch := tenant.EndpointChange{URL: in.optional("url")}
	if events := in.texts("events"); events != nil {
		ch.Events = make([]webhook.Type, len(events))
		for i, t := range events {
			ch.Events[i] = webhook.Type(t)
		}
	}
	if in.has("accountRefs") {
		ch.AccountRefs = new(in.texts("accountRefs"))
	}
	if _, given := in.value("paused"); given {
		ch.Paused = new(in.flag("paused"))
	}
	ch.Retries = in.optional("retries")
	return ch
}

// addWebhookEndpoint is POST /auth/webhook-endpoints, an addition.
func (e *edge) addWebhookEndpoint(c *fiber.Ctx) error {
	in := readBody(c)
	ch := readEndpoint(in)
	if err := in.err(); err != nil {
		return err
	}
	added, secret, err := e.Tenants.AddEndpoint(c.UserContext(), caller(c).ID, ch, e.acting(c))
	if err != nil {
		return err
	}
	e.warnOfCallback(c, "url", ch.URL)
	return c.Status(http.StatusCreated).JSON(shownEndpoint{secret.Reveal(), added})
}

// changeWebhookEndpoint is PATCH /auth/webhook-endpoints/:id, an addition.
func (e *edge) changeWebhookEndpoint(c *fiber.Ctx) error {
	in := readBody(c)
	ch := readEndpoint(in)
	if err := in.err(); err != nil {
		return err
	}
	changed, err := e.Tenants.ChangeEndpoint(c.UserContext(), caller(c).ID, pathID(c), ch, e.acting(c))
	if err != nil {
		return err
	}
	e.warnOfCallback(c, "url", ch.URL)
	return c.JSON(changed)
}

// removeWebhookEndpoint is DELETE /auth/webhook-endpoints/:id, an addition. It reads no body.
func (e *edge) removeWebhookEndpoint(c *fiber.Ctx) error {
	err := e.Tenants.RemoveEndpoint(c.UserContext(), caller(c).ID, pathID(c), e.acting(c))
	return answer(c, struct{}{}, err)
}

// rotateEndpointSecret is POST /auth/webhook-endpoints/:id/rotate-secret, an addition. It reads no
// body.
func (e *edge) rotateEndpointSecret(c *fiber.Ctx) error {
	replace := c.Query("replace")
	if replace != "" && replace != "true" && replace != "false" {
		return errReplace
	}
	seen, _, err := queryTime(c, "updatedAt")
	if err != nil {
		return err
	}
	changed, secret, err := e.Tenants.RotateEndpointSecret(c.UserContext(), caller(c).ID, pathID(c), replace == "true", seen, e.acting(c))
	return answer(c, shownEndpoint{secret.Reveal(), changed}, err)
}

// resendEvent is POST /auth/events/resend, an addition: another delivery of an event, at most ten a
// second, so that new events need not wait behind them.
func (e *edge) resendEvent(c *fiber.Ctx) error {
	in := readBody(c)
	group, event, to := in.text("transactionGroupId"), in.text("eventType"), in.optional("endpointId")
	if err := in.err(); err != nil {
		return err
	}
	event = cmp.Or(event, string(webhook.PaymentReceived))
	id, err := uuid.Parse(group)
	if err != nil {
		return webhook.ErrEventNotFound
	}
	var endpoint *uuid.UUID
	if to != nil {
		parsed, err := uuid.Parse(*to)
		if err != nil {
			return webhook.ErrEndpointNotFound
		}
		endpoint = &parsed
	}
	if err := e.limit(c, e.Limits.Tenant(c.UserContext(), ratelimit.Resend, caller(c).ID)); err != nil {
		return err
	}
	d, err := e.Webhooks.Resend(c.UserContext(), caller(c).ID, id, webhook.Type(event), endpoint, e.acting(c))
	return answer(c.Status(http.StatusCreated), d, err)
}
