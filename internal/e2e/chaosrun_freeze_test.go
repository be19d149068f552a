package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

const (
	frozeAccount = "freeze of an account"
	frozeTenant  = "freeze of a tenant"
	frozePayouts = "freeze of all payouts"
	frozeUntil   = "freeze that ends by itself"
)

// frozen is a time during which nothing of a subject could be submitted to the bank.
type frozen struct {
	what, subject string // the subject's id; empty: all
	from, to      time.Time
}

// freezes is an operator who stops payouts and lets them go on, by the commands, until ctx ends and
// each kind was done once.
func (s *chaosRun) freezes(ctx context.Context, rng *rand.Rand) {
	for n := 0; ctx.Err() == nil || !s.over.Load() && len(s.record.undone(operatorsDo)) > 0; n++ {
		wait(ctx, between(rng, 2*s.size.gap, 6*s.size.gap))
		h := s.tenants[rng.IntN(len(s.tenants))]
		f := frozen{what: operatorsDo[n%len(operatorsDo)]}
		var args []string
		switch f.what {
		case frozeAccount:
			f.subject = h.accounts[0].id
			args = []string{"account", f.subject}
		case frozeTenant:
			f.subject = h.id
			args = []string{"tenant", f.subject}
		case frozePayouts:
			args = []string{"payouts"}
		case frozeUntil:
			args = []string{"payouts", "--until", "4s"}
		}
		begun := time.Now()
		got := s.tool(append([]string{"freeze"}, append(args, "--yes", "--reason", "the bank pays twice")...)...)
		f.from = time.Now()
		time.Sleep(between(rng, 500*time.Millisecond, 2500*time.Millisecond))
		f.to = time.Now()
		if ends := begun.Add(4 * time.Second); f.what == frozeUntil && f.to.After(ends) {
			f.to = ends
		}
		if f.what != frozeUntil || got.code != 0 {
			s.thaws()
		}
		// one that failed may stand, and a transaction from before it may still be open
		if got.code == 0 && !strings.Contains(got.out, "has not ended") {
			s.record.mu.Lock()
			s.record.moves.freezes = append(s.record.moves.freezes, f)
			s.record.mu.Unlock()
			s.record.does(f.what)
		}
	}
	s.thaws()
}

// thaws has an operator lift every freeze that stands, again until there is none. Postgres may just
// be starting.
func (s *chaosRun) thaws() {
	for begun := time.Now(); ; {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		standing, err := pg.Collect(ctx, s.Pool, pgx.RowTo[string], `SELECT id::text FROM freezes WHERE lifted_at IS NULL AND coalesce(until, 'infinity') > now()`)
		cancel()
		if err == nil && len(standing) == 0 {
			return
		}
		if time.Since(begun) > 2*time.Minute {
			s.t.Errorf("freezes %v stand: %v", standing, err)
			return
		}
		for _, id := range standing {
			_ = s.tool("freeze", "lift", id, "--yes", "--reason", "the bank has explained it")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// resumes makes due at once what missed the end of a freeze or of a hold, as an operator does who
// does not want to wait for its next look, minutes later.
func (s *chaosRun) resumes() {
	if got := s.tool("freeze", "payouts", "--yes", "--reason", "to let all go on"); got.code != 0 {
		s.t.Errorf("ajo freeze payouts: %s", got.out)
	}
	s.thaws()
}

// submitted looks for payouts that were submitted while they were frozen.
func (s *chaosRun) submitted() (found []finding) {
	for _, f := range s.record.moves.freezes {
		rows, err := s.Pool.Query(context.Background(), `
			SELECT merchant_tx_ref, submitted_at FROM transfers
			WHERE submitted_at > $1 AND submitted_at < $2 AND ($3 = '' OR account_id::text = $3 OR tenant_id::text = $3)`, f.from, f.to, f.subject)
		if err != nil {
			return append(found, finding{foundFrozen, err.Error()})
		}
		var ref string
		var at time.Time
		if _, err := pgx.ForEachRow(rows, []any{&ref, &at}, func() error {
			found = append(found, finding{foundFrozen, fmt.Sprintf("%s at %s, within a %s from %s to %s", ref, at, f.what, f.from, f.to)})
			return nil
		}); err != nil {
			return append(found, finding{foundFrozen, err.Error()})
		}
	}
	return found
}
