package api

import (
	"context"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/ratelimit"
)

// replicaEndpoints are those that a read replica may answer: lists, statements, exports and the
// dashboard's first page. The primary answers all others, because clients and handlers base
// decisions on them: balances, the state of one thing, keys and sessions (which are checked before
// any handler), and everything that writes; and also the files of all accounts, those with
// balances, and payments with their sums, which are of one moment.
var replicaEndpoints = map[endpoint]bool{
	{"GET", "/auth/misdirected"}: true,

	{"GET", "/auth/overview"}: true,
	{"GET", "/auth/search"}:   true,

	{"GET", "/v1/accounts"}:                             true,
	{"GET", "/v1/accounts/:accountRef/history"}:         true,
	{"GET", "/v1/accounts/:accountRef/statement"}:       true,
	{"GET", "/auth/accounts"}:                           true,
	{"GET", "/auth/accounts/:accountRef/history"}:       true,
	{"GET", "/auth/accounts/:accountRef/statement"}:     true,
	{"GET", "/auth/accounts/:accountRef/statement.csv"}: true,

	{"GET", "/v1/accounts/:accountRef/holds"}:     true,
	{"GET", "/auth/accounts/:accountRef/holds"}:   true,
	{"GET", "/auth/accounts/:accountRef/recalls"}: true,

	{"GET", "/v1/payments"}:       true,
	{"GET", "/auth/payments"}:     true,
	{"GET", "/auth/payments.csv"}: true,

	{"GET", "/v1/customers"}:   true,
	{"GET", "/auth/customers"}: true,

	{"GET", "/v1/transfers"}:   true,
	{"GET", "/auth/transfers"}: true,

	{"GET", "/v1/webhooks/dead-letters"}: true,
	{"GET", "/auth/deliveries"}:          true,
}

// AtReplica reports whether a read replica may answer the endpoint.
func (r Route) AtReplica() bool { return replicaEndpoints[endpoint{r.Method, r.Path}] }

// takesASlot reports whether the endpoint is read in one of [newReads]: it may read thousands of
// rows. A file has a slot of its own kind, and must not wait for that in one of these.
func (r Route) takesASlot() bool {
	return r.AtReplica() && !strings.HasSuffix(r.Path, ".csv") || r.Path == "/v1/balance"
}

// readRetry is when a read that got no slot may try again, in seconds.
const readRetry = 1

// readWaited is from when on a read has waited for its slot. A check of each that has not would
// cost a query more than the moment is worth.
const readWaited = time.Millisecond

// handler returns the row's handler. If [Route.AtReplica] is true, it may run twice: at the replica
// and, if that fails, at the primary. Its answer is complete before any of it is sent.
func (e *edge) handler(r Route) fiber.Handler {
	handle := func(c *fiber.Ctx) error { return r.handle(e, c) }
	if r.AtReplica() {
		handle = func(c *fiber.Ctx) error {
			ctx := c.UserContext()
			defer c.SetUserContext(ctx)
			return e.Replica.Read(ctx, func(ctx context.Context) error {
				c.SetUserContext(ctx)
				return r.handle(e, c)
			})
		}
	}
	if !r.takesASlot() {
		return handle
	}
	return func(c *fiber.Ctx) error {
		began := time.Now()
		leave, err := e.reads.enter(c.UserContext(), caller(c).ID)
		if err != nil {
			return e.limit(c, ratelimit.Result{Limit: int64(e.reads.each), Reset: readRetry})
		}
		defer leave()
		waited := time.Since(began) >= readWaited
		if err = handle(c); err == nil && waited {
			err = e.stands(c.UserContext(), c)
		}
		return err
	}
}
