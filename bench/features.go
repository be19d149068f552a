package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// feature is what some accounts use. What a payment to them, or a settlement of them, costs more
// than one of the plain accounts is what the feature costs.
type feature struct {
	name string
	of   int // the accounts: those whose number leaves this when it is divided by 8
	// what shows that it was used
	used string
}

const (
	plainAccounts = 0
	heldAccounts  = 4
)

var (
	onPayments = []feature{
		{"platform price", 1, `SELECT EXISTS (SELECT FROM ledger_entries WHERE kind = 'platform_fee')`},
		{"split among three", 2, `SELECT EXISTS (SELECT FROM split_parts)`},
		{"account's policy, which holds it", 6, `SELECT EXISTS (SELECT FROM holds WHERE source = 'policy')`},
		{"limits of a tier", 3, `SELECT EXISTS (SELECT FROM deposit_days)`},
	}
	onSettlements = []feature{{"account with a hold", heldAccounts, `SELECT EXISTS (SELECT FROM holds WHERE source = 'tenant')`}}
)

// features measures what a payment and a settlement cost where a tenant uses a feature, beside
// those of a plain tenant in the same book, in turns and back, so that what drifts hits all.
func (r *run) features(ctx context.Context) error {
	f, err := r.newFlow(ctx, "features", r.spread(), worldOptions{settings: chainSettings, hooked: true}, func(f *flow) error {
		err := f.useFeatures(ctx)
		if err == nil {
			err = f.among(plainAccounts, heldAccounts, func(f *flow) error { return f.fund(ctx) })
		}
		if err == nil {
			_, err = f.doneBy(ctx, r.scaled(warmUp))
		}
		return err
	})
	if err != nil {
		return err
	}
	defer f.close(ctx)
	err = r.costs(ctx, f, "payment", onPayments, func(f *flow) (float64, *sent, error) {
		all, err := f.record(r.most(600))
		if err != nil {
			return 0, nil, err
		}
		return f.done(ctx, all, 64, 0)
	})
	if err != nil {
		return err
	}
	if err := f.placeHolds(ctx); err != nil {
		return err
	}
	if err := r.costs(ctx, f, "settlement", onSettlements, func(f *flow) (float64, *sent, error) { return f.settled(ctx, r.most(300), r.took) }); err != nil {
		return err
	}
	return errors.Join(f.verifyFeatures(ctx), f.verifyLedger(ctx))
}

// spent is what the items of one kind of account have taken, over the turns.
type spent struct{ cpu, wal, rate, turns float64 }

// costs measures the features in turns, and adds a figure for each.
func (r *run) costs(ctx context.Context, f *flow, what string, features []feature, work func(*flow) (float64, *sent, error)) error {
	order := append([]feature{{"plain", plainAccounts, ""}}, features...)
	costs := make([]spent, len(order))
	for turn := range 2 * len(order) {
		i := turn
		if i >= len(order) {
			i = 2*len(order) - 1 - turn
		}
		err := f.among(order[i].of, order[i].of, func(f *flow) error {
			rate, s, used, err := r.measured(ctx, f, "features", func() (float64, *sent, error) { return work(f) })
			if err != nil {
				return fmt.Errorf("%s: %w", order[i].name, err)
			}
			c, cost := &costs[i], used.cost(s.count)
			for _, process := range []string{"api", "worker", "postgres", "redis"} {
				c.cpu += cost[process]
			}
			c.wal, c.rate, c.turns = c.wal+cost["WAL bytes"], c.rate+rate, c.turns+1
			return nil
		})
		if err != nil {
			return err
		}
	}
	plain := costs[0]
	for i, c := range costs[1:] {
		var is bool
		if err := f.pool.QueryRow(ctx, order[i+1].used).Scan(&is); err != nil || !is {
			return errors.Join(fmt.Errorf("%s: it was not used", order[i+1].name), err)
		}
		r.add(figure{
			Row: "features", What: fmt.Sprintf("a %s more: %s", what, order[i+1].name), Unit: "µs", Value: (c.cpu - plain.cpu) / c.turns,
			Note: fmt.Sprintf("of a processor, of API, worker, Postgres and Redis together: %.0f beside %.0f of a plain one; WAL %.0f and %.0f bytes; %.0f and %.0f/s, means of %.0f turns",
				c.cpu/c.turns, plain.cpu/plain.turns, c.wal/c.turns, plain.wal/plain.turns, c.rate/c.turns, plain.rate/plain.turns, c.turns),
		})
	}
	return nil
}

// among does work with some of the accounts alone.
func (f *flow) among(one, other int, work func(*flow) error) error {
	w, some := *f.world, *f
	w.accounts, some.world = nil, &w
	for i, a := range f.accounts {
		if i%8 == one || i%8 == other {
			w.accounts = append(w.accounts, a)
		}
	}
	err := work(&some)
	f.next = some.next
	return err
}

// doneBy sees n payments through that are not measured.
func (f *flow) doneBy(ctx context.Context, n int) (*sent, error) {
	all, err := f.record(n)
	if err != nil {
		return nil, err
	}
	_, s, err := f.done(ctx, all, 16, 0)
	return s, err
}

// useFeatures has the second tenant pay a price, the third one's accounts split or keep their
// payments, and the fourth one's customers have limits. A price starts a minute after it is set, so
// that stands in the books as set before.
func (f *flow) useFeatures(ctx context.Context) error {
	for of, sql := range map[*account]string{
		f.accounts[1]: `INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, cap, valid_from, created_at, actor, reason)
			SELECT gen_random_uuid(), tenant_id, 'payment', 1, 0, 1, 500, now(), now() - interval '1 hour', 'cli:bench', 'bench' FROM accounts WHERE id = $1`,
		f.accounts[3]: `INSERT INTO tier_limits (tenant_id, tier, starts_at, max_deposit, max_day, max_balance, created_at, actor, reason)
			SELECT tenant_id, n, now(), 1e9, 1e12, 1e13, now(), 'cli:bench', 'bench' FROM accounts, generate_series(1, 3) AS n WHERE id = $1`,
	} {
		if _, err := f.pool.Exec(ctx, sql, of.id); err != nil {
			return err
		}
	}
	var parties []map[string]string
	for i, a := range f.accounts {
		if i%8 == 6 && len(parties) < 2 {
			parties = append(parties, map[string]string{"accountRef": a.ref, "percent": "12.5"})
		}
	}
	for i, a := range f.accounts {
		change := map[int]map[string]any{
			2: {"split": map[string]any{"shares": parties}},
			6: {"expectedAmount": 50, "policy": map[string]string{"over": "hold"}},
		}[i%8]
		if change == nil {
			continue
		}
		if err := f.call(ctx, a.key, http.MethodPatch, "/v1/accounts/"+a.ref, change, nil); err != nil {
			return err
		}
	}
	return nil
}

// placeHolds has the accounts hold some of their money, until a release that never comes.
func (f *flow) placeHolds(ctx context.Context) error {
	for i, a := range f.accounts {
		if i%8 != heldAccounts {
			continue
		}
		if err := f.call(ctx, a.key, http.MethodPost, "/v1/accounts/"+a.ref+"/holds", map[string]string{"amount": "1000.00", "reason": "bench"}, nil); err != nil {
			return err
		}
	}
	return nil
}

// verifyFeatures checks that every payment is confirmed and every settlement paid. What else is in
// the books is the features'.
func (f *flow) verifyFeatures(ctx context.Context) error {
	var confirmed, paid int
	err := f.pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM ledger_entries WHERE direction = 'credit' AND kind = '' AND status = 'confirmed' AND provider_txn_ref NOT LIKE '%-FILL'),
			(SELECT count(*) FROM transfers WHERE status = 'success')`).Scan(&confirmed, &paid)
	if err == nil && (confirmed != f.tally.count || paid != f.tally.settled) {
		err = fmt.Errorf("of %d payments %d are confirmed, of %d settlements %d paid", f.tally.count, confirmed, f.tally.settled, paid)
	}
	return err
}
