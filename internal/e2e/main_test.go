package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// ajo is the path of the built binary; raceFlags are those with which it is built.
var (
	ajo       string
	raceFlags []string
)

// plainProgram builds the binary as it is shipped, for tests that look for nothing but what is left
// of processes that die, or what one prints that refuses to start: the race detector makes each
// start several times as dear.
var plainProgram = sync.OnceValues(func() (string, error) {
	if !raceEnabled {
		return ajo, nil
	}
	program := filepath.Join(filepath.Dir(ajo), "ajo-plain")
	return program, build(program, "-gcflags=")
})

// build builds the binary as the file out, without what only a debugger reads: the linker spends a
// third of its time on that.
func build(out string, flags ...string) error {
	args := append([]string{"build", "-ldflags=-w", "-o", out}, flags...)
	if printed, err := exec.Command("go", append(args, "ajo/cmd/ajo")...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, printed)
	}
	return nil
}

// atOnce is how many tests run side by side: they wait for processes more than they compute.
const atOnce = "6"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "ajo-e2e-")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ajo = filepath.Join(dir, "ajo")
	if raceEnabled {
		raceFlags = []string{"-race"}
	}
	if err := build(ajo, raceFlags...); err != nil {
		return failed(err)
	}
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(atOnce); err != nil {
			return failed(err)
		}
	}
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}
