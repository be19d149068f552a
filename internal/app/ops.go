package app

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"ajo/internal/config"
	"ajo/internal/console"
	"ajo/internal/metrics"
	"ajo/internal/operator"
	"ajo/internal/redisconn"
	"ajo/ratelimit"
	"ajo/workers"
)

// Ops is the running operations listener: console, metrics, queue dashboard, pprof.
type Ops struct {
	URL     string
	server  *http.Server
	console *opsConsole
	tries   *ratelimit.Limiter
}

// Stop ends the listener, if there is one.
func (o *Ops) Stop() {
	if o == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := o.server.Shutdown(ctx); err != nil {
		_ = o.server.Close()
	}
	o.console.stop()
	_ = o.tries.Close()
}

// StartOps listens on cfg.OpsAddr. Several processes on one machine may share the setting: a
// process that finds the address taken runs without the listener (nil), and logs that. The pages of
// the console run commands.
func StartOps(cfg config.Config, log *slog.Logger, commands Commands) (*Ops, error) {
	if probe, err := redisconn.Open(cfg.RedisURL.Reveal(), redisconn.Options{}); err != nil {
		return nil, fmt.Errorf("AJO_REDIS_URL: %w", err)
	} else {
		_ = probe.Close() // only the address was to be checked
	}
	// in this process alone, so that the login works with Redis away
	tries, err := ratelimit.New(ratelimit.Options{PerTenant: cfg.RateLimitOpen, Open: cfg.RateLimitOpen, Log: log})
	if err != nil {
		return nil, fmt.Errorf("AJO_RATE_LIMIT_OPEN: %w", err)
	}
	listener, err := net.Listen("tcp", cfg.OpsAddr)
	if errors.Is(err, syscall.EADDRINUSE) {
		log.Warn("the operations address is taken; this process has no metrics and no dashboard", slog.String("AJO_OPS_ADDR", cfg.OpsAddr))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("AJO_OPS_ADDR: %w", err)
	}
	connect := func() redis.UniversalClient {
		c, err := redisconn.Open(cfg.RedisURL.Reveal(), redisconn.Options{})
		if err != nil {
			panic(err) // the address was checked above
		}
		return c
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", opsIndex)
	mux.Handle("GET /metrics", metrics.Handler())
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status":"ok"}` + "\n")) })
	login := func(h http.Handler) http.Handler { return requireLogin(cfg, log, tries, h) }
	people := &opsConsole{cfg: cfg, log: log, commands: commands}
	mux.Handle(console.Root, people)
	mux.Handle(console.Root+"/", people)
	mux.Handle("/queues/", requireOperator(people, login, workers.Dashboard("/queues", connect, !cfg.OpsWritable)))
	mux.Handle("/queues", http.RedirectHandler("/queues/", http.StatusMovedPermanently))
	mux.Handle("GET /freezes", login(opsFreezes(cfg, log)))
	mux.Handle("/debug/pprof/", login(http.HandlerFunc(pprof.Index)))
	mux.Handle("/debug/pprof/cmdline", login(http.HandlerFunc(pprof.Cmdline)))
	mux.Handle("/debug/pprof/profile", login(http.HandlerFunc(pprof.Profile)))
	mux.Handle("/debug/pprof/symbol", login(http.HandlerFunc(pprof.Symbol)))
	mux.Handle("/debug/pprof/trace", login(http.HandlerFunc(pprof.Trace)))
	log.Info("operations listener started", slog.String("address", listener.Addr().String()))
	o := &Ops{URL: "http://" + listener.Addr().String(), console: people, tries: tries, server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}}
	go func() {
		if err := o.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the operations listener ended", slog.Any("err", err))
		}
	}()
	return o, nil
}

// opsIndex lists the pages, for people who open the bare address.
func opsIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	_, _ = io.WriteString(w, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Ajo operations</title></head><body>
<h1>Ajo operations</h1>
<ul>
<li><a href="/console">Console</a> (an operator's login)</li>
<li><a href="/queues/">Queues</a> (login)</li>
<li><a href="/freezes">What is stopped</a> (login)</li>
<li><a href="/metrics">Metrics</a></li>
<li><a href="/health">Health</a></li>
<li><a href="/debug/pprof/">Profiles</a> (login)</li>
</ul>
</body></html>
`)
}

// requireLogin requires the operators' user and password; without a password in the settings,
// nobody gets in. From one network as many wrong ones are compared as AJO_RATE_LIMIT_OPEN says;
// over that, only what has been right before gets in from there.
func requireLogin(cfg config.Config, log *slog.Logger, tries *ratelimit.Limiter, h http.Handler) http.Handler {
	want := sha256.Sum256([]byte(cfg.OpsUser + "\x00" + cfg.OpsPassword.Reveal()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cfg.OpsPassword.IsZero() {
			http.Error(w, "closed: set AJO_OPS_PASSWORD", http.StatusForbidden)
			return
		}
		user, password, given := r.BasicAuth()
		got := sha256.Sum256([]byte(user + "\x00" + password))
		at, _ := netip.ParseAddrPort(r.RemoteAddr)
		try := tries.AdmitToEnd(at.Addr(), got)
		right := try.OK && subtle.ConstantTimeCompare(got[:], want[:]) == 1
		if try.OK && given && !right {
			log.Warn("a login to the operations port was refused", slog.String("from", at.Addr().Unmap().String()))
			try = tries.Stranger(r.Context(), at.Addr(), got)
		}
		if !try.OK && given { // a browser sends the password only after it was asked for it
			try.Header(w.Header().Set)
			http.Error(w, ratelimit.ErrLimited.Msg, http.StatusTooManyRequests)
			return
		}
		if !right {
			w.Header().Set("WWW-Authenticate", `Basic realm="Ajo operations", charset="UTF-8"`)
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		tries.Met(got)
		// A browser sends the login on its own, so a change must come from a page of this origin.
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !console.SameOrigin(r) {
			http.Error(w, "cross-site request refused", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// requireOperator lets sessions of the console in: to look, those of all operators, to change
// something, those with the role operator. Without such a session there is the other login, which
// works with Postgres away, and only to look.
func requireOperator(people *opsConsole, login func(http.Handler) http.Handler, h http.Handler) http.Handler {
	other := login(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		looks := r.Method == http.MethodGet || r.Method == http.MethodHead
		who, err := people.operator(r)
		switch {
		case err != nil && looks:
			other.ServeHTTP(w, r)
		case err != nil:
			http.Error(w, "changes need a login to /console with the role operator", http.StatusForbidden)
		case looks:
			h.ServeHTTP(w, r)
		case who.Role != operator.Actor || !console.SameOrigin(r):
			http.Error(w, "your role is read-only, or the request is of another site", http.StatusForbidden)
		default:
			people.log.Info("an operator changes the queues", slog.String("operator", who.Name), slog.String("method", r.Method), slog.String("path", r.URL.Path))
			h.ServeHTTP(w, r)
		}
	})
}
