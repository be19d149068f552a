package api

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/safehttp"
	"ajo/ratelimit"
)

// me is GET /auth/me.
func (e *edge) me(c *fiber.Ctx) error { return c.JSON(caller(c)) }

// rotateKey is POST /auth/rotate-key. As specified it takes no body, except, as an addition, of an
// owner with a second factor: the main key pays, so that owner gives a code.
func (e *edge) rotateKey(c *fiber.Ctx) error {
	in := &body{}
	if len(c.Request().Body()) > 0 {
		in = readBody(c)
	}
	in.secret("code") // one that is there is well-formed, whoever gives it
	if err := in.err(); err != nil {
		return err
	}
	if caller(c).Member.TOTP {
		if _, err := e.prove(c, in); err != nil {
			return err
		}
	}
	key, err := e.Tenants.RotateKey(c.UserContext(), caller(c).ID, e.acting(c))
	return answer(c, struct {
		APIKey string `json:"apiKey"`
	}{key.Reveal()}, err)
}

// changePassword is POST /auth/password, an addition.
func (e *edge) changePassword(c *fiber.Ctx) error {
	t := caller(c)
	in := readBody(c)
	old, fresh := in.secret("oldPassword"), in.secret("newPassword")
	if err := in.err(); err != nil {
		return err
	}
	if err := e.limit(c, e.Limits.Tenant(c.UserContext(), ratelimit.Password, t.Member.ID)); err != nil {
		return err
	}
	if err := e.Tenants.ChangePassword(c.UserContext(), t.ID, t.Member, sessionToken(c), old, fresh, e.changing(c)); err != nil {
		return err
	}
	e.rememberNetwork(c, t.Member.Email)
	return c.JSON(struct{}{})
}

// businessKYC is POST /auth/business-kyc.
func (e *edge) businessKYC(c *fiber.Ctx) error {
	in := readBody(c)
	businessType, cacNumber := in.text("businessType"), in.text("cacNumber")
	if err := in.err(); err != nil {
		return err
	}
	out, err := e.Tenants.BusinessKYC(c.UserContext(), caller(c).ID, businessType, cacNumber, e.acting(c))
	return answer(c, out, err)
}

// setWebhookURL is POST /auth/webhook-url.
func (e *edge) setWebhookURL(c *fiber.Ctx) error {
	in := readBody(c)
	raw := in.text("url")
	if err := in.err(); err != nil {
		return err
	}
	url, err := e.Tenants.SetWebhookURL(c.UserContext(), caller(c).ID, raw, e.acting(c))
	if err != nil {
		return err
	}
	e.warnOfCallback(c, "url", &url)
	return c.JSON(struct {
		WebhookURL string `json:"webhookUrl"`
	}{url})
}

// warningHeader names what was accepted here but would be refused in production.
const warningHeader = "X-Ajo-Warning"

// warnOfCallback adds a warning to the answer that accepts a callback URL, if production would
// refuse it.
func (e *edge) warnOfCallback(c *fiber.Ctx, field string, url *string) {
	if url == nil || strings.TrimSpace(*url) == "" || c.Response().StatusCode() >= fiber.StatusMultipleChoices {
		return
	}
	rules := e.Tenants.Callbacks
	// production applies its rules before, so an accepted URL brings no warning
	rules.RequireHTTPS, rules.RequirePublic = true, true
	if err := safehttp.CheckURL(field, strings.TrimSpace(*url), rules); err != nil {
		c.Set(warningHeader, "production refuses this address: "+err.Error())
	}
}

// webhookSecret is POST /auth/webhook-secret.
func (e *edge) webhookSecret(c *fiber.Ctx) error {
	s, err := e.Tenants.WebhookSecret(c.UserContext(), caller(c).ID, e.acting(c))
	if err == nil { // it has waited for the tenant's row, and has no line in the audit log where there is a secret already
		err = e.stands(c.UserContext(), c)
	}
	return answer(c, struct {
		WebhookSecret string `json:"webhookSecret"`
	}{s.Reveal()}, err)
}
