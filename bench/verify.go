package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"

	"ajo/internal/money"
)

// tally is what the generator knows to be true of the books: what it was answered 200 or 202 for.
type tally struct {
	payments    map[*account]int
	settlements map[*account]int
	balance     map[*account]money.Amount
	count       int // payments
	settled     int
}

func newTally() *tally {
	return &tally{payments: map[*account]int{}, settlements: map[*account]int{}, balance: map[*account]money.Amount{}}
}

// accept counts the payments whose events were answered 200.
func (t *tally) accept(all []payment, good []bool) {
	for i, p := range all {
		if good[i] {
			t.payments[p.account]++
			t.balance[p.account] = t.balance[p.account].Add(p.net())
			t.count++
		}
	}
}

// settle counts a settlement that was answered 202.
func (t *tally) settle(a *account, amount money.Amount) {
	t.settlements[a]++
	t.balance[a] = t.balance[a].Sub(amount)
	t.settled++
}

// verify holds the books against what was accepted: each payment is posted exactly once, with its
// sum on its account, each settlement is paid, and `ajo ledger verify` finds nothing. Whatever was
// fast and wrong fails here.
func (f *flow) verify(ctx context.Context) error {
	for _, line := range f.problems() {
		f.say("logged by the %s", line)
	}
	return errors.Join(f.verifyCounts(ctx), f.verifyAccounts(ctx), f.verifyLedger(ctx))
}

func (f *flow) verifyCounts(ctx context.Context) error {
	t := f.tally
	var events, posted, requests, credits, success, others int
	err := f.pool.QueryRow(ctx, `
		SELECT count(*), count(*) FILTER (WHERE status = 'processed'), count(DISTINCT request_id),
			(SELECT count(*) FROM ledger_entries WHERE direction = 'credit' AND provider_txn_ref NOT LIKE '%-FILL'),
			(SELECT count(*) FROM transfers WHERE status = 'success'), (SELECT count(*) FROM transfers WHERE status <> 'success')
		FROM inbound_events WHERE authentic AND category <> 'non_payment_event' AND request_id NOT LIKE '%-FILL'`).Scan(&events, &posted, &requests, &credits, &success, &others)
	if err != nil {
		return err
	}
	if events != t.count || posted != t.count || requests != t.count || credits != t.count {
		return fmt.Errorf("%d payments were accepted: %d are stored under %d request ids, %d are posted, %d credits stand in the ledger",
			t.count, events, requests, posted, credits)
	}
	if success != t.settled || others != 0 {
		return fmt.Errorf("%d settlements were accepted: %d have succeeded, %d have not", t.settled, success, others)
	}
	return nil
}

func (f *flow) verifyAccounts(ctx context.Context) error {
	t := f.tally
	var wrong []error
	for _, a := range f.accounts {
		var balance money.Amount
		var entries int
		err := f.pool.QueryRow(ctx, `SELECT balance, last_seq FROM ledger_balances WHERE account_id = $1`, a.id).Scan(&balance, &entries)
		if err != nil {
			return err
		}
		want, count := t.balance[a].Add(a.filledSum), t.payments[a]+t.settlements[a]+a.filled
		if !balance.Equal(want) || entries != count {
			wrong = append(wrong, fmt.Errorf("account %s has %s in %d entries, not %s in %d", a.ref, balance, entries, want, count))
		}
	}
	return errors.Join(wrong[:min(len(wrong), 5)]...)
}

// verifyLedger runs the operators' own check of the whole book.
func (w *world) verifyLedger(ctx context.Context) error {
	// of a database this new the planner knows nothing, and joins for a minute
	if _, err := w.pool.Exec(ctx, "ANALYZE"); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, w.bin, "ledger", "verify", "--json")
	for k, v := range w.settings {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Dir = w.dir
	out, err := cmd.Output()
	var found struct {
		OK       bool
		Findings []struct{ Check, Subject, Detail string }
	}
	if jsonErr := json.Unmarshal(out, &found); jsonErr != nil {
		return fmt.Errorf("ajo ledger verify: %w %s", err, out)
	}
	if found.OK && err == nil {
		return nil
	}
	return fmt.Errorf("ajo ledger verify: %d findings, the first %+v", len(found.Findings), found.Findings[:min(1, len(found.Findings))])
}
