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

// ajo is the path of the binary, built as it is shipped.
var ajo string

// racingProgram builds the binary with the race detector, which makes all that a process does
// several times as dear.
var racingProgram = sync.OnceValues(func() (string, error) {
	if !raceEnabled {
		return ajo, nil
	}
	program := filepath.Join(filepath.Dir(ajo), "ajo-race")
	return program, build(program, "-race")
})

// plain takes back the flags that make test has for the race detector, so that what make build has
// compiled serves again.
const plain = "-gcflags=all="

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
	if err := build(ajo, plain); err != nil {
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
