// Package api is the HTTP edge: it decodes a request, calls one use case, and encodes the answer.
//
// Invariants: the routes are exactly the rows of [Routes]. Every answer has an X-Request-ID, and is
// JSON that nobody may cache, except the API document and its page (document.go, docs.go), the
// dashboard (dashboard.go) and exports (export.go). Every error body is {"error": "…"}, including
// the framework's. A request has a deadline. No memory that Fiber lends a handler outlives the
// handler. The package contains no SQL, no business rule and no asynq. Specification, "Endpoints"
// and "Errors".
package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/account"
	"ajo/internal/clock"
	"ajo/internal/customer"
	"ajo/internal/fee"
	"ajo/internal/idempotency"
	"ajo/internal/limit"
	"ajo/internal/metrics"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/replica"
	"ajo/internal/tenant"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
	"ajo/ratelimit"
	"ajo/tasks"
)

// Limits of a request. The deadline is longer than Postgres' statement timeout (package pg), so
// that the server ends a slow statement and the connection survives.
const (
	deadline     = 20 * time.Second
	readTimeout  = 20 * time.Second
	writeTimeout = 20 * time.Second
	idleTimeout  = 90 * time.Second
	maxHeader    = 16 << 10
	// maxRead is how much of a body the server reads before it closes the connection. It is above
	// maxBody, so that a client that is slightly over the limit can read its 413.
	maxRead = 4 * maxBody
)

// Options are what the edge needs.
type Options struct {
	Pool      *pg.Pool
	Clock     clock.Clock
	Tenants   *tenant.Service
	Accounts  *account.Service
	Customers *customer.Service
	Payments  *payment.Service
	Transfers *transfer.Service
	Banks     *transfer.BankList
	Fees      fee.Tiers
	// Answers has the stored answers of requests with an Idempotency-Key that Redis has.
	Answers  *idempotency.Cache
	Webhooks *webhook.Service
	Limits   *ratelimit.Limiter
	// TenantLimits are what operators have set for tenants.
	TenantLimits *limit.Service
	// Prices are what the platform charges tenants.
	Prices *fee.Prices
	// Replica is the standby that answers the requests of reads.go; nil: none.
	Replica  *replica.Replica
	Enqueuer *tasks.Enqueuer // enqueues tasks after a use case has committed
	// Ready checks the dependencies of the service, for GET /ready.
	Ready func(ctx context.Context) []Check
	// Stopping reports that the process is stopping: each answer then asks its client to close the
	// connection. Nil: never.
	Stopping func() bool
	Log      *slog.Logger
	// Test forwards requests of test mode to the sandbox; nil: test mode is off.
	Test *TestMode
	// Sandbox makes this the API of test mode; nil: the live one.
	Sandbox *Sandbox
	// Production makes the session cookie Secure and announces HSTS.
	Production bool
	// TrustedProxies are believed when they name their client by X-Forwarded-For and
	// X-Forwarded-Host.
	TrustedProxies []netip.Prefix
	// SignatureHeader and TimestampHeader are the bank's; by default provider-signature and
	// provider-timestamp.
	SignatureHeader, TimestampHeader string

	// For tests: the numbers of slots; zero values mean the defaults.
	listenPlaces int
	exportPlaces *slots
	readPlaces   *slots
}

// edge has what the handlers share.
type edge struct {
	Options
	counts    map[endpoint]*metrics.HTTP // of the routes, by method and template
	listeners listeners
	reads     *slots
	nins      *slots
	readiness readiness
}

type endpoint struct{ method, route string }

// New returns the application, ready to be given a listener.
func New(o Options) *fiber.App {
	e := &edge{Options: o, counts: map[endpoint]*metrics.HTTP{}, listeners: listeners{places: cmp.Or(o.listenPlaces, listenInAll)}}
	if e.exportPlaces == nil {
		e.exportPlaces = newExports(exportsAtOnce)
	}
	if e.reads, e.nins = o.readPlaces, newChecks(); e.reads == nil {
		e.reads = newReads(int(o.Pool.Config().MaxConns))
	}
	e.SignatureHeader = cmp.Or(e.SignatureHeader, "provider-signature")
	e.TimestampHeader = cmp.Or(e.TimestampHeader, "provider-timestamp")
	var proxies []string
	for _, p := range e.TrustedProxies {
		proxies = append(proxies, p.String())
	}
	app := fiber.New(fiber.Config{
		AppName:               "ajo",
		DisableStartupMessage: true,
		StrictRouting:         true,
		CaseSensitive:         true,
		// strings of a request are copies, not views of a reused buffer
		Immutable:                    true,
		DisablePreParseMultipartForm: true, // a body is bytes
		BodyLimit:                    maxRead,
		ReadBufferSize:               maxHeader,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		EnableTrustedProxyCheck:      true,
		TrustedProxies:               proxies,
		JSONEncoder:                  encodeJSON,
		ErrorHandler:                 e.connectionError,
	})
	app.Use(e.begin)
	e.counts[endpoint{}] = metrics.NewHTTP("", "none")
	for _, r := range Routes {
		if e.has(r) {
			e.register(app, r)
		}
	}
	// Any other path under /v1 has no endpoint, but requires the key and counts towards the limit.
	askForKey := e.authenticate(Route{Credential: Key, Scope: anyScope})
	app.Use("/v1", func(c *fiber.Ctx) error {
		if path := c.Path(); path == "/v1" || strings.HasPrefix(path, "/v1/") {
			return askForKey(c)
		}
		return c.Next()
	})
	e.refuseUnknownMethods(app)
	e.refuseBadFraming(app)
	return app
}

// stopping reports whether the process is stopping.
func (e *edge) stopping() bool { return e.Stopping != nil && e.Stopping() }

// register adds a row to the application, with its rate limit and its credential. GET also answers
// HEAD.
func (e *edge) register(app *fiber.App, r Route) {
	counts := metrics.NewHTTP(r.Method, r.Path)
	e.counts[endpoint{r.Method, r.Path}] = counts
	var chain []fiber.Handler
	if r.Limited {
		chain = append(chain, e.limitOpen)
	}
	if r.Credential != None && r.Credential != Signature {
		chain = append(chain, e.authenticate(r))
	}
	if r.Method != fiber.MethodGet && r.Credential != Signature {
		chain = append(chain, checkBody)
	}
	chain = append(chain, traced(r), e.handler(r))
	if r.Method == fiber.MethodGet {
		e.counts[endpoint{fiber.MethodHead, r.Path}] = counts
		app.Add(fiber.MethodHead, r.Path, chain...)
	}
	app.Add(r.Method, r.Path, chain...)
}

// answer encodes the result of a use case.
func answer[T any](c *fiber.Ctx, v T, err error) error {
	if err != nil {
		return err
	}
	return c.JSON(v)
}

// answerPage reads the page of a list that the query asks for, and answers it under its name.
func answerPage[T any](c *fiber.Ctx, name string, read func(page.Request) ([]T, page.Info, error)) error {
	r, err := pageRequest(c, page.DefaultList)
	if err != nil {
		return err
	}
	items, info, err := read(r)
	return answer(c, listed[T]{name, notNull(items), info}, err)
}

// notNull makes an empty list [] in JSON, not null.
func notNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// listed is a page of a list under its name.
type listed[T any] struct {
	name  string
	items []T
	info  page.Info
}

// MarshalJSON writes {"accounts":[…],"pagination":{…}}.
func (l listed[T]) MarshalJSON() ([]byte, error) {
	items, err := encodeJSON(l.items)
	if err != nil {
		return nil, err
	}
	info, err := encodeJSON(l.info)
	return fmt.Appendf(nil, `{"%s":%s,"pagination":%s}`, l.name, items, info), err
}

// encodeJSON writes v without escaping &, < and >, as the standard encoder does for HTML pages.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
