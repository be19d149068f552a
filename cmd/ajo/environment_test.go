package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The settings of `ajo dev` count while it lives, and where the environment names no service of its
// own.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "settings.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"AJO_DATABASE_URL":"postgres://dev","AJO_HTTP_ADDR":"127.0.0.1:7","AJO_PROVIDER_URL":"http://127.0.0.1:9"}`), 0o600))
	open := func(env map[string]string) (*environment, *bytes.Buffer) {
		var out bytes.Buffer
		return newEnvironment(func(name string) string { return env[name] }, dir, &out), &out
	}

	left, out := open(nil)
	require.Empty(t, left.get("AJO_DATABASE_URL"), "a file that was left behind says nothing")
	require.Equal(t, "http://127.0.0.1:8080", left.url("AJO_HTTP_ADDR", "http://127.0.0.1:8080"))
	require.Empty(t, out.String())

	f, err := os.Open(path)
	require.NoError(t, err)
	// as the process that lives does
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	lives, out := open(map[string]string{"LOG_FORMAT": "json"})
	require.Equal(t, "postgres://dev", lives.get("AJO_DATABASE_URL"))
	require.Equal(t, "http://127.0.0.1:7", lives.url("AJO_HTTP_ADDR", "x"))
	require.Equal(t, "http://127.0.0.1:9", lives.url("AJO_PROVIDER_URL", "x"))
	require.Equal(t, "json", lives.get("LOG_FORMAT"))
	require.Equal(t, "Using the settings of the ajo dev that runs here ("+path+").\n", out.String(), "once")

	own, out := open(map[string]string{"AJO_REDIS_URL": "redis://own"})
	require.Empty(t, own.get("AJO_DATABASE_URL"), "never a mixture of two services")
	require.Equal(t, "redis://own", own.get("AJO_REDIS_URL"))
	require.Empty(t, out.String())

	require.NoError(t, f.Close())
	ended, _ := open(nil)
	require.Empty(t, ended.get("AJO_DATABASE_URL"))
}

func TestVersionAndCompletion(t *testing.T) {
	t.Parallel()
	run := func(args ...string) string {
		var out bytes.Buffer
		root := newRootCmd()
		root.SetOut(&out)
		root.SetArgs(args)
		require.NoError(t, root.ExecuteContext(t.Context()), "%v", args)
		return out.String()
	}
	require.Regexp(t, `^ajo version \S+\n$`, run("--version"))
	for _, shell := range []string{"bash", "zsh", "fish"} {
		require.Contains(t, run("completion", shell), "__complete", shell)
	}
	require.Equal(t, "payment\nmisdirected\nsig_invalid\nnon_payment_event\nprocessing_error\n:4\n", run("__complete", "events", "list", "--category", ""))
	require.Equal(t, "active\nsuspended\nclosed\n:4\n", run("__complete", "tenant", "list", "--status", ""))
	require.Contains(t, run("__complete", "transfers", "list", "--status", ""), "refunded\n")
}

// The payments under review and the tenants are read from the service; what is not there is not
// offered, and never an error.
func TestCompletionReadsTheService(t *testing.T) {
	o := setup(t)
	first, second := o.held("differs"), o.held("no clear answer in time")
	posted := o.event(o.account.String())
	want := second.String() + "\tNGN 4975.00 to customer-1 of Test tenant\n" + first.String() + "\tNGN 4975.00 to customer-1 of Test tenant\n:4\n"
	required := "--amount\twhat the payer sent, before the fee (required)\n--fee\twhat the bank kept of it (required)\n"
	for name, flags := range map[string]string{"confirm": "", "reverse": "", "correct": required} {
		require.Equal(t, flags+want, o.good("__complete", "review", name, ""), name)
		require.Equal(t, flags+":4\n", o.good("__complete", "review", name, first.String(), ""), "there is one argument")
	}
	require.NotContains(t, o.good("__complete", "review", "confirm", ""), posted.String())
	o.good("review", "confirm", first.String(), "--yes", "--reason", "asked the bank")
	require.NotContains(t, o.good("__complete", "review", "confirm", ""), first.String(), "it is decided")

	tenants := o.tenant.String() + "@tenant.example\tTest tenant\n:4\n"
	for _, args := range [][]string{
		{"tenant", "show", ""},
		{"tenant", "suspend", ""},
		{"tenant", "operator", ""},
		{"tenant", "payout-fee", ""},
		{"tenant", "login-link", ""},
		{"transfers", "list", "--tenant", ""},
		{"deliveries", "list", "--tenant", ""},
		{"events", "assign", "--tenant", ""},
	} {
		require.Equal(t, tenants, o.good(append([]string{"__complete"}, args...)...), args)
	}
	o.env["AJO_DATABASE_URL"] = ""
	require.Equal(t, ":4\n", o.good("__complete", "review", "confirm", ""))
}

// Whatever command logs, its lines have the form that LOG_FORMAT asks for, or that of the
// environment's roles.
func TestCommandsLogInOneFormat(t *testing.T) {
	o := setup(t)
	o.env["AJO_REDIS_URL"] = away // away: what is not enqueued is logged
	pretty, structured := regexp.MustCompile(`^[0-9:.]{12} WARN  `), regexp.MustCompile(`^\{"time":"[^"]+","level":"WARN","msg":"`)
	for _, c := range []struct {
		format, environment string
		want                *regexp.Regexp
	}{
		{"", "", pretty}, {"pretty", "production", pretty}, {"json", "", structured}, {"", "production", structured},
	} {
		o.env["LOG_FORMAT"], o.env["AJO_ENV"] = c.format, c.environment
		for name, args := range map[string][]string{
			"replay": {"deliveries", "replay", o.deadLetter().String()},
			"assign": {"events", "assign", o.event("nobody").String(), "--account", o.account.String()},
		} {
			_, said, err := o.run(append(args, "--yes", "--reason", "a ticket")...)
			require.NoError(t, err, name)
			lines := strings.Split(strings.TrimSpace(said), "\n")
			require.Greater(t, len(lines), 2, "%s: %s", name, said)
			// All lines but what it will do, and that a worker finds the work. go-redis logs here
			// what another test's connection meets, too, in this format.
			sentences := slices.DeleteFunc(lines, c.want.MatchString)
			require.Len(t, sentences, 2, "%s: %+v: %s", name, c, said)
			require.Contains(t, sentences[1], "a worker finds the work", name)
		}
	}
}

// On a server only root may read the settings: the audit log names who became root.
func TestWhoRunsACommand(t *testing.T) {
	t.Setenv("SUDO_USER", "")
	plain := osUser()
	require.NotEmpty(t, plain)
	t.Setenv("SUDO_USER", plain)
	require.Equal(t, plain, osUser())
	t.Setenv("SUDO_USER", "ada")
	f := changeFlags{reason: "ticket 4711"}
	by, err := f.by()
	require.NoError(t, err)
	require.Equal(t, "cli:"+plain+" (sudo ada)", by.Actor)
}
