package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// grossFund is what each account is paid before its settlements.
var grossFund = money.FromKobo(900_000_000_00)

const allPaid = `SELECT NOT EXISTS (SELECT FROM transfers WHERE status IN ('pending', 'processing'))`

// fund pays each account a large sum through the whole chain: only confirmed money may be paid out.
func (f *flow) fund(ctx context.Context) error {
	all := make([]payment, 0, len(f.accounts))
	for _, a := range f.accounts {
		all = append(all, payment{account: a, gross: grossFund, fee: money.FromKobo(50_00)})
	}
	if err := f.recordAll(all); err != nil {
		return err
	}
	if _, err := f.send(load{conns: 16}, all); err != nil {
		return err
	}
	return f.wait(ctx, "confirmed", doneLimit, allDone)
}

// ordered orders n settlements over the accounts in turn.
func (f *flow) ordered(n int, took time.Duration) (*sent, error) {
	amount := money.FromKobo(10_00)
	body := []byte(`{"amount":"` + amount.String() + `","bankCode":"058","accountNumber":"0123456789","narration":"bench"}`)
	requests := make([][]byte, n)
	for i := range requests {
		a := f.accounts[i%len(f.accounts)]
		requests[i] = httpRequest("POST", f.apiAddr, "/v1/accounts/"+a.ref+"/settle", body,
			"X-API-Key: "+a.key, "Idempotency-Key: bench-"+strconv.Itoa(f.next+i))
	}
	f.next += n
	l := load{addr: f.apiAddr, conns: 64, requests: requests, want: 202, limit: took}
	s, err := l.run()
	if err != nil {
		return nil, err
	}
	for i, ok := range s.good {
		if ok {
			f.tally.settle(f.accounts[i%len(f.accounts)], amount)
		}
	}
	return s, s.refused
}

// settled orders settlements and returns how many of those that were accepted succeeded a second.
func (f *flow) settled(ctx context.Context, n int, took time.Duration) (float64, *sent, error) {
	s, err := f.ordered(n, took)
	if err != nil {
		return 0, nil, err
	}
	if err := f.wait(ctx, "paid", doneLimit, allPaid); err != nil {
		return 0, nil, err
	}
	var last time.Time
	if err := f.pool.QueryRow(ctx, `SELECT max(updated_at) FROM transfers`).Scan(&last); err != nil {
		return 0, nil, err
	}
	return float64(s.count) / last.Sub(s.begin).Seconds(), s, nil
}

// settling measures settlements from their acceptance to the bank's "success".
func (r *run) settling(ctx context.Context) error {
	f, err := r.newFlow(ctx, "settle", r.spread(), worldOptions{settings: chainSettings}, func(f *flow) error {
		err := f.fund(ctx)
		if err == nil {
			_, _, err = f.settled(ctx, r.scaled(warmUp/4), r.took)
		}
		if err != nil {
			return errors.Join(err, f.verify(ctx))
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer f.close(ctx)
	rate, s, used, err := r.measured(ctx, f, "settle", func() (float64, *sent, error) { return f.settled(ctx, r.most(3000), r.took) })
	if err != nil {
		return err
	}
	r.memory(f.world)
	r.add(figure{
		Row: "settle", What: "settlements accepted → success", Unit: "/s", Value: rate, InTPS: true, Goal: 0.4, Cores: used.cores(), Cost: used.cost(s.count),
		Note: fmt.Sprintf("%d settlements over %d accounts, 64 connections, accepted in %.1f s at %.0f/s, p99 %s; the bank pays at once and sends no events, its limits and the key's lifted",
			s.count, r.spread(), s.took.Seconds(), float64(s.count)/s.took.Seconds(), short(percentile(s.latency, 990))),
	})
	return errors.Join(f.verify(ctx), f.verifyWallet(ctx))
}

// verifyWallet holds the bank's wallet, which every payment fills and every payout empties, against
// the books' sum: nothing was paid twice.
func (f *flow) verifyWallet(ctx context.Context) error {
	wallet, err := fakebank.Remote{URL: "http://" + f.bankAddr}.Wallet(ctx)
	if err != nil {
		return err
	}
	sum := money.Zero
	for _, b := range f.tally.balance {
		sum = sum.Add(b)
	}
	if !wallet.Equal(sum) {
		return fmt.Errorf("the bank's wallet has %s, the books %s", wallet, sum)
	}
	return nil
}
