package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
)

const (
	readyTimeout = 3 * time.Second        // how long GET /ready waits for the dependencies
	readyFresh   = 500 * time.Millisecond // how long a result is reused for all callers
)

// Check is the result for one dependency; a nil Err means that it is available.
type Check struct {
	Name     string
	Err      error
	Degraded bool // the service works without it
}

// health is GET /health: the process answers. It checks no dependency.
func (e *edge) health(c *fiber.Ctx) error {
	return c.JSON(struct {
		Status string `json:"status"`
	}{"ok"})
}

// ready is GET /ready: 200 while requests can be served, else 503. "degraded" means that a
// dependency is unavailable that the service can do without for a while. The reason is logged, not
// sent.
func (e *edge) ready(c *fiber.Ctx) error {
	out := struct {
		Status string            `json:"status"`
		Checks map[string]string `json:"checks"`
	}{"ok", map[string]string{}}
	fatal := false
	for _, check := range e.checks(c.UserContext()) {
		out.Checks[check.Name] = "ok"
		if check.Err != nil {
			out.Checks[check.Name] = "unavailable"
			if out.Status = "degraded"; !check.Degraded {
				fatal = true
			}
		}
	}
	if fatal {
		out.Status = "unavailable"
		c.Status(http.StatusServiceUnavailable)
	}
	return c.JSON(out)
}

// readiness is the last result of the checks.
type readiness struct {
	mu     sync.Mutex
	at     time.Time
	checks []Check
}

// checks checks the dependencies, one call at a time and at most twice a second: the endpoint
// requires no credential, and a check writes to the disk. A stopping process is reported at once.
func (e *edge) checks(ctx context.Context) []Check {
	r := &e.readiness
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < readyFresh && !e.stopping() {
		return r.checks
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	r.checks = e.Ready(ctx)
	r.at = time.Now()
	for _, check := range r.checks {
		if check.Err != nil {
			e.Log.LogAttrs(ctx, slog.LevelWarn, "not ready", slog.String("dependency", check.Name), slog.String("error", check.Err.Error()))
		}
	}
	return r.checks
}
