package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
	"ajo/internal/reconcile"
)

// corrects plays the operator: what is under review is counted with the sum that the bank's record
// has.
func (s *chaosRun) corrects() (found []finding) {
	type review struct{ Event, Ref string }
	all, err := pg.Collect(context.Background(), s.Pool, pgx.RowToStructByPos[review], `
		SELECT transaction_group_id::text, provider_txn_ref FROM ledger_entries WHERE status = 'needs_review' AND direction = 'credit'`)
	if err != nil {
		return []finding{{foundNotDone, err.Error()}}
	}
	for _, r := range all {
		tx, _ := s.bank.Transaction(r.Ref)
		got := s.tool("review", "correct", r.Event, "--amount", tx.Amount.String(), "--fee", tx.Fee.String(), "--yes", "--reason", "the bank's books say so")
		if got.code != 0 {
			found = append(found, finding{foundNotDone, fmt.Sprintf("ajo review correct of %s: %s", r.Ref, got.out)})
		}
	}
	return found
}

// compares has the wallet compared with the books when all is quiet, by the event of one payment
// more: they agree to the kobo.
func (s *chaosRun) compares() []finding {
	time.Sleep(1100 * time.Millisecond) // a second of its own, which is the bank's finest
	s.arrives(rand.New(rand.NewPCG(s.seed, 4)), s.tenants[0].accounts[0], naira("5000.00"))
	if _, left := s.drain(s.size.drain); left != nil {
		return left
	}
	got := s.tool("reconcile", "--json", "--from", s.began.Add(-time.Minute).UTC().Format(time.RFC3339))
	text := got.out
	if i := strings.Index(text, "{\n"); i >= 0 {
		text = text[i:]
	}
	var r reconcile.Report
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&r); err != nil {
		return []finding{{foundFloat, fmt.Sprintf("ajo reconcile ended with code %d: %v: %.2000s", got.code, err, got.out)}}
	}
	f := r.Float
	if !f.Comparable {
		return []finding{{foundFloat, "not comparable: " + f.Why}}
	}
	s.float = f.Difference.String()
	if f.Difference.Sign() != 0 || got.code != 0 {
		explained, _ := json.Marshal(f)
		exceptions, _ := json.Marshal(r.Exceptions[:min(len(r.Exceptions), 20)])
		return []finding{{foundFloat, fmt.Sprintf("%s; code %d; %s; %s", f.Difference, got.code, explained, exceptions)}}
	}
	return nil
}
