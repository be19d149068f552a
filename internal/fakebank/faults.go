package fakebank

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Rule is one way to misbehave. The zero Next, Percent, Skip and Match strike every call of the
// group.
//
// Rules are tried in the order they were set: delays add up, and the first other rule that strikes
// decides the call. So a script of outcomes is a list of rules with Next 1, and [Normal] is the
// outcome that changes nothing.
type Rule struct {
	ID int `json:"id"` // given by Add and Set; for Remove

	On Group  `json:"on"`
	Do Action `json:"do"`

	Match string `json:"match,omitempty"` // only calls about this reference: see [Group]
	Skip  int    `json:"skip,omitempty"`  // the first Skip calls pass
	Next  int    `json:"next,omitempty"`  // spent after so many strikes; 0: never
	// the chance of a strike, drawn from the bank's seed; 0: certain
	Percent int `json:"percent,omitempty"`

	// slow, late: how long; payout outcomes: how long until they end. JSON: "delay":"1s"
	Delay time.Duration `json:"-"`
	// fail: the HTTP status, 0: 500; lagging: of the answer to its submission, 0: 201
	Status int    `json:"status,omitempty"`
	Code   string `json:"code,omitempty"`   // code, reject, duplicate: the envelope's code
	Copies int    `json:"copies,omitempty"` // duplicate webhooks: how many more; 0: one
	// the altered amount, fee, currency, account or status
	Value string `json:"value,omitempty"`

	// Until ends the delay early when it is closed (slow, slow_after): for a test that holds a
	// call. Nil: the delay alone.
	Until <-chan struct{} `json:"-"`

	Struck int `json:"struck"` // how often it has struck; read only
}

// Faults is the set of rules that a bank goes by. It is empty at first, and then costs nothing.
type Faults struct {
	seed  uint64
	rules atomic.Pointer[[]*liveRule]
	down  atomic.Pointer[Down]

	mu     sync.Mutex // serialises the writers
	lastID int
}

// Down says how a bank that is down refuses.
type Down string

// The ways of being down. The control page and /control stay up in all of them.
const (
	Up         Down = ""
	DownAnswer Down = "503"   // every call is answered 503
	DownClose  Down = "close" // every connection is cut unanswered
)

func newFaults(seed uint64) *Faults {
	f := &Faults{seed: seed}
	f.rules.Store(new([]*liveRule))
	f.down.Store(new(Up))
	return f
}

// Set replaces all rules. It panics on a rule that [Rule.Validate] refuses: a mistake in a test.
func (f *Faults) Set(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	live := f.enliven(rules)
	f.rules.Store(&live)
}

// Add puts rules behind those there are. It panics as Set does.
func (f *Faults) Add(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	live := slices.Concat(*f.rules.Load(), f.enliven(rules))
	f.rules.Store(&live)
}

// Remove takes the rules with these ids away; unknown ids are ignored.
func (f *Faults) Remove(ids ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var live []*liveRule
	for _, r := range *f.rules.Load() {
		if !slices.Contains(ids, r.ID) {
			live = append(live, r)
		}
	}
	f.rules.Store(&live)
}

// Clear takes every rule away and brings the bank up.
func (f *Faults) Clear() {
	f.Set()
	f.SetDown(Up)
}

// Rules lists the rules with how often each has struck.
func (f *Faults) Rules() []Rule {
	live := *f.rules.Load()
	rules := make([]Rule, len(live))
	for i, r := range live {
		rules[i] = r.Rule
		rules[i].Struck = int(r.struck.Load())
	}
	return rules
}

// SetDown takes the whole bank down, NIN service included, or brings it up again.
func (f *Faults) SetDown(d Down) { f.down.Store(&d) }

// Down tells how the bank is down.
func (f *Faults) Down() Down { return *f.down.Load() }

func (f *Faults) enliven(rules []Rule) []*liveRule {
	live := make([]*liveRule, len(rules))
	for i, r := range rules {
		if err := r.Validate(); err != nil {
			panic(err)
		}
		f.lastID++
		r.ID, r.Struck = f.lastID, 0
		live[i] = &liveRule{Rule: r, salt: f.seed ^ saltOf(r.On, r.Do) ^ mix(uint64(f.lastID))}
	}
	return live
}

// Validate refuses an unknown group or action, an action that the group does not have, and numbers
// out of range.
func (r Rule) Validate() error {
	groups, ok := actions[r.Do]
	if !ok {
		return fmt.Errorf("fakebank: no such action %q", r.Do)
	}
	if !slices.Contains(Groups, r.On) {
		return fmt.Errorf("fakebank: no such group %q", r.On)
	}
	if !slices.Contains(groups, r.On) {
		return fmt.Errorf("fakebank: group %q has no action %q", r.On, r.Do)
	}
	if r.Skip < 0 || r.Next < 0 || r.Copies < 0 || r.Copies > 100 || r.Percent < 0 || r.Percent > 100 || r.Delay < 0 {
		return fmt.Errorf("fakebank: rule %s/%s has a number out of range", r.On, r.Do)
	}
	if _, ok := gatewayAnswers[cmp.Or(r.Value, "text")]; r.Do == Gateway && !ok {
		return fmt.Errorf("fakebank: a gateway's body is one of %s", strings.Join(GatewayBodies(), ", "))
	}
	if r.Status != 0 && (r.Status < 200 || r.Status > 599) {
		return fmt.Errorf("fakebank: %d is no HTTP status to answer with", r.Status)
	}
	return nil
}

// plan is what the rules have decided about one call.
type plan struct {
	before, after time.Duration // delays before acting, and between acting and answering
	rule          Rule          // the deciding rule; its Do is "" when there is none

	until <-chan struct{} // ends the delays early
}

// strike asks the rules about one call. refs are what the call is about.
func (f *Faults) strike(g Group, refs func() []string) plan {
	var p plan
	live := *f.rules.Load()
	var known []string
	for _, r := range live {
		if r.On != g && (r.On != OnAll || g == OnWebhooks) {
			continue
		}
		if r.Match != "" {
			if known == nil {
				known = refs()
			}
			if !slices.Contains(known, r.Match) {
				continue
			}
		}
		decides := r.Do != Slow && r.Do != SlowAfter && r.Do != Late
		if decides && p.rule.Do != "" || !r.strikes() {
			continue
		}
		if r.Until != nil {
			p.until = r.Until
		}
		switch r.Do {
		case Slow, Late:
			p.before += r.Delay
		case SlowAfter:
			p.after += r.Delay
		default:
			p.rule = r.Rule
		}
	}
	return p
}

type liveRule struct {
	Rule
	salt   uint64
	seen   atomic.Int64
	struck atomic.Int64
}

// strikes counts one matching call and reports whether the rule strikes it. The n-th call of a rule
// has the same draw in every run with the same seed, however the calls of other rules fall between;
// the same rule set anew has others, or a rule that is rare would never strike where rules change.
func (r *liveRule) strikes() bool {
	n := r.seen.Add(1)
	if n <= int64(r.Skip) {
		return false
	}
	if r.Percent > 0 && mix(r.salt+uint64(n))%100 >= uint64(r.Percent) {
		return false
	}
	if r.Next == 0 {
		r.struck.Add(1)
		return true
	}
	for {
		s := r.struck.Load()
		if s >= int64(r.Next) {
			return false
		}
		if r.struck.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

func saltOf(g Group, a Action) uint64 {
	h := fnv.New64a()
	h.Write([]byte(string(g) + "/" + string(a)))
	return h.Sum64()
}

// mix spreads a counter over 64 bits (the finaliser of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
