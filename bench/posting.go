package main

import (
	"context"
	"fmt"
	"maps"
	"time"
)

const (
	spreadOver = 200             // accounts
	doneLimit  = 3 * time.Minute // from the last send until all is done
	mostPosted = 15_000          // a second: above what can be accepted
	warmUp     = 1000            // payments before those that are measured
	shortSweep = 2 * time.Second // between the sweeps of a short run
)

// postingSettings keep the confirmation out of the rows that are about accepted → posted.
var postingSettings = map[string]string{"AJO_CONFIRM_DELAYS": never}

const allPosted = `SELECT NOT EXISTS (SELECT FROM work WHERE kind = 'ingest')`

// flow is payments on their way through a world, and what must stand in the books in the end.
type flow struct {
	*world
	tally *tally
	next  int // the next payment's number
}

// newFlow makes a world in a filled book, with tenants of so many new accounts, and has warm send
// what is not measured. The caller closes it.
func (r *run) newFlow(ctx context.Context, name string, accounts int, o worldOptions, warm func(*flow) error) (*flow, error) {
	book, err := r.fill(ctx, r.bigBook())
	if err != nil {
		return nil, err
	}
	o.template, o.settings = book.Database, maps.Clone(o.settings)
	if r.short {
		o.settings["AJO_SWEEP_EVERY"] = shortSweep.String()
	}
	w, err := r.newWorld(ctx, name, o)
	if err != nil {
		return nil, err
	}
	f := &flow{world: w, tally: newTally()}
	if err = w.signUp(ctx, accounts); err == nil {
		err = warm(f)
	}
	if err != nil {
		w.close(ctx)
		return nil, err
	}
	return f, nil
}

// warmPosting is newFlow for what is about accepted → posted.
func (r *run) warmPosting(ctx context.Context, name string, accounts int) (*flow, error) {
	return r.newFlow(ctx, name, accounts, worldOptions{settings: postingSettings}, func(f *flow) error {
		_, _, err := f.posted(ctx, posting{conns: 16, count: r.scaled(warmUp)})
		return err
	})
}

// posting is a load of events about payments that the bank has no record of.
type posting struct {
	accounts []*account // nil: all
	conns    int
	count    int           // at most
	took     time.Duration // at most; 0: until all are sent
	interval time.Duration // between two sends; 0: as fast as they are answered
}

// posted sends the events, and returns how many were posted a second, from the first send to the
// last commit.
func (f *flow) posted(ctx context.Context, p posting) (float64, *sent, error) {
	if p.accounts == nil {
		p.accounts = f.accounts
	}
	all := f.payments(p.accounts, p.count)
	s, err := f.send(load{conns: p.conns, limit: p.took, interval: p.interval}, all)
	if err != nil {
		return 0, nil, err
	}
	if err := f.wait(ctx, "posted", doneLimit, allPosted); err != nil {
		return 0, nil, err
	}
	var last time.Time
	if err := f.pool.QueryRow(ctx, `SELECT max(processed_at) FROM inbound_events`).Scan(&last); err != nil {
		return 0, nil, err
	}
	return float64(s.count) / last.Sub(s.begin).Seconds(), s, nil
}

// posting measures accepted → posted over so many accounts, with 64 and then with 256 connections.
func (r *run) posting(ctx context.Context, row string, accounts int) error {
	f, err := r.warmPosting(ctx, row, accounts)
	if err != nil {
		return err
	}
	defer f.close(ctx)
	for _, conns := range []int{64, 256} {
		rate, s, used, err := r.measured(ctx, f, fmt.Sprintf("%s-%d", row, conns), func() (float64, *sent, error) {
			return f.posted(ctx, posting{conns: conns, count: r.most(mostPosted), took: r.took})
		})
		if err != nil {
			return err
		}
		r.memory(f.world)
		r.best[row] = max(r.best[row], rate)
		r.add(figure{
			Row: row, What: fmt.Sprintf("accepted → posted, %s, %d connections", overAccounts(accounts), conns), Unit: "/s", Value: rate, InTPS: true, Goal: 2,
			Note: fmt.Sprintf("%d events, sent in %.1f s at %.0f/s, accept p50 %s p99 %s; no webhook URL, first check after %s",
				s.count, s.took.Seconds(), float64(s.count)/s.took.Seconds(), short(percentile(s.latency, 500)), short(percentile(s.latency, 990)), never),
			Cores: used.cores(), Cost: used.cost(s.count),
		})
	}
	return f.verify(ctx)
}

func overAccounts(n int) string {
	if n == 1 {
		return "one account"
	}
	return fmt.Sprintf("%d accounts", n)
}
