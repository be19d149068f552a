package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/testenv"
	"ajo/ledger"
	"ajo/tasks"
)

// healLimit is what a payment may take to its end after a fault: a few sweeps, on a machine that
// has much else to do.
const healLimit = 45 * time.Second

// world is all that a payment needs: databases of its own, the bank, the settings, the processes.
type world struct {
	*testenv.Env
	t        testing.TB
	redis    *redis.Client
	bank     *fakebank.Bank
	settings map[string]string
	dir      string // the processes' working directory
	api      *process
	apiURL   string
	secrets  map[string]string // what no process may print, by what it is
	procs    []*process
	program  func(args []string) *exec.Cmd // what run starts; nil: the binary
	// held while secrets is written, and where it is read beside the test's goroutine
	secretsLock sync.Mutex
}

// newWorld makes a world with no process in it. Schedules are short; a test changes settings before
// it starts a process.
func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	env := testenv.New(t)
	return worldOn(env, env.Redis(), fakebank.Options{RetryDelays: repeat(200*time.Millisecond, 5000)})
}

// worldOn makes a world on databases that are there, with a bank as the options say.
func worldOn(env *testenv.Env, redis *redis.Client, o fakebank.Options) *world {
	t := env.T
	w := &world{Env: env, t: t, redis: redis, dir: t.TempDir(), secrets: map[string]string{}}
	o.WebhookSecret, o.ClientSecret = "a-webhook-secret-of-this-test", "a-client-secret-of-this-test"
	w.bank = testenv.StartBank(t, o)
	keys := secret.NewKey("test").Reveal()
	w.settings = map[string]string{
		"AJO_HTTP_ADDR": "127.0.0.1:0", "AJO_OPS_ADDR": "127.0.0.1:0", "LOG_FORMAT": "json",
		"AJO_DATABASE_URL": env.DatabaseURL, "AJO_DATABASE_MAX_CONNS": "6", "AJO_REDIS_URL": env.RedisURL, "AJO_ENCRYPTION_KEYS": keys,
		"AJO_PROVIDER_URL": w.bank.URL(), "AJO_PROVIDER_ACCOUNT_ID": fakebank.DefaultAccountID, "AJO_PROVIDER_CLIENT_ID": fakebank.DefaultClientID,
		"AJO_PROVIDER_CLIENT_SECRET": "a-client-secret-of-this-test", "AJO_PROVIDER_WEBHOOK_SECRET": "a-webhook-secret-of-this-test",
		"AJO_PROVIDER_RATE": "-1", "AJO_PROVIDER_POST_RATE": "-1", "AJO_PROVIDER_RECIPIENT_RATE": "-1",
		"AJO_MAIL_DIR": filepath.Join(w.dir, "mail"), "AJO_RATE_LIMIT": "1000000-M", "AJO_RATE_LIMIT_OPEN": "1000000-M",
		"AJO_CONFIRM_DELAYS": "1s", "AJO_CONFIRM_MISSES": "1000", "AJO_DELIVERY_DELAYS": "1s,1s,1s,1s,1s", "AJO_SWEEP_EVERY": "1s",
	}
	_, sealing, _ := strings.Cut(keys, ":")
	w.keepSecret("encryption key", sealing)
	w.keepSecret("client secret", "a-client-secret-of-this-test")
	w.keepSecret("bank's webhook secret", "a-webhook-secret-of-this-test")
	t.Cleanup(w.checkOutputs)
	return w
}

func repeat(d time.Duration, n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = d
	}
	return all
}

// run starts the binary, or what stands for it, with the world's settings.
func (w *world) run(args ...string) *process {
	w.t.Helper()
	p := startProgram(w.t, w.dir, w.settings, w.command(args), args)
	w.procs = append(w.procs, p)
	return p
}

func (w *world) command(args []string) *exec.Cmd {
	if w.program != nil {
		return w.program(args)
	}
	return exec.Command(ajo, args...)
}

// lookForRaces has the world start the binary with the race detector: for tests whose processes do
// much at once. The others ask what processes do, not how their goroutines share it.
func (w *world) lookForRaces() {
	w.t.Helper()
	program, err := racingProgram()
	require.NoError(w.t, err)
	w.program = func(args []string) *exec.Cmd { return exec.Command(program, args...) }
}

// startAPI runs `ajo api`, waits until it listens, and has the bank send its events there.
func (w *world) startAPI() *process {
	w.t.Helper()
	w.api = w.run("api")
	w.listens()
	return w.api
}

// listens waits until the API does, and has the bank send its events there.
func (w *world) listens() {
	w.t.Helper()
	w.apiURL, _ = w.api.logged("the API listens")["url"].(string)
	addr, err := netip.ParseAddrPort(strings.TrimPrefix(w.apiURL, "http://"))
	require.NoError(w.t, err)
	require.NotZero(w.t, addr.Port())
	w.bank.SetWebhookURL(w.apiURL + "/webhooks/provider")
}

// startWorker runs `ajo worker`, serving the queues as --queues names them (empty: all), and waits
// until it runs.
func (w *world) startWorker(queues string) *process {
	w.t.Helper()
	args := []string{"worker"}
	if queues != "" {
		args = append(args, "--queues", queues)
	}
	p := w.run(args...)
	p.logged("the worker runs")
	return p
}

// startAll runs one API and two workers that share the queues, as the specification of the test
// wants it.
func (w *world) startAll() (money, telling *process) {
	w.t.Helper()
	w.startAPI()
	return w.startWorker("ingest,confirm,expire,settle"), w.startWorker("deliver=128")
}

// keepSecret names a text that no process may print.
func (w *world) keepSecret(what, text string) {
	require.GreaterOrEqual(w.t, len(text), 6)
	w.secretsLock.Lock()
	defer w.secretsLock.Unlock()
	w.secrets[what] = text
}

// checkOutputs is done at the end of every test: nothing printed shows a secret, nor a panic, nor a
// data race.
func (w *world) checkOutputs() {
	for _, p := range w.procs {
		text := string(p.out.all())
		for what, s := range w.secrets {
			if showsSecret(text, s) {
				w.t.Errorf("ajo %v printed the %s", p.args, what)
			}
		}
		for _, bad := range []string{"DATA RACE", "panic:", "runtime error", "fatal error"} {
			if strings.Contains(text, bad) {
				w.t.Errorf("ajo %v printed %q:\n%.3000s", p.args, bad, text[strings.Index(text, bad):])
			}
		}
	}
}

// pay makes a payment at the bank, whose event goes out on its own.
func (w *world) pay(nuban, amount string) fakebank.Transaction {
	w.t.Helper()
	return w.payment(fakebank.Payment{NUBAN: nuban, Amount: money.Must(amount)})
}

// payAndTell makes a payment and returns after the bank's first attempt to send its event, which
// must be answered 200.
func (w *world) payAndTell(nuban, amount string) fakebank.Transaction {
	w.t.Helper()
	tx := w.payment(fakebank.Payment{NUBAN: nuban, Amount: money.Must(amount), Wait: true})
	hook, ok := w.bank.WebhookFor(tx.ID)
	require.True(w.t, ok)
	require.Len(w.t, hook.Attempts, 1)
	require.Equal(w.t, 200, hook.Attempts[0].Status, hook.Attempts[0].Error)
	return tx
}

func (w *world) payment(p fakebank.Payment) fakebank.Transaction {
	w.t.Helper()
	p.SenderName, p.Narration = "Bola Ade", "school fees"
	tx, err := w.bank.Pay(context.Background(), p)
	require.NoError(w.t, err)
	return tx
}

// eventually waits for the condition, up to healLimit; in vain, it shows where everything stands.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	limit := healLimit
	if patient() {
		limit += 3 * time.Minute
	}
	testenv.Eventually(w.t, limit, what, ok, func() any { return w.state() })
}

// whileMoving is eventually for what many payments take part in: its limit counts from the last
// change of what at shows.
func (w *world) whileMoving(what string, at func() progress, ok func() bool) {
	w.t.Helper()
	for last, done := at(), false; !done; last = at() {
		w.eventually(what, func() bool {
			done = ok()
			return done || at() != last
		})
	}
}

// state is what a wait in vain shows: how far the payments are, how many tasks and rows each queue
// has, and what still waits.
func (w *world) state() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var rows string
	if err := w.Pool.QueryRow(ctx, `
		SELECT coalesce(string_agg(format('%s %s: %s', n, kind, status), E'\n' ORDER BY kind, status), 'no rows') FROM (
			SELECT 'events' AS kind, status, count(*) AS n FROM inbound_events GROUP BY 2 UNION ALL
			SELECT 'entries', status, count(*) FROM ledger_entries GROUP BY 2 UNION ALL
			SELECT 'deliveries', status, count(*) FROM deliveries GROUP BY 2 UNION ALL
			SELECT 'transfers', status, count(*) FROM transfers GROUP BY 2) q`).Scan(&rows); err != nil {
		rows = "no rows: " + err.Error()
	}
	inspector := asynq.NewInspectorFromRedisClient(w.redis)
	for _, k := range tasks.Kinds {
		q, err := inspector.GetQueueInfo(string(k))
		if err != nil {
			continue // a queue that never had a task, or no Redis
		}
		rows += fmt.Sprintf("\ntasks of %s: %d pending, %d active, %d scheduled, %d to be retried, %d archived", k, q.Pending, q.Active, q.Scheduled, q.Retry, q.Archived)
	}
	return rows
}

// count is the value of a query that counts.
func (w *world) count(sql string, args ...any) int {
	w.t.Helper()
	return int(testenv.Value[int64](w.Env, sql, args...))
}

// progress says how far the payments have come: events stored and posted, payments delivered and
// confirmed.
type progress struct{ stored, posted, delivered, confirmed int }

func (w *world) progress() progress {
	w.t.Helper()
	return progress{
		stored:    w.count(`SELECT count(*) FROM inbound_events WHERE authentic`),
		posted:    w.count(`SELECT count(*) FROM inbound_events WHERE status = 'processed'`),
		delivered: w.count(`SELECT count(*) FROM deliveries WHERE status = 'delivered'`),
		confirmed: w.count(`SELECT count(*) FROM ledger_entries WHERE status = 'confirmed'`),
	}
}

// waitForEnd waits until n payments are posted, delivered and confirmed.
func (w *world) waitForEnd(n int) {
	w.t.Helper()
	begin, want := time.Now(), progress{n, n, n, n}
	var got progress
	defer func() {
		if w.t.Failed() {
			w.t.Logf("came to %+v of %+v; still waiting:\n%s", got, want, w.unfinished())
		}
	}()
	w.whileMoving(fmt.Sprintf("%d payments posted, delivered and confirmed", n), w.progress, func() bool {
		got = w.progress()
		return got == want
	})
	w.t.Logf("%d payments ended delivered and confirmed after %s", n, time.Since(begin).Round(time.Millisecond))
}

// unfinished shows the rows that still wait, for the message of a test that failed.
func (w *world) unfinished() string {
	return testenv.Value[string](w.Env, `
		SELECT coalesce(string_agg(line, E'\n'), '') FROM (
			SELECT format('event %s %s %s due %s lease %s error %s', e.id, status, kind, due_at, leased_until, e.last_error) AS line
			FROM inbound_events e JOIN work w ON w.id = e.id
			UNION ALL
			SELECT format('delivery %s %s next %s lease %s attempts %s error %s', d.id, status, due_at, leased_until, attempt_count, d.last_error)
			FROM deliveries d LEFT JOIN work w ON w.kind = 'deliver' AND w.id = d.id WHERE status <> 'delivered' LIMIT 10) l`)
}

// checkBooks compares what was posted to what the bank has in its books: each payment once, with
// its net amount; the ledger agrees with itself; the float agrees with the bank's wallet; each
// payment was delivered at least once.
func (w *world) checkBooks(e *endpoint) {
	w.t.Helper()
	txs := w.bank.Transactions()
	type booked struct{ Ref, Entries, Group string }
	posted, err := pg.Collect(context.Background(), w.Pool, pgx.RowToStructByPos[booked], `
		SELECT provider_txn_ref, string_agg(direction || ' ' || amount || ' ' || fee || ' ' || status, ', '), min(transaction_group_id::text)
		FROM ledger_entries GROUP BY provider_txn_ref`)
	require.NoError(w.t, err)
	entries := map[string]booked{}
	for _, b := range posted {
		entries[b.Ref] = b
	}
	net := money.Zero
	groups := map[string]bool{}
	for _, tx := range txs {
		net = net.Add(tx.Amount).Sub(tx.Fee)
		require.Equal(w.t, fmt.Sprintf("credit %s %s confirmed", tx.Amount.Sub(tx.Fee), tx.Fee), entries[tx.ID].Entries, "the entries of transaction %s", tx.ID)
		groups[entries[tx.ID].Group] = true
	}
	require.Len(w.t, groups, len(txs))
	require.Equal(w.t, len(txs), w.count(`SELECT count(*) FROM ledger_entries`))
	testenv.FindsNothing(w.t, w.Pool, ledger.Verify)
	require.Equal(w.t, net.String(), testenv.Value[money.Amount](w.Env, `SELECT sum(balance) FROM ledger_balances`).String())
	require.Equal(w.t, w.bank.Wallet().String(), net.String())
	if e != nil {
		require.Equal(w.t, groups, e.groups(), "the payments that the tenant was notified of")
		e.checkAll()
	}
}

// with returns the settings with some of them changed; an empty value takes one away.
func (w *world) with(changes map[string]string) map[string]string {
	all := maps.Clone(w.settings)
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_, v string) bool { return v == "" })
	return all
}
