package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"ajo/internal/fakebank"
	"ajo/internal/stack"
)

// fault is a kind of fault: how often it comes, relative to the others, and what it does. It
// returns when it is over, and says what it did; an empty text says that there was nothing to do it
// to.
type fault struct {
	kind   string
	weight int
	do     func(*chaosRun, *rand.Rand) string
}

var chaosFaults = []fault{
	{"kill -9 of an API", 4, func(s *chaosRun, rng *rand.Rand) string { return s.ends(rng, s.apis, syscall.SIGKILL, "kill -9") }},
	{"kill -9 of a worker", 6, func(s *chaosRun, rng *rand.Rand) string { return s.ends(rng, s.workers, syscall.SIGKILL, "kill -9") }},
	{"replacement of an API (SIGTERM)", 2, func(s *chaosRun, rng *rand.Rand) string { return s.ends(rng, s.apis, syscall.SIGTERM, "SIGTERM") }},
	{"replacement of a worker (SIGTERM)", 2, func(s *chaosRun, rng *rand.Rand) string { return s.ends(rng, s.workers, syscall.SIGTERM, "SIGTERM") }},
	{"FLUSHALL", 3, (*chaosRun).flushes},
	{"Redis killed and restarted", 2, (*chaosRun).killsRedis},
	{"Postgres killed and restarted", 1, func(s *chaosRun, rng *rand.Rand) string {
		return s.endsPostgres(rng, "kill -9", (*stack.Server).Kill)
	}},
	{"Postgres shut down at once and restarted", 1, func(s *chaosRun, rng *rand.Rand) string {
		return s.endsPostgres(rng, "immediate shutdown", (*stack.Server).Quit)
	}},
	{"Postgres' primary killed, its standby promoted", 2, (*chaosRun).failsOver},
	{"Postgres away while events arrive", 1, (*chaosRun).refusesPostgres},
	{"connections to Postgres cut", 2, func(s *chaosRun, _ *rand.Rand) string { s.toPostgres.Cut(); return "all cut" }},
	{"connections to Redis cut", 2, func(s *chaosRun, _ *rand.Rand) string { s.toRedis.Cut(); return "all cut" }},
	{"Postgres delayed", 1, func(s *chaosRun, rng *rand.Rand) string { return s.delays(rng, s.toPostgres.Delay) }},
	{"Redis delayed", 1, func(s *chaosRun, rng *rand.Rand) string { return s.delays(rng, s.toRedis.Delay) }},
	{"Postgres stalled", 1, func(s *chaosRun, rng *rand.Rand) string { return s.stalls(rng, s.toPostgres.Stall) }},
	{"Redis stalled", 1, func(s *chaosRun, rng *rand.Rand) string { return s.stalls(rng, s.toRedis.Stall) }},
	{"answers to COMMIT lost", 4, func(s *chaosRun, rng *rand.Rand) string {
		return s.loses(1+rng.IntN(8), s.toPostgres.LoseCommits, s.toPostgres.CommitsLeft)
	}},
	{"answers of Postgres lost", 2, func(s *chaosRun, rng *rand.Rand) string {
		return s.loses(1+rng.IntN(8), s.toPostgres.LoseAnswers, s.toPostgres.AnswersLeft)
	}},
	{"answers of Redis lost", 3, func(s *chaosRun, rng *rand.Rand) string {
		return s.loses(1+rng.IntN(20), s.toRedis.LoseAnswers, s.toRedis.AnswersLeft)
	}},
	{"bank down", 1, (*chaosRun).downsBank},
	{"bank errs", 1, bankFault(15, fakebank.Rule{On: fakebank.OnAll, Do: fakebank.Fail}, fakebank.Rule{On: fakebank.OnAll, Do: fakebank.Drop})},
	{"bank times out", 1, bankFault(10, fakebank.Rule{On: fakebank.OnAll, Do: fakebank.Slow, Delay: 40 * time.Second}, fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.SlowAfter, Delay: 40 * time.Second})},
	{"bank slow", 1, bankFault(30, fakebank.Rule{On: fakebank.OnAll, Do: fakebank.Slow, Delay: time.Second}, fakebank.Rule{On: fakebank.OnAll, Do: fakebank.SlowAfter, Delay: 2 * time.Second})},
	{"bank's answer lost after the payout", 2, bankFault(40, fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter}, fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.FailAfter})},
	{"bank answers wrongly", 2, bankFault(
		30, fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.WrongRecord}, fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.WrongRecord},
		fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.AlterAmount}, fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.WrongRecord},
		fakebank.Rule{On: fakebank.OnAll, Do: fakebank.Garbage},
	)},
	{"bank does not know", 1, bankFault(
		40, fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.NotFound}, fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.NotFound},
		fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.Empty}, fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Empty},
	)},
	{"a gateway's 404 for the bank's answer", 2, bankFault(40, gatewayRules()...)},
	{"a tenant's endpoint down", 2, (*chaosRun).downsEndpoint},
}

// always is what the bank does with payouts and new accounts through the whole run, in percent.
var always = []fakebank.Rule{
	{On: fakebank.OnAccounts, Do: fakebank.Reissue, Percent: 70},
	{On: fakebank.OnPayouts, Do: fakebank.Pending, Percent: 8, Delay: time.Second},
	{On: fakebank.OnPayouts, Do: fakebank.Processing, Percent: 6, Delay: time.Second},
	{On: fakebank.OnPayouts, Do: fakebank.Reject, Percent: 4},
	{On: fakebank.OnPayouts, Do: fakebank.FailLater, Percent: 4, Delay: time.Second},
	{On: fakebank.OnPayouts, Do: fakebank.Refund, Percent: 4, Delay: 2 * time.Second},
	{On: fakebank.OnPayouts, Do: fakebank.Duplicate, Percent: 3},
	{On: fakebank.OnPayouts, Do: fakebank.DropAfter, Percent: 2},
	{On: fakebank.OnPayouts, Do: fakebank.Lagging, Percent: 4}, // for size.lag
	{On: fakebank.OnPayouts, Do: fakebank.PartialRefund, Percent: 1, Delay: time.Second},
	{On: fakebank.OnPayouts, Do: fakebank.FailKept, Percent: 2, Delay: time.Second},
	{On: fakebank.OnPayouts, Do: fakebank.RefundKept, Percent: 2, Delay: 2 * time.Second},
	{On: fakebank.OnPayouts, Do: fakebank.PaidLate, Percent: 1, Delay: 2 * time.Second},
	{On: fakebank.OnPayouts, Do: fakebank.FailedLate, Percent: 1, Delay: 2 * time.Second},
}

// gatewayRules are the 404s of a gateway before the bank, each with another body.
func gatewayRules() (all []fakebank.Rule) {
	for _, body := range fakebank.GatewayBodies() {
		all = append(all, fakebank.Rule{On: fakebank.OnAll, Do: fakebank.Gateway, Value: body})
	}
	return all
}

// planned is a fault of the schedule.
type planned struct {
	after time.Duration // from the beginning
	kind  int           // in chaosFaults
	seed  uint64
}

// plan draws a schedule: a fault each gap or so, until the run is over. Each kind comes once
// before any comes by its weight, if there is time.
func plan(seed uint64, length, gap time.Duration) []planned {
	rng := rand.New(rand.NewPCG(seed, 2))
	total := 0
	for _, f := range chaosFaults {
		total += f.weight
	}
	first := rng.Perm(len(chaosFaults))
	var all []planned
	for at := gap; at < length; at += gap/2 + time.Duration(rng.Int64N(int64(gap))) {
		draw := rng.IntN(total)
		kind := slices.IndexFunc(chaosFaults, func(f fault) bool { draw -= f.weight; return draw < 0 })
		if len(all) < len(first) {
			kind = first[len(all)]
		}
		all = append(all, planned{at, kind, rng.Uint64()})
	}
	return all
}

// happened is a fault that was made.
type happened struct {
	After  float64 `json:"after_seconds"`
	Kind   string  `json:"kind"`
	Detail string  `json:"detail"`
}

// inject makes the faults of the schedule, each at its time and whatever else is broken then, and
// returns when all are over.
func (s *chaosRun) inject(schedule []planned) {
	begin := time.Now()
	var under sync.WaitGroup
	for _, p := range schedule {
		time.Sleep(time.Until(begin.Add(p.after)))
		under.Go(func() {
			f := chaosFaults[p.kind]
			at := time.Since(begin)
			detail := f.do(s, rand.New(rand.NewPCG(p.seed, 3)))
			s.happens(happened{at.Seconds(), f.kind, detail})
		})
	}
	under.Wait()
}

func (s *chaosRun) happens(h happened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.Detail == "" {
		s.missed++
		return
	}
	s.happened = append(s.happened, h)
	s.logf("%7.1f s  %s: %s", h.After, h.Kind, h.Detail)
}

// between draws a time.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least)))
}

func (s *chaosRun) ends(rng *rand.Rand, of []*supervisor, sig syscall.Signal, why string) string {
	for begin := time.Now(); time.Since(begin) < 5*time.Second; time.Sleep(20 * time.Millisecond) {
		for _, i := range rng.Perm(len(of)) {
			if of[i].end(sig, why) {
				return of[i].name
			}
		}
	}
	return ""
}

func (s *chaosRun) flushes(*rand.Rand) string {
	s.redisLock.Lock()
	defer s.redisLock.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	n, _ := s.redis.DBSize(ctx).Result()
	if err := s.redis.FlushAll(ctx).Err(); err != nil {
		return ""
	}
	return fmt.Sprintf("%d keys", n)
}

func (s *chaosRun) killsRedis(rng *rand.Rand) string {
	s.redisLock.Lock()
	defer s.redisLock.Unlock()
	away := between(rng, 0, 2*time.Second)
	s.servers.Redis.Kill()
	time.Sleep(away)
	if err := s.servers.Redis.Start(context.Background()); err != nil {
		s.t.Errorf("Redis did not come back: %v", err)
	}
	return "away for " + away.Round(time.Millisecond).String()
}

// failsOver kills the primary and promotes its standby. Whoever uses the old address is turned to
// the new primary, which gets a standby of its own.
func (s *chaosRun) failsOver(*rand.Rand) string {
	s.postgresLock.Lock()
	defer s.postgresLock.Unlock()
	ctx, begin := context.Background(), time.Now()
	s.servers.Postgres.Kill()
	if err := s.servers.Promote(ctx); err != nil {
		s.t.Errorf("the standby was not promoted: %v", err)
		return ""
	}
	s.toPostgres.Turn(s.servers.Postgres.Addr())
	promoted := time.Since(begin)
	if err := s.servers.StartStandby(ctx); err != nil {
		s.t.Errorf("the new primary has no standby: %v", err)
	}
	return fmt.Sprintf("promoted after %s, with a new standby after %s", promoted.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
}

func (s *chaosRun) endsPostgres(rng *rand.Rand, how string, end func(*stack.Server)) string {
	s.postgresLock.Lock()
	defer s.postgresLock.Unlock()
	away := between(rng, 0, 2*time.Second)
	end(s.servers.Postgres)
	time.Sleep(away)
	begin := time.Now()
	if err := s.servers.Postgres.Start(context.Background()); err != nil {
		s.t.Errorf("Postgres did not come back: %v", err)
	}
	return fmt.Sprintf("%s, away for %s and %s of recovery", how, away.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
}

func (s *chaosRun) refusesPostgres(rng *rand.Rand) string {
	s.postgresLock.Lock()
	defer s.postgresLock.Unlock()
	away := between(rng, 2*time.Second, 8*time.Second)
	s.toPostgres.Refuse(true)
	time.Sleep(away)
	s.toPostgres.Refuse(false)
	return "for " + away.Round(time.Millisecond).String()
}

func (s *chaosRun) delays(rng *rand.Rand, set func(time.Duration)) string {
	delay, length := between(rng, 50*time.Millisecond, 500*time.Millisecond), between(rng, time.Second, 4*time.Second)
	set(delay)
	time.Sleep(length)
	set(0)
	return fmt.Sprintf("by %s for %s", delay.Round(time.Millisecond), length.Round(time.Millisecond))
}

func (s *chaosRun) stalls(rng *rand.Rand, set func(bool)) string {
	length := between(rng, time.Second, 8*time.Second)
	set(true)
	time.Sleep(length)
	set(false)
	return "for " + length.Round(time.Millisecond).String()
}

func (s *chaosRun) loses(n int, set func(int), left func() int) string {
	set(n)
	for begin := time.Now(); left() > 0 && time.Since(begin) < 5*time.Second; {
		time.Sleep(10 * time.Millisecond)
	}
	lost := n - left()
	set(0)
	if lost <= 0 {
		return ""
	}
	return fmt.Sprintf("%d of them", lost)
}

func (s *chaosRun) downsBank(rng *rand.Rand) string {
	how := []fakebank.Down{fakebank.DownAnswer, fakebank.DownClose}[rng.IntN(2)]
	length := between(rng, time.Second, 5*time.Second)
	s.bank.Faults.SetDown(how)
	time.Sleep(length)
	s.bank.Faults.SetDown(fakebank.Up)
	return fmt.Sprintf("(%s) for %s", how, length.Round(time.Millisecond))
}

// bankFault has the bank break the rules' way for a while, each rule by a chance that is drawn
// around percent.
func bankFault(percent int, rules ...fakebank.Rule) func(*chaosRun, *rand.Rand) string {
	return func(s *chaosRun, rng *rand.Rand) string {
		length := between(rng, time.Second, 6*time.Second)
		drawn := slices.Clone(rules)
		for i := range drawn {
			drawn[i].Percent = percent/2 + rng.IntN(percent)
		}
		s.bankRules(func(all map[*fakebank.Rule][]fakebank.Rule) { all[&drawn[0]] = drawn })
		time.Sleep(length)
		s.bankRules(func(all map[*fakebank.Rule][]fakebank.Rule) { delete(all, &drawn[0]) })
		return "for " + length.Round(time.Millisecond).String()
	}
}

// bankRules changes what the bank's faults are now. They stand before the rules that always hold:
// of all, the first that strikes decides.
func (s *chaosRun) bankRules(change func(map[*fakebank.Rule][]fakebank.Rule)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.rules)
	var all []fakebank.Rule
	for _, rules := range s.rules {
		all = append(all, rules...)
	}
	for _, r := range always {
		if r.Do == fakebank.Lagging {
			r.Delay = s.size.lag
		}
		all = append(all, r)
	}
	s.countStruck()
	s.bank.Faults.Set(all...)
}

// countStruck adds up how often the bank's rules have struck, before they are replaced: new ones
// begin at zero. The caller holds mu.
func (s *chaosRun) countStruck() {
	for _, r := range s.bank.Faults.Rules() {
		s.struck[string(r.Do)] += r.Struck
	}
}

func (s *chaosRun) downsEndpoint(rng *rand.Rand) string {
	h := s.tenants[rng.IntN(len(s.tenants))]
	how := []int32{says503, saysNothing, cutsOff}[rng.IntN(3)]
	length := between(rng, 2*time.Second, 12*time.Second)
	if !h.fault.CompareAndSwap(answersWell, how) {
		return ""
	}
	time.Sleep(length)
	h.fault.Store(answersWell)
	return fmt.Sprintf("%s's (%s) for %s", h.name, map[int32]string{says503: "503", saysNothing: "no answer", cutsOff: "cut"}[how], length.Round(time.Millisecond))
}
