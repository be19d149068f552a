// Package failpoint kills the process at a named point of its work, so that tests can show that it
// ends right after a restart.
//
// A point stands before and after every commit, fsync, enqueue and foreign call. A pg.Batcher has
// its own, by its name; elsewhere the function that makes the call has them:
// failpoint.At("transfer/after-pay"). A test in package rules fails where one lacks. All names are
// registered in [Points]; a test compares the list with the source, and another (package e2e) kills
// a process at each. While none is armed, which is always so in production, a point costs one
// atomic load.
package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// trap is the armed point.
type trap struct {
	name string
	left atomic.Int64 // times that it is still passed, this one included
}

var armed atomic.Pointer[trap]

// At is the point of the given name: the process ends here, as by kill -9, if the point is armed
// and its time has come.
func At(name string) {
	if t := armed.Load(); t != nil {
		t.pass(name)
	}
}

// BeforeCommit and AfterCommit are the points name:before-commit and name:after-commit.
func BeforeCommit(name string) { atCommit(name, ":before-commit") }

// AfterCommit see [BeforeCommit].
func AfterCommit(name string) { atCommit(name, ":after-commit") }

func atCommit(name, point string) {
	if t := armed.Load(); t != nil {
		t.pass(name + point)
	}
}

func (t *trap) pass(name string) {
	if name == t.name && t.left.Add(-1) == 0 {
		end(name)
	}
}

// end is kill -9: nothing that is deferred runs, nothing is flushed.
var end = func(name string) {
	fmt.Fprintln(os.Stderr, "failpoint: ends at", name)
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill() // where there is no such signal, the exit below does
	}
	os.Exit(137)
}

// Arm sets the point at which this process ends: "name", or "name:n" for the n-th time that it is
// reached. The empty text arms none. An unknown name is an error. The caller keeps it out of
// production.
func Arm(text string) error {
	if text == "" {
		armed.Store(nil)
		return nil
	}
	name, n := text, 1
	if at := strings.LastIndexByte(text, ':'); at >= 0 && !slices.Contains(Points, text) {
		var err error
		if n, err = strconv.Atoi(text[at+1:]); err != nil || n < 1 {
			return fmt.Errorf("failpoint %q: the number of times must be 1 or more", text)
		}
		name = text[:at]
	}
	if !slices.Contains(Points, name) {
		return fmt.Errorf("failpoint %q: there is no such point", name)
	}
	t := &trap{name: name}
	t.left.Store(int64(n))
	armed.Store(t)
	return nil
}
