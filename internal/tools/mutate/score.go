package main

import (
	"errors"
	"fmt"
	"io"
)

// score counts the mutants by their fate.
type score struct {
	count    map[fate]int
	tried    int
	excused  int
	survived []mutant
}

func newScore(excused int) *score { return &score{count: map[fate]int{}, excused: excused} }

func (s *score) add(r result) {
	s.count[r.fate]++
	s.tried++
	if r.fate == survived {
		s.survived = append(s.survived, r.mutant)
	}
}

// viable is how many mutants compile, and were noticed or not.
func (s *score) viable() int { return s.count[killed] + s.count[survived] }

// percent is the share of the viable mutants that were noticed.
func (s *score) percent() float64 {
	return 100 * float64(s.count[killed]) / float64(max(1, s.viable()))
}

func (s *score) String() string {
	return fmt.Sprintf("%.1f %% (%d killed, %d survived, %d timed out, %d do not compile; %d are excused)",
		s.percent(), s.count[killed], s.count[survived], s.count[timedOut], s.count[stillbirth], s.excused)
}

// progress prints a mutant that was tried and the score so far.
func (s *score) progress(w io.Writer, r result, of int) {
	fmt.Fprintf(w, "%d/%d %s in %.1f s: %s %s\n", s.tried, of, r.fate, r.took.Seconds(), r.key(), r.note)
	if r.fate == survived {
		fmt.Fprintln(w, r.diff())
	}
	fmt.Fprintln(w, "    so far:", s)
}

// report prints the survivors and the score, and fails below the pass mark.
func (s *score) report(w io.Writer) error {
	if s.viable() == 0 {
		return errors.New("no mutant was tried that compiles")
	}
	for _, m := range s.survived {
		fmt.Fprintf(w, "survived: %s\n", m)
	}
	fmt.Fprintln(w, "score:", s)
	if s.percent() < passMark {
		return fmt.Errorf("below %d %%: write the tests that notice the survivors, or excuse those that change nothing, with the reason", passMark)
	}
	return nil
}
