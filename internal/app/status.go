package app

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"ajo/internal/clock"
	"ajo/internal/invariant"
	"ajo/internal/metrics"
	"ajo/internal/page"
	"ajo/internal/safehttp"
	"ajo/workers"
)

// The ages from which on somebody must look: those of the alerts (deploy/prometheus).
const (
	lateSoon      = 2 * time.Minute // work that waits for nobody but us
	lateLater     = 15 * time.Minute
	lateSubmit    = 2 * time.Hour // payouts, refunds by policy, payments to be confirmed, recalls
	lateOutcome   = 30 * time.Minute
	lateReconcile = time.Hour
	lateLookBack  = 24 * time.Hour
	lateFreeze    = time.Hour
	lateEndpoint  = time.Hour
	lateNever     = math.MaxInt64 // what an operator has stopped
)

// StatusLine is one thing that [Tools.Status] has looked at.
type StatusLine struct {
	Part  string `json:"part"`
	What  string `json:"what"`
	State string `json:"state"`
	Needs bool   `json:"needs"`          // somebody
	Look  string `json:"look,omitempty"` // the command that shows more
}

// Status is the whole service on one screen.
type Status struct {
	At    time.Time    `json:"at"`
	OK    bool         `json:"ok"` // nothing needs somebody
	Lines []StatusLine `json:"lines"`
}

func (s *Status) add(part, what string, needs bool, look, state string, args ...any) {
	s.Lines = append(s.Lines, StatusLine{Part: part, What: what, State: fmt.Sprintf(state, args...), Needs: needs, Look: look})
	s.OK = s.OK && !needs
}

// aged adds a number of things that wait, which need somebody from an age on. A limit of zero is no
// limit: any of them needs somebody.
func (s *Status) aged(part, what string, n int64, oldest, limit time.Duration, look string) {
	if s.unread(part, what, n, look) {
		return
	}
	if n == 0 {
		s.add(part, what, false, "", "none")
		return
	}
	s.add(part, what, oldest > limit, look, "%d, the oldest for %s", n, oldest.Round(time.Second))
}

func (s *Status) counted(part, what string, n int64, needs bool, look string) {
	if s.unread(part, what, n, look) {
		return
	}
	if n == 0 {
		s.add(part, what, false, "", "none")
		return
	}
	s.add(part, what, needs, look, "%d", n)
}

// unread adds a number that the database did not give ([invariant.NotRead]), and reports whether it
// is one.
func (s *Status) unread(part, what string, n int64, look string) bool {
	if n == invariant.NotRead {
		s.add(part, what, true, look, "not known")
	}
	return n == invariant.NotRead
}

// Status looks at everything that an operator would ask about first. It writes nothing, and its
// cost goes with what is open, not with the history. An error says that it could not look.
func (t *Tools) Status(ctx context.Context) (Status, error) {
	begin := clock.System.Now()
	due, err := invariant.Due(ctx, t.Pool, t.clock.Now())
	if err != nil {
		return Status{}, err
	}
	took := clock.System.Now().Sub(begin)
	now := begin.Add(due.Offset) // rows have the database's time
	s := Status{At: now, OK: true}
	state, err := invariant.Light(ctx, t.Pool, now)
	if err != nil {
		return s, err
	}
	s.add("health", "Postgres", false, "", "answers in %s", took.Round(time.Millisecond))
	t.redisStatus(ctx, &s)
	s.counted("health", "checks of the books that fail", int64(len(state.Findings)), true, "ajo ledger verify")
	for _, m := range state.Missed {
		s.add("health", "what was not read: "+m.Part, true, "", "%s", m.Err)
	}
	for _, w := range []struct {
		what   string
		oldest *time.Time
		limit  time.Duration
	}{
		{"to post (ingest)", due.Ingest, lateSoon},
		{"to pay out (settle)", due.Settle, lateSoon},
		{"to deliver", due.Deliver, lateSoon},
		{"to confirm", due.Confirm, lateLater},
		{"to expire", due.Expire, lateLater},
	} {
		if w.oldest == nil {
			s.add("work", w.what, false, "", "nothing is overdue")
			continue
		}
		late := max(0, now.Sub(*w.oldest))
		s.add("work", w.what, late > w.limit, "ajo work list --due", "overdue for %s", late.Round(time.Second))
	}
	s.aged("payments", "events to be posted", state.UnpostedCount, state.UnpostedOldest, lateSoon, "ajo work list --failing")
	s.aged("payments", "to be confirmed by the bank", state.ProvisionalCount, state.ProvisionalOldest, lateSubmit, "ajo work list")
	s.aged("payments", "confirmed, to be refunded by policy", state.GoesBackCount, state.GoesBackOldest, lateSubmit, "ajo work list --kind confirm")
	s.counted("payments", "that need a review", state.ReviewCount, true, "ajo review list")
	s.counted("payments", "misdirected", state.MisdirectedCount, true, "ajo events list --category misdirected")
	s.counted("payments", "that cannot be posted", state.RefusedCount, true, "ajo reconcile open")
	s.aged("payments", "that the bank may have taken back", state.RecallCount, state.RecallOldest, lateSubmit, "ajo recalls list --status open")
	s.counted("payments", "said to be taken back, against the bank's record", state.WatchedCount, false, "ajo recalls list --status watched")
	s.counted("payments", "accounts below zero (AjoNegativeBalance in the runbook)", state.NegativeBalances, true, "")
	s.aged("payouts", "not at the bank yet", state.PendingCount, state.PendingOldest, lateSubmit, "ajo transfers list --status pending")
	s.aged("payouts", "stopped by a freeze or a suspension", state.StoppedCount, state.StoppedOldest, lateNever, "ajo freeze list --status standing")
	s.aged("payouts", "whose outcome is not known", state.ProcessingCount, state.ProcessingOldest, lateOutcome, "ajo transfers list --status processing")
	s.counted("payouts", "that the bank contradicts", state.DifferingCount, true, "ajo transfers list --differing")
	s.aged("payouts", "freezes that stand", state.FreezeCount, state.FreezeOldest, lateFreeze, "ajo freeze list --status standing")
	if err := t.customersStatus(ctx, &s); err != nil {
		return s, err
	}
	if err := t.endpointsStatus(ctx, &s, now, state.DeadLetters); err != nil {
		return s, err
	}
	return s, t.reconcileStatus(ctx, &s, now, due)
}

func (t *Tools) redisStatus(ctx context.Context, s *Status) {
	if t.redis == nil {
		s.add("health", "Redis and workers", false, "", "not looked at: AJO_REDIS_URL is not set")
		return
	}
	n, unserved, err := workers.Running(t.redis)
	switch {
	case err != nil && t.redis.Ping(ctx).Err() == nil: // the list of workers is also a write
		s.add("health", "Redis", true, "", "takes no writes; no task runs")
		return
	case err != nil:
		s.add("health", "Redis", true, "", "does not answer; work goes on at the pace of the sweeper")
		return
	}
	s.add("health", "Redis", false, "", "answers")
	if n == 0 || len(unserved) == 0 {
		s.add("health", "workers", n == 0, "", "%d running", n)
		return
	}
	// work of such a kind shows only once there is some, and it is overdue
	s.add("health", "workers", true, "", "%d running, and none of them serves %s", n, strings.Join(unserved, ", "))
}

// shownReviews is how many customers are read to be counted; shownPaused, how many of the endpoints
// that are paused longest are named.
const (
	shownReviews = 100
	shownPaused  = 5
)

func (t *Tools) customersStatus(ctx context.Context, s *Status) error {
	list, info, err := t.Customers.Reviews(ctx, page.Request{Limit: shownReviews})
	if err != nil {
		return err
	}
	if info.HasMore {
		s.add("customers", "whose KYC waits for a review", true, "ajo customers review", "more than %d", shownReviews)
		return nil
	}
	s.counted("customers", "whose KYC waits for a review", int64(len(list)), true, "ajo customers review")
	return nil
}

func (t *Tools) endpointsStatus(ctx context.Context, s *Status, now time.Time, dead int64) error {
	failing, err := t.Webhooks.Failing(ctx)
	if err != nil {
		return err
	}
	if len(failing) == 0 {
		s.add("webhooks", "endpoints that fail", false, "", "none")
	}
	for _, e := range failing[:min(len(failing), 5)] {
		age := max(0, now.Sub(e.Since))
		s.add("webhooks", "endpoint of "+e.Tenant, age > lateEndpoint, "ajo deliveries list --status pending --tenant "+e.TenantID.String(),
			"%d wait, attempts fail for %s: %s", e.Deliveries, age.Round(time.Second), e.LastError)
	}
	if more := len(failing) - 5; more > 0 {
		s.add("webhooks", "other endpoints that fail", false, "ajo deliveries list --status pending", "%d", more)
	}
	paused, err := t.Webhooks.Paused(ctx, time.Time{}, now, shownPaused)
	if err != nil {
		return err
	}
	for _, e := range paused {
		s.add("webhooks", "paused endpoint of "+e.Tenant, false, "ajo deliveries list --status pending --tenant "+e.TenantID.String(),
			"for %s: %s", max(0, now.Sub(e.Since)).Round(time.Second), safehttp.Shown(e.URL))
	}
	const letters, look = "dead letters", "ajo deliveries list --status dead_letter"
	if dead > invariant.DeadLettersMost {
		s.add("webhooks", letters, false, look, "more than %d", invariant.DeadLettersMost)
		return nil
	}
	s.counted("webhooks", letters, dead, false, look)
	return nil
}

// overdueStatus adds the runs that read parts of the bank's list once more, for what it had late.
func (t *Tools) overdueStatus(ctx context.Context, s *Status, part string, now time.Time) error {
	o, err := t.overdueRuns(ctx)
	if err != nil {
		return err
	}
	for _, run := range []struct {
		what  string
		since *time.Time
	}{{"the day to be read once more", o.Daily}, {"times to be read again, as it was behind", o.Again}} {
		late := metrics.Age(now, run.since)
		if late == 0 {
			s.add(part, run.what, false, "", "nothing is overdue")
			continue
		}
		s.add(part, run.what, late > lateLookBack, "ajo reconcile list", "overdue for %s", late.Round(time.Second))
	}
	return nil
}

// reconcileStatus adds the last comparison with the bank's list, and what the wallet had then.
func (t *Tools) reconcileStatus(ctx context.Context, s *Status, now time.Time, due invariant.Waiting) error {
	const part = "bank's list"
	if err := t.overdueStatus(ctx, s, part, now); err != nil {
		return err
	}
	if due.ReadUntil == nil {
		s.add(part, "compared until", true, "ajo reconcile list", "never")
		return nil
	}
	age := max(0, now.Sub(*due.ReadUntil))
	s.add(part, "compared until", age > lateReconcile, "ajo reconcile list", "%s, %s ago", due.ReadUntil.UTC().Format(time.RFC3339), age.Round(time.Second))
	s.counted(part, "disagreements", due.Exceptions, true, "ajo reconcile open")
	r, err := t.Reconciler.LastReconciliation(ctx)
	if err != nil {
		return err
	}
	look := "ajo reconcile show " + r.ID.String()
	switch f := r.Float; {
	case f.Wallet == nil:
		s.add(part, "wallet", false, look, "not compared: %s", f.Why)
	case !f.Comparable:
		s.add(part, "wallet", false, look, "%s, customers have %s, as of %s; not compared: %s", f.Wallet, f.Customers, f.At.UTC().Format(time.RFC3339), f.Why)
	default: // what is above zero may be our own money in the wallet
		s.add(part, "wallet", f.Unexplained.Sign() < 0, look, "%s, customers have %s; %s is not explained; as of %s", f.Wallet, f.Customers, f.Unexplained, f.At.UTC().Format(time.RFC3339))
	}
	return nil
}
