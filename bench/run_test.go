package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// ajo is the path of the built binary.
var ajo string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ajo-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ajo = filepath.Join(dir, "ajo")
	// without the flags that make test has for the race detector, so that what make build has
	// compiled serves again, and without what only a debugger reads
	if out, err := exec.Command("go", "build", "-gcflags=all=", "-ldflags=-w", "-o", ajo, "ajo/cmd/ajo").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// shortRun is a run on the tests' servers, of a fifth of a second a row and with small books.
func shortRun(t *testing.T) *run {
	t.Helper()
	env := testenv.New(t)
	env.Redis()
	s, err := useServers(t.Context(), t.TempDir(), ajo, env.DatabaseURL, env.RedisURL, t.Logf)
	require.NoError(t, err)
	t.Cleanup(s.stop)
	s.prefix = "bench_" + strings.ToLower(t.Name()) // the tests run side by side, on one Postgres
	return newRun(s, options{took: 200 * time.Millisecond, due: 2000, lasts: time.Second, short: true, out: filepath.Join(t.TempDir(), "result")})
}

// someRows are those that run in make test: what most of the others are made of.
var someRows = []string{"spread", "chain", "settle", "memory", "read", "confirm", "soak"}

// Every row runs, its books hold, and the result can be written, read, drawn and compared. What the
// figures are is not asked. Each row starts processes on a book of its own, so make test runs some
// only; make test-bench runs all.
func TestEveryRow(t *testing.T) {
	t.Parallel()
	r := shortRun(t)
	if r.rows = someRows; os.Getenv("AJO_BENCH_ROWS") == "all" {
		r.rows = rowNames()
	}
	require.NoError(t, r.all(t.Context()))
	require.NoError(t, r.finish())
	seen := map[string]int{}
	for _, f := range r.result.Rows {
		require.Empty(t, f.Error, f.What)
		require.True(t, f.Goal > 0 || f.Row == "slow" || f.Row == "soak" || f.Row == "features", f.What)
		if f.Row != "idle" && f.Row != "soak" && f.Row != "features" && !strings.HasPrefix(f.What, "dead rows") && !strings.HasPrefix(f.What, "age of") {
			require.Positive(t, f.Value, f.What)
		}
		seen[f.Row]++
	}
	want := map[string]int{
		"spread": 2, "hot": 2, "chain": 4, "slow": 1, "settle": 1, "latency": 3, "memory": 2, "read": 5, "book": 1, "idle": 2,
		"confirm": 6, "due": 4, "leases": 1, "purge": 1, "soak": 6, "features": 5,
	}
	maps.DeleteFunc(want, func(row string, _ int) bool { return !slices.Contains(r.rows, row) })
	require.Equal(t, want, seen)
	require.Positive(t, r.result.TPS)

	back, err := readResult(r.out + ".json")
	require.NoError(t, err)
	require.Equal(t, r.result, *back)
	drawn, err := os.ReadFile(r.out + ".soak.svg")
	require.NoError(t, err)
	for d := xml.NewDecoder(bytes.NewReader(drawn)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
	}
	var said bytes.Buffer
	require.NoError(t, compare(&said, r.out+".json", r.out+".json"))
	require.Contains(t, said.String(), "+0 %")
}

// A run whose books are not what was accepted fails, however fast it was.
func TestTamperedBooksFail(t *testing.T) {
	t.Parallel()
	r := shortRun(t)
	f, err := r.warmChain(t.Context(), "tampered")
	require.NoError(t, err)
	t.Cleanup(func() { f.close(t.Context()) })
	require.NoError(t, f.verify(t.Context()))
	require.NoError(t, f.verifyChain(t.Context(), f.tally.count))
	n, some := f.tally.count, f.accounts[0]
	require.GreaterOrEqual(t, n, 100)

	f.endpoint.mu.Lock()
	delete(f.endpoint.first, 7)
	f.endpoint.mu.Unlock()
	require.ErrorContains(t, f.verifyChain(t.Context(), n), "number 7 is missing")

	// Accepted, and stored nowhere.
	lost := payments(f.accounts, 0, 1)
	f.tally.accept(lost, []bool{true})
	err = f.verify(t.Context())
	require.ErrorContains(t, err, fmt.Sprintf("%d payments were accepted: %d are stored", n+1, n))
	require.ErrorContains(t, err, "account "+some.ref+" has ")
	f.tally.count--
	f.tally.payments[some]--
	f.tally.balance[some] = f.tally.balance[some].Sub(lost[0].net())
	require.NoError(t, f.verify(t.Context()))

	exec := func(sql string) {
		_, err := f.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	for _, table := range []string{"ledger_entries", "inbound_events", "ledger_balances"} {
		exec(`ALTER TABLE ` + table + ` DISABLE TRIGGER ALL`)
	}
	// A sum that is another one, on an account whose count is right.
	exec(`UPDATE ledger_balances SET total_credits = total_credits + 0.01 WHERE account_id = '` + some.id + `'`)
	err = f.verify(t.Context())
	require.ErrorContains(t, err, "account "+some.ref+" has ")
	require.ErrorContains(t, err, "ajo ledger verify")
	exec(`UPDATE ledger_balances SET total_credits = total_credits - 0.01 WHERE account_id = '` + some.id + `'`)
	require.NoError(t, f.verify(t.Context()))

	// Posted, and then gone from the ledger, with its event. The next verification reads all.
	exec(`DELETE FROM ledger_checkpoints`)
	exec(`WITH e AS (DELETE FROM ledger_entries WHERE id = (SELECT id FROM ledger_entries WHERE provider_txn_ref NOT LIKE '%-FILL' LIMIT 1) RETURNING transaction_group_id)
		DELETE FROM inbound_events WHERE id IN (SELECT transaction_group_id FROM e)`)
	err = f.verify(t.Context())
	require.ErrorContains(t, err, fmt.Sprintf("%d payments were accepted: %d are stored", n, n-1))
	require.ErrorContains(t, err, "ajo ledger verify")
}
