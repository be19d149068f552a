package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"ajo/internal/clock"
	"ajo/internal/retention"
	"ajo/internal/supervise"
)

const (
	rare   = 10   // payments that the bank made in a second, where its list is read for several
	steady = 1157 // payments a second of 100 million a day
)

// lone is the time between two payments where the bank's list does not pay.
const lone = 10 * time.Second

const (
	allConfirmed = `SELECT NOT EXISTS (SELECT FROM work WHERE kind = 'confirm')`
	manyLeased   = `SELECT count(*) >= 30 FROM work WHERE kind = 'settle' AND leased_until IS NOT NULL`
)

// slowest is how long a row of a large book may take.
const slowest = 30 * time.Minute

// made has the bank make n payments, one each gap, and sends their events over 64 connections. It
// returns when the last was made.
func (f *flow) made(n int, gap time.Duration) (end time.Time, err error) {
	const part = 50_000 // requests that are in memory at a time
	end = time.Now().UTC().Truncate(time.Second).Add(-3 * time.Minute)
	for from := 0; from < n; from += part {
		all := f.payments(f.accounts, min(part, n-from))
		for i := range all {
			all[i].at = end.Add(-time.Duration(n-from-i) * gap).Format(time.RFC3339)
		}
		if err := f.recordAll(all); err != nil {
			return end, err
		}
		if _, err := f.send(load{conns: 64}, all); err != nil {
			return end, err
		}
	}
	return end, nil
}

// confirming measures how fast payments are confirmed by a bank that takes 200 ms for each answer:
// many of a second, whose list is read, few, whose list is read for several seconds, and lone ones,
// that are asked about one by one.
func (r *run) confirming(ctx context.Context) error {
	f, err := r.newFlow(ctx, "confirm", r.spread(), worldOptions{settings: chainSettings}, func(*flow) error { return nil })
	if err != nil {
		return err
	}
	defer f.close(ctx)
	if err := f.slowBank("transactions", slowness, 0); err != nil {
		return err
	}
	for _, c := range []struct {
		what string
		gap  time.Duration
		n    int
	}{
		{fmt.Sprintf("%d made in a second", steady), time.Second / steady, r.most(5000)},
		{fmt.Sprintf("%d made in a second", rare), time.Second / rare, r.most(4000)},
		{fmt.Sprintf("one made in %s", lone), lone, r.most(2000)},
	} {
		for _, workers := range []int{1, 2, 4} {
			if r.short && workers > 2 {
				continue
			}
			rate, err := r.confirmed(ctx, f, c.n, c.gap, workers)
			if err != nil {
				return err
			}
			r.add(figure{
				Row: "confirm", What: fmt.Sprintf("confirmed, %s, workers: %d", c.what, workers), Unit: "/s", Value: rate, Goal: 1000,
				Note: fmt.Sprintf("%d payments, the bank answers after %s, its limits lifted; from the start of the workers' processes on", c.n, slowness),
			})
		}
	}
	return f.verify(ctx)
}

// confirmed is how many of n posted payments so many workers confirm a second.
func (r *run) confirmed(ctx context.Context, f *flow, n int, gap time.Duration, workers int) (float64, error) {
	f.stopWorkers()
	if _, err := f.startWorker(ctx, "poster", "--queues", "ingest,deliver"); err != nil {
		return 0, err
	}
	if _, err := f.made(n, gap); err != nil {
		return 0, err
	}
	if err := f.wait(ctx, "posted", doneLimit, allPosted); err != nil {
		return 0, err
	}
	f.stopWorkers()
	begin := time.Now()
	for i := range workers {
		if _, err := f.startWorker(ctx, fmt.Sprint("confirmer-", i), "--queues", "confirm"); err != nil {
			return 0, err
		}
	}
	err := f.wait(ctx, "confirmed", doneLimit, allConfirmed)
	return float64(n) / time.Since(begin).Seconds(), err
}

// overdue measures how long it takes until payments are posted that were due when Redis was
// emptied, and then the reconciliation of the time in which they were made.
func (r *run) overdue(ctx context.Context) error {
	f, err := r.newFlow(ctx, "due", r.spread(), worldOptions{settings: postingSettings}, func(*flow) error { return nil })
	if err != nil {
		return err
	}
	defer f.close(ctx)
	f.stopWorkers()
	r.say("storing %d events", r.due)
	end, err := f.made(r.due, time.Second/steady)
	if err != nil {
		return err
	}
	if err := errors.Join(f.redis.FlushDB(ctx).Err(), f.checkpoint(ctx)); err != nil {
		return err
	}
	before, sweptErr := f.swept(ctx)
	m, begin := f.meter(ctx), time.Now()
	if f.worker, err = f.startWorker(ctx, "worker"); err != nil {
		return err
	}
	var oldest time.Duration
	for done := false; !done; {
		if err := clock.Sleep(ctx, pollEvery); err != nil {
			return err
		}
		if time.Since(begin) > slowest {
			return fmt.Errorf("after %s not all was posted", slowest)
		}
		age, err := f.collected(ctx, f.worker)
		if err != nil {
			return err
		}
		oldest = max(oldest, age)
		if err := f.pool.QueryRow(ctx, allPosted).Scan(&done); err != nil {
			return err
		}
	}
	took, used := time.Since(begin), m.used(ctx)
	note := fmt.Sprintf("one worker, from its start on; %.0f/s", float64(r.due)/took.Seconds())
	r.add(figure{
		Row: "due", What: fmt.Sprintf("%s events due when Redis was emptied, until posted", grouped(r.due)), Unit: "s", Value: took.Seconds(), Goal: 300 * float64(r.due) / 1e6,
		AtMost: true, Note: note, Cores: used.cores(), Cost: used.cost(r.due),
	})
	r.add(figure{Row: "due", What: "age of the metrics meanwhile, at most", Unit: "s", Value: oldest.Seconds(), Goal: 30, AtMost: true, Note: "ajo_collection_last_run_timestamp_seconds"})
	if sweptErr != nil {
		r.say("the sweep's share was not measured: %v", sweptErr)
	} else if err := r.sweepShares(ctx, f, before); err != nil {
		return err
	}
	return errors.Join(r.reconciled(ctx, f, end.Add(time.Second)), f.verify(ctx))
}

// collected is how long ago a role collected its metrics; at its start it has not yet.
func (w *world) collected(ctx context.Context, p *supervise.Process) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+w.ops[p]+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "ajo_collection_last_run_timestamp_seconds "); ok {
			var at float64
			if _, err := fmt.Sscan(text, &at); err != nil || at == 0 {
				return 0, err
			}
			return time.Since(time.UnixMilli(int64(at * 1000))), nil
		}
	}
	return 0, nil
}

// sweptSQL is the time of the sweep's statements, and of all.
const sweptSQL = `SELECT coalesce(sum(total_exec_time) FILTER (WHERE query LIKE '%FROM work%ORDER BY%due_at, id%'), 0), sum(total_exec_time)
	FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())`

// swept is how long Postgres has worked for the sweep, and for all, in milliseconds.
func (w *world) swept(ctx context.Context) (ms [2]float64, err error) {
	if _, err := w.pool.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		return ms, err
	}
	return ms, w.pool.QueryRow(ctx, sweptSQL).Scan(&ms[0], &ms[1])
}

// sweepShares measures what the sweep has taken of Postgres since it had taken so much, and what it
// takes at rest.
func (r *run) sweepShares(ctx context.Context, f *flow, before [2]float64) error {
	after, err := f.swept(ctx)
	if err != nil {
		return err
	}
	r.add(figure{
		Row: "due", What: "the sweep's share of Postgres meanwhile", Unit: "%", Value: 100 * (after[0] - before[0]) / (after[1] - before[1]), Goal: 10, AtMost: true,
		Note: "of the time of all statements",
	})
	rest := 15 * time.Second // a sweep
	if r.short {
		rest = shortSweep
	}
	if err := clock.Sleep(ctx, rest); err != nil {
		return err
	}
	idle, err := f.swept(ctx)
	r.add(figure{
		Row: "due", What: "the sweep at rest", Unit: "% of a core", Value: (idle[0] - after[0]) / float64(rest.Milliseconds()) * 100, Goal: 5, AtMost: true,
		Note: "time of its statements; the worker's own share is in row idle",
	})
	return err
}

// reconciled measures the reconciliation of the time up to end in which the due payments were made,
// and its memory above that of an empty time.
func (r *run) reconciled(ctx context.Context, f *flow, end time.Time) error {
	run := func(from, end time.Time) (time.Duration, int64, error) {
		begin := time.Now()
		p, err := start(f.bin, f.dir, "reconcile", f.settings, "reconcile", "--from", from.Format(time.RFC3339), "--to", end.Format(time.RFC3339))
		if err != nil {
			return 0, 0, err
		}
		var most int64
		for ended := false; !ended; {
			// not the exit's rusage: its highest begins with that of the process that started it
			if n, err := highestMemory(p.PID); err == nil {
				most = max(most, n)
			}
			select {
			case <-p.Done():
				ended = true
			case <-ctx.Done():
				p.Kill()
				return 0, 0, ctx.Err()
			case <-time.After(5 * time.Millisecond): // an empty one ends soon
			}
		}
		if err := p.Err(); err != nil {
			return 0, 0, p.Failure("the reconciliation failed: " + err.Error())
		}
		return time.Since(begin), most, nil
	}
	_, rest, err := run(end, end.Add(time.Second))
	if err != nil {
		return err
	}
	took, most, err := run(end.Add(-time.Duration(r.due/steady+3)*time.Second), end)
	if err != nil {
		return err
	}
	var read int
	if err := f.pool.QueryRow(ctx, `SELECT bank_count FROM reconciliations ORDER BY started_at DESC LIMIT 1`).Scan(&read); err != nil {
		return err
	}
	if read != r.due {
		return fmt.Errorf("the reconciliation has read %d records of %d", read, r.due)
	}
	r.add(figure{
		Row: "due", What: fmt.Sprintf("reconciliation of %s records of the bank", grouped(r.due)), Unit: "records/s", Value: float64(r.due) / took.Seconds(), Goal: steady,
		Note: fmt.Sprintf("%.1f s; %d payments in each second; the bank's limits lifted; bank and books agree", took.Seconds(), steady),
	})
	r.add(figure{
		Row: "due", What: "its memory above that of an empty reconciliation", Unit: "MiB", Value: max(0.01, float64(most-rest)/(1<<20)), Goal: 64, AtMost: true,
		Note: fmt.Sprintf("%d and %d MiB, the kernel's highest", most>>20, rest>>20),
	})
	return nil
}

// leases measures when another worker has gone on with all settlements that a killed one had
// leased.
func (r *run) leases(ctx context.Context) error {
	f, err := r.newFlow(ctx, "leases", r.spread(), worldOptions{settings: chainSettings}, func(f *flow) error { return f.fund(ctx) })
	if err != nil {
		return err
	}
	defer f.close(ctx)
	if err := f.slowBank("payouts", time.Hour, 32); err != nil {
		return err
	}
	if _, err := f.ordered(100, 0); err != nil {
		return err
	}
	if err := f.wait(ctx, "leased", doneLimit, manyLeased); err != nil {
		return err
	}
	f.worker.Kill()
	begin := time.Now()
	var left []string
	if err := f.pool.QueryRow(ctx, `SELECT array_agg(id::text) FROM work WHERE kind = 'settle' AND leased_until IS NOT NULL`).Scan(&left); err != nil {
		return err
	}
	if f.worker, err = f.startWorker(ctx, "worker"); err != nil {
		return err
	}
	const goneOn = `SELECT NOT EXISTS (SELECT FROM transfers WHERE id = ANY($1::uuid[]) AND status IN ('pending', 'processing') AND ask_count = 0 AND attempt_count < 2)`
	if err := f.wait(ctx, "taken up again", doneLimit, goneOn, left); err != nil {
		return err
	}
	r.add(figure{
		Row: "leases", What: "settlements that a killed worker had leased, until another goes on with all", Unit: "s", Value: time.Since(begin).Seconds(), Goal: 30, AtMost: true,
		Note: fmt.Sprintf("%d settlements; the killed worker was the one that sweeps; another starts at once", len(left)),
	})
	return errors.Join(f.wait(ctx, "paid", doneLimit, allPaid), f.verify(ctx), f.verifyWallet(ctx))
}

// purging measures the removal of old rows, in steps as a worker removes them.
func (r *run) purging(ctx context.Context) error {
	f, err := r.newFlow(ctx, "purge", 1, worldOptions{settings: postingSettings}, func(*flow) error { return nil })
	if err != nil {
		return err
	}
	defer f.close(ctx)
	n := r.most(10_000)
	_, err = f.pool.Exec(ctx, `INSERT INTO idempotency_keys (tenant_id, key, request_hash, created_at)
		SELECT gen_random_uuid(), 'bench', sha256(n::text::bytea), now() - interval '8 days' FROM generate_series(1, $1::int) AS n`, n)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := retention.Purge(ctx, f.pool, retention.Keep{Reports: 365 * 24 * time.Hour}, begin, 5000); err != nil {
		return err
	}
	took := time.Since(begin)
	if err := f.wait(ctx, "removed", 0, `SELECT NOT EXISTS (SELECT FROM idempotency_keys)`); err != nil {
		return err
	}
	r.add(figure{
		Row: "purge", What: "old idempotency keys removed", Unit: "/s", Value: float64(n) / took.Seconds(), Goal: steady,
		Note: fmt.Sprintf("%d keys, until nothing was old; a worker does so every ten minutes; the goal is a key for each of 100 million payments a day", n),
	})
	return f.verify(ctx)
}

// noHit are the filters of a statement that nothing in a filled book matches.
var noHit = []string{"status=provisional", "status=reversed", "status=needs_review", "direction=debit", "direction=debit&status=confirmed"}

// filters measures a statement's filters without a hit on the account with the most entries.
func (r *run) filters(ctx context.Context, c *connection, f *flow, a *account) error {
	worst := map[string]time.Duration{}
	for range 10 {
		for _, filter := range noHit {
			begin := time.Now()
			status, body, err := c.do(httpRequest("GET", f.apiAddr, "/v1/accounts/"+a.ref+"/statement?limit=50&"+filter, nil, "X-API-Key: "+a.key))
			if err != nil {
				return err
			}
			if status != http.StatusOK {
				return refusal{0, status, string(body)}
			}
			worst[filter] = max(worst[filter], time.Since(begin))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	most := time.Duration(0)
	for d := range maps.Values(worst) {
		most = max(most, d)
	}
	r.add(figure{
		Row: "read", What: fmt.Sprintf("statement of %s entries, filters without a hit, slowest page", grouped(a.filled)), Unit: "ms", Value: milliseconds(most), Goal: 100, AtMost: true,
		Note: fmt.Sprintf("ten pages for each of %s; make test-lists tries all filters of all lists", strings.Join(noHit, ", ")),
	})
	return nil
}
