// Package fsm is the transition table that every state machine in Ajo is written as.
//
// A [Table] lists (event, from, to) rows. The same rows stand in the schema as a trigger's CASE or
// a CHECK; a test compares the two, and the pictures in docs/states.md are generated from the
// tables.
package fsm

import (
	"fmt"
	"slices"
	"strings"
)

// Start is the state before the first: the row does not exist yet.
const Start = ""

// Row is one allowed move.
type Row[S, E ~string] struct {
	From  S
	Event E
	To    S
}

// Table is one state machine. Name is the heading of its picture; each (From, Event) pair occurs at
// most once.
type Table[S, E ~string] struct {
	Name string
	Rows []Row[S, E]
}

// New returns the table, and panics when a (from, event) pair occurs twice: that is an error in the
// code.
func New[S, E ~string](name string, rows ...Row[S, E]) Table[S, E] {
	seen := map[string]bool{}
	for _, r := range rows {
		k := string(r.From) + "\x00" + string(r.Event)
		if seen[k] {
			panic(fmt.Sprintf("fsm %s: %s on %s occurs twice", name, r.Event, r.From))
		}
		seen[k] = true
	}
	return Table[S, E]{Name: name, Rows: rows}
}

// Next returns the state that event leads to from the state from; ok is false when the table does
// not allow it.
func (t Table[S, E]) Next(from S, event E) (to S, ok bool) {
	for _, r := range t.Rows {
		if r.From == from && r.Event == event {
			return r.To, true
		}
	}
	return "", false
}

// From returns the states in which event is allowed, for the ANY(…) of the UPDATE that moves a row.
func (t Table[S, E]) From(event E) []string {
	var out []string
	for _, r := range t.Rows {
		if r.Event == event && r.From != Start {
			out = append(out, string(r.From))
		}
	}
	return out
}

// States returns every state of the table, in order of appearance, without [Start].
func (t Table[S, E]) States() []S {
	var out []S
	for _, r := range t.Rows {
		for _, s := range []S{r.From, r.To} {
			if s != Start && !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// Knows reports whether a list may be asked for the rows in s: in a state of the table or, if it is
// empty, in any.
func (t Table[S, E]) Knows(s S) bool { return s == "" || slices.Contains(t.States(), s) }

// Events returns every event of the table, in order of appearance.
func (t Table[S, E]) Events() []E {
	var out []E
	for _, r := range t.Rows {
		if !slices.Contains(out, r.Event) {
			out = append(out, r.Event)
		}
	}
	return out
}

// Moves returns the distinct (from, to) pairs with from ≠ to, as the schema's trigger must allow
// them; [Start] is left out.
func (t Table[S, E]) Moves() [][2]string {
	var out [][2]string
	for _, r := range t.Rows {
		m := [2]string{string(r.From), string(r.To)}
		if r.From != Start && r.From != r.To && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// Mermaid returns the picture of the table as a mermaid state diagram.
func (t Table[S, E]) Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	leaves := map[S]bool{}
	for _, r := range t.Rows {
		from := string(r.From)
		if r.From == Start {
			from = "[*]"
		}
		leaves[r.From] = leaves[r.From] || r.From != r.To
		fmt.Fprintf(&b, "    %s --> %s: %s\n", from, r.To, r.Event)
	}
	for _, s := range t.States() {
		if !leaves[s] {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	return b.String()
}
