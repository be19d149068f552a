package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
)

const (
	soakShare = 0.6              // of the whole chain's rate
	soakStep  = 10 * time.Second // between two samples
)

// curve is what a soak has sampled of one thing, step by step.
type curve struct {
	what, unit string
	values     []float64
}

// soak has payments come at a steady rate for a long time, and samples what could grow meanwhile.
func (r *run) soak(ctx context.Context) error {
	f, err := r.warmChain(ctx, "soak")
	if err != nil {
		return err
	}
	defer f.close(ctx)
	all, err := f.record(r.most(3000))
	if err != nil {
		return err
	}
	full, _, err := f.done(ctx, all, 64, 0)
	if err != nil {
		return err
	}
	if err := f.checkpoint(ctx); err != nil {
		return err
	}
	rate := max(1, int(full*soakShare))
	step := min(soakStep, r.lasts/4)
	r.say("soak: %d payments a second for %s", rate, r.lasts)
	m, before := f.meter(ctx), f.tally.count
	curves := []*curve{
		{what: "accept, p99", unit: "ms"},
		{what: "memory of the api", unit: "MiB"},
		{what: "memory of the worker", unit: "MiB"},
		{what: "due work", unit: "items"},
		{what: "dead rows", unit: "rows"},
		{what: "database", unit: "MiB"},
	}
	var minutes [2][]time.Duration // what accepting took in the first minute, and in the last
	perMinute := max(1, int(time.Minute/step))
	steps := int(r.lasts / step)
	record := func() ([]payment, error) { return f.record(max(1, int(float64(rate)*step.Seconds()))) }
	if all, err = record(); err != nil {
		return err
	}
	for i := range steps {
		var following []payment // the bank records them while the others are sent
		var recording errgroup.Group
		recording.Go(func() (err error) { following, err = record(); return err })
		s, err := f.send(load{conns: 64, interval: time.Second / time.Duration(rate)}, all)
		if err := errors.Join(err, recording.Wait()); err != nil {
			return err
		}
		all = following
		if i < perMinute {
			minutes[0] = append(minutes[0], s.latency...)
		}
		if i >= steps-perMinute {
			minutes[1] = append(minutes[1], s.latency...)
		}
		if err := f.sample(ctx, curves, milliseconds(percentile(s.latency, 990))); err != nil {
			return err
		}
	}
	if err := f.wait(ctx, "posted, delivered and confirmed", doneLimit, allDone); err != nil {
		return err
	}
	used, n := m.used(ctx), f.tally.count-before
	for i := range minutes {
		slices.Sort(minutes[i])
	}
	first, last := milliseconds(percentile(minutes[0], 990)), milliseconds(percentile(minutes[1], 990))
	note := fmt.Sprintf("%s at %d/s, %.0f %% of the chain's rate, in a book of %s; %d payments", r.lasts, rate, soakShare*100, grouped(r.bigBook().entries()), n)
	r.add(figure{
		Row: "soak", What: "soak: accept p99 of the last minute ÷ of the first", Unit: "×", Value: last / first, Goal: 2, AtMost: true,
		Note: fmt.Sprintf("%.1f and %.1f ms; %s", last, first, note), Cores: used.cores(), Cost: used.cost(n),
	})
	for _, c := range curves[1:] {
		r.add(figure{Row: "soak", What: "soak: " + c.what + " in the end", Unit: c.unit, Value: c.values[len(c.values)-1], Note: fmt.Sprintf("%s after the first step", number(c.values[0]))})
	}
	return errors.Join(plotCurves(r.out+".soak.svg", note, r.lasts, curves), f.verifyChain(ctx, 0), f.verify(ctx))
}

// sample adds a value to each curve.
func (f *flow) sample(ctx context.Context, curves []*curve, p99 float64) error {
	values := []float64{p99}
	for _, pid := range []int{f.api.PID, f.worker.PID} {
		var resident uint64
		if p, err := procfs.NewProc(pid); err == nil { // else it is no Linux
			if s, err := p.NewStatus(); err == nil {
				resident = s.VmRSS
			}
		}
		values = append(values, float64(resident)/(1<<20))
	}
	var due, dead, size float64
	err := f.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM work WHERE due_at <= now()), (SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables),
		pg_database_size(current_database())`).Scan(&due, &dead, &size)
	for i, v := range append(values, due, dead, size/(1<<20)) {
		curves[i].values = append(curves[i].values, v)
	}
	return err
}

// plotCurves draws each curve in a strip of its own, from zero to its highest value.
func plotCurves(file, title string, lasts time.Duration, curves []*curve) error {
	const width, strip, left, high = 1080, 110, 230, 80
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="Soak">
<style>svg { color-scheme: light dark; font: 13px system-ui, sans-serif; background: #ffffff } text { fill: #1f2328 } polyline { fill: none; stroke: #2da44e; stroke-width: 1.5 } line { stroke: #59636e }
	@media (prefers-color-scheme: dark) { svg { background: #0d1117 } text { fill: #e6edf3 } }</style>
<text x="16" y="26">%s</text>
`, width, 50+strip*len(curves), html.EscapeString(title))
	for i, c := range curves {
		most, base := max(slices.Max(c.values), 1e-9), 40+strip*i+high+10
		fmt.Fprintf(&b, `<text x="16" y="%d">%s</text><text x="16" y="%d">highest %s %s</text><line x1="%d" y1="%d" x2="%d" y2="%d"/><polyline points="`,
			base-high/2, html.EscapeString(c.what), base-high/2+18, number(most), c.unit, left, base, width-16, base)
		for j, v := range c.values {
			fmt.Fprintf(&b, "%d,%d ", left+(width-16-left)*j/max(1, len(c.values)-1), base-int(v/most*high))
		}
		b.WriteString(`"/>` + "\n")
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text></svg>`+"\n", width-16, 46+strip*len(curves), lasts)
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
