package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	spreadOver = 200             // accounts
	doneLimit  = 3 * time.Minute // from the last send until all is done
	mostPosted = 15_000          // a second: above what can be accepted
	warmUp     = 1000            // payments before those that are measured
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

func newFlow(w *world) *flow { return &flow{world: w, tally: newTally()} }

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
	all := payments(p.accounts, f.next, p.count)
	f.next += p.count
	l := load{addr: f.apiAddr, conns: p.conns, requests: eventRequests(f.apiAddr, all), want: 200, limit: p.took, interval: p.interval}
	s, err := l.run()
	if err != nil {
		return 0, nil, err
	}
	f.tally.accept(all, s.good)
	if s.refused != nil {
		return 0, nil, s.refused
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
	w, err := r.newWorld(ctx, row, worldOptions{settings: postingSettings})
	if err != nil {
		return err
	}
	defer w.close(ctx)
	if err := w.signUp(ctx, accounts); err != nil {
		return err
	}
	f := newFlow(w)
	if _, _, err := f.posted(ctx, posting{conns: 16, count: r.scaled(warmUp)}); err != nil {
		return err
	}
	for _, conns := range []int{64, 256} {
		if err := w.checkpoint(ctx); err != nil {
			return err
		}
		done := r.watch(ctx, w, fmt.Sprintf("%s-%d", row, conns))
		rate, s, err := f.posted(ctx, posting{conns: conns, count: r.most(mostPosted), took: r.took})
		used := done()
		if err != nil {
			return errors.Join(err, w.verify(ctx, f.tally))
		}
		r.memory(w)
		r.best[row] = max(r.best[row], rate)
		r.add(figure{
			Row: row, What: fmt.Sprintf("accepted → posted, %s, %d connections", overAccounts(accounts), conns), Unit: "/s", Value: rate, InTPS: true, Goal: 2,
			Note: fmt.Sprintf("%d events, sent in %.1f s at %.0f/s, accept p50 %s p99 %s; no webhook URL, first check after %s",
				s.count, s.took.Seconds(), float64(s.count)/s.took.Seconds(), short(percentile(s.latency, 500)), short(percentile(s.latency, 990)), never),
			Cores: used.cores(), Cost: used.cost(s.count),
		})
	}
	return w.verify(ctx, f.tally)
}

func overAccounts(n int) string {
	if n == 1 {
		return "one account"
	}
	return fmt.Sprintf("%d accounts", n)
}
