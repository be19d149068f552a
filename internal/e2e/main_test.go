package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ajo is the path of the built binary.
var ajo string

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
	args := []string{"build", "-o", ajo}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "ajo/cmd/ajo")...).CombinedOutput(); err != nil {
		return failed(fmt.Errorf("go build: %w\n%s", err, out))
	}
	if flag.Lookup("test.run").Value.String() == "" {
		go func() { _, _ = skewedProgram() }() // it takes long, and its test is among the last
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
