package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"
)

// readyTimeout is how long GET /ready waits for what it looks at.
const readyTimeout = 3 * time.Second

// Check is what one dependency answered; a nil Err means that it is there.
type Check struct {
	Name     string
	Err      error
	Degraded bool // the service goes on without it
}

// health is GET /health: the process answers. No dependency is touched.
func (e *edge) health(c *fiber.Ctx) error {
	return c.JSON(struct {
		Status string `json:"status"`
	}{"ok"})
}

// ready is GET /ready: 200 while requests can be served, else 503; "degraded" says that something is away that the service
// can do without for a while. Why is logged, not told.
func (e *edge) ready(c *fiber.Ctx) error {
	ctx, cancel := context.WithTimeout(c.UserContext(), readyTimeout)
	defer cancel()
	out := struct {
		Status string            `json:"status"`
		Checks map[string]string `json:"checks"`
	}{"ok", map[string]string{}}
	fatal := false
	for _, check := range e.Ready(ctx) {
		out.Checks[check.Name] = "ok"
		if check.Err != nil {
			out.Checks[check.Name] = "unavailable"
			if out.Status = "degraded"; !check.Degraded {
				fatal = true
			}
			e.Log.LogAttrs(ctx, slog.LevelWarn, "not ready", slog.String("dependency", check.Name), slog.String("error", check.Err.Error()))
		}
	}
	if fatal {
		out.Status = "unavailable"
		c.Status(http.StatusServiceUnavailable)
	}
	return c.JSON(out)
}
