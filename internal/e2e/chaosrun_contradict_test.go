package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/transfer"
)

// wait returns after the time, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// contradicts has the bank change its word about a payment after a while: it takes one back that it
// had confirmed, and ends one that was pending for longer than reconciliation looks back. What is
// left when the faults end is done then.
func (s *chaosRun) contradicts(ctx context.Context, rng *rand.Rand, p *sent) {
	least, most := 2*time.Second, 10*time.Second
	if p.course == lingers && s.size.length > time.Minute {
		least, most = 70*time.Second, 150*time.Second
	}
	after := between(rng, least, most)
	var do func() error
	switch p.course {
	case recalled:
		do = func() error { _, err := s.bank.Reverse(context.Background(), p.txID); return err }
	case withdrawn:
		do = func() error { _, err := s.bank.ReverseSilently(context.Background(), p.txID); return err }
	case lingers:
		do = func() error { _, err := s.bank.Arrive(p.txID); return err }
	default:
		return
	}
	s.later.Go(func() {
		wait(ctx, after)
		if err := do(); err != nil {
			s.t.Errorf("payment %d (%s): %v", p.no, p.course, err)
		}
	})
}

// opensOneTime opens one-time accounts one after the other until ctx ends. Each gets a payment of
// another sum and then the expected one, which ends it; the first payment's event comes last, when
// the bank may have issued the number again.
func (s *chaosRun) opensOneTime(ctx context.Context, h *testTenant, rng *rand.Rand) {
	for n := 1; ctx.Err() == nil; n++ {
		if s.crowded(h) {
			wait(ctx, 100*time.Millisecond)
			n--
			continue
		}
		gross := money.FromKobo(1000_00 + rng.Int64N(9_000_00))
		a, ok := s.openOneTime(ctx, h, rng, fmt.Sprintf("%s-once-%d", h.name, n), gross)
		if !ok {
			return
		}
		other, early := s.makes(a, gross.Add(altering), arrives)
		exact, last := s.makes(a, gross, arrives)
		if other == nil || exact == nil {
			return
		}
		s.deliver(rng, exact, s.bank.EventFor(last))
		wait(ctx, between(rng, 500*time.Millisecond, 3*time.Second))
		s.deliver(rng, other, s.bank.EventFor(early))
	}
}

// openOneTime asks for a one-time account, under one key, until there is one; false: the run ended
// before.
func (s *chaosRun) openOneTime(ctx context.Context, h *testTenant, rng *rand.Rand, ref string, expected money.Amount) (testAccount, bool) {
	body := fmt.Appendf(nil, `{"externalRef":%q,"name":"Chidi Eze Shop","mode":"onetime","expectedAmount":%s}`, ref, expected)
	header := http.Header{"X-Api-Key": {h.key}, "Content-Type": {"application/json"}, "Idempotency-Key": {"open " + ref}}
	for try := 1; ; try++ {
		status, text := s.request(rng, "POST", "/v1/accounts", body, header)
		s.record.answered("one-time account", status)
		var a struct{ ID, AccountRef, BankAccountNumber string }
		switch {
		case status == http.StatusCreated && json.Unmarshal(text, &a) == nil && a.AccountRef == ref:
			opened := testAccount{ref, a.BankAccountNumber, a.ID}
			h.mu.Lock()
			h.once = append(h.once, opened)
			h.mu.Unlock()
			return opened, true
		case status != 0 && status != http.StatusConflict && status < 500:
			s.record.mishears("one-time account %s was answered %d %s", ref, status, text)
			return testAccount{}, false
		}
		if s.over.Load() || ctx.Err() != nil && try > 20 {
			return testAccount{}, false
		}
		pause(rng, try)
	}
}

// nextSecret is the webhook secret of the second half of a run.
const nextSecret = "the-next-webhook-secret-of-this-run"

// changesSecret has the bank sign with another secret from the middle of the run on, as operators
// rotate it: first each role learns the new secret beside the previous one, then the bank changes.
func (s *chaosRun) changesSecret(ctx context.Context) {
	wait(ctx, s.size.length/2)
	old, next := s.settings["AJO_PROVIDER_WEBHOOK_SECRET"], nextSecret
	for _, k := range s.supervisors() {
		k.change(map[string]string{
			"AJO_PROVIDER_WEBHOOK_SECRET": next, "AJO_PROVIDER_WEBHOOK_SECRET_PREVIOUS": old,
			"AJO_PROVIDER_WEBHOOK_SECRET_PREVIOUS_UNTIL": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		})
	}
	s.bank.SetWebhookSecret(next)
}

// resolves plays the operator: where the bank has contradicted a payout's end, the service must
// have named it by now, and the command books what the bank's own books have.
func (s *chaosRun) resolves() (found []finding) {
	for _, p := range s.bank.Payouts() {
		var status, difference string
		err := s.Pool.QueryRow(context.Background(), `SELECT status, difference FROM transfers WHERE merchant_tx_ref = $1`, p.Ref).Scan(&status, &difference)
		if err != nil {
			found = append(found, finding{foundVanished, fmt.Sprintf("%s: %v", p.Ref, err)})
			continue
		}
		args := resolution(p, status)
		if args == nil || slices.Contains(s.record.resolved, p.Ref) {
			continue
		}
		if difference == "" {
			found = append(found, finding{foundUnnamed, fmt.Sprintf("%s is %s, the bank says %s", p.Ref, status, p.Status)})
		}
		s.record.resolved = append(s.record.resolved, p.Ref)
		if err := s.resolve(p.Ref, args); err != nil {
			found = append(found, finding{foundUnended, fmt.Sprintf("a transfer that is %s: %v", status, err)})
		}
	}
	return found
}

// resolve has an operator end a transfer by the command, again as long as a worker has leased it.
func (w *world) resolve(ref string, how []string) error {
	w.t.Helper()
	args := append([]string{"transfers", "resolve", ref, "--yes", "--reason", "the bank's books say so"}, how...)
	for begin := time.Now(); ; {
		switch got := runToEnd(w.t, w.dir, w.settings, args...); {
		case got.code == 0:
			return nil
		case !strings.Contains(got.out, transfer.ErrLeased.Error()) || time.Since(begin) > healLimit:
			return fmt.Errorf("ajo %v ended with code %d: %s", args, got.code, got.out)
		}
	}
}

// booked is how the transfer of a payout must have ended by the bank's record, and what must have
// left its account; resolved means that an operator has ended it.
func booked(p fakebank.Payout, resolved bool) (status string, left money.Amount) {
	switch {
	case p.Status == fakebank.StatusSuccess:
		return "success", p.Amount
	case p.Status == fakebank.StatusRefund && p.Back != nil:
		return "success", p.Amount.Sub(*p.Back)
	case p.Status == fakebank.StatusRefund || p.Status == fakebank.StatusFailed && resolved: // it was paid first
		return "refunded", money.Zero
	case p.Status == fakebank.StatusFailed:
		return "failed", money.Zero
	}
	return "", money.Zero
}

// resolution is how an operator ends a contradiction between the bank's payout and the transfer;
// nil: there is none.
func resolution(p fakebank.Payout, status string) []string {
	switch {
	case p.Status == fakebank.StatusRefund && p.Back != nil && status != "refunded":
		return []string{"--paid", "--amount", p.Amount.Sub(*p.Back).String()}
	case p.Status == fakebank.StatusSuccess && status == "failed":
		return []string{"--paid"}
	case p.Status == fakebank.StatusFailed && status == "success":
		return []string{"--not-paid"}
	}
	return nil
}

// gone are the payouts whose money has left, all or a part of it.
func gone(payouts []fakebank.Payout) []fakebank.Payout {
	return slices.DeleteFunc(slices.Clone(payouts), func(p fakebank.Payout) bool {
		return p.Status != fakebank.StatusSuccess && (p.Status != fakebank.StatusRefund || p.Back == nil)
	})
}

// list compares each record of the bank with the books by status and sum, whatever the harness
// meant by it.
func (c *checker) list() {
	credits := map[string]seenEntry{}
	for _, entries := range c.s.entries {
		for _, e := range entries {
			if e.isPayment() {
				credits[e.ProviderTxnRef] = e // the last: a correction stands behind what it corrects
			}
		}
	}
	for _, t := range c.s.list {
		e := credits[t.ID]
		net := t.Amount.Sub(t.Fee).String()
		ok := e.Status == "reversed" || e.Status == ""
		if t.Status == fakebank.StatusSuccess {
			ok = e.Status == "confirmed" && e.Amount == net
		}
		if !ok {
			c.find(foundList, "%s is %s of %s less %s at the bank, and %q of %s here", t.ID, t.Status, t.Amount, t.Fee, e.Status, e.Amount)
		}
	}
	for _, p := range c.s.payouts {
		end, _ := booked(p, c.contradicted[p.Ref])
		if t := c.s.transfers[p.Ref]; end != t.Status || t.Amount != p.Amount.String() {
			c.find(foundList, "payout %s is %s of %s at the bank, and %q of %s here", p.Ref, p.Status, p.Amount, t.Status, t.Amount)
		}
	}
}
