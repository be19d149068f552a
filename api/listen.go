package api

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/errs"
	"ajo/internal/sandbox"
	"ajo/internal/webhook"
	"ajo/ratelimit"
)

// errListenLive refuses to hand live events to whoever asks for those of test mode.
var errListenLive = errs.New(errs.Invalid, "only live events can be listened to: in test mode set a webhook URL")

// Limits of listening. A waiting call holds a connection, and polls the database.
const (
	listenWait      = 25 // seconds that a call may wait at most
	listenPerTenant = 4  // calls of a tenant that wait at once in this process
	listenInAll     = 512
	listenDeadline  = listenWait*time.Second + deadline
	listenRetry     = 5 // seconds after which a refused call may try again
)

// listen is POST /auth/listen: a long poll, which may last longer than other requests' deadline. It
// answers early, with the events so far, when the process stops or when it must make room for
// another tenant. Whoever was removed while it waited is not given them.
func (e *edge) listen(c *fiber.Ctx) error {
	tenant := caller(c).ID
	if err := e.limit(c, e.Limits.Tenant(c.UserContext(), ratelimit.Listen, tenant)); err != nil {
		return err
	}
	if e.Sandbox == nil && c.Get(sandbox.ModeHeader) == sandbox.ModeTest {
		return errListenLive
	}
	in := readBody(c)
	after, wait := in.text("after"), in.whole("wait", listenWait)
	if err := in.err(); err != nil {
		return err
	}
	call := e.listeners.enter(tenant)
	if call == nil {
		return e.limit(c, ratelimit.Result{Limit: listenPerTenant, Reset: listenRetry})
	}
	defer e.listeners.leave(call)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.UserContext()), listenDeadline)
	defer cancel()
	heard, next, err := e.Webhooks.Listen(ctx, tenant, after, time.Duration(wait)*time.Second, func() bool { return call.ended.Load() || e.stopping() })
	if err == nil {
		err = e.stands(ctx, c)
	}
	return answer(c, struct {
		Events []webhook.FeedEvent `json:"events"`
		Next   string              `json:"next"`
	}{notNull(heard), next}, err)
}
