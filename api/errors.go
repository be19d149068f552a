package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/idempotency"
)

// statusOf maps the kind of a refusal to its status (specification, "Errors").
var statusOf = map[errs.Kind]int{
	errs.Internal:      http.StatusInternalServerError,
	errs.Invalid:       http.StatusBadRequest,
	errs.Unauthorized:  http.StatusUnauthorized,
	errs.Forbidden:     http.StatusForbidden,
	errs.NotFound:      http.StatusNotFound,
	errs.Conflict:      http.StatusConflict,
	errs.TooLarge:      http.StatusRequestEntityTooLarge,
	errs.Unsupported:   http.StatusUnsupportedMediaType,
	errs.Unprocessable: http.StatusUnprocessableEntity,
	errs.TooMany:       http.StatusTooManyRequests,
	errs.Upstream:      http.StatusBadGateway,
	errs.Unavailable:   http.StatusServiceUnavailable,
}

// errorBody is the body of every error.
type errorBody struct {
	Error string `json:"error"`
}

// explain returns the status and the text with which an error is answered. A refusal has its own
// text, a framework error the text of its status. Any other error is "internal error", and its text
// is never shown.
func explain(err error) (int, string) {
	if refusal := errs.As(err); refusal != nil && refusal.Kind != errs.Internal {
		return statusOf[refusal.Kind], refusal.Msg
	}
	var f *fiber.Error
	if errors.As(err, &f) && f.Code >= 400 && f.Code < 500 {
		if f.Code == http.StatusRequestEntityTooLarge {
			return f.Code, errTooLarge.Msg
		}
		return f.Code, strings.ToLower(http.StatusText(f.Code))
	}
	return http.StatusInternalServerError, "internal error"
}

// answer writes the error's status and body. Faults of the service or of the bank are logged here,
// once.
func (e *edge) answer(c *fiber.Ctx, err error) error {
	status, text := explain(err)
	if status >= 500 {
		e.Log.LogAttrs(c.UserContext(), slog.LevelError, "request failed", slog.String("method", c.Method()),
			slog.String("route", c.Route().Path), slog.Int("status", status), slog.String("error", err.Error()))
	}
	if errors.Is(err, account.ErrBusy) || errors.Is(err, idempotency.ErrRunning) {
		c.Set(fiber.HeaderRetryAfter, runningRetry)
	}
	return c.Status(status).JSON(errorBody{text})
}

// runningRetry is when a request may be repeated that another one is in the way of, in seconds. It
// tells these conflicts from those that stay.
const runningRetry = "1"

// connectionError answers input that never became a request: a body or header over the limit, bytes
// that are not HTTP, a client that is too slow.
func (e *edge) connectionError(c *fiber.Ctx, err error) error {
	// Fiber treats a broken connection as a bad gateway
	if status, _ := explain(err); status >= 500 {
		err = fiber.ErrBadRequest
	}
	id := newRequestID(c)
	c.Set(fiber.HeaderXRequestID, id)
	c.SetUserContext(withRequestID(context.Background(), id))
	e.setHeaders(c)
	c.Response().SetConnectionClose()
	defer func() { e.counts[endpoint{}].Answered(c.Response().StatusCode(), 0) }()
	return e.answer(c, err)
}

// refuseUnknownMethods answers methods that Fiber does not know (it would do so in plain text).
func (e *edge) refuseUnknownMethods(app *fiber.App) {
	server := app.Server()
	known := server.Handler
	server.Handler = func(ctx *fasthttp.RequestCtx) {
		if slices.Contains(app.Config().RequestMethods, string(ctx.Method())) {
			known(ctx)
			return
		}
		c := app.AcquireCtx(ctx)
		defer app.ReleaseCtx(c)
		if err := e.connectionError(c, fiber.ErrMethodNotAllowed); err != nil {
			ctx.SetStatusCode(http.StatusInternalServerError)
		}
	}
}
