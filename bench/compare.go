package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// compare prints two results side by side. Figures in the unit of the reference are compared in
// that unit, since the machine may have been a faster or a slower one.
func compare(out io.Writer, before, after string) error {
	a, err := readResult(resultFile(before))
	if err != nil {
		return err
	}
	b, err := readResult(resultFile(after))
	if err != nil {
		return err
	}
	rows := [][]string{
		{"WHAT", "GOAL", a.Commit, b.Commit, "CHANGE"},
		{"reference, tps", "", number(a.TPS), number(b.TPS), change(a.TPS, b.TPS)},
	}
	for _, f := range b.Rows {
		old, there := a.find(f)
		row := []string{f.What, f.goalText(), "", f.compared(), ""}
		if there {
			row[2] = old.compared()
			if old.Error == "" && f.Error == "" {
				row[4] = change(old.measure(), f.measure())
			}
		}
		rows = append(rows, row)
	}
	for _, f := range a.Rows {
		if _, there := b.find(f); !there {
			rows = append(rows, []string{f.What, f.goalText(), f.compared(), "", ""})
		}
	}
	printTable(out, rows)
	return nil
}

// resultFile takes the name of a result, or its file.
func resultFile(name string) string {
	if strings.HasSuffix(name, ".json") {
		return name
	}
	return filepath.Join("bench", "results", name+".json")
}

// find is the same figure of another run. Rates that a run chose stand in the words, so digits do
// not count.
func (r *result) find(f figure) (figure, bool) {
	same := func(s string) string {
		return strings.Map(func(c rune) rune {
			if c >= '0' && c <= '9' {
				return -1
			}
			return c
		}, s)
	}
	for _, o := range r.Rows {
		if o.What == f.What {
			return o, true
		}
	}
	for _, o := range r.Rows {
		if o.Row == f.Row && o.Row == "latency" && same(o.What) == same(f.What) {
			return o, true
		}
	}
	return figure{}, false
}

func (f figure) compared() string {
	switch {
	case f.Error != "":
		return "FAILED"
	case f.InTPS:
		return fmt.Sprintf("%.2f (%s %s)", f.Ratio, number(f.Value), f.Unit)
	}
	return number(f.Value) + " " + f.Unit
}

func change(before, after float64) string {
	if before == 0 {
		return ""
	}
	return fmt.Sprintf("%+.0f %%", (after/before-1)*100)
}
