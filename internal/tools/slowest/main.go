// Command slowest runs `go test -json …` and prints what go test itself would, and at the end what
// took longest: slowest go test -json [flags] packages. It ends with the exit code of the command.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// How many packages and tests the table at the end lists.
const packages, tests = 12, 25

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: slowest go test -json [flags] packages")
		os.Exit(2)
	}
	begun := time.Now()
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slowest:", err)
		os.Exit(1)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // the command decides when it ends
		}
	}()
	took, err := read(out, os.Stdout)
	if failed := cmd.Wait(); err == nil {
		err = failed
	}
	took.print(os.Stdout, time.Since(begun))
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "slowest:", err)
		os.Exit(1)
	}
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// duration is how long a package, or a test of it, took.
type duration struct {
	name    string
	elapsed float64 // seconds
}

type durations struct{ packages, tests []duration }

// read passes on what packages and the compiler print, and of a test's output only that of one
// that failed, or had not ended when its package did, as after a panic. The seed of the tests'
// order is of use only where a package failed.
func read(in io.Reader, out io.Writer) (took durations, err error) {
	printed := map[string]map[string][]string{} // by package, by test: what it printed
	order := map[string]string{}                // by package: the line with the seed of its tests' order
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(out, lines.Text())
			continue
		}
		ended := e.Action == "pass" || e.Action == "fail" || e.Action == "skip"
		switch {
		case e.Test == "" && ended:
			for _, texts := range printed[e.Package] {
				write(out, texts)
			}
			delete(printed, e.Package)
			if e.Action == "fail" {
				fmt.Fprint(out, order[e.Package])
			}
			if e.Elapsed > 0 {
				took.packages = append(took.packages, duration{e.Package, e.Elapsed})
			}
		case e.Test == "" && strings.HasPrefix(e.Output, "-test.shuffle "):
			order[e.Package] = e.Output
		case e.Test == "":
			// The word PASS before a package's line stands there only because of -json.
			if e.Output != "PASS\n" {
				fmt.Fprint(out, e.Output)
			}
		case ended:
			if e.Action == "fail" {
				write(out, printed[e.Package][e.Test])
			}
			delete(printed[e.Package], e.Test)
			took.tests = append(took.tests, duration{e.Package + " " + e.Test, e.Elapsed})
		case e.Action == "output":
			if printed[e.Package] == nil {
				printed[e.Package] = map[string][]string{}
			}
			printed[e.Package][e.Test] = append(printed[e.Package][e.Test], e.Output)
		}
	}
	return took, lines.Err()
}

func write(out io.Writer, texts []string) {
	for _, t := range texts {
		fmt.Fprint(out, t)
	}
}

// print lists what took longest. Tests that run in parallel share the machine, so their durations
// add up to more than their package's.
func (d durations) print(out io.Writer, all time.Duration) {
	fmt.Fprintf(out, "\n%d packages in %s; what took longest:\n", len(d.packages), all.Round(time.Second))
	for _, part := range []struct {
		list []duration
		most int
	}{{d.packages, packages}, {d.tests, tests}} {
		slices.SortFunc(part.list, func(a, b duration) int { return cmp.Compare(b.elapsed, a.elapsed) })
		for _, x := range part.list[:min(part.most, len(part.list))] {
			fmt.Fprintf(out, "%7.1f s  %s\n", x.elapsed, x.name)
		}
		fmt.Fprintln(out)
	}
}
