package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// latency measures how long acceptance and the first delivery take at half of what the service can
// do. Events are sent at fixed times, whatever the outcome of those before, and a time counts from
// when an event was to be sent: waiting in line is in it.
func (r *run) latency(ctx context.Context) error {
	return errors.Join(r.chainLatency(ctx), r.acceptLatency(ctx))
}

// half is half of a row's highest rate in this run, or the rate of the options.
func (r *run) half(row string) (int, error) {
	switch {
	case r.rate > 0:
		return r.rate, nil
	case r.best[row] >= 2:
		return int(r.best[row] / 2), nil
	}
	return 0, fmt.Errorf("latency is measured at half the rate of row %q: run that too, or give -rate", row)
}

// chainLatency is at half the whole chain's rate, with everything that follows a payment going on.
func (r *run) chainLatency(ctx context.Context) error {
	rate, err := r.half("chain")
	if err != nil {
		return err
	}
	f, err := r.warmChain(ctx, "latency")
	if err != nil {
		return err
	}
	defer f.close(ctx)
	all, err := f.record(rate * max(1, int(r.took.Seconds())))
	if err != nil {
		return err
	}
	_, s, used, err := r.measured(ctx, f, "latency", func() (float64, *sent, error) { return f.done(ctx, all, 64, time.Second/time.Duration(rate)) })
	if err != nil {
		return err
	}
	heard := f.endpoint.heard()
	delivered := make([]time.Duration, 0, len(all))
	for i := range all {
		if at, ok := heard[i]; ok {
			// the tenant may hear of it before the bank has its answer
			delivered = append(delivered, max(0, at.Sub(s.at[i])))
		}
	}
	slices.Sort(delivered)
	what := fmt.Sprintf("at %d/s, half the whole chain's rate", rate)
	r.add(figure{
		Row: "latency", What: "accept p99 " + what, Unit: "ms", Value: milliseconds(percentile(s.latency, 990)), Goal: 20, AtMost: true, Cores: used.cores(),
		Note: fmt.Sprintf("p50 %s, p999 %s, most %s; from the time each was to be sent", short(percentile(s.latency, 500)), short(percentile(s.latency, 999)), short(percentile(s.latency, 1000))),
	})
	r.add(figure{
		Row: "latency", What: "first delivery p99 after acceptance, at the same rate", Unit: "ms", Value: milliseconds(percentile(delivered, 990)), Goal: 150, AtMost: true,
		Note: fmt.Sprintf("p50 %s, p999 %s, most %s; as the tenant's endpoint heard it", short(percentile(delivered, 500)), short(percentile(delivered, 999)), short(percentile(delivered, 1000))),
	})
	return errors.Join(f.verifyChain(ctx, len(all)), f.verify(ctx))
}

// acceptLatency is at half the highest rate of accepted → posted, as that row is measured.
func (r *run) acceptLatency(ctx context.Context) error {
	rate, err := r.half("spread")
	if err != nil {
		return err
	}
	f, err := r.warmPosting(ctx, "accept", r.spread())
	if err != nil {
		return err
	}
	defer f.close(ctx)
	_, s, used, err := r.measured(ctx, f, "accept", func() (float64, *sent, error) {
		return f.posted(ctx, posting{conns: 64, count: rate * max(1, int(r.took.Seconds())), interval: time.Second / time.Duration(rate)})
	})
	if err != nil {
		return err
	}
	r.add(figure{
		Row: "latency", What: fmt.Sprintf("accept p99 at %d/s, half of accepted → posted", rate), Unit: "ms",
		Value: milliseconds(percentile(s.latency, 990)), Goal: 20, AtMost: true, Cores: used.cores(),
		Note: fmt.Sprintf("p50 %s, p999 %s, most %s", short(percentile(s.latency, 500)), short(percentile(s.latency, 999)), short(percentile(s.latency, 1000))),
	})
	return f.verify(ctx)
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
