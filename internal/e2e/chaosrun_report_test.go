package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// result of a run: what was done, what was broken, and what was found.
type chaosResult struct {
	Seed     uint64         `json:"seed"`
	Began    time.Time      `json:"began"`
	Seconds  float64        `json:"seconds"`
	Faults   map[string]int `json:"faults"`
	Happened []happened     `json:"happened"`
	Missed   int            `json:"faults_without_effect"`
	Struck   map[string]int `json:"bank_rules_struck"` // by action
	Reissued int            `json:"numbers_issued_again"`
	Beside   map[string]int `json:"beside"` // of payments and settlements: what else was done
	Float    string         `json:"float_difference"`
	Trial    string         `json:"trial_balance"`
	Verified string         `json:"ledger_verify"`
	Refunds  int            `json:"refunds"`
	Holds    int            `json:"holds"`
	Freezes  int            `json:"freezes"`

	Payments      map[string]int `json:"payments"` // by what they met with
	Resent        int            `json:"events_sent_again"`
	Deliveries    int            `json:"deliveries"`
	ToldAgain     int            `json:"delivered_again"`
	Settlements   map[string]int `json:"settlements"` // by their end
	BankPaid      int            `json:"paid_by_the_bank"`
	Reads         int            `json:"balances_read"`
	Answers       map[string]int `json:"answers"`
	Ends          map[string]int `json:"ends_of_processes"`
	Archived      int            `json:"archived_tasks"`
	Spooled       int            `json:"events_spooled"`
	Reconciled    int            `json:"payments_found_by_reconciliation"`
	PerSecond     float64        `json:"payments_a_second"`
	SettledPerSec float64        `json:"settlements_a_second"`

	Answer    spread  `json:"answer_to_an_event"`
	Accepting spread  `json:"first_sending_to_200"`
	Posting   spread  `json:"200_to_posting"`
	Telling   spread  `json:"200_to_first_delivery"`
	Slowest   []late  `json:"slowest"`
	Drained   float64 `json:"drained_after_seconds"`

	Findings map[string]int `json:"findings"`
	Examples []finding      `json:"examples"`
}

// spread are times in milliseconds.
type spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// late is a payment that took long, in seconds from the beginning of the run.
type late struct {
	Account   string  `json:"account"`
	Accepted  float64 `json:"accepted"`
	Tries     int     `json:"tries"`
	Posted    float64 `json:"posted"`
	Published float64 `json:"published"`
}

func spreadOf(all []time.Duration) spread {
	if len(all) == 0 {
		return spread{}
	}
	slices.Sort(all)
	at := func(percent int) float64 {
		return float64(all[min(len(all)-1, len(all)*percent/100)].Microseconds()) / 1000
	}
	return spread{len(all), at(50), at(99), at(100)}
}

func (s spread) String() string {
	form := func(ms float64) string {
		return time.Duration(ms * float64(time.Millisecond)).Round(100 * time.Microsecond).String()
	}
	return fmt.Sprintf("p50 %s, p99 %s, longest %s", form(s.P50), form(s.P99), form(s.Max))
}

// result puts a run's figures together. What the harness counted is read here, after all that wrote
// it has ended.
func (s *chaosRun) result(v *seen, found []finding) *chaosResult {
	r := s.record
	out := &chaosResult{
		Seed: s.seed, Began: s.began, Seconds: s.faulty.Seconds(), Faults: map[string]int{}, Happened: s.happened, Missed: s.missed, Struck: s.struck,
		Beside: r.moves.did, Float: s.float, Trial: s.trial, Verified: s.verified, Freezes: len(r.moves.freezes),
		Refunds: s.count(`SELECT count(*) FROM transfers WHERE refund_of IS NOT NULL`), Holds: s.count(`SELECT count(*) FROM holds`),
		Reissued: s.count(`SELECT count(*) FROM (SELECT FROM accounts WHERE bank_account_number IS NOT NULL GROUP BY bank_account_number HAVING count(*) > 1) AS n`),
		Payments: map[string]int{}, Settlements: map[string]int{}, BankPaid: len(v.paid), Reads: r.reads, Answers: r.answers,
		Ends: ends(s.supervisors()), Archived: s.archived, Findings: byKind(found), Examples: found[:min(len(found), 200)], Drained: s.drained.Seconds(),
		Reconciled: s.count(`SELECT count(*) FROM inbound_events WHERE source = 'reconciliation'`), Spooled: s.spooled(),
	}
	slices.SortFunc(out.Happened, func(a, b happened) int { return cmp.Compare(a.After, b.After) })
	for _, h := range s.happened {
		out.Faults[h.Kind]++
	}
	posted := map[string]time.Time{}
	for _, entries := range v.entries {
		for _, e := range entries {
			if _, corrected := posted[e.ProviderTxnRef]; e.isPayment() && !corrected {
				posted[e.ProviderTxnRef] = e.CreatedAt
			}
		}
	}
	var accepting, posting, telling []time.Duration
	for _, p := range r.payments {
		out.Payments[string(p.course)]++
		if p.tries > 1 {
			out.Resent += p.tries - 1
		}
		if t := r.published[p.no]; t != nil {
			out.Deliveries++
			out.ToldAgain += t.times - 1
			if !p.accepted.IsZero() {
				telling = append(telling, max(0, t.first.Sub(p.accepted)))
			}
		}
		if p.accepted.IsZero() {
			continue
		}
		accepting = append(accepting, p.accepted.Sub(p.began))
		if at, ok := posted[p.txID]; ok {
			posting = append(posting, max(0, at.Sub(p.accepted)))
			l := late{p.account, p.accepted.Sub(s.began).Seconds(), p.tries, at.Sub(s.began).Seconds(), 0}
			if t := r.published[p.no]; t != nil {
				l.Published = t.first.Sub(s.began).Seconds()
			}
			out.Slowest = append(out.Slowest, l)
		}
	}
	slices.SortFunc(out.Slowest, func(a, b late) int { return cmp.Compare(b.Posted-b.Accepted, a.Posted-a.Accepted) })
	out.Slowest = out.Slowest[:min(len(out.Slowest), 50)]
	for _, o := range r.orders {
		end := "refused: insufficient funds"
		if o.ref != "" {
			end = v.transfers[o.ref].Status
		}
		out.Settlements[end]++
	}
	out.Answer, out.Accepting, out.Posting, out.Telling = spreadOf(r.took), spreadOf(accepting), spreadOf(posting), spreadOf(telling)
	out.PerSecond, out.SettledPerSec = float64(len(accepting))/out.Seconds, float64(len(v.transfers))/out.Seconds
	return out
}

// table is the result for a person, in markdown.
func (r *chaosResult) table() string {
	var b strings.Builder
	row := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
	}
	total := 0
	for _, n := range r.Faults {
		total += n
	}
	fmt.Fprintf(&b, "AJO_SEED=%d, %s of faults\n\n| what | how many |\n|---|---|\n", r.Seed, time.Duration(r.Seconds*float64(time.Second)).Round(time.Second))
	row("faults", "%d, %.0f a minute", total, float64(total)*60/r.Seconds)
	row("payments", "%s; %.0f a second accepted", counts(r.Payments), r.PerSecond)
	row("events sent again for want of a 200", "%d", r.Resent)
	row("events that waited in the spool", "%d", r.Spooled)
	row("payments stored from the bank's list", "%d", r.Reconciled)
	row("payments delivered", "%d, and %d times again", r.Deliveries, r.ToldAgain)
	row("settlements", "%s; %.0f a second", counts(r.Settlements), r.SettledPerSec)
	row("payouts that the bank has paid", "%d", r.BankPaid)
	row("answers of the bank that a rule changed", "%s", counts(r.Struck))
	row("numbers that the bank issued again", "%d", r.Reissued)
	row("beside that", "%s", counts(r.Beside))
	row("the float's difference in the end", "%s", r.Float)
	row("the trial balance in the end", "%s", r.Trial)
	row("refunds; twice, or more than their payment", "%d; %d", r.Refunds, r.Findings[foundRefund]+r.Findings[foundRefundedMore]+r.Findings[foundPolicy])
	row("holds; lost, or of another sum", "%d; %d", r.Holds, r.Findings[foundHold]+r.Findings[foundHeld])
	row("freezes; payouts submitted within one", "%d; %d", r.Freezes, r.Findings[foundFrozen])
	row("`ajo ledger verify`", "%s", r.Verified)
	row("balances read meanwhile", "%d", r.Reads)
	row("an event's 200, from its last sending", "%s", r.Answer)
	row("an event's 200, from its first sending", "%s", r.Accepting)
	row("from 200 to posting", "%s", r.Posting)
	row("from 200 to the first delivery", "%s", r.Telling)
	row("all done after the last fault", "%s", time.Duration(r.Drained*float64(time.Second)).Round(100*time.Millisecond))
	row("tasks that asynq archived", "%d", r.Archived)
	row("**lost, twice, or otherwise wrong**", "**%d**", len(r.Findings))
	b.WriteString("\n| fault | times |\n|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		row(kind, "%d", r.Faults[kind])
	}
	b.WriteString("\n| ends of processes | times |\n|---|---|\n")
	for _, how := range slices.Sorted(maps.Keys(r.Ends)) {
		row(how, "%d", r.Ends[how])
	}
	return b.String()
}

func counts(of map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%d %s", of[name], name))
	}
	return strings.Join(all, ", ")
}

// publish prints the result, and writes it to the folder of results, if there is one.
func (s *chaosRun) publish(r *chaosResult) {
	s.t.Log("\n" + r.table())
	if s.out == "" {
		return
	}
	b, err := json.MarshalIndent(r, "", "  ")
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(filepath.Join(s.out, "chaos.json"), append(b, '\n'), 0o600))
	require.NoError(s.t, os.WriteFile(filepath.Join(s.out, "chaos.md"), []byte(r.table()), 0o600))
}
