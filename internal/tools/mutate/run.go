package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fate is the outcome of a mutant.
type fate string

// The fates.
const (
	killed     fate = "killed"
	survived   fate = "survived"
	stillbirth fate = "does not compile"
	// no test failed, but its tests did not end, twice: neither noticed nor survived
	late fate = "timed out"
)

// result is a mutant that was tried.
type result struct {
	mutant
	fate fate
	by   string // the test that noticed it
	took time.Duration
}

// tester runs the tests of packages, those of several mutants at once.
type tester struct {
	options
	out   io.Writer
	alone sync.RWMutex // locked by a run that nothing may disturb

	mu        sync.Mutex
	baselines map[string]func() error // by package: its tests on the code as it is, run once
}

func newTester(o options, out io.Writer) *tester {
	return &tester{options: o, out: out, baselines: map[string]func() error{}}
}

// try tries the mutants until all are done or the context ends, adds each to the score, and prints
// it. The first error ends it: what was tried until then is in the score.
func (t *tester) try(ctx context.Context, drawn []mutant, s *score) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan mutant)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range max(1, t.jobs) {
		wg.Go(func() {
			for m := range next {
				r, err := t.tryOne(ctx, m)
				if err != nil {
					stop(fmt.Errorf("%s: %w", m.key(), err))
					continue
				}
				mu.Lock()
				s.add(r)
				s.progress(t.out, r, len(drawn))
				mu.Unlock()
			}
		})
	}
feed:
	for _, m := range drawn {
		select {
		case next <- m:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// tryOne compiles the mutant in the place of its file, and runs the tests of its packages until one
// fails.
func (t *tester) tryOne(ctx context.Context, m mutant) (r result, err error) {
	r = result{mutant: m, fate: survived}
	overlay, clean, err := overlayOf(t.root, m)
	if err != nil {
		return r, err
	}
	defer clean()
	for _, pkg := range m.tests {
		if err := t.baseline(ctx, pkg); err != nil {
			return r, err
		}
		begin := time.Now()
		end, out, err := t.repeatDoubtful(ctx, overlay, pkg)
		r.took += time.Since(begin)
		switch {
		case err != nil:
			return r, err
		case end == notBuilt:
			r.fate = stillbirth
			return r, nil
		case end == unknown:
			r.fate = late // the next package may still notice it
		case end != passed:
			r.fate, r.by = killed, killer(out)
			return r, nil
		}
	}
	return r, nil
}

// baseline runs the package's tests on the code as it is, before they are first asked about a
// mutant: tests that fail anyway would kill every mutant. Only the packages that a mutant reaches
// are run. A failure is repeated alone, as a busy machine may be its cause.
func (t *tester) baseline(ctx context.Context, pkg string) error {
	t.mu.Lock()
	once := t.baselines[pkg]
	if once == nil {
		once = sync.OnceValue(func() error {
			begin := time.Now()
			end, _, err := t.test(ctx, false, "", pkg)
			out := ""
			if err == nil && end != passed {
				end, out, err = t.test(ctx, true, "", pkg)
			}
			if err == nil && end != passed {
				err = fmt.Errorf("the tests of %s fail without any change:\n%s", pkg, lastLines(out, 40))
			}
			if err == nil {
				fmt.Fprintf(t.out, "the tests of %s pass as they are: %s\n", pkg, time.Since(begin).Round(time.Second))
			}
			return err
		})
		t.baselines[pkg] = once
	}
	t.mu.Unlock()
	return once()
}

// overlayOf writes the changed file and the overlay that names it.
func overlayOf(root string, m mutant) (file string, clean func(), err error) {
	path := filepath.Join(root, filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "ajo-mutant-")
	if err != nil {
		return "", nil, err
	}
	clean = func() { _ = os.RemoveAll(dir) }
	changed := filepath.Join(dir, filepath.Base(path))
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		clean()
		return "", nil, err
	}
	file = filepath.Join(dir, "overlay.json")
	mutated := slices.Concat(source[:m.offset], []byte(m.after), source[m.end:])
	if err := errors.Join(os.WriteFile(changed, mutated, 0o600), os.WriteFile(file, text, 0o600)); err != nil {
		clean()
		return "", nil, err
	}
	return file, clean, nil
}

// ending is how a run of tests ended.
type ending string

const (
	passed   ending = "passed"
	failed   ending = "failed"
	doubtful ending = "failed, perhaps since the machine is busy"
	unknown  ending = "ended without a failed test"
	notBuilt ending = "not built"
)

// repeatDoubtful runs a package's tests, and once more, alone, if the machine's load may have ended
// them.
func (t *tester) repeatDoubtful(ctx context.Context, overlay, pkg string) (ending, string, error) {
	end, out, err := t.test(ctx, false, overlay, pkg)
	if err == nil && (end == doubtful || end == unknown) {
		return t.test(ctx, true, overlay, pkg)
	}
	return end, out, err
}

// test runs a package's tests until the first that fails; alone: while no others run.
func (t *tester) test(ctx context.Context, alone bool, overlay, pkg string) (ending, string, error) {
	lock := t.alone.RLocker()
	if alone {
		lock = &t.alone
	}
	lock.Lock()
	defer lock.Unlock()
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-timeout", t.limit.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	args = slices.Concat(t.command[1:], args, []string{pkg})
	cmd := exec.CommandContext(ctx, t.command[0], args...)
	cmd.Dir = t.root
	// A group of its own, so that the test's process ends with the go command that started it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", "", context.Cause(ctx)
	case errors.As(err, &exit):
		return endingOf(string(out)), string(out), nil
	}
	return passed, string(out), err
}

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	crashed    = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE)`)
	// the tests did not end by themselves
	ended = regexp.MustCompile(`panic: test timed out|signal: (killed|terminated)`)
	// what a busy machine does too
	busy = regexp.MustCompile(`(?i)deadline|time(d )?.?out|\bwaited \S+ for\b|connection (refused|reset)|too many (clients|connections|open files)|cannot allocate`)
)

// endingOf tells from the output of tests that did not pass how they ended.
func endingOf(out string) ending {
	switch {
	case strings.Contains(out, "[build failed]"):
		return notBuilt
	case ended.MatchString(out), !failedTest.MatchString(out) && !crashed.MatchString(out):
		return unknown
	case busy.MatchString(out):
		return doubtful
	}
	return failed
}

// killer is what noticed: the innermost test of the first that failed.
func killer(out string) string {
	all := failedTest.FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		return "by " + lastLines(out, 1)
	}
	name := all[0][1]
	for _, m := range all {
		if strings.HasPrefix(m[1], name+"/") {
			name = m[1]
		}
	}
	return "by " + name
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
