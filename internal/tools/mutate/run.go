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
	"time"
)

// fate is what became of a mutant.
type fate string

// The fates.
const (
	killed     fate = "killed"
	survived   fate = "survived"
	stillbirth fate = "does not compile"
	// its tests ran into their limit, which a busy machine does too: neither noticed nor survived
	late fate = "timed out"
)

// result is a mutant that was tried.
type result struct {
	mutant
	fate fate
	by   string // the test that noticed it
	took time.Duration
	err  error
}

// baseline runs all tests that the drawn mutants may be tried by, as they are: a test that fails
// anyway would kill every mutant.
func baseline(ctx context.Context, o options, drawn []mutant) error {
	var packages []string
	for _, m := range drawn {
		packages = append(packages, m.tests...)
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	if len(packages) == 0 {
		return errors.New("there are no mutants to try")
	}
	begin := time.Now()
	failed, out, err := test(ctx, o, "", packages...)
	if err == nil && failed {
		err = fmt.Errorf("the tests fail without any change:\n%s", lastLines(out, 40))
	}
	fmt.Printf("the tests of %d packages pass as they are: %s\n", len(packages), time.Since(begin).Round(time.Second))
	return err
}

// try tries the mutants and returns the results in the same order. Each is printed when it is
// known.
func try(ctx context.Context, o options, drawn []mutant) []result {
	results := make([]result, len(drawn))
	next := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range max(1, o.jobs) {
		wg.Go(func() {
			for i := range next {
				r := tryOne(ctx, o, drawn[i])
				mu.Lock()
				results[i], done = r, done+1
				fmt.Printf("%3d/%d %-8s %5.1fs %s %s\n", done, len(drawn), r.fate, r.took.Seconds(), r.key(), r.by)
				mu.Unlock()
			}
		})
	}
	for i := range drawn {
		next <- i
	}
	close(next)
	wg.Wait()
	return results
}

// tryOne compiles the mutant in the place of its file, and runs the tests of its packages until one
// fails.
func tryOne(ctx context.Context, o options, m mutant) (r result) {
	r = result{mutant: m, fate: survived}
	begin := time.Now()
	defer func() { r.took = time.Since(begin) }()
	overlay, clean, err := overlayOf(o.root, m)
	if err != nil {
		r.err = err
		return r
	}
	defer clean()
	for _, pkg := range m.tests {
		failed, out, err := test(ctx, o, overlay, pkg)
		switch {
		case err != nil:
			r.err = err
			return r
		case failed && strings.Contains(out, "[build failed]"):
			r.fate = stillbirth
			return r
		case failed && timedOut.MatchString(out):
			r.fate = late
			return r
		case failed:
			r.fate, r.by = killed, killer(out)
			return r
		}
	}
	return r
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

// test runs packages' tests and tells whether they failed, with what they printed. It ends at the
// first test that fails.
func test(ctx context.Context, o options, overlay string, packages ...string) (failed bool, out string, err error) {
	args := []string{"test", "-p=1", "-count=1", "-failfast", "-vet=off", "-timeout", o.limit.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	args = slices.Concat(o.command[1:], args, packages)
	cmd := exec.CommandContext(ctx, o.command[0], args...)
	cmd.Dir = o.root
	cmd.WaitDelay = 10 * time.Second
	b, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return false, "", ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return true, string(b), nil
	}
	return false, string(b), err
}

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	timedOut   = regexp.MustCompile(`panic: test timed out`)
)

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

// report prints the score and the survivors, and fails below the pass mark.
func report(w io.Writer, results []result, excused int) error {
	count := map[fate]int{}
	var left []string
	for _, r := range results {
		if r.err != nil {
			return fmt.Errorf("%s: %w", r.key(), r.err)
		}
		count[r.fate]++
		if r.fate == survived {
			left = append(left, r.String())
		}
	}
	viable := count[killed] + count[survived]
	if viable == 0 {
		return errors.New("no mutant compiles")
	}
	for _, m := range left {
		fmt.Fprintln(w, "survived:", m)
	}
	score := 100 * float64(count[killed]) / float64(viable)
	fmt.Fprintf(w, "score: %.1f %% (%d of %d; %d do not compile, %d timed out, %d are excused)\n", score, count[killed], viable, count[stillbirth], count[late], excused)
	if score < passMark {
		return fmt.Errorf("below %d %%: write the tests that notice the survivors, or excuse those that change nothing, with the reason", passMark)
	}
	return nil
}
