package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/ledger"
)

// fate is what the bank does with a payout, by the number of the destination account, and how the
// transfer must end: at last by an operator's command, where the bank contradicts itself.
type fate struct {
	name   string
	weight int
	rules  []fakebank.Rule
	end    string
	or     string // another end, where it is first asked about later
}

// submission is a rule for the first n submissions to an account (0: all).
func submission(do fakebank.Action, n int) fakebank.Rule {
	return fakebank.Rule{On: fakebank.OnPayouts, Do: do, Next: n}
}

func later(do fakebank.Action) fakebank.Rule {
	return fakebank.Rule{On: fakebank.OnPayouts, Do: do, Next: 1, Delay: 2 * time.Second}
}

// lag is how long a lagging index of the bank does not find a payout: longer than it takes to give
// up one that was never acknowledged, in a long run.
const (
	shortLag = 8 * time.Second
	longLag  = 40 * time.Second
)

var fates = slices.Concat([]fate{
	{name: "paid at once", weight: 20, end: "success"},
	{name: "paid later", weight: 8, rules: []fakebank.Rule{later(fakebank.Pending)}, end: "success"},
	{name: "201 PROCESSING", weight: 8, rules: []fakebank.Rule{later(fakebank.Processing)}, end: "success"},
	{name: "rejected", weight: 8, rules: []fakebank.Rule{submission(fakebank.Reject, 0)}, end: "failed"},
	{name: "failed later", weight: 6, rules: []fakebank.Rule{later(fakebank.FailLater)}, end: "failed"},
	{name: "given back", weight: 8, rules: []fakebank.Rule{later(fakebank.Refund)}, end: "refunded"},
	{name: "cut after it acted", weight: 10, rules: []fakebank.Rule{submission(fakebank.DropAfter, 1)}, end: "success"},
	{name: "500 after it acted", weight: 8, rules: []fakebank.Rule{submission(fakebank.FailAfter, 1)}, end: "success"},
	{name: "cut before it acted", weight: 8, rules: []fakebank.Rule{submission(fakebank.Drop, 1)}, end: "success"},
	{name: "500 before it acted", weight: 5, rules: []fakebank.Rule{submission(fakebank.Fail, 1)}, end: "success"},
	{name: "429, then a page", weight: 3, rules: []fakebank.Rule{{On: fakebank.OnPayouts, Do: fakebank.Fail, Status: 429, Next: 1}, submission(fakebank.Garbage, 1)}, end: "success"},
	{name: "called a duplicate", weight: 8, rules: []fakebank.Rule{submission(fakebank.Duplicate, 1)}, end: "success"},
	{name: "somebody else's record", weight: 6, rules: []fakebank.Rule{submission(fakebank.WrongRecord, 1)}, end: "success"},
	{name: "slow to answer", weight: 4, rules: []fakebank.Rule{{On: fakebank.OnPayouts, Do: fakebank.SlowAfter, Delay: time.Second, Next: 1}}, end: "success"},
	{name: "no such account", weight: 3, rules: []fakebank.Rule{{On: fakebank.OnLookup, Do: fakebank.NotFound}}, end: "failed"},
	{name: "false money", weight: 3, end: "failed"},
	{name: "lagging index", weight: 5, rules: []fakebank.Rule{submission(fakebank.Lagging, 1)}, end: "success"},
	{name: "lagging index, no 201", weight: 4, rules: []fakebank.Rule{{On: fakebank.OnPayouts, Do: fakebank.Lagging, Status: 502, Next: 1}}, end: "success"},
	{name: "a part given back", weight: 4, rules: []fakebank.Rule{later(fakebank.PartialRefund)}, end: "success"},
	{name: "failed, the fee kept", weight: 4, rules: []fakebank.Rule{later(fakebank.FailKept)}, end: "failed"},
	{name: "given back without the fee", weight: 4, rules: []fakebank.Rule{later(fakebank.RefundKept)}, end: "refunded"},
	{name: "no fee named", weight: 4, rules: []fakebank.Rule{later(fakebank.NoFee)}, end: "success"},
	{name: "paid after it failed", weight: 4, rules: []fakebank.Rule{later(fakebank.PaidLate)}, end: "success"},
	{name: "failed after it was paid", weight: 4, rules: []fakebank.Rule{later(fakebank.FailedLate)}, end: "refunded", or: "failed"},
}, gatewayFates(), []fate{neverArrives})

// neverArrives takes five submissions and their questions, each of which takes a second by asynq's
// clock: long runs only.
var neverArrives = fate{name: "never arrives", weight: 2, rules: []fakebank.Rule{submission(fakebank.Drop, 0)}, end: "failed"}

// gatewayFates are payouts of which a gateway before the bank answers the look-up and the first two
// submissions with its own 404, one fate for each kind of body. None of them is the bank's word.
func gatewayFates() (all []fate) {
	for _, body := range fakebank.GatewayBodies() {
		all = append(all, fate{name: "a gateway's 404: " + body, weight: 1, rules: []fakebank.Rule{
			{On: fakebank.OnLookup, Do: fakebank.Gateway, Value: body, Next: 1}, {On: fakebank.OnPayouts, Do: fakebank.Gateway, Value: body, Next: 2},
		}, end: "success"})
	}
	return all
}

// noise is what the bank does to any call, by a chance that is drawn around the given one.
// Questions by reference are answered with "not known" now and then, though the payout is there, or
// by a gateway.
var noise = append([]fakebank.Rule{
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
}, gatewayNoise()...)

func gatewayNoise() (all []fakebank.Rule) {
	for _, body := range fakebank.GatewayBodies() {
		for _, group := range []fakebank.Group{fakebank.OnLookup, fakebank.OnPayouts, fakebank.OnPayoutStatus, fakebank.OnAccounts, fakebank.OnTransactions} {
			all = append(all, fakebank.Rule{On: group, Do: fakebank.Gateway, Value: body, Percent: 1})
		}
	}
	return all
}

// How many payouts run in a short test; AJO_CHAOS_PAYOUTS says how many in another (make
// chaos-settle). From longRun on a run is a long one.
const (
	shortRun = 60
	longRun  = 200
)

// payoutChaos is a run of many payouts.
type payoutChaos struct {
	*settler
	rng     *rand.Rand
	payouts []*payout
	fates   map[string]fate // by the number of the destination account
	forged  uuid.UUID       // the group of the credit that proves false; uuid.Nil once it has
	against int             // how many payouts stand against it
	kills   int
	begin   time.Time
	sales   sales
	asked   map[*payout]vote // those that members decide about
}

// Many payouts against a bank that gives every answer it can give, at random, while the workers are
// killed (kill -9) at random and started again. Payments come in meanwhile, some on numbers that
// the bank issues again; others pay for payouts and are taken back; and the bank's webhook secret
// changes. A part needs two members' approvals, and some of it is rejected instead. Where the bank
// contradicts itself, the service must have named the case, and the harness plays the operator. In
// the end each payout has the end that its fate demands, the bank's list is the transfers by status
// and sum, nothing was paid twice, every balance is its entries, and nothing is left unended.
// AJO_SEED reproduces the fates, the noise and the moments to kill, though not how the processes
// interleave.
func TestChaosOfPayouts(t *testing.T) {
	n := shortRun
	if v := os.Getenv("AJO_CHAOS_PAYOUTS"); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	seed := chaosSeed(t)
	c := &payoutChaos{settler: newSettler(t), rng: rand.New(rand.NewPCG(seed, 1)), fates: map[string]fate{}, asked: map[*payout]vote{}}
	c.lookForRaces()
	c.approvers(needsApproval)
	c.draw(n)
	orders := c.payouts
	c.opens(n)
	c.startAt()
	c.begin = time.Now()
	accepted := c.orderAll(orders)
	go c.sells()
	c.killWorkers(accepted, n)
	c.closes()
	c.await(n)
	struck := c.bank.Faults.Rules()
	c.operate(n)
	t.Logf("%d payouts, %d kills, %d resolved by an operator, %s", n, c.kills, len(c.resolved), time.Since(c.begin).Round(time.Millisecond))
	c.checkSales(n)
	c.checkPayouts()
	c.checkVotes()
	c.report(struck)
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

// draw gives each payout its account, sum and fate, makes them known to the bank, and funds the
// accounts to the kobo.
func (c *payoutChaos) draw(n int) {
	fates, total, lag := fates, 0, longLag
	if n < longRun {
		fates, lag = fates[:len(fates)-1], shortLag
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
		p := &payout{account: fmt.Sprintf("shop-%d", c.rng.IntN(8)), accountNumber: fmt.Sprintf("7%09d", i), amount: money.FromKobo(200 + c.rng.Int64N(500_00))}
		if fates[k].name == "false money" {
			p.account = "forged"
			c.against++
		}
		f := fates[k]
		if i >= len(fates) && f.name != "false money" && c.rng.IntN(3) == 0 {
			p.amount = p.amount.Add(money.Must(needsApproval))
			if c.asked[p] = c.draws(); c.asked[p].rejects {
				f = rejectedFate
			}
		}
		for _, r := range f.rules {
			r.Match = p.accountNumber
			if r.Do == fakebank.Lagging {
				r.Delay = lag
			}
			rules = append(rules, r)
		}
		c.fates[p.accountNumber] = f
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

// orderAll asks for all payouts, eight at a time, and returns when all were accepted, and decided
// where members must.
func (c *payoutChaos) orderAll(payouts []*payout) <-chan error {
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
				if v, ok := c.asked[p]; ok {
					asking.Go(func() {
						if err := c.decide(p.ref, v); err != nil {
							done <- err
						}
					})
				}
			}
		})
	}
	go func() {
		for _, p := range payouts {
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
func (c *payoutChaos) killWorkers(accepted <-chan error, n int) {
	const queues = "settle,ingest,confirm,expire"
	workers := []*process{c.startWorker(queues), c.startWorker(queues)}
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
		workers[i].Kill()
		c.kills++
		workers[i] = c.startWorker(queues)
		if !c.sales.changed && ended() >= until/2 {
			c.changeSecret()
		}
		if ended() >= falseAt {
			c.proveFalse()
		}
	}
	for err := range accepted {
		require.NoError(c.t, err)
	}
	if !c.sales.changed {
		c.changeSecret()
	}
	c.proveFalse()
	require.Equal(c.t, uuid.Nil, c.forged)
}

// proveFalse reverses the forged credit, once the settlements against it have been accepted.
func (c *payoutChaos) proveFalse() {
	c.t.Helper()
	waiting := c.count(`SELECT count(*) FROM transfers t JOIN accounts a ON a.id = t.account_id WHERE a.account_ref = 'forged'`)
	if c.forged == uuid.Nil || waiting < c.against {
		return
	}
	c.move(c.forged, ledger.EventReverse)
	c.forged = uuid.Nil
}
