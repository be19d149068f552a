package e2e

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// devSettings are what a terminal has and the servers need.
func devSettings() map[string]string {
	return map[string]string{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME")}
}

// `ajo dev` signs its demo tenant up on the first run and finds it, and its money, on the next,
// though its usual addresses are taken by then. A third runs all but the demo, because the tenant's
// key was replaced, and is interrupted. After each, nothing of it is left running; `ajo reset`
// removes its data.
func TestDev(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// data may lie elsewhere, when root runs this
	t.Cleanup(func() { runToEnd(t, dir, devSettings(), "reset") })

	first := runToEnd(t, dir, devSettings(), "dev", "--once")
	require.Zero(t, first.code, first.out)
	require.Contains(t, first.out, "demo tenant signed up")
	require.Contains(t, first.out, "balance of demo-customer-1: NGN 4975.00")
	for _, step := range []string{"event stored", "posted", "delivered", "confirmed"} {
		require.Regexp(t, `(?m)^ +[0-9.]+[mµ]?s  `+step, first.out, "each step with the time that it took")
	}
	nothingRuns(t, dir, first.out)

	for _, addr := range []string{"127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8090"} {
		// else somebody else has taken it, which is as good
		if l, err := net.Listen("tcp", addr); err == nil {
			t.Cleanup(func() { require.NoError(t, l.Close()) })
		}
	}
	second := runToEnd(t, dir, devSettings(), "dev", "--once")
	require.Zero(t, second.code, second.out)
	require.Contains(t, second.out, "the demo tenant of the earlier run is here")
	require.Contains(t, second.out, "balance of demo-customer-1: NGN 9950.00")
	require.Equal(t, keyIn(first.out), keyIn(second.out))
	nothingRuns(t, dir, second.out)

	require.NoError(t, os.WriteFile(filepath.Join(dir, ".ajo", "demo-key"), []byte("ajo_live_replaced\n"), 0o600)) // the dashboard says how
	third := start(t, dir, devSettings(), "dev")
	testenv.Eventually(t, exitLimit, "everything to be up", func() bool {
		require.False(t, third.Ended(), "%s", third.out.all())
		return strings.Contains(string(third.out.all()), "Everything is running")
	})
	opensTheDashboard(t, string(third.out.all()))
	toolsWorkBesideIt(t, dir)
	leadOn(t, string(third.out.all()))
	third.Signal(syscall.SIGINT)
	require.Zero(t, third.exit(), "%s", third.out.all())
	require.Contains(t, string(third.out.all()), "demo-key does not open the demo tenant: ")
	require.Equal(t, "<key>", keyIn(string(third.out.all())))
	nothingRuns(t, dir, string(third.out.all()))
	after := runToEnd(t, dir, devSettings(), "review", "list")
	require.NotZero(t, after.code)
	require.Contains(t, after.out, "AJO_DATABASE_URL is not set", "what has ended has no settings")

	require.Zero(t, runToEnd(t, dir, devSettings(), "reset").code)
	require.NoDirExists(t, filepath.Join(dir, ".ajo"))
}

// toolsWorkBesideIt runs operators' commands in the folder of a running `ajo dev` with nothing set,
// and a payment.
func toolsWorkBesideIt(t *testing.T, dir string) {
	t.Helper()
	for want, args := range map[string][]string{
		"none":                                   {"review", "list"},
		"demo@tenant.example":                    {"tenant", "list"},
		"(Ada Obi Account)":                      {"trigger", "payment", "--amount", "1250"},
		"Using the settings of the ajo dev that": {"audit", "list"},
	} {
		r := runToEnd(t, dir, devSettings(), args...)
		require.Zero(t, r.code, "%v: %s", args, r.out)
		require.Contains(t, r.out, want, "%v", args)
	}
}

// leadOn goes to the bare addresses that the run has printed, which must lead to something.
func leadOn(t *testing.T, out string) {
	t.Helper()
	for form, want := range map[string]string{`API +(\S+)`: "<title>Ajo</title>", `Dashboard +(\S+)`: "<title>Ajo</title>", `Console +(\S+)`: "<title>Ajo operations</title>", `Metrics +(\S+)metrics`: `<a href="/queues/">Queues</a>`} {
		m := regexp.MustCompile(`(?m)^  ` + form).FindStringSubmatch(out)
		require.NotNil(t, m, form)
		resp, err := http.Get(m[1])
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		require.Equal(t, http.StatusOK, resp.StatusCode, m[1])
		require.Contains(t, string(body), want, m[1])
	}
}

// opensTheDashboard uses the link that the run ends with, as the page does: once.
func opensTheDashboard(t *testing.T, out string) {
	t.Helper()
	m := regexp.MustCompile(`(http://\S+)/dashboard/#link=(\S+)`).FindStringSubmatch(out)
	require.NotNil(t, m, out)
	for _, want := range []int{http.StatusOK, http.StatusBadRequest} {
		resp, err := http.Post(m[1]+"/auth/login-link", "application/json", strings.NewReader(`{"token":"`+m[2]+`"}`))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode)
		require.Equal(t, want == http.StatusOK, resp.Header.Get("Set-Cookie") != "")
	}
}

var (
	addresses = regexp.MustCompile(`127\.0\.0\.1:([0-9]+)`)
	keyForm   = regexp.MustCompile(`Demo key +(\S+)`)
)

func keyIn(out string) string {
	m := keyForm.FindStringSubmatch(out)
	if m == nil {
		return "none"
	}
	return m[1]
}

// nothingRuns fails the test when an address that a run has printed still answers, or a process of
// it is still there.
func nothingRuns(t *testing.T, dir, out string) {
	t.Helper()
	seen := map[string]bool{}
	for _, addr := range addresses.FindAllString(out, -1) {
		seen[addr] = true
	}
	require.GreaterOrEqual(t, len(seen), 5, "postgres, redis, API, bank, dashboard: %s", out)
	var answering []string
	for addr := range seen {
		if strings.HasSuffix(addr, ":8080") || strings.HasSuffix(addr, ":8081") || strings.HasSuffix(addr, ":8090") {
			continue // well-known: another run on this machine may have it by now
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			answering = append(answering, addr)
		}
	}
	if len(answering) > 1 { // one of them a test beside this one may have been given meanwhile
		t.Errorf("somebody still listens on %v", answering)
	}
	for _, left := range processesIn(dir) {
		t.Errorf("a process is left: %s", left)
	}
}

// processesIn lists the processes that work in the directory or were started with it, where the
// kernel tells.
func processesIn(dir string) []string {
	var found []string
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	data, err := os.Readlink(filepath.Join(dir, ".ajo", "dev", "data")) // where root keeps them
	if err != nil {
		data = dir
	}
	for _, p := range procs {
		cwd, err1 := os.Readlink(filepath.Join(p, "cwd"))
		args, err2 := os.ReadFile(filepath.Join(p, "cmdline"))
		if err1 != nil && err2 != nil {
			continue // it has ended meanwhile
		}
		for _, d := range []string{dir, data} {
			if strings.HasPrefix(cwd, d) || strings.Contains(string(args), d) {
				found = append(found, p+" in "+cwd+": "+strings.ReplaceAll(string(args), "\x00", " "))
				break
			}
		}
	}
	return found
}
