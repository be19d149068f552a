package main

import (
	"bytes"
	"os"
	"path/filepath"
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
	require.Equal(t, "With the settings of the ajo dev that runs here ("+path+").\n", out.String(), "once")

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
	require.Equal(t, "active\nsuspended\n:4\n", run("__complete", "tenant", "list", "--status", ""))
	require.Contains(t, run("__complete", "transfers", "list", "--status", ""), "refunded\n")
}
