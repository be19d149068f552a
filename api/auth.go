package api

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/secret"
	"ajo/internal/tenant"
	"ajo/ratelimit"
)

const (
	keyHeader     = "X-API-Key"
	sessionCookie = "service_session"
)

// errCrossSite refuses a cross-site request from a browser.
var errCrossSite = errs.New(errs.Forbidden, "cross-site request refused")

type callerKey struct{}

// caller returns the tenant whose credential was accepted. Only handlers that require one may call
// it.
func caller(c *fiber.Ctx) tenant.Tenant {
	t, ok := c.Locals(callerKey{}).(tenant.Tenant)
	if !ok {
		panic("api: a handler without a credential asks for its caller")
	}
	return t
}

type neededKey struct{}

// needed is the role that a session's member needs for the endpoint.
func needed(c *fiber.Ctx) tenant.Role {
	role, _ := c.Locals(neededKey{}).(tenant.Role)
	return role
}

// stands refuses the answer of a request that has waited to a member who is gone meanwhile.
func (e *edge) stands(ctx context.Context, c *fiber.Ctx) error {
	if e.Sandbox != nil { // which knows no sessions
		return nil
	}
	return e.Tenants.Stands(ctx, caller(c), sessionToken(c), needed(c))
}

// by returns who calls, and from where, for the audit log.
func (e *edge) by(c *fiber.Ctx) audit.By {
	t := caller(c)
	if t.Key.ID != uuid.Nil {
		return audit.Key(t.Key.ID, e.address(c))
	}
	return audit.Session(t.Member.Email, e.address(c))
}

// standing returns the check that the caller's credential is still good, for a use case that waits;
// nil in the sandbox, which knows no sessions.
func (e *edge) standing(c *fiber.Ctx) func(context.Context, pg.Querier) error {
	if e.Sandbox != nil {
		return nil
	}
	return e.Tenants.Standing(caller(c), sessionToken(c), needed(c))
}

// acting is by for a change that may wait for a lock: it is refused if the caller was removed, or
// its credential ended, meanwhile. For changes of the caller itself there is changing.
func (e *edge) acting(c *fiber.Ctx) audit.By { return e.by(c).While(e.standing(c)) }

// changing is by for a change of the caller itself that may wait for a lock: it is refused if the
// session ended meanwhile.
func (e *edge) changing(c *fiber.Ctx) audit.By {
	if e.Sandbox != nil { // which knows no sessions
		return e.by(c)
	}
	return e.by(c).While(e.Tenants.Present(caller(c), sessionToken(c)))
}

// authenticate accepts requests with a valid credential of the route's kind, and refuses others
// with 401 or 403. An API key must also have the scope, and a session's member the role, and a
// second factor if the tenant requires one.
func (e *edge) authenticate(r Route) fiber.Handler {
	_, early := withoutTOTP[endpoint{r.Method, r.Path}]
	return func(c *fiber.Ctx) error {
		var t tenant.Tenant
		var test bool
		var err error
		if e.Sandbox != nil {
			if err := e.readPass(c); err != nil {
				return err
			}
		}
		if r.Credential == Key || (r.Credential == SessionOrKey && c.Get(keyHeader) != "") {
			if e.Sandbox == nil && hasTestKey(c) {
				return e.forwardKey(c)
			}
			if t, err = e.byKey(c); err == nil && r.Scope != anyScope {
				err = t.Key.Allows(r.Scope)
			}
			if err == nil {
				err = checkMode(c, modeLive)
			}
		} else if t, err = e.bySession(c); err == nil {
			if err = t.Member.Allows(r.Role); err == nil && !early {
				err = t.Complete()
			}
			if err == nil {
				test, err = e.wantsTestMode(c, r)
			}
		}
		switch {
		case err != nil:
			return err
		case test:
			return e.forwardSession(c, t)
		}
		c.Locals(callerKey{}, t)
		c.Locals(neededKey{}, r.Role)
		c.SetUserContext(provider.ForTenant(c.UserContext(), t.ID))
		if e.Sandbox != nil {
			return e.inShare(c)
		}
		return c.Next()
	}
}

// byKey finds the tenant that owns the key.
func (e *edge) byKey(c *fiber.Ctx) (tenant.Tenant, error) {
	key := secret.Redact(c.Get(keyHeader))
	if !e.Tenants.KeyKind.Check(key.Reveal()) {
		return tenant.Tenant{}, errors.Join(e.limit(c, e.Limits.Stranger(c.UserContext(), e.address(c), [32]byte{})), tenant.ErrUnauthorized)
	}
	count := func(ctx context.Context, t tenant.Tenant, credential [32]byte) ratelimit.Result {
		return e.Limits.Key(ctx, t.ID, credential)
	}
	return e.identify(c, secret.Hash(key.Reveal()), e.limit, count, func(ctx context.Context) (tenant.Tenant, error) { return e.Tenants.ByAPIKey(ctx, key, e.address(c)) })
}

// identify looks up a credential and counts the request: under its tenant, or under its address if
// the credential is invalid or restricted to other addresses, so that a stranger with the key uses
// up nothing of the tenant's limit. An address that is over its limit is refused before the
// database is queried. limit decides by a count, and writes its headers.
func (e *edge) identify(c *fiber.Ctx, credential [32]byte, limit func(*fiber.Ctx, ratelimit.Result) error,
	count func(context.Context, tenant.Tenant, [32]byte) ratelimit.Result, look func(context.Context) (tenant.Tenant, error),
) (tenant.Tenant, error) {
	ctx, addr := c.UserContext(), e.address(c)
	if r := e.Limits.Admit(addr, credential); !r.OK {
		return tenant.Tenant{}, limit(c, r)
	}
	t, err := look(ctx)
	switch kind := errs.KindOf(err); {
	case err != nil && (kind == errs.Unauthorized || kind == errs.Forbidden):
		return t, errors.Join(limit(c, e.Limits.Stranger(ctx, addr, credential)), err)
	case err != nil:
		return t, errors.Join(limit(c, e.Limits.Uncounted()), err)
	}
	return t, limit(c, count(ctx, t, credential))
}

func (e *edge) bySession(c *fiber.Ctx) (tenant.Tenant, error) {
	if e.Sandbox != nil {
		return e.byPass(c)
	}
	token := sessionToken(c)
	if token.IsZero() {
		return tenant.Tenant{}, tenant.ErrUnauthorized
	}
	if err := sameOrigin(c); err != nil {
		return tenant.Tenant{}, err
	}
	count := func(ctx context.Context, t tenant.Tenant, credential [32]byte) ratelimit.Result {
		return e.Limits.Session(ctx, t.ID, t.Member.Role == tenant.Owner, credential)
	}
	return e.identify(c, secret.Hash(token.Reveal()), e.limitQuietly, count, func(ctx context.Context) (tenant.Tenant, error) { return e.Tenants.Session(ctx, token) })
}

func sessionToken(c *fiber.Ctx) secret.Redacted { return secret.Redact(c.Cookies(sessionCookie)) }

// sameOrigin refuses a state-changing cross-site request that carries the cookie: by
// Sec-Fetch-Site, which every current browser sends, else by Origin. Clients that are not browsers
// send neither, and pass.
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

// limitQuietly is limit without the headers, unless the request is refused.
func (e *edge) limitQuietly(c *fiber.Ctx, r ratelimit.Result) error {
	if r.OK {
		return nil
	}
	return e.limit(c, r)
}

// limitOpen counts a request to an endpoint without a credential under its address.
func (e *edge) limitOpen(c *fiber.Ctx) error {
	if err := e.limit(c, e.Limits.Open(c.UserContext(), e.address(c))); err != nil {
		return err
	}
	return c.Next()
}

// limitAccount counts an attempt on one account. A request that names no account is refused
// elsewhere. The headers remain those of the address's limit unless this one is exceeded.
func (e *edge) limitAccount(c *fiber.Ctx, action, account string) error {
	if account == "" {
		return nil
	}
	return e.limitQuietly(c, e.Limits.Account(c.UserContext(), action, account))
}

// address is the client's address: that of the connection or, if that is a trusted proxy, the last
// address in X-Forwarded-For that is not a trusted proxy. Anything further left may be forged.
func (e *edge) address(c *fiber.Ctx) netip.Addr {
	if from := passOf(c).From; from.IsValid() {
		return from // the connection comes from the live API
	}
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
	return slices.ContainsFunc(e.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}
