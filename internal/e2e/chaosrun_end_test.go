package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/ledger"
	"ajo/tasks"
)

// recover ends all faults, so that only what was begun is left to do.
func (s *chaosRun) recover() {
	s.toPostgres.LoseCommits(0)
	s.toPostgres.LoseAnswers(0)
	s.toRedis.LoseAnswers(0)
	for _, p := range []interface {
		Refuse(bool)
		Stall(bool)
		Delay(time.Duration)
	}{s.toPostgres, s.toRedis} {
		p.Refuse(false)
		p.Stall(false)
		p.Delay(0)
	}
	s.mu.Lock()
	s.countStruck()
	s.bank.Faults.Clear()
	s.mu.Unlock()
	for _, h := range s.tenants {
		h.fault.Store(answersPromptly)
	}
}

// left is what the books say is still to do.
type left struct{ Events, Checks, Deliveries, Transfers, Rechecks, Dead int }

func (l left) none() bool { return l == left{} }

func (s *chaosRun) leftToDo(ctx context.Context) (l left, err error) {
	err = s.Pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM work WHERE kind = 'ingest'),
			(SELECT count(*) FROM work WHERE kind = 'confirm'),
			(SELECT count(*) FROM work WHERE kind = 'deliver'),
			(SELECT count(*) FROM transfers WHERE status IN ('pending', 'processing') AND differs_since IS NULL),
			(SELECT count(*) FROM work w JOIN transfers t ON t.id = w.id WHERE w.kind = 'settle' AND t.status NOT IN ('pending', 'processing') AND t.differs_since IS NULL),
			(SELECT count(*) FROM deliveries WHERE status = 'dead_letter')`).
		Scan(&l.Events, &l.Checks, &l.Deliveries, &l.Transfers, &l.Rechecks, &l.Dead)
	return l, err
}

// drain waits until nothing is left to do, and says how long that took. What is left after the
// limit is a finding.
func (s *chaosRun) drain(limit time.Duration) (time.Duration, []finding) {
	s.t.Helper()
	begin := time.Now()
	var l left
	for logged := time.Now(); ; {
		var err error
		if l, err = s.leftToDo(context.Background()); err == nil && l.none() {
			return time.Since(begin), nil
		}
		if time.Since(begin) > limit {
			return time.Since(begin), []finding{{foundNotDone, fmt.Sprintf("%+v after %s: %v\n%s\n%s", l, limit, err, s.unfinished(), s.unended())}}
		}
		if time.Since(logged) > 5*time.Second {
			logged = time.Now()
			s.logf("draining, %s: %+v", time.Since(begin).Round(time.Second), l)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// unended shows the transfers that still have a way to go.
func (s *chaosRun) unended() string {
	return (&settler{world: s.world}).unended()
}

// queuesLeft looks for tasks that were not done. Those of rows that are done are none: an archived
// task's row was enqueued again.
func (s *chaosRun) queuesLeft() (archived int, found []finding) {
	for _, k := range tasks.Kinds {
		archived += s.tasks(string(k), "archived")
		for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			pending, active := s.tasks(string(k), "pending"), s.tasks(string(k), "active")
			if pending == 0 && (active == 0 || s.size.length < time.Minute) {
				break
			}
			// a task that a killed worker had is taken up again by then
			if time.Since(begin) > 90*time.Second {
				found = append(found, finding{foundQueue, fmt.Sprintf("%s: %d pending, %d active", k, pending, active)})
				break
			}
		}
	}
	return archived, found
}

// get reads from one of the APIs, which must answer 200 now that the faults have ended.
func (s *chaosRun) get(h *testTenant, path string, into any) {
	s.t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	for try := 1; ; try++ {
		status, text := s.request(rng, "GET", path, nil, http.Header{"X-Api-Key": {h.key}})
		if status == http.StatusOK {
			require.NoError(s.t, json.Unmarshal(text, into), "%s", text)
			return
		}
		require.Less(s.t, try, 20, "GET %s: %d %s", path, status, text)
		pause(rng, try)
	}
}

// look reads all that the tenants can see and the bank's books.
func (s *chaosRun) look() *seen {
	v := &seen{
		entries: map[string][]seenEntry{}, balances: map[string]string{}, transfers: map[string]seenTransfer{}, payouts: s.bank.Payouts(), paid: gone(s.bank.Payouts()), list: s.bank.Transactions(),
		holds: map[string]seenHold{}, funds: map[string]seenFunds{},
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, h := range s.tenants {
		wg.Go(func() {
			transfers := s.lookTransfers(h)
			for _, a := range h.all() {
				entries := s.lookEntries(h, a.ref)
				holds := s.lookHolds(h, a.ref)
				var b seenFunds
				s.get(h, "/v1/accounts/"+a.ref+"/balance", &b)
				mu.Lock()
				v.entries[a.ref], v.balances[a.ref], v.funds[a.ref] = entries, b.Balance, b
				for _, hold := range holds {
					v.holds[hold.ID] = hold
				}
				mu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			for _, t := range transfers {
				v.transfers[t.MerchantTxRef] = t
			}
		})
	}
	wg.Wait()
	s.sharing.without(s, v)
	return v
}

func (s *chaosRun) lookEntries(h *testTenant, account string) (all []seenEntry) {
	for after := ""; ; {
		var page struct {
			Lines []struct {
				Entry          seenEntry
				RunningBalance string
			}
			Pagination struct{ NextCursor *string }
		}
		s.get(h, "/v1/accounts/"+account+"/statement?limit=100"+after, &page)
		for _, l := range page.Lines {
			l.Entry.Running = l.RunningBalance
			all = append(all, l.Entry)
		}
		if page.Pagination.NextCursor == nil {
			return all
		}
		after = "&after=" + *page.Pagination.NextCursor
	}
}

func (s *chaosRun) lookHolds(h *testTenant, account string) (all []seenHold) {
	for after := ""; ; {
		var page struct {
			Holds      []seenHold
			Pagination struct{ NextCursor *string }
		}
		s.get(h, "/v1/accounts/"+account+"/holds?limit=100"+after, &page)
		all = append(all, page.Holds...)
		if page.Pagination.NextCursor == nil {
			return all
		}
		after = "&after=" + *page.Pagination.NextCursor
	}
}

func (s *chaosRun) lookTransfers(h *testTenant) (all []seenTransfer) {
	for after := ""; ; {
		var page struct {
			Transfers  []seenTransfer
			Pagination struct{ NextCursor *string }
		}
		s.get(h, "/v1/transfers?limit=100"+after, &page)
		all = append(all, page.Transfers...)
		if page.Pagination.NextCursor == nil {
			return all
		}
		after = "&after=" + *page.Pagination.NextCursor
	}
}

// toolLimit is what a hand tool may take: it reads all that the run has left, the bank's list in
// pages of fifty.
const toolLimit = 10 * time.Minute

// tool runs one of the operators' commands to its end.
func (s *chaosRun) tool(args ...string) result {
	s.t.Helper()
	begin := time.Now()
	p := start(s.t, s.dir, s.settings, args...)
	select {
	case <-p.Done():
	case <-time.After(toolLimit):
		s.t.Fatalf("ajo %v has not ended after %s", args, toolLimit)
	}
	if took := time.Since(begin); took > time.Second {
		s.logf("ajo %s took %s", args[0], took.Round(time.Millisecond))
	}
	code := p.State().ExitCode()
	p.fine.Store(code == 0)
	return result{code, string(p.out.all())}
}

// verify runs the service's own checks of its books, by the package and by the command.
func (s *chaosRun) verify() (found []finding) {
	begin := time.Now()
	all, err := invariant.Verify(context.Background(), s.Pool)
	require.NoError(s.t, err)
	s.logf("the invariants took %s", time.Since(begin).Round(time.Millisecond))
	for _, f := range all {
		found = append(found, finding{foundInvariant, fmt.Sprintf("%s: %s: %s", f.Check, f.Subject, f.Detail)})
	}
	trial, err := ledger.ReadTrialBalance(context.Background(), s.Pool, "9999-12-30")
	require.NoError(s.t, err)
	s.trial = trial.Total.String()
	if trial.Total.Sign() != 0 {
		found = append(found, finding{foundInvariant, fmt.Sprintf("the trial balance is %s, not zero", trial.Total)})
	}
	charges := money.Zero
	for _, p := range s.bank.Payouts() {
		if _, left := booked(p, false); p.FeeKept || left.IsPositive() {
			charges = charges.Add(chargesOf(p))
		}
	}
	var spent money.Amount
	require.NoError(s.t, s.Pool.QueryRow(context.Background(), `
		SELECT coalesce(-sum(b.balance), 0) FROM ledger_balances b JOIN system_accounts a ON a.id = b.account_id WHERE a.name IN ('bank_fees', 'taxes')`).Scan(&spent))
	if !spent.Equal(charges) {
		found = append(found, finding{foundInvariant, fmt.Sprintf("the bank took %s for payouts, and %s is booked", charges, spent)})
	}
	for _, what := range []string{"verify", "trial-balance"} {
		got := s.tool("ledger", what)
		if what == "verify" {
			_, said, _ := strings.Cut(got.out, "The books agree.")
			s.verified = fmt.Sprintf("exit code %d%s", got.code, strings.TrimRight(strings.ReplaceAll(said, "\n", " "), " "))
		}
		if got.code != 0 {
			found = append(found, finding{foundInvariant, fmt.Sprintf("ajo ledger %s ended with code %d: %s", what, got.code, got.out[:min(len(got.out), 2000)])})
		}
	}
	return found
}

// leaves has all roles stop, and tells of what their processes did that none may do.
func (s *chaosRun) leaves() (found []finding) {
	for _, k := range s.supervisors() {
		if !k.leave() {
			found = append(found, finding{foundProcess, k.name + " did not stop"})
		}
		for how, n := range k.ends {
			if strings.HasPrefix(how, "last stop") && how != "last stop: code 0" {
				found = append(found, finding{foundProcess, fmt.Sprintf("%s: %s (%d)", k.name, how, n)})
			}
		}
		for _, what := range k.wrong {
			found = append(found, finding{foundProcess, what})
		}
	}
	return found
}
