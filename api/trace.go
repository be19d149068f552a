package api

import (
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/trace"
)

// traced begins the trace of a request that has passed its limit and its credential. Only the
// holder of an API key can continue a trace; strangers, and callers that claim to be the bank, get
// a new one, and their headers do not decide whether it is sampled.
func traced(r Route) fiber.Handler {
	name := r.Method + " " + r.Path
	return func(c *fiber.Ctx) error {
		var from string
		if r.Credential == Key {
			from = c.Get(trace.Header)
		}
		ctx, span := trace.Begin(c.UserContext(), name, from, time.Now())
		if span.Traced() {
			span.Text("request_id", RequestID(ctx))
			c.SetUserContext(ctx)
			c.Locals(spanLocal, span)
		}
		return c.Next()
	}
}

type spanKey struct{}

var spanLocal spanKey

// dropTrace drops the request's span: a span that does not end is not exported.
func dropTrace(c *fiber.Ctx) { c.Locals(spanLocal, nil) }

// endTrace ends the request's span, once its answer is known.
func endTrace(c *fiber.Ctx) {
	span, ok := c.Locals(spanLocal).(trace.Span)
	if !ok {
		return
	}
	status := c.Response().StatusCode()
	span.Number("http.response.status_code", status)
	if status >= fiber.StatusInternalServerError {
		span.Fail()
	}
	span.End()
}
