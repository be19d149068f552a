package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	hash, err := hashOf(name + ".test")
	if err != nil {
		return nil, err
	}
	c := &coverage{}
	text, err := os.ReadFile(name + ".json")
	if err == nil {
		err = json.Unmarshal(text, c)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if c.Binary != hash {
		c = &coverage{Binary: hash, Blocks: map[string][]int{}}
	}
	begin, known := time.Now(), len(c.Tests)
	_, out, err = t.runBinary(ctx, name+".test", pkg, t.limit, "-test.list", "^(Test|Fuzz|Example)")
	if err != nil {
		return nil, err
	}
	for _, test := range strings.Fields(out) {
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
	var took time.Duration
	for again := false; ; again = true {
		begin := time.Now()
		end, out, err := t.runBinary(ctx, name+".test", pkg, t.limit, "-test.run", only([]timed{{Name: test}}), "-test.coverprofile", profile)
		took = time.Since(begin)
		if err != nil {
			return err
		}
		if end == passed {
			break
		}
		if again {
			return fmt.Errorf("%s of %s fails without any change:\n%s", test, pkg, lastLines(out, 40))
		}
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
	c.Tests = append(c.Tests, timed{test, took.Seconds()})
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

// covering are the tests that a mutant is brought to, the fastest first: those that run its place.
// What no block holds, as the expression of a case, is run by those that run its function.
func (c *coverage) covering(m mutant) (tests []timed) {
	in, around, held := map[int]bool{}, map[int]bool{}, false
	for name, ran := range c.Blocks {
		_, name, _ = strings.Cut(name, "/") // without the module
		file, span, _ := strings.Cut(name, ":")
		from, to := place{file: file}, place{file: file}
		_, err := fmt.Sscanf(span, "%d.%d,%d.%d", &from.line, &from.column, &to.line, &to.column)
		holds := func(p place) bool { return p.file == file && !p.before(from) && p.before(to) }
		switch {
		case err != nil:
		case slices.ContainsFunc(m.places, holds):
			held = true
			note(in, ran)
		case file == m.file && from.line >= m.from && to.line <= m.to:
			note(around, ran)
		}
	}
	if !held {
		in = around
	}
	for i := range in {
		tests = append(tests, c.Tests[i])
	}
	slices.SortFunc(tests, func(a, b timed) int {
		return cmp.Or(cmp.Compare(a.Seconds, b.Seconds), strings.Compare(a.Name, b.Name))
	})
	return tests
}

func note(set map[int]bool, all []int) {
	for _, i := range all {
		set[i] = true
	}
}

func (p place) before(q place) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

func hashOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}
