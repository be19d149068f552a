package api

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/errs"
	"ajo/internal/secret"
	"ajo/internal/tenant"
	"ajo/ratelimit"
)

const (
	keyHeader     = "X-API-Key"
	sessionCookie = "service_session"
)

// errCrossSite refuses a request that another site made a browser send.
var errCrossSite = errs.New(errs.Forbidden, "cross-site request refused")

type callerKey struct{}

// caller returns the tenant whose credential let the request in. It is for handlers behind one.
func caller(c *fiber.Ctx) tenant.Tenant {
	t, ok := c.Locals(callerKey{}).(tenant.Tenant)
	if !ok {
		panic("api: a handler without a credential asks for its caller")
	}
	return t
}

// authenticate lets a request with the given credential through, and refuses any other with 401 or 403.
func (e *edge) authenticate(want Credential) fiber.Handler {
	return func(c *fiber.Ctx) error {
		var t tenant.Tenant
		var err error
		if want == Key || (want == SessionOrKey && c.Get(keyHeader) != "") {
			t, err = e.byKey(c)
		} else {
			t, err = e.bySession(c)
		}
		if err != nil {
			return err
		}
		c.Locals(callerKey{}, t)
		return c.Next()
	}
}

// byKey counts the request under its key before the database is asked. What has no good key is counted under its
// address, so that trying keys is limited too.
func (e *edge) byKey(c *fiber.Ctx) (tenant.Tenant, error) {
	key := secret.Redact(c.Get(keyHeader))
	if !secret.CheckAPIKey(key.Reveal()) {
		return tenant.Tenant{}, errors.Join(e.limit(c, e.Limits.Stranger(c.UserContext(), e.address(c))), tenant.ErrUnauthorized)
	}
	if err := e.limit(c, e.Limits.Key(c.UserContext(), secret.Hash(key.Reveal()))); err != nil {
		return tenant.Tenant{}, err
	}
	t, err := e.Tenants.ByAPIKey(c.UserContext(), key)
	if errors.Is(err, tenant.ErrUnauthorized) {
		return t, errors.Join(e.limit(c, e.Limits.Stranger(c.UserContext(), e.address(c))), err)
	}
	return t, err
}

func (e *edge) bySession(c *fiber.Ctx) (tenant.Tenant, error) {
	token := sessionToken(c)
	if token.IsZero() {
		return tenant.Tenant{}, tenant.ErrUnauthorized
	}
	if err := sameOrigin(c); err != nil {
		return tenant.Tenant{}, err
	}
	return e.Tenants.Session(c.UserContext(), token)
}

func sessionToken(c *fiber.Ctx) secret.Redacted { return secret.Redact(c.Cookies(sessionCookie)) }

// sameOrigin refuses a state-changing request that carries the cookie but comes from another site: by Sec-Fetch-Site,
// which every current browser sends, else by Origin. A client that is no browser sends neither and may pass.
func sameOrigin(c *fiber.Ctx) error {
	switch c.Method() {
	case fiber.MethodGet, fiber.MethodHead, fiber.MethodOptions:
		return nil
	}
	switch c.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return nil
	case "":
	default:
		return errCrossSite
	}
	origin := c.Get(fiber.HeaderOrigin)
	if origin == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, c.Hostname()) {
		return errCrossSite
	}
	return nil
}

// limit writes the headers of a count, and refuses the request when it was over the limit.
func (e *edge) limit(c *fiber.Ctx, r ratelimit.Result) error {
	r.Header(c.Set)
	if !r.OK {
		return ratelimit.ErrLimited
	}
	return nil
}

// limitOpen counts a request to an endpoint without a credential under its address.
func (e *edge) limitOpen(c *fiber.Ctx) error {
	if err := e.limit(c, e.Limits.Open(c.UserContext(), e.address(c))); err != nil {
		return err
	}
	return c.Next()
}

// limitAccount counts a try at one account; a request that names none is refused for that elsewhere. The headers stay those of the address unless this limit is the one that is passed.
func (e *edge) limitAccount(c *fiber.Ctx, action, account string) error {
	if account == "" {
		return nil
	}
	if r := e.Limits.Account(c.UserContext(), action, account); !r.OK {
		return e.limit(c, r)
	}
	return nil
}

// address is the client's: the connection's own, or, when that is a trusted proxy, the last one in X-Forwarded-For that is
// none. What stands further left was written by whoever sent the request.
func (e *edge) address(c *fiber.Ctx) netip.Addr {
	addr, _ := netip.AddrFromSlice(c.Context().RemoteIP())
	addr = addr.Unmap()
	var hops []string
	for _, line := range c.Request().Header.PeekAll(fiber.HeaderXForwardedFor) {
		hops = append(hops, strings.Split(string(line), ",")...)
	}
	for i := len(hops) - 1; i >= 0 && e.trusted(addr); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = hop.Unmap()
	}
	return addr
}

func (e *edge) trusted(addr netip.Addr) bool {
	for _, p := range e.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
