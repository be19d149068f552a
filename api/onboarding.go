package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"ajo/internal/secret"
	"ajo/internal/tenant"
	"ajo/ratelimit"
)

// registerTenant is POST /register.
func (e *edge) registerTenant(c *fiber.Ctx) error {
	in := readBody(c)
	n := tenant.Registration{Name: in.text("name"), Email: in.text("email"), Password: in.secret("password")}
	if err := in.err(); err != nil {
		return err
	}
	// Each call may send an e-mail: the limit keeps a stranger's mailbox from filling up.
	if err := e.limitAccount(c, "register", tenant.NormalizeEmail(n.Email)); err != nil {
		return err
	}
	id, err := e.Tenants.Register(c.UserContext(), n)
	if err != nil {
		return err
	}
	return c.Status(http.StatusCreated).JSON(struct {
		TenantID uuid.UUID `json:"tenantId"`
	}{id})
}

// verifyEmail is POST /auth/verify-email.
func (e *edge) verifyEmail(c *fiber.Ctx) error {
	in := readBody(c)
	id, otp := in.text("tenantId"), in.secret("otp")
	if err := in.err(); err != nil {
		return err
	}
	if known, err := uuid.Parse(id); err == nil { // all spellings of an id share one limit
		if err := e.limitAccount(c, "code", known.String()); err != nil {
			return err
		}
	}
	key, err := e.Tenants.VerifyEmail(c.UserContext(), id, otp)
	return answer(c, struct {
		APIKey  string `json:"apiKey"`
		Warning string `json:"warning"`
	}{key.Reveal(), tenant.KeyWarning}, err)
}

// login is POST /auth/login.
func (e *edge) login(c *fiber.Ctx) error {
	in := readBody(c)
	email, password, code := in.text("email"), in.secret("password"), in.secret("code")
	if err := in.err(); err != nil {
		return err
	}
	if err := e.limitLogin(c, tenant.NormalizeEmail(email)); err != nil {
		return err
	}
	s, err := e.Tenants.Login(c.UserContext(), email, password, code, e.address(c))
	if err != nil {
		return err
	}
	return e.loggedIn(c, s)
}

// loginByLink is POST /auth/login-link, an addition: the token of a link that an operator made
// (`ajo tenant login-link`).
func (e *edge) loginByLink(c *fiber.Ctx) error {
	in := readBody(c)
	token := in.secret("token")
	if err := in.err(); err != nil {
		return err
	}
	s, err := e.Tenants.LoginByLink(c.UserContext(), token, e.address(c))
	if err != nil {
		return err
	}
	return e.loggedIn(c, s)
}

// limitLogin counts a login attempt. Each network from which the owner has logged in is counted
// separately, all others together, so that guesses from elsewhere do not use up the owner's
// attempts.
func (e *edge) limitLogin(c *fiber.Ctx, email string) error {
	network := ratelimit.Network(e.address(c))
	known, err := e.Tenants.KnowsNetwork(c.UserContext(), email, network)
	if err != nil {
		return err
	}
	if known {
		return e.limitAccount(c, "login-known", email+"\x00"+network) // no e-mail has a NUL
	}
	return e.limitAccount(c, "login", email)
}

// forgotPassword is POST /auth/forgot-password, an addition.
func (e *edge) forgotPassword(c *fiber.Ctx) error {
	in := readBody(c)
	email := in.text("email")
	if err := in.err(); err != nil {
		return err
	}
	if err := e.limitAccount(c, "forgot", tenant.NormalizeEmail(email)); err != nil {
		return err
	}
	if err := e.Tenants.ForgotPassword(c.UserContext(), email); err != nil {
		return err
	}
	return c.JSON(struct{}{})
}

// resetPassword is POST /auth/reset-password, an addition. It needs no limit of its own: a code is
// too long to guess.
func (e *edge) resetPassword(c *fiber.Ctx) error {
	in := readBody(c)
	code, password := in.secret("code"), in.secret("newPassword")
	if err := in.err(); err != nil {
		return err
	}
	s, err := e.Tenants.ResetPassword(c.UserContext(), code, password, e.address(c))
	switch {
	case err != nil:
		return err
	case s.Token.IsZero(): // a login asks for the second factor
		return c.JSON(whose{s.TenantID, s.Name})
	}
	return e.loggedIn(c, s)
}

// loggedIn sets the session's cookie and answers whose session it is. A failure to remember the
// network does not fail the login.
func (e *edge) loggedIn(c *fiber.Ctx, s tenant.Session) error {
	addr := e.address(c)
	e.warnForgotten(c, e.Tenants.SignedIn(c.UserContext(), s, addr, ratelimit.Network(addr)))
	e.setSession(c, s.Token)
	return c.JSON(whose{s.TenantID, s.Name})
}

// whose is the answer that says for which tenant somebody has logged in.
type whose struct {
	TenantID uuid.UUID `json:"tenantId"`
	Name     string    `json:"name"`
}

func (e *edge) rememberNetwork(c *fiber.Ctx, email string) {
	e.warnForgotten(c, e.Tenants.RememberNetwork(c.UserContext(), email, ratelimit.Network(e.address(c))))
}

// warnForgotten logs that a network was not remembered, unless err is nil.
func (e *edge) warnForgotten(c *fiber.Ctx, err error) {
	if err != nil {
		e.Log.LogAttrs(c.UserContext(), slog.LevelWarn, "the network of a login was not remembered", slog.Any("err", err))
	}
}

// logout is POST /auth/logout. Without a session there is nothing to end, which is not an error.
func (e *edge) logout(c *fiber.Ctx) error {
	if token := sessionToken(c); !token.IsZero() {
		if err := sameOrigin(c); err != nil {
			return err
		}
		if err := e.endOwn(c, token); err != nil {
			return err
		}
	}
	e.setSession(c, secret.Redacted{})
	return c.JSON(struct{}{})
}

// endOwn ends the session of a token. One that is none counts under its address, like any other
// credential that opens nothing, and over that limit the database is not asked.
func (e *edge) endOwn(c *fiber.Ctx, token secret.Redacted) error {
	ctx, addr, credential := c.UserContext(), e.address(c), secret.Hash(token.Reveal())
	if r := e.Limits.AdmitToEnd(addr, credential); !r.OK {
		return e.limit(c, r)
	}
	ended, err := e.Tenants.Logout(ctx, token, addr)
	if err != nil || ended {
		return err
	}
	return e.limitQuietly(c, e.Limits.Stranger(ctx, addr, credential))
}

// setSession sets the session cookie; without a token it removes it.
func (e *edge) setSession(c *fiber.Ctx, token secret.Redacted) {
	cookie := fiber.Cookie{
		Name: sessionCookie, Value: token.Reveal(), Path: "/", MaxAge: int(tenant.SessionLife.Seconds()),
		HTTPOnly: true, SameSite: fiber.CookieSameSiteLaxMode, Secure: e.Production,
	}
	if token.IsZero() {
		cookie.MaxAge, cookie.Expires = 0, time.Unix(0, 0)
	}
	c.Cookie(&cookie)
}
