package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options are those of a run.
type options struct {
	dir, bin string
	rows     []string // empty: all
	took     time.Duration
	rate     int // of the rows about latency; 0: half of what was measured
	profile  bool
	full     bool          // the book has as many entries as the goal says
	scale    bool          // the rows about a large book, with the settings of Postgres that deploy/ ships
	pg       string        // settings of Postgres, as name=value, joined by commas; empty: its defaults, or those of deploy/
	lasts    time.Duration // of the soak
	due      int           // payments that are due when Redis is emptied, and that are reconciled then
	short    bool          // for tests: a small book
	out      string        // path of the result without an ending
}

func (o *options) check() error {
	for _, name := range o.rows {
		if !slices.Contains(rowNames(), name) {
			return fmt.Errorf("there is no row %q; the rows are %s", name, strings.Join(rowNames(), ", "))
		}
	}
	var err1, err2 error
	o.dir, err1 = filepath.Abs(o.dir)
	o.bin, err2 = filepath.Abs(o.bin)
	return errors.Join(err1, err2, os.MkdirAll(o.dir, 0o755), os.MkdirAll(filepath.Dir(o.out), 0o755))
}

// row is one part of a run, which yields one figure or more.
type row struct {
	name string
	in   set
	do   func(*run, context.Context) error
}

// set says in which runs a row is, where the options name none.
type set int

const (
	inBench set = 1 << iota
	inScale
)

var rows = []row{
	{"spread", inBench | inScale, func(r *run, ctx context.Context) error { return r.posting(ctx, "spread", r.spread()) }},
	{"hot", inBench | inScale, func(r *run, ctx context.Context) error { return r.posting(ctx, "hot", 1) }},
	{"chain", inBench | inScale, (*run).chain},
	{"slow", inBench, (*run).slow},
	{"settle", inBench, (*run).settling},
	{"latency", inBench, (*run).latency},
	{"memory", inBench, (*run).memoryRow},
	{"read", inBench | inScale, (*run).reading},
	{"book", inBench, (*run).book},
	{"idle", inBench, (*run).idle},
	{"confirm", inScale, (*run).confirming},
	{"due", inScale, (*run).overdue},
	{"leases", inScale, (*run).leases},
	{"purge", inScale, (*run).purging},
	{"soak", 0, (*run).soak},
	{"features", 0, (*run).features},
}

// runs reports whether the row is one of the run's.
func (r *run) runs(w row) bool {
	switch {
	case len(r.rows) > 0:
		return slices.Contains(r.rows, w.name)
	case r.scale:
		return w.in&inScale != 0
	}
	return w.in&inBench != 0
}

func rowNames() []string {
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	return names
}

// run is a run under way.
type run struct {
	*servers
	options
	result  result
	best    map[string]float64 // the highest rate of a row, a second
	highest map[string]int64   // the most memory of a role, in bytes
}

func newRun(s *servers, o options) *run {
	return &run{
		servers: s, options: o, best: map[string]float64{}, highest: map[string]int64{},
		result: result{At: time.Now().UTC().Truncate(time.Second), Seconds: o.took.Seconds()},
	}
}

// all runs the reference, the rows, and the reference again. A row that fails does not keep the
// others from being measured.
func (r *run) all(ctx context.Context) error {
	var err error
	r.say("reference: pgbench for %s", r.took)
	if r.result.TPSBefore, err = r.reference(ctx, r.took, r.branches()); err != nil {
		return err
	}
	r.say("%.0f tps", r.result.TPSBefore)
	var failed []error
	for _, row := range rows {
		if !r.runs(row) {
			continue
		}
		r.say("%s …", row.name)
		if err := row.do(r, ctx); err != nil {
			err = fmt.Errorf("row %s: %w", row.name, err)
			r.say("FAILED: %v", err)
			r.add(figure{Row: row.name, What: row.name, Error: err.Error()})
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	r.say("reference again")
	r.result.TPSAfter, err = r.reference(ctx, r.took, r.branches())
	return errors.Join(append(failed, err)...)
}

// add keeps a figure, and says it.
func (r *run) add(f figure) {
	r.result.Rows = append(r.result.Rows, f)
	if f.Error == "" {
		r.say("%s: %s %s (%s%s%s)", f.What, number(f.Value), f.Unit, f.Note, coresText(f.Cores), costText(f.Cost))
	}
}

// most is how many requests a load of r.took is made of at most, at so many a second.
func (r *run) most(perSecond int) int { return max(200, int(r.took.Seconds()*float64(perSecond))) }

// spread is over how many accounts the payments of most rows are spread.
func (r *run) spread() int {
	if r.short {
		return spreadOver / 10
	}
	return spreadOver
}

// branches is the scale of pgbench: rows of its smallest table.
func (r *run) branches() int {
	if r.short {
		return 1
	}
	return referenceScale
}

// scaled shortens what stands before a measurement in a run that is short.
func (r *run) scaled(n int) int { return min(n, max(100, int(r.took.Seconds()*float64(n)/5))) }

// measured does the work that a figure is of, after a checkpoint, with what the processes use
// meanwhile; it profiles them if the options say so. When the work fails the books are still
// checked.
func (r *run) measured(ctx context.Context, f *flow, row string, work func() (float64, *sent, error)) (rate float64, s *sent, used usage, err error) {
	if err := f.checkpoint(ctx); err != nil {
		return 0, nil, used, err
	}
	var p *profiler
	if r.profile {
		if p, err = r.startProfile(ctx, f.world, row); err != nil {
			r.say("no profile: %v", err)
		}
	}
	m := f.meter(ctx)
	rate, s, err = work()
	used = m.used(ctx)
	if p != nil {
		if err := p.finish(ctx); err != nil {
			r.say("profile: %v", err)
		}
	}
	if err != nil {
		err = errors.Join(err, f.verify(ctx))
	}
	return rate, s, used, err
}

// finish judges, prints and writes the result.
func (r *run) finish() error {
	r.result.judge()
	r.result.print(os.Stdout)
	if err := r.result.write(r.out + ".json"); err != nil {
		return err
	}
	r.say("written: %s.json", r.out)
	return nil
}
