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
	"strconv"
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
	timedOut fate = "timed out"
)

// result is a mutant that was tried.
type result struct {
	mutant
	fate   fate
	note   string // the test that noticed it, or how many did not
	slower int    // tests that were not asked, as the budget was spent
	took   time.Duration
}

// tester tries several mutants at once.
type tester struct {
	options
	out    io.Writer
	dir    string   // of the programs with all mutants
	all    []mutant // by number
	schema *schema

	mu        sync.Mutex
	coverages map[string]func() (*coverage, error) // by package, noted once
	hashes    map[string]string                    // of files
}

// newTester writes and compiles the code with all mutants. Whoever calls it closes the tester.
func newTester(ctx context.Context, o options, all []mutant, out io.Writer) (t *tester, err error) {
	t = &tester{options: o, out: out, all: all, coverages: map[string]func() (*coverage, error){}, hashes: map[string]string{}}
	if t.dir, err = os.MkdirTemp("", "ajo-mutants-"); err != nil {
		return nil, err
	}
	begin := time.Now()
	if t.schema, err = t.buildSchema(ctx, t.dir, all); err != nil {
		return nil, errors.Join(err, t.close())
	}
	apart := 0
	for _, is := range t.schema.apart {
		if is {
			apart++
		}
	}
	fmt.Fprintf(out, "%d mutants stand together, %d are compiled apart: %s\n", len(all)-apart, apart, time.Since(begin).Round(time.Second))
	return t, nil
}

func (t *tester) close() error { return os.RemoveAll(t.dir) }

// binary is the program of a package's tests that has all mutants in it.
func (t *tester) binary(pkg string) string {
	return filepath.Join(t.dir, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-")+".test")
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

// tryOne switches the mutant on in the tests of its packages in turn, or compiles it by itself, and
// runs those that cover it until one fails. A mutant that none covers is a survivor.
func (t *tester) tryOne(ctx context.Context, m mutant) (r result, err error) {
	r = result{mutant: m, fate: survived}
	asked, left, late := 0, t.budget, false
	for _, pkg := range m.tests {
		if left < time.Second { // the budget is spent
			break
		}
		c, err := t.coverage(ctx, pkg)
		if err != nil {
			return r, err
		}
		groups, slower := groupsOf(c.covering(m), &left)
		r.slower += slower
		if len(groups) == 0 {
			continue
		}
		begin := time.Now()
		binary, err := t.compile(ctx, m, pkg)
		r.took += time.Since(begin)
		if errors.Is(err, errStillbirth) {
			r.fate = stillbirth
			return r, nil
		}
		if err != nil {
			return r, err
		}
		for _, group := range groups {
			asked += len(group)
			o, err := t.repeatDoubtful(ctx, binary, pkg, m, group)
			r.took += o.took
			if err != nil {
				return r, err
			}
			if o.ending == unknown { // those that are left in the package may not end either
				late = true
				break
			}
			if o.ending != passed {
				r.fate, r.note = killed, killer(o.out)
				return r, nil
			}
		}
	}
	switch {
	case late:
		r.fate = timedOut
	case asked == 0 && r.slower == 0:
		r.note = "(no test covers it)"
	default:
		r.note = fmt.Sprintf("(%d tests cover it; %d slower ones were not asked)", asked, r.slower)
	}
	return r, nil
}

var errStillbirth = errors.New("the mutant does not compile")

// compile returns the program of a package's tests with the mutant: the one that has all of them,
// or one of its own.
func (t *tester) compile(ctx context.Context, m mutant, pkg string) (binary string, err error) {
	if !t.schema.apart[m.id] {
		return t.binary(pkg), nil
	}
	dir := filepath.Join(t.dir, strconv.Itoa(m.id))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	overlay, err := overlayOf(t.root, dir, m)
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "mutant.test")
	out, err := t.goTest(ctx, "-c", "-ldflags", "-s -w", "-overlay", overlay, "-o", binary, pkg)
	if strings.HasPrefix(out, "# ") {
		return "", errStillbirth
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
}

// groupsOf puts tests together that are run at once: the fastest alone, and then each time more.
// Tests beyond the budget, of which it takes their time, are left out.
func groupsOf(tests []timed, left *time.Duration) (groups [][]timed, slower int) {
	size, sum := time.Second, time.Duration(0)
	for i, test := range tests {
		took := time.Duration(test.Seconds * float64(time.Second))
		if took > *left {
			return groups, len(tests) - i
		}
		if groups == nil || sum >= size {
			groups, size, sum = append(groups, nil), 4*size, 0
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], test)
		sum += took
		*left -= took
	}
	return groups, 0
}

// coverage is what the package's tests cover, noted when the first mutant reaches it.
func (t *tester) coverage(ctx context.Context, pkg string) (*coverage, error) {
	t.mu.Lock()
	once := t.coverages[pkg]
	if once == nil {
		once = sync.OnceValues(func() (*coverage, error) { return t.coverageOf(ctx, pkg) })
		t.coverages[pkg] = once
	}
	t.mu.Unlock()
	return once()
}

// overlayOf writes the changed file and the overlay that names it.
func overlayOf(root, dir string, m mutant) (file string, err error) {
	path := filepath.Join(root, filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, filepath.Base(path))
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	mutated := slices.Concat(source[:m.offset], []byte(m.after), source[m.end:])
	return file, errors.Join(os.WriteFile(changed, mutated, 0o600), os.WriteFile(file, text, 0o600))
}

// ending is how a run of tests ended.
type ending string

const (
	passed   ending = "passed"
	failed   ending = "failed"
	doubtful ending = "failed, perhaps since the machine is busy"
	unknown  ending = "ended without a failed test"
)

// outcome is a run of tests.
type outcome struct {
	ending
	out  string
	took time.Duration
}

// repeatDoubtful runs tests, and once more if the machine's load may have ended them.
func (t *tester) repeatDoubtful(ctx context.Context, binary, pkg string, m mutant, tests []timed) (outcome, error) {
	limit := 120.0
	for _, test := range tests {
		limit += 10 * test.Seconds
	}
	run := func() (outcome, error) {
		env := []string{"MUTANT=" + strconv.Itoa(m.id)}
		return t.runBinary(ctx, binary, pkg, env, min(t.limit, time.Duration(limit)*time.Second), "-test.failfast", "-test.run", only(tests))
	}
	o, err := run()
	if err == nil && (o.ending == doubtful || o.ending == unknown) {
		return run()
	}
	return o, err
}

// only is the expression that these tests match.
func only(tests []timed) string {
	var names []string
	for _, test := range tests {
		names = append(names, test.Name)
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// runBinary runs tests of a package's test binary.
func (t *tester) runBinary(ctx context.Context, binary, pkg string, env []string, limit time.Duration, args ...string) (outcome, error) {
	args = append(args, "-test.timeout", limit.String())
	begin := time.Now()
	out, err := runIn(ctx, filepath.Join(t.root, filepath.FromSlash(pkg)), env, binary, args...)
	var exit *exec.ExitError
	o := outcome{passed, out, time.Since(begin)}
	switch {
	case ctx.Err() != nil:
		return o, context.Cause(ctx)
	case errors.As(err, &exit):
		o.ending, err = endingOf(out), nil
	}
	return o, err
}

// goTest runs `go test` at the root.
func (t *tester) goTest(ctx context.Context, args ...string) (string, error) {
	return t.goTool(ctx, slices.Concat([]string{"test", "-trimpath", "-vet=off"}, args)...)
}

// goTool runs the go command at the root.
func (t *tester) goTool(ctx context.Context, args ...string) (string, error) {
	out, err := runIn(ctx, t.root, nil, "go", args...)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return out, err
}

// runIn runs a program in a group of its own, so that what it started ends with it.
func runIn(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
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
