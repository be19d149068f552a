package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// The kinds of findings about payments that are priced, shared out, held or paid back by what is
// set for their account.
const (
	foundPolicy  = "payment that its account's policy was not kept for"
	foundSharing = "balances of the accounts that share"
)

// sharing is a tenant with a price of its own. One account shares its payments out among the
// others; another one pays back what is under the expected sum, and holds what is over it; and of a
// payment above its customers' limit the rest is held.
type sharing struct {
	*tenant
	split, policy, plain testAccount

	mu   sync.Mutex
	made map[string]*shared // by the bank's id
}

// shared is a payment to it.
type shared struct {
	what string
	back bool // the bank takes it back
}

// What its payments are.
const (
	toShare  = "payment shared out"
	ofUnder  = "payment paid back by policy"
	ofOver   = "payment held by policy"
	ofExact  = "payment of the expected sum"
	wasTaken = "payment shared out and taken back"
	isPriced = "payment with a platform fee"
	ofLimit  = "payment above the limit of a tier"
)

var (
	expectedSum = money.Must("5000.00")
	maxDeposit  = money.Must("30000.00")
)

func (s *chaosRun) newSharing() *sharing {
	h := &sharing{tenant: s.signUp(newEndpoint(s.t)), made: map[string]*shared{}}
	open := func(ref string) testAccount {
		a := h.open(ref)
		return testAccount{ref, a.BankAccountNumber, a.ID}
	}
	h.split, h.policy, h.plain = open("sharing-0"), open("sharing-1"), open("sharing-5")
	for _, party := range []string{"sharing-2", "sharing-3", "sharing-4"} {
		open(party)
	}
	change := func(a testAccount, body map[string]any) {
		h.want(200, "PATCH", "/v1/accounts/"+a.ref, body)
	}
	change(h.split, map[string]any{"split": map[string]any{"shares": []map[string]any{
		{"accountRef": "sharing-2", "percent": "33.3333"}, {"accountRef": "sharing-3", "amount": "12.50"}, {"accountRef": "sharing-4", "percent": "10"},
	}}})
	change(h.policy, map[string]any{"expectedAmount": 5000, "policy": map[string]any{"under": "refund", "over": "hold"}})
	if got := s.tool("prices", "set", "--tenant", h.id, "--on", "payment", "--percent", "0.75", "--flat", "1", "--yes", "--reason", "contract 12"); got.code != 0 {
		s.t.Fatalf("ajo prices set: %s", got.out)
	}
	if got := s.tool("tenant", "limits", "tier", h.id, "--tier", "1", "--max-deposit", maxDeposit.String(), "--yes", "--reason", "the law"); got.code != 0 {
		s.t.Fatalf("ajo tenant limits tier: %s", got.out)
	}
	return h
}

// shares pays it until ctx ends.
func (s *chaosRun) shares(ctx context.Context, h *sharing, rng *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		m := &shared{what: []string{toShare, ofUnder, toShare, ofOver, toShare, ofExact, ofLimit}[n%7]}
		a, gross := h.policy, expectedSum
		switch m.what {
		case toShare:
			a, gross = h.split, money.FromKobo(100_00+rng.Int64N(20_000_00))
			m.back = rng.IntN(10) == 0
		case ofLimit:
			a, gross = h.plain, maxDeposit.Add(money.FromKobo(1000_00+rng.Int64N(5000_00)))
		case ofUnder:
			gross = money.FromKobo(1000_00 + rng.Int64N(3999_00))
		case ofOver:
			gross = gross.Add(money.FromKobo(1 + rng.Int64N(5000_00)))
		}
		fee := s.bank.Fee(gross)
		tx, err := s.bank.Pay(ctx, fakebank.Payment{
			NUBAN: a.nuban, Amount: gross, Fee: &fee, SenderName: "Bola Ade", SenderAccount: fmt.Sprintf("7%09d", n), SenderBank: payerBank, Narration: "shared", Silent: true,
		})
		if err != nil {
			if ctx.Err() == nil {
				s.t.Error(err)
			}
			return
		}
		h.mu.Lock()
		h.made[tx.ID] = m
		h.mu.Unlock()
		s.deliver(rng, &sent{account: a.ref, txID: tx.ID}, s.bank.EventFor(tx))
		if m.back {
			s.later.Go(func() {
				wait(ctx, between(rand.New(rand.NewPCG(s.seed, uint64(n))), 2*time.Second, 10*time.Second))
				if _, err := s.bank.Reverse(context.Background(), tx.ID); err != nil {
					s.t.Error(err)
				}
			})
		}
		wait(ctx, between(rng, 50*time.Millisecond, 200*time.Millisecond))
	}
}

// standingShared is a payment to it, in the books.
type standingShared struct {
	Entry, Ref, Status   string
	Kept                 money.Amount // the net, less what the platform takes
	Fee                  money.Amount
	Parts                int
	Held, Paid           money.Amount
	Refunds              int
	Refund, RefundStatus *string
}

const sharedSQL = `
	SELECT e.id::text, e.provider_txn_ref, e.status, e.amount - f.fee, f.fee,
		(SELECT count(*) FROM split_parts p WHERE p.entry_id = e.id AND p.group_id IS NOT NULL),
		(SELECT coalesce(sum(amount), 0) FROM holds WHERE entry_id = e.id AND status = 'open'),
		(SELECT coalesce(sum(coalesce(paid_amount, amount)), 0) FROM transfers WHERE refund_of = e.id AND status = 'success'),
		(SELECT count(*) FROM transfers WHERE refund_of = e.id),
		(SELECT min(merchant_tx_ref) FROM transfers WHERE refund_of = e.id), (SELECT min(status) FROM transfers WHERE refund_of = e.id)
	FROM ledger_entries e CROSS JOIN LATERAL (
		SELECT coalesce(sum(amount), 0) AS fee FROM ledger_entries WHERE transaction_group_id = event_key('platform_fee:platform_revenue:' || e.transaction_group_id) AND reversal_of IS NULL) f
	WHERE e.tenant_id = $1 AND e.direction = 'credit' AND e.kind = '' AND e.reversal_of IS NULL AND e.transfer_ref IS NULL`

// shared compares its payments with the books: each is there once, ends as the bank's record says,
// and met with what is set for its account. Its accounts together have what is left.
func (s *chaosRun) shared(h *sharing) (found []finding) {
	ctx := context.Background()
	find := func(kind, format string, args ...any) {
		found = append(found, finding{kind, fmt.Sprintf(format, args...)})
	}
	all, err := pg.Collect(ctx, s.Pool, pgx.RowToStructByPos[standingShared], sharedSQL, h.id)
	if err != nil {
		return []finding{{foundSharing, err.Error()}}
	}
	left, seen := money.Zero, map[string]bool{}
	for _, p := range all {
		m := h.made[p.Ref]
		switch {
		case m == nil:
			find(foundUnexplained, "payment %s", p.Ref)
			continue
		case seen[p.Ref]:
			find(foundTwice, "payment %s", p.Ref)
		case p.Status != map[bool]string{true: "reversed", false: "confirmed"}[m.back]:
			find(foundStatus, "%s %s is %s", m.what, p.Ref, p.Status)
		}
		seen[p.Ref] = true
		if !m.back {
			left = left.Add(p.Kept).Sub(p.Paid)
		}
		if why := s.kept(m, p); why != "" {
			find(foundPolicy, "%s %s: %s: %+v", m.what, p.Ref, why, p)
		}
	}
	for ref, m := range h.made {
		if !seen[ref] {
			find(foundLost, "%s %s", m.what, ref)
		}
	}
	var have money.Amount
	if err := s.Pool.QueryRow(ctx, `SELECT coalesce(sum(balance), 0) FROM ledger_balances WHERE tenant_id = $1`, h.id).Scan(&have); err != nil || !have.Equal(left) {
		find(foundSharing, "they have %s, and must have %s: %v", have, left, err)
	}
	return found
}

// kept says what is wrong with a payment by what is set for its account, and notes what happened.
func (s *chaosRun) kept(m *shared, p standingShared) string {
	resolved := p.Refund != nil && slices.Contains(s.record.resolved, *p.Refund)
	if p.Fee.IsPositive() {
		s.record.does(isPriced)
	}
	switch {
	case m.what == toShare && p.Parts > 0 && m.back:
		s.record.does(wasTaken)
	case m.what == toShare && p.Parts > 0:
		s.record.does(toShare)
	case m.what == ofUnder && p.Refunds > 1:
		return "refunded more than once"
	case m.what == ofUnder && p.Refunds == 0 && !p.Held.Equal(p.Kept):
		return "neither refunded nor held"
	case m.what == ofUnder && p.Refunds == 1 && !resolved && *p.RefundStatus == "success" && !p.Paid.Equal(p.Kept):
		return "refunded with another sum"
	case m.what == ofUnder && p.Refunds == 1 && !resolved && *p.RefundStatus != "success" && !p.Held.Equal(p.Kept):
		return "what came back is not held"
	case m.what == ofOver && !p.Held.Equal(p.Kept):
		return "not held"
	case m.what == ofLimit && !p.Held.Equal(p.Kept.Add(p.Fee).Sub(maxDeposit)):
		return "what is above the limit is not held"
	case m.what == ofUnder && p.Paid.IsPositive():
		s.record.does(ofUnder)
	case m.what == ofOver || m.what == ofLimit:
		s.record.does(m.what)
	}
	if m.what != ofUnder && p.Refunds > 0 || m.what != ofOver && m.what != ofUnder && m.what != ofLimit && p.Held.IsPositive() {
		return "refunded or held"
	}
	return ""
}

// without leaves its payments and payouts out of what the others are compared with.
func (h *sharing) without(s *chaosRun, v *seen) {
	own, err := pg.Collect(context.Background(), s.Pool, pgx.RowTo[string], `SELECT merchant_tx_ref FROM transfers WHERE tenant_id = $1`, h.id)
	if err != nil {
		s.t.Error(err)
	}
	ours := func(p fakebank.Payout) bool { return slices.Contains(own, p.Ref) }
	v.payouts, v.paid = slices.DeleteFunc(v.payouts, ours), slices.DeleteFunc(v.paid, ours)
	v.list = slices.DeleteFunc(v.list, func(t fakebank.Transaction) bool { return h.made[t.ID] != nil })
}
