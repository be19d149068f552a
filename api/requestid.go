package api

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"ajo/internal/sandbox"
	"ajo/internal/trace"
)

// idForm is the form of a client's own request id; an id of any other form is replaced.
var idForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

type requestIDKey struct{}

func withRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID returns the id of the request that ctx belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

func newRequestID(c *fiber.Ctx) string {
	if id := c.Get(fiber.HeaderXRequestID); idForm.MatchString(id) {
		return id
	}
	return uuid.NewString()
}

// LogHandler adds request_id to lines that are logged with a request's context, at any depth, and
// trace_id to lines of traced work, in workers too.
func LogHandler(next slog.Handler) slog.Handler { return idHandler{next} }

type idHandler struct{ slog.Handler }

func (h idHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	if id := trace.ID(ctx); id != "" {
		r.AddAttrs(slog.String("trace_id", id))
	}
	return h.Handler.Handle(ctx, r)
}

func (h idHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return idHandler{h.Handler.WithAttrs(attrs)}
}

func (h idHandler) WithGroup(name string) slog.Handler { return idHandler{h.Handler.WithGroup(name)} }

// begin wraps every request: its id, its deadline, the headers of the answer, its errors and its
// panics.
func (e *edge) begin(c *fiber.Ctx) (err error) {
	start := time.Now()
	id := newRequestID(c)
	ctx, cancel := context.WithTimeout(withRequestID(context.Background(), id), deadline)
	defer cancel()
	c.SetUserContext(ctx)
	c.Set(fiber.HeaderXRequestID, id)
	e.setHeaders(c)
	if e.stopping() {
		c.Response().SetConnectionClose()
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		err = e.end(ctx, c, start, err)
	}()
	return c.Next()
}

// end answers the error of a request, if there is one, ends its trace, counts it and logs it.
func (e *edge) end(ctx context.Context, c *fiber.Ctx, start time.Time, err error) error {
	if err != nil {
		if err := e.answer(c, err); err != nil {
			return err
		}
	}
	endTrace(c)
	if !forwarded(c) {
		e.count(c, time.Since(start))
	}
	if e.Log.Enabled(ctx, slog.LevelDebug) {
		e.Log.LogAttrs(ctx, slog.LevelDebug, "request", slog.String("method", c.Method()), slog.String("route", c.Route().Path),
			slog.Int("status", c.Response().StatusCode()), slog.Duration("took", time.Since(start)))
	}
	return nil
}

// count counts an answer under its route; a path without an endpoint has none.
func (e *edge) count(c *fiber.Ctx, took time.Duration) {
	route := c.Route().Path
	counts := e.counts[endpoint{c.Method(), route}]
	// middlewares before the routes are registered at / too
	if counts == nil || route == "/" && c.Path() != "/" {
		counts = e.counts[endpoint{}]
	}
	counts.Answered(c.Response().StatusCode(), took)
}

// setHeaders sets the headers of every answer. Answers must not be cached or framed, and many are
// secret.
func (e *edge) setHeaders(c *fiber.Ctx) {
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'; frame-ancestors 'none'")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	if e.Sandbox != nil {
		c.Set(sandbox.ModeHeader, sandbox.ModeTest)
	}
	if e.Production {
		c.Set(fiber.HeaderStrictTransportSecurity, "max-age=31536000")
	}
}
