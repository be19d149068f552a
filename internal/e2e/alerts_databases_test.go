package e2e

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/testenv"
)

// proxied has the processes reach a database by a proxy.
func (w *world) proxied(setting string) (p *testenv.Proxy) {
	w.settings[setting], p = throughProxy(w.t, w.settings[setting], false)
	return p
}

// Postgres and Redis go away, one after the other, and come back.
func TestAlertsOfDatabases(t *testing.T) {
	a := newAlarm(t)
	postgres, redis := a.proxied("AJO_DATABASE_URL"), a.proxied("AJO_REDIS_URL")
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	a.look(roles)
	a.mustNot("AjoSpooling", "AjoSpoolDamaged", "AjoPostgresUnreachable", "AjoRedisUnreachable", "AjoRateLimitFallback")

	redis.Refuse(true)
	request := func() { _ = a.send("GET", "/v1/accounts", nil, http.Header{"X-Api-Key": {p.tenant.key}}) }
	request()
	a.eventually("a look at Redis", func() bool { return sample(scrape(roles["api"]), "ajo_redis_up") == 0 })
	a.forget()
	a.look(roles)
	a.must("AjoRedisUnreachable", "AjoRateLimitFallback")
	a.followTo(1, "AjoRedisUnreachable", "redis-cli")
	redis.Restore()
	require.Contains(t, a.follow("AjoRedisUnreachable", "redis-cli"), "PONG")
	a.eventually("a request that Redis counts", func() bool { request(); return sample(scrape(roles["api"]), "ajo_ratelimit_fallback") == 0 })
	a.eventually("a look at Redis", func() bool { return sample(scrape(roles["api"]), "ajo_redis_up") == 1 })
	a.quiet(roles, "AjoRedisUnreachable", "AjoRateLimitFallback")

	postgres.Refuse(true)
	p.arrive()
	a.eventually("a look at Postgres and the spool", func() bool {
		s := scrape(roles["api"])
		return sample(s, "ajo_postgres_up") == 0 && sample(s, "ajo_spool_records") == some && sample(s, "ajo_spool_bytes") > 0
	})
	a.forget()
	a.look(roles)
	a.must("AjoPostgresUnreachable", "AjoSpooling")
	a.mustNot("AjoRedisUnreachable", "AjoSpoolFilling", "AjoSpoolDamaged")
	a.says(a.api, "AjoSpooling", "alert=spooling")

	postgres.Restore()
	a.eventually("an empty spool", func() bool {
		s := scrape(roles["api"])
		return sample(s, "ajo_spool_records") == 0 && sample(s, "ajo_postgres_up") == 1 && sample(s, `ajo_inbound_events_total{outcome="spooled"}`) == some
	})
	a.says(a.api, "AjoSpooling", "the spool was drained")
	a.quiet(roles, "AjoPostgresUnreachable", "AjoSpooling")
}

// The read replica is none: all is read at the primary.
func TestAlertsOfReplica(t *testing.T) {
	a := newAlarm(t)
	a.settings["AJO_DATABASE_READ_URL"] = a.settings["AJO_DATABASE_URL"]
	roles := map[string]string{}
	roles["api"] = a.watched(func() { a.settle() })
	a.look(roles)
	a.must("AjoReplicaUnused")
	a.says(a.api, "AjoReplicaUnused", "alert=replica")
	require.Empty(t, cells(a.follow("AjoReplicaUnused", "SELECT application_name")))
	a.api.Kill()
	delete(a.settings, "AJO_DATABASE_READ_URL")
	roles["api"] = a.watched(func() { a.startAPI() })
	a.quiet(roles, "AjoReplicaUnused")
}

// The archive's folder is a file, while a partition is long overdue.
func TestAlertsOfArchive(t *testing.T) {
	a := newAlarm(t)
	a.settings["AJO_KEEP_DELIVERIES"] = "744h"
	a.settings["AJO_ARCHIVE_DIR"] = filepath.Join(t.TempDir(), "archive")
	require.NoError(t, os.WriteFile(a.settings["AJO_ARCHIVE_DIR"], nil, 0o600))
	roles := map[string]string{}
	roles["api"] = a.watched(func() { a.settle() })
	for _, table := range []string{"deliveries", "delivery_attempts"} { // all of which have ended by now
		a.Exec("ALTER TABLE " + table + " DETACH PARTITION " + table + "_earlier")
		a.Exec("ALTER TABLE " + table + " ATTACH PARTITION " + table + "_earlier FOR VALUES FROM (MINVALUE) TO ('019b0000-0000-0000-0000-000000000000')")
	}
	var worker *process
	roles["worker"] = a.watched(func() { worker = a.startWorker("") })
	overdue := `ajo_archive_overdue_seconds{table="deliveries",why="failing"}`
	a.eventually("a failed attempt", func() bool { return sample(scrape(roles["worker"]), overdue) > 86400 })
	a.look(roles)
	a.must("AjoArchiveOverdue")
	a.says(worker, "AjoArchiveOverdue", "alert=archive")
	require.Contains(t, a.follow("AjoArchiveOverdue", "ajo archive list --state due"), "deliveries_earlier")
	require.NotContains(t, a.follow("AjoArchiveOverdue", "ajo archive list --state waiting"), "deliveries_earlier")
	require.Contains(t, a.follow("AjoArchiveOverdue", "ajo archive show <partition>", "<partition>", "deliveries_earlier"), "not a directory")
	a.follow("AjoArchiveOverdue", "ajo deliveries list --status pending")
	a.follow("AjoArchiveOverdue", "ajo work list")

	require.NoError(t, os.Remove(a.settings["AJO_ARCHIVE_DIR"]))
	a.follow("AjoArchiveOverdue", `ajo archive run <partition> --reason "…"`, "<partition>", "deliveries_earlier", "…", "a test")
	a.follow("AjoArchiveOverdue", `ajo archive run <partition> --reason "…"`, "<partition>", "delivery_attempts_earlier", "…", "a test")
	worker.Kill()
	roles["worker"] = a.watched(func() { a.startWorker("") })
	a.quiet(roles, "AjoArchiveOverdue")
}

// The spool runs full while Postgres is away, until events are refused; and its disk damages what
// it keeps.
func TestAlertsOfSpool(t *testing.T) {
	a := newAlarm(t)
	a.settings["AJO_SPOOL_MAX_MB"] = "1"
	postgres := a.proxied("AJO_DATABASE_URL")
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	a.look(roles)
	postgres.Refuse(true)
	send := func() int {
		tx := a.payment(fakebank.Payment{NUBAN: p.nuban, Amount: money.Must("5000.00"), Silent: true})
		p.txs = append(p.txs, tx)
		body := p.bank.EventFor(tx)
		body = append(body[:len(body)-1], `,"padding":"`+strings.Repeat("x", 100<<10)+`"}`...)
		status, _, err := p.bank.SendEvent(context.Background(), body, nil)
		require.NoError(t, err)
		return status
	}
	for range 5 {
		require.Equal(t, 200, send())
	}
	a.eventually("a look at the spool", func() bool { return sample(scrape(roles["api"]), "ajo_spool_bytes") > 1<<19 })
	a.look(roles)
	a.must("AjoSpoolFilling")
	a.mustNot("AjoEventsRefused")
	a.follow("AjoSpoolFilling", "du -sh")
	for send() == 200 {
		require.Less(t, len(p.txs), 20)
	}
	a.look(roles)
	a.must("AjoEventsRefused")

	// The disk changes a byte of the newest record: the oldest may have been read before.
	segments, err := filepath.Glob(filepath.Join(a.settings["AJO_SPOOL_DIR"], "*.spool"))
	require.NoError(t, err)
	require.NotEmpty(t, segments) // each attempt to drain them begins another
	slices.Sort(segments)
	last := segments[len(segments)-1]
	info, err := os.Stat(last)
	require.NoError(t, err)
	f, err := os.OpenFile(last, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{'!'}, info.Size()-5000)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	begun := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	postgres.Restore()
	a.eventually("the damage", func() bool {
		s := scrape(roles["api"])
		return sample(s, "ajo_spool_damaged_segments") == 1 && sample(s, "ajo_spool_bytes") == 0
	})
	a.forget()
	a.look(roles)
	a.must("AjoSpoolDamaged")
	a.mustNot("AjoSpoolFilling")
	require.Contains(t, a.follow("AjoSpoolDamaged", "ls -l"), ".damaged")
	// the one that was refused, and those of the damaged segment
	require.Contains(t, a.follow("AjoEventsRefused", "ajo reconcile"), "missing_event")
	a.follow("AjoSpoolDamaged", "ajo reconcile", "<time of the segment>", begun)
	require.Equal(t, len(p.txs), a.count(`SELECT count(*) FROM inbound_events WHERE authentic`))
	require.NoError(t, os.Rename(strings.Replace(last, ".spool", ".damaged", 1), filepath.Join(t.TempDir(), "kept")))
	a.eventually("a look at the folder", func() bool { return sample(scrape(roles["api"]), "ajo_spool_damaged_segments") == 0 })
	a.startWorker("")
	a.eventually("the postings", func() bool { return p.progress().posted == len(p.txs) })
	a.quiet(roles, "AjoSpoolFilling", "AjoEventsRefused", "AjoSpoolDamaged")
}
