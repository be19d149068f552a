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
	readyTimeout = 3 * time.Second        // how long GET /ready waits for what it looks at
	readyFresh   = 500 * time.Millisecond // how long what it saw is good for everybody who asks
)

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

// ready is GET /ready: 200 while requests can be served, else 503; "degraded" says that something
// is away that the service can do without for a while. Why is logged, not told.
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

// readiness is what the last look at the dependencies saw.
type readiness struct {
	mu     sync.Mutex
	at     time.Time
	checks []Check
}

// checks looks at the dependencies, one look at a time and two a second at most: the endpoint asks
// for no credential, and a look writes to the disk. That the process was told to stop is seen at
// once.
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
