package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/internal/supervise"
	"ajo/migrations"
)

const (
	never     = "12h" // a first check with the bank that no row lives to see
	soon      = "1s"
	pollEvery = 100 * time.Millisecond // while a row waits for the end of its work
)

// settings are what every row's roles run with, where that is not the default. They lift the limits
// that stand for a foreign party's, which would be measured otherwise, and keep the reconciliation,
// which reads that party's list, out of the run.
var settings = map[string]string{
	// the bank's 75 calls and 15 POSTs a second, and 5 payouts a minute to one account
	"AJO_PROVIDER_RATE": "-1", "AJO_PROVIDER_POST_RATE": "-1", "AJO_PROVIDER_RECIPIENT_RATE": "-1",
	"AJO_RATE_LIMIT": "1000000000-M", "AJO_RATE_LIMIT_OPEN": "1000000000-M",
	"AJO_RECONCILE_EVERY": "744h", "AJO_RECONCILE_WINDOW": "744h", "AJO_RECONCILE_BACK": "0s",
	"LOG_FORMAT": "json", "AJO_OPS_PASSWORD": opsPassword, "AJO_DRAIN": "0s",
}

const opsPassword = "bench"

// world is one row's: a database of its own, the bank, the API, the worker, and tenants with their
// accounts.
type world struct {
	*servers
	name     string
	settings map[string]string
	pool     *pg.Pool
	bank     *supervise.Process
	bankAddr string
	api      *supervise.Process
	apiAddr  string
	worker   *supervise.Process
	ops      map[*supervise.Process]string // addresses of metrics and pprof
	endpoint *endpoint                     // the tenants'; nil: they have no webhook URL
	accounts []*account
}

// worldOptions say what a row needs.
type worldOptions struct {
	template string            // database to copy; empty: a new one
	settings map[string]string // beside the common ones
	hooked   bool              // the tenants have a webhook URL
}

// newWorld makes the row's database and starts the roles as built binaries: one bank, one API, one
// worker with all queues.
func (s *servers) newWorld(ctx context.Context, name string, o worldOptions) (w *world, err error) {
	made := &world{servers: s, name: s.prefix + "_" + name, settings: maps.Clone(settings), ops: map[*supervise.Process]string{}}
	defer func() {
		if err != nil {
			made.close(ctx)
		}
	}()
	w = made
	if err = s.createDatabase(ctx, w.name, o.template); err != nil {
		return nil, err
	}
	url, err := s.database(w.name)
	if err != nil {
		return nil, err
	}
	if _, err = migrations.Up(ctx, url, migrations.Options{}); err != nil {
		return nil, err
	}
	if w.pool, err = pg.Open(ctx, url+"&statement_timeout=0", 8); err != nil { // the checks read the whole book
		return nil, err
	}
	if err = partition.MakeAhead(ctx, w.pool, partition.Month, time.Now()); err != nil {
		return nil, err
	}
	if o.template != "" {
		if err = readIndexes(ctx, w.pool); err != nil {
			return nil, err
		}
	}
	if err = s.redis.FlushDB(ctx).Err(); err != nil {
		return nil, err
	}
	for _, sub := range []string{"mail", "spool"} {
		if err = os.RemoveAll(filepath.Join(s.dir, sub)); err != nil {
			return nil, err
		}
	}
	maps.Copy(w.settings, map[string]string{
		"AJO_DATABASE_URL": url, "AJO_REDIS_URL": s.redisURL, "AJO_ENCRYPTION_KEYS": s.encryptionKey,
		"AJO_PROVIDER_ACCOUNT_ID": fakebank.DefaultAccountID, "AJO_PROVIDER_CLIENT_ID": fakebank.DefaultClientID,
		"AJO_PROVIDER_CLIENT_SECRET": fakebank.DefaultClientSecret, "AJO_PROVIDER_WEBHOOK_SECRET": fakebank.DefaultWebhookSecret,
		"AJO_MAIL_DIR": filepath.Join(s.dir, "mail"), "AJO_SPOOL_DIR": filepath.Join(s.dir, "spool"),
	})
	maps.Copy(w.settings, o.settings)
	if err = w.startRoles(ctx); err != nil {
		return nil, err
	}
	if o.hooked {
		if w.endpoint, err = newEndpoint(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// readIndexes reads all indexes of a database into the machine's memory, where they are in a
// service that runs: random ids meet any page of them.
func readIndexes(ctx context.Context, pool *pg.Pool) error {
	if _, err := pool.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_prewarm"); err != nil {
		return err
	}
	return patiently(ctx, pool, "SELECT pg_prewarm(i.indexrelid, 'read') FROM pg_index i JOIN pg_stat_user_tables t ON t.relid = i.indrelid JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relkind = 'i'")
}

// The roles listen on ports that the kernel gives them, and log which: one that was looked for
// before could be another process's by the time that it is needed.
var (
	bankListens = regexp.MustCompile(`Fake bank \(and NIN service\): http://(\S+)`)
	apiListens  = regexp.MustCompile(`"the API listens","url":"http://([^"]+)"`)
	workerRuns  = regexp.MustCompile(`"(the worker runs)"`)
	opsListens  = regexp.MustCompile(`operations listener started","address":"([^"]+)"`)
)

const anyPort = "127.0.0.1:0"

func (w *world) startRoles(ctx context.Context) (err error) {
	bank := maps.Clone(w.settings)
	bank["GOGC"] = "400" // it stands for another machine: what it takes of this one is to be little
	if w.bank, err = start(w.bin, w.dir, "fakebank", bank, "fakebank", "--addr", anyPort, "--webhook-url", "", "--payout-delay", "0s", "--recipient-rate", "0"); err != nil {
		return err
	}
	if w.bankAddr, err = logged(ctx, w.bank, bankListens); err != nil {
		return err
	}
	w.settings["AJO_PROVIDER_URL"], w.settings["AJO_HTTP_ADDR"], w.settings["AJO_OPS_ADDR"] = "http://"+w.bankAddr, anyPort, anyPort
	if w.api, err = start(w.bin, w.dir, "api", w.settings, "api"); err != nil {
		return err
	}
	if w.ops[w.api], err = logged(ctx, w.api, opsListens); err != nil {
		return err
	}
	if w.apiAddr, err = logged(ctx, w.api, apiListens); err != nil {
		return err
	}
	w.worker, err = w.startWorker(ctx, "worker")
	return err
}

// startWorker starts a worker more, and waits until it runs. It ends with the world.
func (w *world) startWorker(ctx context.Context, name string, args ...string) (*supervise.Process, error) {
	p, err := start(w.bin, w.dir, name, w.settings, append([]string{"worker"}, args...)...)
	if err != nil {
		return nil, err
	}
	w.ops[p] = "" // from here on it ends with the world
	if _, err := logged(ctx, p, workerRuns); err != nil {
		return p, err
	}
	w.ops[p], err = logged(ctx, p, opsListens)
	return p, err
}

// stopWorkers ends all workers in their own time.
func (w *world) stopWorkers() {
	for p := range w.ops {
		if p != w.api {
			p.Stop(syscall.SIGTERM, stopLimit)
		}
	}
}

// close ends the roles and removes the database.
func (w *world) close(ctx context.Context) {
	w.stopRoles()
	if err := w.dropDatabase(context.WithoutCancel(ctx), w.name); err != nil {
		w.say("%v", err)
	}
}

// stopRoles ends all that uses the database.
func (w *world) stopRoles() {
	w.stopWorkers()
	w.api.Stop(syscall.SIGTERM, stopLimit)
	w.bank.Stop(syscall.SIGTERM, stopLimit)
	w.endpoint.stop()
	if w.pool != nil {
		w.pool.Close()
	}
}

// wait asks until the query answers true, and fails after limit.
func (w *world) wait(ctx context.Context, what string, limit time.Duration, sql string, args ...any) error {
	for deadline := time.Now().Add(limit); ; {
		var done bool
		if err := w.pool.QueryRow(ctx, sql, args...).Scan(&done); err != nil {
			return err
		}
		if done {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s not all was %s", limit, what)
		}
		if err := clock.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// problems are the lines of errors that the roles have logged, at most a few.
func (w *world) problems() []string {
	var found []string
	for _, p := range []*supervise.Process{w.api, w.worker} {
		b, err := os.ReadFile(p.Log)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, `"level":"ERROR"`) && len(found) < 5 {
				found = append(found, p.Name+": "+strings.TrimSpace(line))
			}
		}
	}
	return found
}
