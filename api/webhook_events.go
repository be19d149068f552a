package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/errs"
	"ajo/internal/webhook"
	"ajo/ratelimit"
)

var errEventsMissing = errs.New(errs.Invalid, "events is required")

// chosenEvents answers both endpoints below.
func (e *edge) chosenEvents(c *fiber.Ctx, chosen []webhook.Type) error {
	logs, err := e.Webhooks.LogsAll(c.UserContext(), caller(c).ID)
	return answer(c, struct {
		Events    []webhook.Type `json:"events"`
		Available []webhook.Type `json:"available"`
		LogAll    bool           `json:"logAll"`
	}{chosen, webhook.Types, logs}, err)
}

// webhookEvents is GET /auth/webhook-events.
func (e *edge) webhookEvents(c *fiber.Ctx) error {
	chosen, err := e.Webhooks.Chosen(c.UserContext(), caller(c).ID)
	if err != nil {
		return err
	}
	return e.chosenEvents(c, chosen)
}

// chooseWebhookEvents is POST /auth/webhook-events.
func (e *edge) chooseWebhookEvents(c *fiber.Ctx) error {
	in := readBody(c)
	events := in.texts("events")
	var logAll *bool
	if _, given := in.value("logAll"); given {
		logAll = new(in.flag("logAll"))
	}
	if err := in.err(); err != nil {
		return err
	}
	if events == nil {
		return errEventsMissing
	}
	wanted := make([]webhook.Type, len(events))
	for i, t := range events {
		wanted[i] = webhook.Type(t)
	}
	ctx, id := c.UserContext(), caller(c).ID
	chosen, err := e.Webhooks.Choose(ctx, id, wanted, e.acting(c))
	if err == nil && logAll != nil {
		err = e.Webhooks.LogAll(ctx, id, *logAll, e.acting(c))
	}
	if err != nil {
		return err
	}
	return e.chosenEvents(c, chosen)
}

// testWebhook is POST /auth/webhook-test. It calls the tenant's endpoint before it answers; a
// failure of the endpoint is part of the answer, not an error.
func (e *edge) testWebhook(c *fiber.Ctx) error {
	if err := e.limit(c, e.Limits.Tenant(c.UserContext(), ratelimit.WebhookTest, caller(c).ID)); err != nil {
		return err
	}
	in := readBody(c)
	url := in.text("url")
	if err := in.err(); err != nil {
		return err
	}
	t, err := e.Webhooks.Test(c.UserContext(), caller(c).ID, url)
	return answer(c, t, err)
}
