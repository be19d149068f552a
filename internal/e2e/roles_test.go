package e2e

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"ajo/internal/config"
	"ajo/internal/testenv"
	"ajo/tasks"
)

// served are the queues that servers serve, with their concurrencies, as asynq knows them.
func (w *world) served() map[string]int {
	w.t.Helper()
	servers, err := asynq.NewInspectorFromRedisClient(w.redis).Servers()
	require.NoError(w.t, err)
	all := map[string]int{}
	for _, s := range servers {
		for name := range s.Queues {
			all[name] += s.Concurrency
		}
	}
	return all
}

// A worker serves the kinds that it is told to, with the concurrencies that it is told, and no
// others: of each its queue, with room for what waits for a place, and its slow queue, with full
// tasks for all places.
func TestWorkerServesItsQueues(t *testing.T) {
	p := newWorld(t).settle()
	served := map[string]int{"deliver": 128 * tasks.Specs[tasks.Deliver].Room, "deliver:slow": 128/tasks.Specs[tasks.Deliver].MaxIDs + 1}
	p.startWorker("deliver=128")
	p.eventually("the one worker", func() bool { return maps.Equal(p.served(), served) })
	p.arrive()
	p.startWorker("ingest=7")
	p.eventually("the deliveries, by the first worker", func() bool { return p.progress().delivered == some })
	served["ingest"], served["ingest:slow"] = 7*tasks.Specs[tasks.Ingest].Room, 2
	// each server tells of itself beside its start
	p.eventually("both workers", func() bool { return maps.Equal(p.served(), served) })
	require.Zero(t, p.progress().confirmed, "nobody serves confirm")
	status := runToEnd(t, p.dir, p.settings, "status")
	require.Regexp(t, `(?m)^! +health +workers +2 running, and none of them serves confirm, settle, expire`, status.out)
	all := p.startWorker("")
	p.waitForEnd(some)
	p.checkBooks(p.endpoint)
	every := []string{
		"confirm", "confirm:slow", "deliver", "deliver:slow", "expire", "expire:slow", "ingest", "ingest:slow", "settle", "settle:slow",
	}
	p.eventually("all queues to be served", func() bool { return slices.Equal(slices.Sorted(maps.Keys(p.served())), every) })
	p.stops(all)
	p.eventually("the servers that are left", func() bool { return maps.Equal(p.served(), served) })
}

// A flag that makes no sense is refused in one line that says what is wrong, before any setting is
// read.
func TestBadQueues(t *testing.T) {
	t.Parallel()
	for queues, named := range map[string]string{
		"nosuch": `"nosuch"`, "deliver=128,nosuch=4": `"nosuch"`, "deliver=0": "deliver", "deliver=-1": "deliver", "deliver=many": `"many"`,
		"deliver=": "deliver", "deliver=10001": `"10001"`, ",": `""`, "deliver;ingest": `"deliver;ingest"`, "Deliver": `"Deliver"`,
		"ingest=1,deliver,ingest=2": "ingest is named twice",
	} {
		got := runToEnd(t, t.TempDir(), nil, "worker", "--queues", queues)
		require.Equal(t, 1, got.code, queues)
		require.Contains(t, got.out, "ajo: --queues: ", queues)
		require.Contains(t, got.out, named, queues)
		require.Equal(t, 1, strings.Count(got.out, "\n"), got.out)
	}
}

// refuses starts both roles with the settings; each must end with code 1 and name what is wrong,
// and not show the value.
func refuses(t *testing.T, w *world, settings map[string]string, named, value string) {
	t.Helper()
	for _, role := range []string{"api", "worker"} {
		p := startProgram(t, w.dir, settings, w.command([]string{role}), []string{role})
		got := result{p.exit(), string(p.out.all())}
		require.Equal(t, 1, got.code, "ajo %s with %s = %q: %s", role, named, value, got.out)
		require.Contains(t, got.out, named, "ajo %s with %s = %q", role, named, value)
		for what, secret := range w.secrets {
			require.False(t, showsSecret(got.out, secret), "the %s is printed: %s", what, got.out)
		}
		require.NotContains(t, got.out, "s3cret", "ajo %s with %s = %q", role, named, value)
	}
}

// Each required setting is refused by its name when it is missing or empty; all that are missing
// are named at once.
func TestRequiredSettings(t *testing.T) {
	w := newWorld(t)
	var required []string
	for i := range reflect.TypeFor[config.Config]().NumField() {
		name, rule, _ := strings.Cut(reflect.TypeFor[config.Config]().Field(i).Tag.Get("env"), ",")
		if rule == "required" {
			required = append(required, name)
		}
	}
	require.GreaterOrEqual(t, len(required), 8)
	for _, name := range required {
		without := w.with(nil)
		delete(without, name)
		refuses(t, w, without, name+" is not set", "")
		without[name] = ""
		refuses(t, w, without, name, "")
	}
	none := runToEnd(t, w.dir, nil, "api")
	require.Equal(t, 1, none.code)
	for _, name := range required {
		require.Contains(t, none.out, name)
	}
	noMigrate := runToEnd(t, w.dir, nil, "migrate")
	require.Equal(t, 1, noMigrate.code)
	require.Contains(t, noMigrate.out, "AJO_DATABASE_URL")
}

// badSettings are values that must be refused by the setting's name. "s3cret" stands where a
// password would.
var badSettings = []struct{ name, value string }{
	{"AJO_ENV", "staging"},
	{"AJO_DATABASE_URL", "no address"},
	{"AJO_DATABASE_URL", "postgres://ajo:s3cret@127.0.0.1:not-a-port/ajo"},
	{"AJO_DATABASE_URL", "postgres://ajo:s3cret@127.0.0.1:1/ajo"}, // nobody listens there
	{"AJO_DATABASE_MAX_CONNS", "3"},
	{"AJO_DATABASE_MAX_CONNS", "many"},
	{"AJO_REDIS_URL", "no address"},
	{"AJO_REDIS_URL", "http://127.0.0.1:6379"},
	{"AJO_REDIS_URL", "redis://:s3cret@127.0.0.1:6379/not-a-number"},
	{"AJO_ENCRYPTION_KEYS", "s3cret"},
	{"AJO_ENCRYPTION_KEYS", "id:s3cret"},
	{"AJO_ENCRYPTION_KEYS", "id:c2hvcnQ="},
	{"AJO_PROVIDER_URL", "ftp://bank.example"},
	{"AJO_PROVIDER_URL", "bank.example"},
	{"AJO_CALLBACK_ALLOW", "10.0.0.0/33"},
	{"AJO_TRUSTED_PROXIES", "somewhere"},
	{"AJO_DELIVERY_DELAYS", "soon"},
	{"AJO_DELIVERY_DELAYS", "0s"},
	{"AJO_CONFIRM_DELAYS", "-1s"},
	{"AJO_CONFIRM_MISSES", "0"},
	{"AJO_CONFIRM_MIN_AGE", "-1s"},
	{"AJO_CONFIRM_DEADLINE", "0s"},
	{"AJO_SWEEP_EVERY", "0s"},
	{"AJO_SWEEP_EVERY", "often"},
	{"AJO_IDENTITY_URL", "https://nin.example"}, // without its key
	{"AJO_OPS_ADDR", "nowhere"},
	{"LOG_FORMAT", "xml"},
}

func TestBadSettings(t *testing.T) {
	w := newWorld(t)
	for _, bad := range badSettings {
		t.Run(bad.name+"="+bad.value, func(t *testing.T) {
			changed := w.with(nil)
			changed[bad.name] = bad.value
			refuses(t, w, changed, bad.name, bad.value)
		})
	}
	apiOnly := map[string]string{
		"AJO_HTTP_ADDR": "nowhere", "AJO_RATE_LIMIT": "plenty", "AJO_RATE_LIMIT_OPEN": "0-M", "AJO_SMTP_URL": "no address", "AJO_MAIL_FROM": "nobody",
	}
	for name, value := range apiOnly {
		got := runToEnd(t, w.dir, w.with(map[string]string{name: value}), "api")
		require.Equal(t, 1, got.code, "%s: %s", name, got.out)
		require.Contains(t, got.out, name)
	}
	// Production is stricter: mail must be sent, and the bank reached under encryption.
	production := w.with(map[string]string{"AJO_ENV": "production"})
	refuses(t, w, production, "AJO_SMTP_URL", "")
	refuses(t, w, production, "AJO_PROVIDER_URL", "")
}

// No role applies a migration by itself: with one missing, be it all or the last, they refuse and
// say what to do.
func TestSchemaBehind(t *testing.T) {
	w := newWorld(t)
	const advice = "run `ajo migrate`"
	empty := testenv.EmptyDatabase(t)
	refuses(t, w, w.with(map[string]string{"AJO_DATABASE_URL": empty}), advice, "")
	w.Exec(`DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)`)
	refuses(t, w, w.settings, advice, "")

	// Looking has changed nothing: the schema is still to be made, and then both start.
	w.settings["AJO_DATABASE_URL"] = empty
	w.migrate()
	w.startAPI()
	w.startWorker("")
}
