package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"ajo/internal/config"
	"ajo/internal/console"
	"ajo/internal/operator"
	"ajo/ratelimit"
)

// Commands runs one of the operators' commands with tools that are open. The command line has it:
// what the console's pages show and do are its commands.
type Commands func(context.Context, *Tools, console.Call) (console.Answer, error)

// consoleConns is how many connections the console of a process may take.
const consoleConns = 4

// opsConsole is the console of this process. It connects when it is first asked for something, so
// that the operations port answers with Postgres away; until it has, each request tries again.
type opsConsole struct {
	cfg      config.Config
	log      *slog.Logger
	commands Commands

	mu     sync.Mutex
	opened *console.Console // nil: not connected yet
	close  func()
}

func (o *opsConsole) get(ctx context.Context) (*console.Console, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opened != nil {
		return o.opened, nil
	}
	tools, err := OpenTools(ctx, ToolSettings{Config: o.cfg, Log: o.log, Conns: consoleConns})
	if err != nil {
		return nil, err
	}
	limits, err := ratelimit.New(ratelimit.Options{Client: tools.redis, PerTenant: o.cfg.RateLimit, Open: o.cfg.RateLimitOpen, Log: o.log})
	if err != nil {
		tools.Close()
		return nil, fmt.Errorf("AJO_RATE_LIMIT or AJO_RATE_LIMIT_OPEN: %w", err)
	}
	o.opened = console.New(console.Options{
		Operators: tools.Operators, Limits: limits, Secure: o.cfg.Production(), Log: o.log,
		Run: func(ctx context.Context, c console.Call) (console.Answer, error) { return o.commands(ctx, tools, c) },
	})
	o.close = func() {
		_ = limits.Close()
		tools.Close()
	}
	return o.opened, nil
}

// ServeHTTP serves the console.
func (o *opsConsole) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	c, err := o.get(ctx)
	cancel()
	if err != nil {
		o.log.Error("the console could not connect", slog.Any("err", err))
		http.Error(w, "the console cannot reach its database: see the log of this process", http.StatusServiceUnavailable)
		return
	}
	c.ServeHTTP(w, r)
}

// operator is whose session of the console a request has.
func (o *opsConsole) operator(r *http.Request) (operator.Operator, error) {
	if len(r.CookiesNamed(console.Cookie)) == 0 {
		return operator.Operator{}, operator.ErrUnauthorized
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	c, err := o.get(ctx)
	if err != nil {
		return operator.Operator{}, err
	}
	return c.Operator(r)
}

func (o *opsConsole) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.close != nil {
		o.close()
	}
}
