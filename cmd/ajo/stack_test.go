package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/stack"
)

func TestStackCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	opt := stack.Options{Ephemeral: true, Log: t.Logf}
	sh := func(script string) error { return withStack(t.Context(), opt, []string{"sh", "-c", script}) }

	require.NoError(t, sh(`case "$AJO_TEST_DATABASE_URL $AJO_TEST_REDIS_URL" in "postgres://"*" redis://"*) ;; *) exit 1 ;; esac`))
	require.Equal(t, exitCode(7), sh("exit 7"))
	require.Equal(t, exitCode(128+9), sh("kill -9 $$"))
	require.Equal(t, exitCode(3), sh("trap 'exit 3' TERM; kill -TERM $PPID; while :; do sleep 0.1; done"), "the signal goes to the command")
	require.ErrorContains(t, withStack(t.Context(), opt, []string{"no-such-command"}), "no-such-command")

	left, err := os.ReadDir(testDir)
	require.NoError(t, err)
	require.Empty(t, left)
}
