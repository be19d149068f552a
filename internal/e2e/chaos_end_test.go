package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

// standing is how far a transfer is.
type standing struct {
	Ref, Status, Difference string
	Differs                 bool // the difference waits for a person
	Attempts                int
	Goes                    bool // it has a next step
}

// standings are all transfers, by reference.
func (s *settler) standings() map[string]standing {
	s.t.Helper()
	list, err := pg.Collect(context.Background(), s.Pool, pgx.RowToStructByPos[standing], `
		SELECT merchant_tx_ref, status, difference, differs_since IS NOT NULL, attempt_count,
			EXISTS (SELECT FROM work w WHERE w.kind = 'settle' AND w.id = t.id) FROM transfers t`)
	require.NoError(s.t, err)
	all := map[string]standing{}
	for _, t := range list {
		all[t.Ref] = t
	}
	return all
}

func (t *standing) ended() bool { return t.Status != "pending" && t.Status != "processing" }

// asItMust reports whether a payout has ended as its fate demands. One that the kills have robbed
// of its submissions may have failed instead.
func (c *payoutChaos) asItMust(p *payout, t standing) bool {
	f := c.fates[p.accountNumber]
	return t.ended() && (t.Status == f.end || t.Status == f.or) || t.Status == "failed" && t.Attempts == 5
}

// await waits until every payout has ended as its fate demands, waits for an operator, or has ended
// and is not asked about any more: then an operator must find it.
func (c *payoutChaos) await(n int) {
	c.t.Helper()
	c.untilAll(n, "all payouts to end as they must, or to wait for a person", func(p *payout, t standing) bool {
		out, _ := c.bank.Payout(p.ref)
		return c.asItMust(p, t) || t.Differs && resolution(out, t.Status) != nil || t.ended() && !t.Goes
	})
}

// untilAll waits until the condition holds of every payout. Where it does not, it shows which.
func (c *payoutChaos) untilAll(n int, what string, ok func(*payout, standing) bool) {
	c.t.Helper()
	var left []string
	testenv.Eventually(c.t, time.Minute+longLag+time.Duration(n)*200*time.Millisecond, what, func() bool {
		left = nil
		all := c.standings()
		for _, p := range c.payouts {
			if t := all[p.ref]; !ok(p, t) {
				left = append(left, fmt.Sprintf("%s: %+v", c.fates[p.accountNumber].name, t))
			}
		}
		return len(left) == 0
	}, func() any { return strings.Join(left, "\n") }, func() any { return c.unended() })
}

// operate plays the operators when the bank has come to itself: the daily reconciliation, then an
// end by hand of each payout whose record contradicts the books. The service must have named it
// before, on the transfer or in the reconciliation. What only a bad answer made differ is asked
// about once more. In the end the reconciliation finds no difference.
func (c *payoutChaos) operate(n int) {
	c.t.Helper()
	c.bank.Faults.Clear()
	named := c.reconcile()
	for ref, t := range c.standings() {
		out, _ := c.bank.Payout(ref)
		switch args := resolution(out, t.Status); {
		case out.FeeUnsaid:
			require.Contains(c.t, named[ref], "payout_fee_unknown")
			c.bank.SetPayout(ref, func(p *fakebank.Payout) { p.FeeUnsaid = false })
			c.poll(ref)
		case args != nil:
			require.True(c.t, c.contradicts(ref), "%s is %s and the bank says %s, which never took its word back: %+v", ref, t.Status, out.Status, t)
			require.True(c.t, t.Differs || named[ref] != "", "no alert that %s is %s and the bank says %s: %+v", ref, t.Status, out.Status, t)
			require.NoError(c.t, c.resolve(ref, args))
			c.resolved = append(c.resolved, ref)
		case t.Differs:
			c.poll(ref)
		}
	}
	c.untilAll(n, "all payouts to end as they must, and no more to be asked", func(p *payout, t standing) bool {
		return c.asItMust(p, t) && !t.Differs && !t.Goes
	})
	require.Empty(c.t, c.reconcile())
}

func (c *payoutChaos) poll(ref string) {
	c.t.Helper()
	got := runToEnd(c.t, c.dir, c.settings, "transfers", "poll", ref, "--yes", "--reason", "the bank answers again")
	require.Zero(c.t, got.code, got.out)
}

// contradicts reports whether the payout is one of those about which the bank changes its word. Of
// any other no end that it does not have may ever be booked, though an operator could put it right.
func (c *payoutChaos) contradicts(ref string) bool {
	for _, p := range c.payouts {
		if p.ref == ref {
			return slices.ContainsFunc(c.fates[p.accountNumber].rules, func(r fakebank.Rule) bool {
				return r.Do == fakebank.PartialRefund || r.Do == fakebank.PaidLate || r.Do == fakebank.FailedLate
			})
		}
	}
	return false
}

// reconcile compares the books with the bank's list, and tells what it found about payouts, by
// their references.
func (c *payoutChaos) reconcile() map[string]string {
	c.t.Helper()
	got := runToEnd(c.t, c.dir, c.settings, "reconcile", "--from", c.begin.Add(-time.Minute).UTC().Format(time.RFC3339))
	require.LessOrEqual(c.t, got.code, 1, got.out)
	return testenv.Map[string, string](c.Env, `SELECT ref, exception::text FROM reconcile_items WHERE kind = 'payout' AND exception IS NOT NULL`)
}

// report logs the outcomes of the payouts, by their fates, and how often the bank's rules struck.
func (c *payoutChaos) report(struck []fakebank.Rule) {
	type outcome struct {
		ends        map[string]int
		submissions int
		atBank      int
	}
	by, all := map[string]*outcome{}, c.standings()
	for _, p := range c.payouts {
		name := c.fates[p.accountNumber].name
		if by[name] == nil {
			by[name] = &outcome{ends: map[string]int{}}
		}
		by[name].ends[all[p.ref].Status]++
		by[name].submissions += all[p.ref].Attempts
		if out, ok := c.bank.Payout(p.ref); ok {
			by[name].atBank += out.Submissions
		}
	}
	var text strings.Builder
	did := map[string]int{}
	for _, r := range struck {
		did[strings.TrimSpace(fmt.Sprintf("%s %s %s", r.On, r.Do, r.Value))] += r.Struck
	}
	for _, f := range append(fates[:len(fates):len(fates)], tillFate, rejectedFate) {
		if o := by[f.name]; o != nil {
			fmt.Fprintf(&text, "\n%-24s %v, %d submissions counted, %d seen by the bank", f.name, o.ends, o.submissions, o.atBank)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(did)) {
		fmt.Fprintf(&text, "\n%-36s %d", what, did[what])
	}
	c.t.Log(text.String())
}
