package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ajo/internal/fakebank"
)

// chainSettings have each payment checked a second after it was posted, so that a run sees it
// through.
var chainSettings = map[string]string{"AJO_CONFIRM_DELAYS": soon + ",1s,2s,5s"}

const allDone = `SELECT NOT EXISTS (SELECT FROM work WHERE kind IN ('ingest', 'confirm', 'deliver') AND due_at < now() + interval '1 hour')`

// payments makes the next n payments over the accounts. The bank has no record of them.
func (f *flow) payments(accounts []*account, n int) []payment {
	all := payments(accounts, f.next, n)
	f.next += n
	return all
}

// record has the bank make n payments without events, so that it knows them when it is
// asked.
func (f *flow) record(n int) ([]payment, error) {
	all := f.payments(f.accounts, n)
	return all, f.recordAll(all)
}

// recordAll is record for payments that are given; it sets what the bank chose.
func (f *flow) recordAll(all []payment) error {
	requests := make([][]byte, len(all))
	for i, p := range all {
		body, err := json.Marshal(map[string]string{"nuban": p.account.number, "amount": p.gross.String(), "fee": p.fee.String(), "time": p.at, "silent": "true"})
		if err != nil {
			return err
		}
		requests[i] = httpRequest("POST", f.bankAddr, "/control/pay", body)
	}
	bad := make([]error, len(all))
	l := load{addr: f.bankAddr, conns: 16, requests: requests, want: 200, answered: func(i int, body []byte) {
		var t fakebank.Transaction
		bad[i] = json.Unmarshal(body, &t)
		all[i].txn, all[i].request, all[i].at = t.ID, t.RequestID, t.Time.UTC().Format(time.RFC3339)
	}}
	s, err := l.run()
	if err != nil {
		return err
	}
	return errors.Join(append(bad, s.refused)...)
}

// send sends the events of payments as the load says, and counts those that were accepted.
func (f *flow) send(l load, all []payment) (*sent, error) {
	l.addr, l.requests, l.want = f.apiAddr, eventRequests(f.apiAddr, all), 200
	s, err := l.run()
	if err != nil {
		return nil, err
	}
	f.tally.accept(all, s.good)
	return s, s.refused
}

// done sends the events of payments that the bank knows, and returns how many were accepted,
// posted, delivered and confirmed a second, from the first send to the end of the last.
func (f *flow) done(ctx context.Context, all []payment, conns int, interval time.Duration) (float64, *sent, error) {
	f.endpoint.forget()
	s, err := f.send(load{conns: conns, interval: interval}, all)
	if err != nil {
		return 0, nil, err
	}
	if err := f.wait(ctx, "posted, delivered and confirmed", doneLimit, allDone); err != nil {
		return 0, nil, err
	}
	return float64(s.count) / time.Since(s.begin).Seconds(), s, nil
}

// chain measures the whole way of a payment, and what is left of it.
func (r *run) chain(ctx context.Context) error {
	f, err := r.warmChain(ctx, "chain")
	if err != nil {
		return err
	}
	defer f.close(ctx)
	// so many that the last second, in which checks wait for their time, weighs little
	all, err := f.record(r.most(6000))
	if err != nil {
		return err
	}
	before, err := f.tables(ctx)
	if err != nil {
		return err
	}
	rate, s, used, err := r.measured(ctx, f, "chain", func() (float64, *sent, error) { return f.done(ctx, all, 64, 0) })
	if err != nil {
		return err
	}
	r.memory(f.world)
	r.best["chain"] = rate
	r.add(figure{
		Row: "chain", What: "whole chain: accepted, posted, delivered, confirmed", Unit: "/s", Value: rate, InTPS: true, Goal: 0.75, Cores: used.cores(), Cost: used.cost(s.count),
		Note: fmt.Sprintf("%d payments over %d accounts, 64 connections, sent in %.1f s at %.0f/s, %d deliveries; checked after %s; the bank's limits lifted",
			s.count, r.spread(), s.took.Seconds(), float64(s.count)/s.took.Seconds(), f.endpoint.calls.Load(), soon),
	})
	return errors.Join(r.stored(ctx, f, "chain", before, used, s.count), f.verifyChain(ctx, len(all)), f.verify(ctx))
}

// slowness is how long the slow bank and the slow endpoint take to answer.
const slowness = 200 * time.Millisecond

// slow measures the whole way where bank and endpoint answer slowly.
func (r *run) slow(ctx context.Context) error {
	f, err := r.warmChain(ctx, "slow")
	if err != nil {
		return err
	}
	defer f.close(ctx)
	all, err := f.record(r.most(600))
	if err != nil {
		return err
	}
	f.endpoint.takes.Store(int64(slowness))
	if err := f.slowBank("transactions", slowness, 0); err != nil {
		return err
	}
	rate, s, used, err := r.measured(ctx, f, "slow", func() (float64, *sent, error) { return f.done(ctx, all, 64, 0) })
	if err != nil {
		return err
	}
	r.add(figure{
		Row: "slow", What: fmt.Sprintf("whole chain, bank and endpoint answer after %s", slowness), Unit: "/s", Value: rate, Cores: used.cores(), Cost: used.cost(s.count),
		Note: fmt.Sprintf("%d payments, sent in %.1f s; four tenants, one host of endpoints; the bank's limits lifted", s.count, s.took.Seconds()),
	})
	return errors.Join(f.verifyChain(ctx, len(all)), f.verify(ctx))
}

// slowBank has the bank answer a group of calls late: the next ones, or all when next is 0.
func (w *world) slowBank(group string, by time.Duration, next int) error {
	rule := fmt.Sprintf(`{"on":%q,"do":"slow","delay":%q,"next":%d}`, group, by, next)
	l := load{addr: w.bankAddr, conns: 1, requests: [][]byte{httpRequest("POST", w.bankAddr, "/control/faults", []byte(rule))}, want: 200}
	s, err := l.run()
	if err != nil {
		return err
	}
	return s.refused
}

// warmChain makes a world with a tenant and sees the first payments through; the caller closes it.
func (r *run) warmChain(ctx context.Context, name string) (*flow, error) {
	return r.newFlow(ctx, name, r.spread(), worldOptions{settings: chainSettings, hooked: true}, func(f *flow) error {
		warm := f.payments(f.accounts, r.scaled(warmUp))
		earlier := time.Now().UTC().Add(-time.Minute).Format(time.RFC3339)
		for i := range warm { // none is in a list of the payments that are measured
			warm[i].at = earlier
		}
		if err := f.recordAll(warm); err != nil {
			return err
		}
		if _, _, err := f.done(ctx, warm, 16, 0); err != nil {
			return errors.Join(err, f.verify(ctx))
		}
		return nil
	})
}

// verifyChain checks what the other side saw: the tenant heard of each of the n payments, and the
// bank confirmed all.
func (f *flow) verifyChain(ctx context.Context, n int) error {
	heard := f.endpoint.heard()
	for i := range n {
		if _, ok := heard[i]; !ok {
			return fmt.Errorf("of %d payments the tenant heard of %d; number %d is missing", n, len(heard), i)
		}
	}
	var confirmed, delivered int // a filled book has no deliveries
	err := f.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM ledger_entries WHERE direction = 'credit' AND status = 'confirmed' AND provider_txn_ref NOT LIKE '%-FILL'),
		(SELECT count(*) FROM deliveries WHERE status = 'delivered')`).Scan(&confirmed, &delivered)
	if err != nil {
		return err
	}
	if confirmed != f.tally.count || delivered != f.tally.count {
		return fmt.Errorf("of %d payments %d are confirmed and %d delivered", f.tally.count, confirmed, delivered)
	}
	return nil
}
