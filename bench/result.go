package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// figure is one measured goal.
type figure struct {
	Row   string  `json:"row"`
	What  string  `json:"what"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	// InTPS says that the goal is in units of the reference, pgbench's transactions a second.
	InTPS bool `json:"inTps"`
	// at least, in the reference's unit or the figure's own; 0: none, it is for information
	Goal float64 `json:"goal"`
	// AtMost turns the goal round.
	AtMost bool               `json:"atMost"`
	Ratio  float64            `json:"ratio"` // to the reference, where the goal is in that unit
	Met    bool               `json:"met"`
	Note   string             `json:"note"`
	Cores  map[string]float64 `json:"cores,omitempty"` // processors that each part kept busy
	// Cost is what each item has taken: microseconds of a processor by process, and bytes of
	// Postgres' write-ahead log.
	Cost  map[string]float64 `json:"cost,omitempty"`
	Error string             `json:"error,omitempty"`
}

// result is one run.
type result struct {
	At        time.Time `json:"at"`
	Commit    string    `json:"commit"`
	Machine   string    `json:"machine"`
	TPS       float64   `json:"tps"` // the reference: the mean of the two
	TPSBefore float64   `json:"tpsBefore"`
	TPSAfter  float64   `json:"tpsAfter"`
	Seconds   float64   `json:"seconds"` // how long a row's load lasted
	Rows      []figure  `json:"rows"`
}

// judge says of each figure whether its goal is met.
func (r *result) judge() {
	r.TPS = (r.TPSBefore + r.TPSAfter) / 2
	for i := range r.Rows {
		f := &r.Rows[i]
		if f.InTPS && r.TPS > 0 {
			f.Ratio = f.Value / r.TPS
		}
		f.Met = f.Error == "" && f.reaches()
	}
}

// measure is the figure in the goal's unit.
func (f figure) measure() float64 {
	if f.InTPS {
		return f.Ratio
	}
	return f.Value
}

func (f figure) reaches() bool {
	if f.AtMost {
		return f.measure() <= f.Goal
	}
	return f.measure() >= f.Goal
}

// share is how much of the goal was reached: 1 is all of it, more is better than asked.
func (f figure) share() float64 {
	switch {
	case f.Error != "" || f.Goal == 0:
		return 0
	case f.AtMost:
		return f.Goal / max(f.measure(), f.Goal/1000)
	}
	return f.measure() / f.Goal
}

func (f figure) goalText() string {
	sign := "≥ "
	if f.AtMost {
		sign = "≤ "
	}
	switch {
	case f.Goal == 0:
		return ""
	case f.InTPS:
		return sign + number(f.Goal) + " × tps"
	}
	return sign + number(f.Goal) + " " + f.Unit
}

func (f figure) verdict() string {
	switch {
	case f.Error != "":
		return "FAILED"
	case f.Goal == 0:
		return ""
	case f.Met:
		return "met"
	}
	return "missed"
}

// print writes the run as a table for people.
func (r *result) print(out io.Writer) {
	fmt.Fprintf(out, "\nReference: %.0f tps (pgbench TPC-B, %d clients, scale %d; before %.0f, after %.0f: they differ by %.0f %%)\n%s, commit %s\n\n",
		r.TPS, referenceClients, referenceScale, r.TPSBefore, r.TPSAfter, r.noise()*100, r.Machine, r.Commit)
	rows := [][]string{{"WHAT", "GOAL", "FIGURE", "× TPS", "OF GOAL", ""}}
	for _, f := range r.Rows {
		ratio, share := "", ""
		if f.InTPS {
			ratio = fmt.Sprintf("%.2f", f.Ratio)
		}
		if f.Goal > 0 {
			share = fmt.Sprintf("%.0f %%", f.share()*100)
		}
		rows = append(rows, []string{f.What, f.goalText(), number(f.Value) + " " + f.Unit, ratio, share, f.verdict()})
	}
	printTable(out, rows)
	fmt.Fprintln(out)
	for _, f := range r.Rows {
		if f.Error != "" {
			fmt.Fprintf(out, "FAILED %s: %s\n", f.What, f.Error)
			continue
		}
		fmt.Fprintf(out, "%s: %s%s\n", f.What, f.Note, coresText(f.Cores)+costText(f.Cost))
	}
}

// noise is how far the two references lie apart, as a part of their mean.
func (r *result) noise() float64 {
	if r.TPS == 0 {
		return 0
	}
	return max(r.TPSBefore-r.TPSAfter, r.TPSAfter-r.TPSBefore) / r.TPS
}

func coresText(cores map[string]float64) string {
	if len(cores) == 0 {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(cores)) {
		parts = append(parts, fmt.Sprintf("%s %.2f", name, cores[name]))
	}
	return "; cores: " + strings.Join(parts, ", ")
}

func costText(cost map[string]float64) string {
	if len(cost) == 0 {
		return ""
	}
	var parts []string
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(cost)) {
		parts = append(parts, fmt.Sprintf("%s %.0f", name, cost[name]))
		if name != "WAL bytes" {
			sum += cost[name]
		}
	}
	return fmt.Sprintf("; each took µs of a processor: %s; together %.0f", strings.Join(parts, ", "), sum)
}

func printTable(out io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // what out refuses is lost
}

// number writes a figure with as many digits as say something.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v == float64(int(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func short(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

func (r *result) write(file string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

func readResult(file string) (*result, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r result
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &r, nil
}
