package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// coverage is which tests of a package run which blocks of the targets, as a file keeps it.
type coverage struct {
	// Binary is the hash of the test binary that was asked: another one makes it worthless.
	Binary string
	Tests  []timed
	// Blocks are the tests that run each block, as indexes; a block is named as in a profile.
	Blocks map[string][]int
}

// timed is a test and how long it takes alone.
type timed struct {
	Name    string
	Seconds float64
}

// coverageOf runs each test of a package alone, on the code as it is, and notes what it covers.
// What an earlier run noted of the same binary is kept. A test that fails twice ends it: it would
// kill every mutant.
func (t *tester) coverageOf(ctx context.Context, pkg string) (*coverage, error) {
	dir := filepath.Join(t.root, ".ajo", "mutate")
	name := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	out, err := t.goTest(ctx, "-c", "-cover", "-coverpkg", strings.Join(t.covered, ","), "-o", name+".test", pkg)
	if err != nil {
		return nil, fmt.Errorf("the tests of %s do not compile: %w\n%s", pkg, err, lastLines(out, 40))
	}
	binary, err := os.ReadFile(name + ".test")
	if err != nil {
		return nil, err
	}
	hash := fmt.Sprintf("%x", sha256.Sum256(binary))
	c := &coverage{}
	if kept, err := os.ReadFile(name + ".json"); err != nil || json.Unmarshal(kept, c) != nil || c.Binary != hash {
		c = &coverage{Binary: hash, Blocks: map[string][]int{}}
	}
	begin, known := time.Now(), len(c.Tests)
	list, err := t.runBinary(ctx, name+".test", pkg, t.limit, "-test.list", "^(Test|Fuzz|Example)")
	if err != nil {
		return nil, err
	}
	for _, test := range strings.Fields(list.out) {
		if !testName.MatchString(test) || slices.ContainsFunc(c.Tests, func(k timed) bool { return k.Name == test }) {
			continue
		}
		if err := t.cover(ctx, c, name, pkg, test); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(t.out, "the tests of %s pass as they are: %d, of which %d were run, in %s\n", pkg, len(c.Tests), len(c.Tests)-known,
		time.Since(begin).Round(time.Second))
	return c, nil
}

// cover runs one test, twice if it fails, and notes what it covers.
func (t *tester) cover(ctx context.Context, c *coverage, name, pkg, test string) error {
	profile := name + ".profile"
	run := func() (outcome, error) {
		return t.runBinary(ctx, name+".test", pkg, t.limit, "-test.run", only([]timed{{Name: test}}), "-test.coverprofile", profile)
	}
	o, err := run()
	if err == nil && o.ending != passed {
		o, err = run()
	}
	if err == nil && o.ending != passed {
		err = fmt.Errorf("%s of %s fails without any change:\n%s", test, pkg, lastLines(o.out, 40))
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	for _, m := range profiled.FindAllStringSubmatch(string(text), -1) {
		tests := c.Blocks[m[1]]
		if m[2] != "0" {
			tests = append(tests, len(c.Tests))
		}
		c.Blocks[m[1]] = tests
	}
	c.Tests = append(c.Tests, timed{test, o.took.Seconds()})
	kept, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(name+".json", kept, 0o600), os.Remove(profile))
}

var (
	testName = regexp.MustCompile(`^(Test|Fuzz|Example)\w*$`)
	// profiled is a block of a profile, and how often it ran
	profiled = regexp.MustCompile(`(?m)^(\S+) \d+ (\d+)$`)
)

// covering are the tests that a mutant is brought to, the fastest first: those that run its place,
// or where what it declares is used. A place that is in no block, as the expression of a case or
// another declaration, is run by all that run something of its function or, outside, of its file.
func (c *coverage) covering(root string, m mutant) (tests []timed, err error) {
	places := []place{{m.file, m.line, m.column}}
	if m.declares != nil {
		if places, err = usesOf(root, m); err != nil {
			return nil, err
		}
	}
	run := map[int]bool{}
	for _, p := range places {
		around := []int{}
		for name, ran := range c.Blocks {
			var from, to place
			_, name, _ = strings.Cut(name, "/") // without the module
			file, span, _ := strings.Cut(name, ":")
			if file != p.file {
				continue
			}
			if _, err := fmt.Sscanf(span, "%d.%d,%d.%d", &from.line, &from.column, &to.line, &to.column); err != nil {
				return nil, err
			}
			if !p.before(from) && p.before(to) {
				around = ran
				break
			}
			if m.declares != nil || from.line >= m.from && to.line <= m.to {
				around = append(around, ran...)
			}
		}
		for _, i := range around {
			run[i] = true
		}
	}
	for i := range run {
		tests = append(tests, c.Tests[i])
	}
	slices.SortFunc(tests, func(a, b timed) int {
		return cmp.Or(cmp.Compare(a.Seconds, b.Seconds), strings.Compare(a.Name, b.Name))
	})
	return tests, nil
}

// place is a place in a file, as coverage counts lines and columns.
type place struct {
	file         string
	line, column int
}

func (p place) before(q place) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

// usesOf are the places of the package that name what the mutant declares, but for comments.
func usesOf(root string, m mutant) (all []place, err error) {
	names := strings.Join(m.declares, "|")
	uses, declaration := regexp.MustCompile(`\b(`+names+`)\b`), regexp.MustCompile(`^(const |var |\t)(`+names+`)\b.* = `)
	files, err := filepath.Glob(filepath.Join(root, filepath.Dir(m.file), "*.go"))
	for _, file := range files {
		source, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		for n, line := range strings.Split(string(source), "\n") {
			if declaration.MatchString(line) || strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			for _, at := range uses.FindAllStringIndex(line, -1) {
				all = append(all, place{path.Join(path.Dir(m.file), filepath.Base(file)), n + 1, at[0] + 1})
			}
		}
	}
	return all, err
}
