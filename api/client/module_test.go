package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program in a module of its own, with the two lines that docs/guide.md gives for its go.mod,
// builds against the client and downloads nothing: the client needs the standard library only.
func TestClientFromAnotherModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	guide, err := os.ReadFile(filepath.Join(root, "docs", "guide.md"))
	require.NoError(t, err)
	dir := t.TempDir()
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		// -trimpath: with the standard library that make build has compiled
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod -trimpath", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
		return string(out)
	}
	run("mod", "init", "example.com/shop")
	for _, command := range []string{"go mod edit -replace ajo=", "go mod edit -require ajo@v0.0.0"} {
		require.Contains(t, string(guide), command)
	}
	run("mod", "edit", "-replace", "ajo="+root)
	run("mod", "edit", "-require", "ajo@v0.0.0")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(`package main

import (
	"fmt"

	"ajo/api/client"
)

func main() {
	_, err := client.New(client.Options{URL: "https://ajo.example", Key: "ajo_key"})
	fmt.Println(err, client.Tolerance)
}
`), 0o600))
	require.Equal(t, "<nil> 5m0s\n", run("run", "."))
	require.NoFileExists(t, filepath.Join(dir, "go.sum"), "it needs nothing else")
}
