package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"ajo/internal/batch"
	"ajo/internal/failpoint"
	"ajo/internal/metrics"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/trace"
	"ajo/internal/work"
)

// errEarly says that the caller came a moment before the time. It counts as no attempt.
var errEarly = errors.New("webhook: not due yet")

// errRemoved is why a delivery to an endpoint that was removed makes no attempt.
var errRemoved = errors.New("the endpoint was removed")

// early is how much too soon a task may run, as asynq keeps times to the second. A task that comes
// even sooner is a stray; another one is scheduled for the time at which the item is due.
const early = 2 * time.Second

// How the metrics name the result of an attempt, and why none was made.
var (
	attemptedAs = map[Event]string{EventSucceed: "delivered", EventFail: "failed", EventExhaust: "exhausted"}
	putOffAs    = map[error]string{ErrBusy: "busy", errHeld: "held", errPaused: "paused"}
)

// Claimed is a delivery that [Service.Claim] has claimed, or why it has not.
type Claimed = batch.Outcome[*dueDelivery]

// Claim claims deliveries together, for an [Service.Attempt] of each.
func (s *Service) Claim(ctx context.Context, ids []uuid.UUID) []Claimed {
	return s.claims.DoAll(ctx, ids)
}

// Attempt makes the attempt that is due for a claimed delivery: sign, POST, record. Claiming and
// attempting it twice, late, or after a crash at any line is safe; at worst the receiver sees an
// event again, and recognises it by its transactionGroupId and eventType.
//
// It returns nil when the delivery has arrived, when nothing is due (unknown id, delivered, dead,
// claimed by somebody else, due later), and when the claim was lost before it could record.
// retry.At says when the row is due again: after a failed attempt, or without one ([ErrBusy],
// [errHeld], [errPaused], [errEarly]: the caller should count no failure). retry.Exhausted says
// that this was the last attempt, or [errRemoved] or [errPausedLong], and the row is a dead letter.
// Any other error is ours: the attempt was not recorded (or it was, and the answer of Postgres was
// lost), and once the lease has ended, the row says what is due.
func (s *Service) Attempt(ctx context.Context, c Claimed) error {
	w := c.Value
	if c.Err != nil || w == nil {
		return c.Err
	}
	now := s.clock.Now()
	if w.DueAt.After(now) {
		return retry.At(w.DueAt, errEarly)
	}
	if w.removed {
		return s.endUnsent(ctx, w, errRemoved)
	}
	if w.pausedAt != nil {
		return s.waitForPause(ctx, w, now)
	}
	secrets, err := w.signers(s.box, now)
	if err != nil {
		return err
	}
	e := w.limited()
	ctx, span := trace.Resume(ctx, "deliver", w.traceparent, time.Now())
	defer span.End()
	if span.Traced() {
		span.Text("delivery", w.ID.String())
	}
	back, err := s.limiter.acquire(ctx, e)
	if errors.Is(err, ErrBusy) || errors.Is(err, errHeld) {
		metrics.Deferred.Inc(putOffAs[err])
		span.Text("outcome", putOffAs[err])
		return s.putOff(ctx, w, s.clock.Now().Add(back).Truncate(time.Microsecond), err)
	} else if err != nil { // the caller has gone: let another worker have it at once, not when the lease ends
		return s.putOff(context.WithoutCancel(ctx), w, now, err)
	}
	a, err := s.try(ctx, w, secrets, e)
	if err != nil {
		return err
	}
	// The receiver has been called, so its answer is recorded even if the caller has gone.
	kept, err := s.records.Do(context.WithoutCancel(ctx), *a)
	if err != nil || !kept {
		return err
	}
	span.Text("outcome", attemptedAs[a.event])
	metrics.Attempted(attemptedAs[a.event], time.Duration(a.DurationMS)*time.Millisecond)
	switch a.event {
	case EventFail:
		return retry.At(*a.NextAttemptAt, errors.New(a.Failure))
	case EventExhaust:
		return retry.Exhausted(errors.New(a.Failure))
	default:
		metrics.DeliveryLatency.Observe(a.DeliveredAt.Sub(w.createdAt).Seconds())
		return nil
	}
}

// putOff gives back a delivery that found no slot, to be due at the given time. That does not count
// as an attempt. The item says when it is due again, so that the sweep does not enqueue everything
// that waits for a dead endpoint.
func (s *Service) putOff(ctx context.Context, w *dueDelivery, to time.Time, why error) error {
	l := later{Outcome: work.Outcome{Claim: w.Claim, Next: &to}}
	if why == errPaused {
		l.paused = w.endpoint
	}
	moved, err := s.postpones.Do(ctx, l)
	if err != nil || !moved {
		return err
	}
	return retry.At(to, why)
}

// endUnsent ends a delivery whose endpoint gets it no more, as a dead letter that says why.
func (s *Service) endUnsent(ctx context.Context, w *dueDelivery, why error) error {
	var held []bool
	err := pg.InTx(ctx, s.pool, func(tx pg.Tx) (err error) {
		if held, err = work.Finish(ctx, tx, work.Deliver, []work.Outcome{{Claim: w.Claim}}); err != nil || !held[0] {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE deliveries SET status = $2, last_error = $3 WHERE id = $1 AND status = ANY($4)`,
			w.ID, string(Dead), why.Error(), Transitions.From(EventExhaust))
		return err
	})
	if err != nil || !held[0] {
		return err
	}
	return retry.Exhausted(why)
}

// try calls the receiver in an acquired slot, which it releases.
func (s *Service) try(ctx context.Context, w *dueDelivery, secrets []secret.Redacted, e endpoint) (*attemptResult, error) {
	var took time.Duration
	found := healthUnknown
	defer func() { s.release(e, took, found) }()
	defer work.KeepLease(ctx, s.pool, s.clock, work.Deliver, w.Claim, work.Term).Release()
	now := s.clock.Now()
	header := s.header()
	if w.resent {
		header.Set(Resent, "true")
	}
	Sign(header, secrets, messageID(w.event, w.group).String(), now, w.body)
	answer, err := s.call(ctx, w, header, w.attempts+1)
	took = answer.Duration
	if err != nil && ctx.Err() != nil {
		// what the receiver saw is unknown; after the lease has ended, the attempt is repeated
		return nil, err
	}
	found = healthOf(answer, err)
	a := &attemptResult{
		claim: w.Claim, StartedAt: now, DurationMS: int32(answer.Duration.Milliseconds()),
		StatusCode: statusCode(answer), Failure: failure(answer, err), Body: answer.Body,
	}
	delays := s.opts.Delays
	if w.long {
		delays = slices.Concat(delays, dayDelays)
	}
	s.conclude(a, w.attempts-w.before+1, delays)
	return a, nil
}

// call makes the call. A tenant that traces can continue the trace; the signature does not cover
// headers.
func (s *Service) call(ctx context.Context, w *dueDelivery, header http.Header, attempt int) (safehttp.Result, error) {
	ctx, span := trace.Step(ctx, "call the tenant")
	defer span.End()
	if span.Traced() {
		header.Set(trace.Header, trace.Parent(ctx))
	}
	failpoint.At("webhook/before-call")
	answer, err := s.client.Post(ctx, w.url, header, w.body)
	failpoint.At("webhook/after-call")
	span.Number("attempt", attempt)
	span.Number("http.response.status_code", answer.StatusCode)
	if failure(answer, err) != "" {
		span.Fail()
	}
	return answer, err
}

// release gives the endpoint's slot back, and logs when the endpoint is found to be dead, or alive
// again.
func (s *Service) release(e endpoint, took time.Duration, found health) {
	opened, closed := s.limiter.release(e, took, found)
	log := s.opts.Log.With(slog.String("tenant", e.tenant.String()), slog.String("host", e.host))
	if opened {
		metrics.BreakerChanges.Inc("open")
		log.Warn("an endpoint is down: its deliveries are held while one at a time probes it")
	}
	if closed {
		metrics.BreakerChanges.Inc("closed")
		log.Info("an endpoint is back: its deliveries are no longer held")
	}
}

// healthOf returns what a call says about the endpoint. A 5xx answer means that a gateway or an
// application does not work; a 4xx (or 3xx) answer comes from an application that works and does
// not want this delivery, so it is no reason to hold others. A URL that we refuse to call says
// nothing.
func healthOf(r safehttp.Result, err error) health {
	switch {
	case errors.Is(err, safehttp.ErrURL), errors.Is(err, safehttp.ErrAddress):
		return healthUnknown
	case err != nil, r.StatusCode/100 == 5:
		return endpointDown
	default:
		return endpointUp
	}
}

// dayDelays follow the standard delays at an endpoint with retries for a day: 24 hours in all.
var dayDelays = []time.Duration{2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 10*time.Hour + 25*time.Minute}

// conclude decides what an attempt means: its event, and the time of the next attempt if the delays
// allow one. place is its number, from 1, since the delivery was made or last replayed: a replay
// gives a fresh set of attempts while the count goes on, whatever schedule the earlier ones had.
func (s *Service) conclude(a *attemptResult, place int, delays []time.Duration) {
	now := s.clock.Now()
	switch {
	case a.Failure == "":
		a.event, a.DeliveredAt = EventSucceed, &now
	case place > len(delays):
		a.event = EventExhaust
	default:
		delay := delays[place-1]
		next := now.Add(delay + rand.N(delay/10+1)).Truncate(time.Microsecond)
		a.event, a.NextAttemptAt = EventFail, &next
	}
}

// failure is the text of the attempt's failure, empty for a 2xx answer. It is shown to the tenant.
func failure(r safehttp.Result, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case r.StatusCode/100 == 2:
		return ""
	case r.StatusCode/100 == 3:
		return fmt.Sprintf("HTTP %d: redirects are not followed", r.StatusCode)
	default:
		return fmt.Sprintf("HTTP %d", r.StatusCode)
	}
}

func statusCode(r safehttp.Result) *int32 {
	if r.StatusCode == 0 {
		return nil
	}
	code := int32(r.StatusCode)
	return &code
}

// limited returns the endpoint whose slots the delivery takes; a URL that does not parse fails in
// the client.
func (w *dueDelivery) limited() endpoint {
	e := endpoint{tenant: w.tenant}
	if w.endpoint != nil {
		e.id = *w.endpoint
	}
	if u, err := url.Parse(w.url); err == nil {
		e.host = u.Host
	}
	return e
}

// signers returns the secrets that sign at the time now: the endpoint's own, or the tenant's with
// those of an endpoint that has the same URL. Its receiver may know either.
func (w *dueDelivery) signers(box *secret.Box, now time.Time) ([]secret.Redacted, error) {
	if w.endpoint != nil {
		return w.secrets.open(box, *w.endpoint, now)
	}
	all, err := w.secrets.open(box, w.tenant, now)
	if err != nil || w.twin == nil {
		return all, err
	}
	too, err := w.twins.open(box, *w.twin, now)
	return append(all, too...), err
}
