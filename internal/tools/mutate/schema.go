package main

import (
	"bytes"
	"context"
	_ "embed"
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
)

// probeSource is the package that the programs with all mutants import.
//
//go:embed probe.go.txt
var probeSource []byte

// schema is the tree with all mutants in it, as an overlay of files.
type schema struct {
	overlay string       // the file that names the others
	apart   map[int]bool // mutants that are compiled by themselves
}

// sourceFile is a file while it is rewritten: its mutants by host, and the hosts by place.
type sourceFile struct {
	text    []byte
	mutants []mutant
	spans   []span  // where the forms of mutants stand in what was written
	inserts []added // what else is put in
	isTest  bool
}

// span is where something stands in the text that was written, and the mutants it is for.
type span struct {
	from, to int
	ids      []int
}

// added is text that stands in front of what is at a place of the source, or for what ends there.
type added struct {
	at, end int
	text    string
}

// buildSchema writes the overlay, and compiles the packages until what does not compile beside the
// others is left out of it: a name that is assigned, or a constant of an array's size.
func (t *tester) buildSchema(ctx context.Context, dir string, all []mutant) (*schema, error) {
	s := &schema{overlay: filepath.Join(dir, "overlay.json"), apart: map[int]bool{}}
	var known []string // what an earlier run found
	file := filepath.Join(t.root, ".ajo", "mutate", "apart.json")
	if text, err := os.ReadFile(file); err == nil {
		_ = json.Unmarshal(text, &known)
	}
	for _, m := range all {
		s.apart[m.id] = m.host.hosting == alone || slices.Contains(known, m.key())
	}
	for range 40 { // a package is compiled once those that it needs are
		files, err := t.writeSchema(dir, s, all)
		if err != nil {
			return nil, err
		}
		out, err := t.goTool(ctx, slices.Concat([]string{"build", "-trimpath", "-gcflags=-e", "-overlay", s.overlay}, t.covered)...)
		if err == nil {
			return s, s.keep(file, all)
		}
		more := 0
		for _, m := range compileError.FindAllStringSubmatch(out, -1) {
			line, _ := strconv.Atoi(m[2])
			column, _ := strconv.Atoi(m[3])
			f := files[filepath.Base(m[1])]
			if f == nil {
				continue
			}
			for _, id := range f.blamed(line, column) {
				if !s.apart[id] {
					s.apart[id], more = true, more+1
				}
			}
		}
		if more == 0 {
			return nil, fmt.Errorf("the mutants do not compile together: %w\n%s", err, lastLines(out, 40))
		}
	}
	return nil, errors.New("the mutants do not compile together")
}

// keep notes for the next run which mutants are compiled by themselves.
func (s *schema) keep(file string, all []mutant) error {
	var known []string
	for _, m := range all {
		if s.apart[m.id] && m.host.hosting != alone {
			known = append(known, m.key())
		}
	}
	text, err := json.Marshal(known)
	return errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, text, 0o600))
}

var compileError = regexp.MustCompile(`(?m)^(?:vet: )?(\S+\.go):(\d+)(?::(\d+))?: `)

// blamed are the mutants of the innermost span at a place of what was written: forms begin lines,
// so that places have columns, which the compiler leaves out far to the right.
func (f *sourceFile) blamed(line, column int) []int {
	offset := 0
	for range line - 1 {
		offset += bytes.IndexByte(f.text[offset:], '\n') + 1
	}
	offset += max(0, column-1)
	var inner span
	for _, s := range f.spans {
		if s.from <= offset && offset <= s.to && (inner.ids == nil || s.to-s.from < inner.to-inner.from) {
			inner = s
		}
	}
	return inner.ids
}

// writeSchema writes the files of the overlay, and returns them by the name under which they were
// written, with what was written as their text.
func (t *tester) writeSchema(dir string, s *schema, all []mutant) (map[string]*sourceFile, error) {
	module, err := moduleOf(t.root)
	if err != nil {
		return nil, err
	}
	probe := module + "/mutant_probe"
	replace := map[string]string{filepath.Join(t.root, "mutant_probe", "probe.go"): filepath.Join(dir, "probe.go")}
	if err := os.WriteFile(filepath.Join(dir, "probe.go"), probeSource, 0o600); err != nil {
		return nil, err
	}
	files, err := t.sources(all)
	if err != nil {
		return nil, err
	}
	if err := prepare(files, s); err != nil {
		return nil, err
	}
	written := map[string]*sourceFile{}
	for n, path := range slices.Sorted(maps.Keys(files)) {
		f := files[path]
		if !f.write(s, probe) {
			continue
		}
		name := fmt.Sprintf("%d_%s", n, filepath.Base(path))
		written[name], replace[path] = f, filepath.Join(dir, name)
		if err := os.WriteFile(replace[path], f.text, 0o600); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return written, os.WriteFile(s.overlay, text, 0o600)
}

// sources are the files of the mutants' packages and of the tests that are brought to them.
func (t *tester) sources(all []mutant) (map[string]*sourceFile, error) {
	files, dirs := map[string]*sourceFile{}, map[string]bool{}
	for _, m := range all {
		dirs[filepath.Dir(filepath.FromSlash(m.file))] = true
		for _, pkg := range m.tests {
			dirs[filepath.FromSlash(pkg)] = true
		}
	}
	targets := map[string][]mutant{}
	for _, m := range all {
		path := filepath.Join(t.root, filepath.FromSlash(m.file))
		targets[path] = append(targets[path], m)
	}
	for dir := range dirs {
		paths, err := filepath.Glob(filepath.Join(t.root, dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			files[path] = &sourceFile{text: text, mutants: targets[path], isTest: strings.HasSuffix(path, "_test.go")}
			if files[path].isTest {
				files[path].markTests()
			}
		}
	}
	return files, nil
}

var moduleLine = regexp.MustCompile(`(?m)^module (\S+)`)

func moduleOf(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	m := moduleLine.FindSubmatch(text)
	if m == nil {
		return "", errors.New("go.mod names no module")
	}
	return string(m[1]), nil
}

var (
	testFunction = regexp.MustCompile(`(?m)^func (?:Test|Fuzz)\w*\((\w+) \*testing\.[TF]\) \{`)
	parallel     = regexp.MustCompile(`\b(\w+)\.Parallel\(\)`)
)

// markTests makes each test say its name where it begins and where it goes on.
func (f *sourceFile) markTests() {
	for exp, text := range map[*regexp.Regexp]string{testFunction: " ", parallel: "; "} {
		for _, at := range exp.FindAllSubmatchIndex(f.text, -1) {
			if name := f.text[at[2]:at[3]]; string(name) != "_" {
				f.inserts = append(f.inserts, added{at[1], at[1], fmt.Sprintf("%smutant_probe.Test(%s.Name());", text, name)})
			}
		}
	}
}
