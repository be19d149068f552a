package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// excuses are the mutants that need no test, by key, with the reason.
type excuses map[string]string

// wildcard ends a line that excuses every change of a constant's value: it stands for the value.
const wildcard = "= *"

// readExcuses reads a file of mutants as the report prints them, one a line, and indented below
// those that have it in common the reason why nobody need notice them. Empty lines and those that
// begin with # are left out. A mutant is named by file, function and change, so that it survives
// moves; a constant whose value decides nothing is named by itself, with a * for its value.
func readExcuses(path string) (excuses, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return excuses{}, nil
	}
	if err != nil {
		return nil, err
	}
	all := excuses{}
	var keys []string // that the next reason is for
	reason := false
	for n, line := range strings.Split(string(text), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if len(keys) == 0 {
				return nil, fmt.Errorf("%s:%d: a reason without a mutant", path, n+1)
			}
			reason = true
			for _, key := range keys {
				all[key] = strings.TrimSpace(all[key] + " " + trimmed)
			}
		default:
			if _, twice := all[trimmed]; twice {
				return nil, fmt.Errorf("%s:%d: excused twice", path, n+1)
			}
			if reason {
				keys, reason = nil, false
			}
			keys = append(keys, trimmed)
			all[trimmed] = ""
		}
	}
	if len(keys) > 0 && !reason {
		return nil, fmt.Errorf("%s: the last one has no reason", path)
	}
	return all, nil
}

// excuse is the key of the line that excuses the mutant.
func (x excuses) excuse(m mutant) (key string, ok bool) {
	key = m.key()
	if _, ok := x[key]; ok {
		return key, true
	}
	declared, value, ok := strings.Cut(key, "= ")
	if !ok || !strings.Contains(value, "[") || strings.Contains(declared, "[") {
		return "", false
	}
	_, ok = x[declared+wildcard]
	return declared + wildcard, ok
}

// count is how many of the mutants are excused.
func (x excuses) count(all []mutant) (n int) {
	for _, m := range all {
		if _, ok := x.excuse(m); ok {
			n++
		}
	}
	return n
}

// unused are the excuses that no mutant has any more.
func (x excuses) unused(all []mutant) (out []string) {
	used := map[string]bool{}
	for _, m := range all {
		if key, ok := x.excuse(m); ok {
			used[key] = true
		}
	}
	for key := range x {
		if !used[key] {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}
