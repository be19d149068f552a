package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// coverage is which tests of a package run which mutants, as a file keeps it.
type coverage struct {
	Tests map[string]*covered // by the test's name; nil is a test that fails as the code is
}

// covered is what a test runs.
type covered struct {
	Seconds float64
	// Sources are the hashes of the test's file and of the files whose mutants it runs: with other
	// ones it is asked again.
	Sources map[string]string
	Seen    []string // keys of mutants
}

// timed is a test and how long it takes.
type timed struct {
	Name    string
	Seconds float64
}

// coverageOf runs the tests of a package, with all mutants in it and none switched on, and notes
// what each runs. What an earlier run noted of the same sources is kept. A test that fails twice
// is left out: it would kill every mutant.
func (t *tester) coverageOf(ctx context.Context, pkg string) (*coverage, error) {
	dir := filepath.Join(t.root, ".ajo", "mutate")
	name := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	binary := t.binary(pkg)
	out, err := t.goTest(ctx, "-c", "-ldflags", "-s -w", "-overlay", t.schema.overlay, "-o", binary, pkg)
	if err != nil {
		return nil, fmt.Errorf("the tests of %s do not compile: %w\n%s", pkg, err, lastLines(out, 40))
	}
	c := &coverage{}
	if kept, err := os.ReadFile(name + ".json"); err != nil || json.Unmarshal(kept, c) != nil || c.Tests == nil {
		c.Tests = map[string]*covered{}
	}
	files, err := t.testFiles(pkg)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	list, err := t.runBinary(ctx, binary, pkg, nil, t.limit, "-test.list", "^(Test|Fuzz|Example)")
	if err != nil {
		return nil, err
	}
	var missing []timed
	all := map[string]bool{}
	for _, test := range strings.Fields(list.out) {
		if testName.MatchString(test) {
			all[test] = true
			if k := c.Tests[test]; k == nil || !t.isCurrent(k, files[test]) {
				missing = append(missing, timed{Name: test})
			}
		}
	}
	maps.DeleteFunc(c.Tests, func(name string, _ *covered) bool { return !all[name] })
	run := len(missing)
	for i := 0; i < 2 && len(missing) > 0; i++ {
		if missing, err = t.coverAll(ctx, c, name+".notes", binary, pkg, files, missing); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(t.out, "the tests of %s pass as they are: %d, of which %d were run, in %s\n", pkg, len(c.Tests), run, time.Since(begin).Round(time.Second))
	for _, test := range missing {
		fmt.Fprintf(t.out, "%s of %s fails without any change: it is not asked\n", test.Name, pkg)
		delete(c.Tests, test.Name)
	}
	kept, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return c, os.WriteFile(name+".json", kept, 0o600)
}

// testFiles are the files of a package's tests, below the root.
func (t *tester) testFiles(pkg string) (files map[string]string, err error) {
	files = map[string]string{}
	paths, err := filepath.Glob(filepath.Join(t.root, filepath.FromSlash(pkg), "*_test.go"))
	for _, path := range paths {
		text, readErr := os.ReadFile(path)
		err = errors.Join(err, readErr)
		name, relErr := filepath.Rel(t.root, path)
		err = errors.Join(err, relErr)
		for _, m := range declaredTest.FindAllSubmatch(text, -1) {
			files[string(m[1])] = filepath.ToSlash(name)
		}
	}
	return files, err
}

// isCurrent reports whether what a test ran is as it was, and so is the test's file.
func (t *tester) isCurrent(k *covered, file string) bool {
	if k.Sources[file] == "" {
		return false
	}
	for name, hash := range k.Sources {
		if t.hash(name) != hash {
			return false
		}
	}
	return true
}

// hash is that of a file below the root.
func (t *tester) hash(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hashes[name] == "" {
		text, err := os.ReadFile(filepath.Join(t.root, filepath.FromSlash(name)))
		if err != nil {
			return ""
		}
		t.hashes[name] = fmt.Sprintf("%x", sha256.Sum256(text))[:12]
	}
	return t.hashes[name]
}

// coverAll is cover in several processes at once, as the tests wait more than they work.
func (t *tester) coverAll(ctx context.Context, c *coverage, notes, binary, pkg string, files map[string]string, tests []timed) (left []timed, err error) {
	parts := make([][]timed, max(1, t.jobs))
	for i, test := range tests {
		parts[i%len(parts)] = append(parts[i%len(parts)], test)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i, part := range parts {
		if len(part) == 0 {
			continue
		}
		wg.Go(func() {
			found := &coverage{Tests: map[string]*covered{}}
			failed, coverErr := t.cover(ctx, found, notes+strconv.Itoa(i), binary, pkg, files, part)
			mu.Lock()
			defer mu.Unlock()
			left, err = append(left, failed...), errors.Join(err, coverErr)
			maps.Copy(c.Tests, found.Tests)
		})
	}
	wg.Wait()
	return left, err
}

// cover runs tests one after the other in one process, and notes what each of them covers. It
// returns those that did not pass.
func (t *tester) cover(ctx context.Context, c *coverage, notes, binary, pkg string, files map[string]string, tests []timed) (left []timed, err error) {
	if err := os.RemoveAll(notes); err != nil {
		return nil, err
	}
	o, err := t.runBinary(ctx, binary, pkg, []string{"MUTANT_NOTES=" + notes}, coverLimit, "-test.v", "-test.parallel", "1", "-test.run", only(tests))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(notes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	seen, current := map[string]map[int]bool{}, ""
	for _, line := range strings.Split(string(text), "\n") {
		if name, ok := strings.CutPrefix(line, "="); ok {
			current = name
		} else if id, err := strconv.Atoi(line); err == nil && current != "" {
			if seen[current] == nil {
				seen[current] = map[int]bool{}
			}
			seen[current][id] = true
		}
	}
	passed := map[string]float64{}
	for _, m := range passedTest.FindAllStringSubmatch(o.out, -1) {
		passed[m[1]], err = strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, err
		}
	}
	for _, test := range tests {
		seconds, ok := passed[test.Name]
		if !ok {
			left = append(left, test)
			continue
		}
		k := &covered{Seconds: seconds, Sources: map[string]string{files[test.Name]: t.hash(files[test.Name])}}
		for id := range seen[test.Name] {
			m := t.all[id-1]
			k.Sources[m.file] = t.hash(m.file)
			k.Seen = append(k.Seen, m.key())
		}
		slices.Sort(k.Seen)
		c.Tests[test.Name] = k
	}
	if len(left) > 0 {
		fmt.Fprintf(t.out, "%d tests of %s did not pass:\n%s\n", len(left), pkg, lastLines(o.out, 20))
	}
	return left, os.RemoveAll(notes)
}

// coverLimit is how long all tests of a package may take.
const coverLimit = time.Hour

var (
	testName     = regexp.MustCompile(`^(Test|Fuzz|Example)\w*$`)
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	passedTest   = regexp.MustCompile(`(?m)^--- (?:PASS|SKIP): (\w+) \(([\d.]+)s\)$`)
)

// covering are the tests that a mutant is brought to, the fastest first.
func (c *coverage) covering(m mutant) (tests []timed) {
	key := m.key()
	for name, k := range c.Tests {
		if _, ok := slices.BinarySearch(k.Seen, key); ok {
			tests = append(tests, timed{name, k.Seconds})
		}
	}
	slices.SortFunc(tests, func(a, b timed) int {
		return cmp.Or(cmp.Compare(a.Seconds, b.Seconds), strings.Compare(a.Name, b.Name))
	})
	return tests
}
