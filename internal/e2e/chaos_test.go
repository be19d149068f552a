package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// fate is what the bank does with a payout, by the number of the destination account, and how the
// transfer must end.
type fate struct {
	name   string
	weight int
	rules  []fakebank.Rule
	end    string
}

// submission is a rule for the first n submissions to an account (0: all).
func submission(do fakebank.Action, n int) fakebank.Rule {
	return fakebank.Rule{On: fakebank.OnPayouts, Do: do, Next: n}
}

func later(do fakebank.Action) fakebank.Rule {
	return fakebank.Rule{On: fakebank.OnPayouts, Do: do, Next: 1, Delay: 2 * time.Second}
}

var fates = []fate{
	{"paid at once", 20, nil, "success"},
	{"paid later", 8, []fakebank.Rule{later(fakebank.Pending)}, "success"},
	{"201 PROCESSING", 8, []fakebank.Rule{later(fakebank.Processing)}, "success"},
	{"rejected", 8, []fakebank.Rule{submission(fakebank.Reject, 0)}, "failed"},
	{"failed later", 6, []fakebank.Rule{later(fakebank.FailLater)}, "failed"},
	{"given back", 8, []fakebank.Rule{later(fakebank.Refund)}, "refunded"},
	{"cut after it acted", 10, []fakebank.Rule{submission(fakebank.DropAfter, 1)}, "success"},
	{"500 after it acted", 8, []fakebank.Rule{submission(fakebank.FailAfter, 1)}, "success"},
	{"cut before it acted", 8, []fakebank.Rule{submission(fakebank.Drop, 1)}, "success"},
	{"500 before it acted", 5, []fakebank.Rule{submission(fakebank.Fail, 1)}, "success"},
	{"429, then a page", 3, []fakebank.Rule{{On: fakebank.OnPayouts, Do: fakebank.Fail, Status: 429, Next: 1}, submission(fakebank.Garbage, 1)}, "success"},
	{"called a duplicate", 8, []fakebank.Rule{submission(fakebank.Duplicate, 1)}, "success"},
	{"somebody else's record", 6, []fakebank.Rule{submission(fakebank.WrongRecord, 1)}, "success"},
	{"slow to answer", 4, []fakebank.Rule{{On: fakebank.OnPayouts, Do: fakebank.SlowAfter, Delay: time.Second, Next: 1}}, "success"},
	{"no such account", 3, []fakebank.Rule{{On: fakebank.OnLookup, Do: fakebank.NotFound}}, "failed"},
	{"false money", 3, nil, "failed"},
	neverArrives,
}

// neverArrives takes five submissions and their questions, each of which takes a second by asynq's
// clock: long runs only.
var neverArrives = fate{"never arrives", 2, []fakebank.Rule{submission(fakebank.Drop, 0)}, "failed"}

// noise is what the bank does to any call, by a chance that is drawn around the given one.
// Questions by reference are answered with "not known" now and then, though the payout is there.
var noise = []fakebank.Rule{
	{On: fakebank.OnLookup, Do: fakebank.Fail, Percent: 4},
	{On: fakebank.OnLookup, Do: fakebank.Drop, Percent: 3},
	{On: fakebank.OnPayoutStatus, Do: fakebank.NotFound, Percent: 5},
	{On: fakebank.OnPayoutStatus, Do: fakebank.Empty, Percent: 2},
	{On: fakebank.OnPayoutStatus, Do: fakebank.Fail, Percent: 5},
	{On: fakebank.OnPayoutStatus, Do: fakebank.Drop, Percent: 3},
	{On: fakebank.OnPayoutStatus, Do: fakebank.WrongRecord, Percent: 3},
	{On: fakebank.OnPayoutStatus, Do: fakebank.AlterAmount, Percent: 2},
	{On: fakebank.OnPayoutStatus, Do: fakebank.Garbage, Percent: 2},
	{On: fakebank.OnToken, Do: fakebank.Fail, Percent: 10},
}

// How many payouts run in a short test; AJO_CHAOS_PAYOUTS says how many in another (make
// chaos-settle). From longRun on a run is a long one.
const (
	shortRun = 60
	longRun  = 200
)

// chaos is a run of many payouts.
type chaos struct {
	*settler
	rng     *rand.Rand
	payouts []*payout
	fates   map[string]fate // by the number of the destination account
	forged  uuid.UUID       // the group of the credit that proves false; uuid.Nil once it has
	against int             // how many payouts stand against it
	kills   int
}

// Many payouts against a bank that gives every answer it can give, at random, while the workers are
// killed (kill -9) at random and started again. In the end each payout has the end that its fate
// demands, the bank's paid list is the transfers that say success, nothing was paid twice, every
// balance is its entries, and nothing is left unended. AJO_SEED reproduces the fates, the noise and
// the moments to kill, though not how the processes interleave.
func TestChaosOfPayouts(t *testing.T) {
	n := shortRun
	if v := os.Getenv("AJO_CHAOS_PAYOUTS"); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	seed := chaosSeed(t)
	c := &chaos{settler: newSettler(t), rng: rand.New(rand.NewPCG(seed, 1)), fates: map[string]fate{}}
	c.draw(n)
	c.startAPI()
	begin := time.Now()
	accepted := c.orderAll()
	c.killWorkers(accepted, n)
	c.await(n)
	t.Logf("%d payouts, %d kills, %s", n, c.kills, time.Since(begin).Round(time.Millisecond))
	c.checkPayouts()
	c.report()
}

// chaosSeed draws a seed, or takes the one of AJO_SEED, and prints it.
func chaosSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if v := os.Getenv("AJO_SEED"); v != "" {
		var err error
		seed, err = strconv.ParseUint(v, 10, 64)
		require.NoError(t, err)
	}
	fmt.Fprintf(os.Stderr, "AJO_SEED=%d\n", seed)
	t.Logf("AJO_SEED=%d", seed)
	return seed
}

// draw gives each payout its account, sum and fate, tells the bank of them, and funds the accounts
// to the kobo.
func (c *chaos) draw(n int) {
	fates, total := fates, 0
	if n < longRun {
		fates = fates[:len(fates)-1]
	}
	for _, f := range fates {
		total += f.weight
	}
	var rules []fakebank.Rule
	sums := map[string]money.Amount{}
	for i := range n {
		draw := c.rng.IntN(total)
		k := slices.IndexFunc(fates, func(f fate) bool { draw -= f.weight; return draw < 0 })
		if i < len(fates) {
			k = i // each at least once
		}
		p := &payout{account: fmt.Sprintf("shop-%d", c.rng.IntN(8)), accountNumber: fmt.Sprintf("7%09d", i), amount: money.FromKobo(100 + c.rng.Int64N(500_00))}
		if fates[k].name == "false money" {
			p.account = "forged"
			c.against++
		}
		for _, r := range fates[k].rules {
			r.Match = p.accountNumber
			rules = append(rules, r)
		}
		c.fates[p.accountNumber] = fates[k]
		c.payouts = append(c.payouts, p)
		sums[p.account] = sums[p.account].Add(p.amount)
	}
	for _, account := range slices.Sorted(maps.Keys(sums)) {
		if account == "forged" {
			c.forged = c.credit(c.Account(c.tenant, account), sums[account])
			continue
		}
		c.fund(account, sums[account])
	}
	for _, r := range noise {
		r.Percent = 1 + c.rng.IntN(2*r.Percent)
		rules = append(rules, r)
	}
	c.bank.Faults.Set(rules...)
}

// orderAll asks for all payouts, eight at a time, and tells when all were accepted.
func (c *chaos) orderAll() <-chan error {
	next := make(chan *payout)
	done := make(chan error)
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for p := range next {
				for ok := false; !ok; {
					var err error
					if ok, err = c.order(p); err != nil {
						done <- err
					}
				}
			}
		})
	}
	go func() {
		for _, p := range c.payouts {
			next <- p
		}
		close(next)
		asking.Wait()
		close(done)
	}()
	return done
}

// killWorkers runs two workers and kills one of them at moments that are drawn, in steps of the
// work, until half of the payouts have ended, nine in ten of them in a long run. The forged credit
// proves false on the way.
func (c *chaos) killWorkers(accepted <-chan error, n int) {
	workers := []*process{c.startWorker("settle"), c.startWorker("settle")}
	ended := func() int {
		return c.count(`SELECT count(*) FROM transfers WHERE status NOT IN ('pending', 'processing')`)
	}
	submitted := func() int { return c.count(`SELECT coalesce(sum(attempt_count + ask_count), 0) FROM transfers`) }
	falseAt, until := c.rng.IntN(n/2), n/2
	if n >= longRun {
		until = n * 9 / 10
	}
	for ended() < until && c.kills < n {
		from, steps := submitted(), 1+c.rng.IntN(max(10, n/40))
		last := time.Now()
		c.eventually("the moment to kill", func() bool {
			return submitted() >= from+steps || ended() >= until || time.Since(last) > time.Second
		})
		i := c.rng.IntN(len(workers))
		workers[i].kill()
		c.kills++
		workers[i] = c.startWorker("settle")
		if ended() >= falseAt {
			c.proveFalse()
		}
	}
	for err := range accepted {
		require.NoError(c.t, err)
	}
	c.proveFalse()
	require.Equal(c.t, uuid.Nil, c.forged)
}

// proveFalse reverses the forged credit, once the settlements against it have been accepted.
func (c *chaos) proveFalse() {
	c.t.Helper()
	waiting := c.count(`SELECT count(*) FROM transfers t JOIN accounts a ON a.id = t.account_id WHERE a.account_ref = 'forged'`)
	if c.forged == uuid.Nil || waiting < c.against {
		return
	}
	c.move(c.forged, ledger.EventReverse)
	c.forged = uuid.Nil
}

// await waits until every payout has ended as its fate demands. One that the kills have robbed of
// its submissions may have failed instead.
func (c *chaos) await(n int) {
	left := c.payouts
	defer func() {
		if c.t.Failed() {
			for _, p := range left {
				c.t.Logf("%s %s: %s", p.ref, c.fates[p.accountNumber].name, c.statusOf(p.ref))
			}
			c.t.Log(c.unended())
		}
	}()
	testenv.Eventually(c.t, time.Minute+time.Duration(n)*200*time.Millisecond, "all payouts to end as they must", func() bool {
		left = slices.DeleteFunc(slices.Clone(left), func(p *payout) bool {
			status := c.statusOf(p.ref)
			return status == c.fates[p.accountNumber].end || status == "failed" && c.attempts(p) == 5
		})
		return len(left) == 0
	})
}

func (s *settler) attempts(p *payout) int {
	return s.count(`SELECT attempt_count FROM transfers WHERE merchant_tx_ref = $1`, p.ref)
}

// report logs what became of the payouts, by their fates.
func (c *chaos) report() {
	type outcome struct {
		ends        map[string]int
		submissions int
		atBank      int
	}
	by := map[string]*outcome{}
	for _, p := range c.payouts {
		name := c.fates[p.accountNumber].name
		if by[name] == nil {
			by[name] = &outcome{ends: map[string]int{}}
		}
		by[name].ends[c.statusOf(p.ref)]++
		by[name].submissions += c.attempts(p)
		if out, ok := c.bank.Payout(p.ref); ok {
			by[name].atBank += out.Submissions
		}
	}
	var text strings.Builder
	for _, f := range fates {
		if o := by[f.name]; o != nil {
			fmt.Fprintf(&text, "\n%-24s %v, %d submissions counted, %d seen by the bank", f.name, o.ends, o.submissions, o.atBank)
		}
	}
	c.t.Log(text.String())
}
