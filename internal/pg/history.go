package pg

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A server that is restored from a backup, or that takes over from another, begins a new timeline.
// What was committed on another one may be missing there: a copy of an answer that is kept
// elsewhere must name the history that it belongs to.

// histories are the pools' histories.
var histories sync.Map // of *history by weak.Pointer[Pool]

// poolHistory is the database and timeline that a pool's connections have reached.
type poolHistory struct {
	newest  atomic.Pointer[string]
	several bool // the address names several servers
}

// History names the database and the timeline that the pool was last connected to; empty: not
// known. The name changes when the database is restored, and when a standby takes over.
func History(pool *Pool) string {
	if h, ok := histories.Load(weak.Make(pool)); ok {
		if name := h.(*poolHistory).newest.Load(); name != nil {
			return *name
		}
	}
	return ""
}

// keep registers the history for [History], as long as the pool exists.
func (h *poolHistory) keep(pool *Pool) {
	key := weak.Make(pool)
	histories.Store(key, h)
	runtime.AddCleanup(pool, func(key weak.Pointer[Pool]) { histories.Delete(key) }, key)
}

// historySQL sorts the names of one database by their timelines. In recovery there is none.
const historySQL = `SELECT (SELECT system_identifier FROM pg_control_system()) || ':' || oid || ':' || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8)
	FROM pg_database WHERE datname = current_database() AND NOT pg_is_in_recovery()`

// errOldPrimary is why a server is refused although it accepts writes.
var errOldPrimary = errors.New("another server has taken over from this one, which accepts writes all the same: stop it")

// FollowPrimary makes connections by cfg go to the same server as those of [Open].
func FollowPrimary(ctx context.Context, cfg *pgx.ConnConfig) { new(poolHistory).follow(ctx, cfg) }

// follow checks each new connection, and first compares the servers if there are several. Unless
// the address says otherwise, it refuses a server that takes no writes, of a single address too:
// that may lead to the old primary, a standby by now, for a moment after a failover, and the
// connection would stay in the pool for an hour.
func (h *poolHistory) follow(ctx context.Context, cfg *pgx.ConnConfig) {
	h.several = severalHosts(&cfg.Config)
	if cfg.ValidateConnect == nil {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	fits := cfg.ValidateConnect
	cfg.ValidateConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		if fits != nil {
			if err := fits(ctx, c); err != nil {
				return err
			}
		}
		return h.check(ctx, c)
	}
	if h.several {
		h.checkServers(ctx, cfg)
	}
}

// check records the history of a new connection. Of several servers, it refuses the one from which
// another has taken over, because writes there would not be in the books.
func (h *poolHistory) check(ctx context.Context, c *pgconn.PgConn) error {
	found, err := c.Exec(ctx, historySQL).ReadAll()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil || len(found[0].Rows) == 0:
		return nil // not for this role to know
	}
	name := string(found[0].Rows[0][0])
	for {
		is := h.newest.Load()
		if h.several && is != nil && older(name, *is) {
			slog.ErrorContext(ctx, errOldPrimary.Error(), slog.String("alert", "old_primary"), slog.String("server", c.Conn().RemoteAddr().String()))
			return errOldPrimary
		}
		if h.newest.CompareAndSwap(is, &name) {
			return nil
		}
	}
}

// older reports whether both belong to one database, and a to an earlier timeline.
func older(a, b string) bool {
	at := len(a) - 8
	return len(a) == len(b) && a[:at] == b[:at] && a < b
}

// checkServers asks each of several servers for its history, so that the first connection goes to
// the newest of those that accept writes. A server that does not answer has none.
func (h *poolHistory) checkServers(ctx context.Context, cfg *pgx.ConnConfig) {
	var all sync.WaitGroup
	for _, f := range append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...) {
		one := cfg.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
		all.Go(func() {
			if c, err := pgx.ConnectConfig(ctx, one); err == nil {
				_ = c.Close(ctx)
			}
		})
	}
	all.Wait()
}
