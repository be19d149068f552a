package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// excuses are the mutants that need no test, by key, with the reason.
type excuses map[string]string

// readExcuses reads a file of pairs of lines: a mutant as the report prints it, and indented below
// it why nobody need notice it. Empty lines and those that begin with # are left out. A mutant is
// named by file, function and change, so that it survives moves.
func readExcuses(path string) (excuses, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return excuses{}, nil
	}
	if err != nil {
		return nil, err
	}
	all, key := excuses{}, ""
	for n, line := range strings.Split(string(text), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if key == "" {
				return nil, fmt.Errorf("%s:%d: a reason without a mutant", path, n+1)
			}
			all[key] = strings.TrimSpace(all[key] + " " + trimmed)
		default:
			if _, twice := all[trimmed]; twice || key != "" && all[key] == "" {
				return nil, fmt.Errorf("%s:%d: excused twice, or the one before without a reason", path, n+1)
			}
			key = trimmed
			all[key] = ""
		}
	}
	if key != "" && all[key] == "" {
		return nil, fmt.Errorf("%s: the last one has no reason", path)
	}
	return all, nil
}

// unused are the excuses that no mutant has any more.
func (x excuses) unused(all []mutant) (out []string) {
	there := map[string]bool{}
	for _, m := range all {
		there[m.key()] = true
	}
	for key := range x {
		if !there[key] {
			out = append(out, key)
		}
	}
	return out
}
