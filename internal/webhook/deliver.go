package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"ajo/internal/failpoint"
	"ajo/internal/metrics"
	"ajo/internal/retry"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/trace"
	"ajo/internal/work"
)

// ErrEarly says that the caller came a moment before the time. It counts as no attempt.
var ErrEarly = errors.New("webhook: not due yet")

// early is how much too soon a task may run: asynq keeps times to the second. One that comes sooner
// than that is a stray; another task is scheduled for the time at which the item is due.
const early = 2 * time.Second

// How the metrics name the result of an attempt, and why none was made.
var (
	attemptedAs = map[Event]string{EventSucceed: "delivered", EventFail: "failed", EventExhaust: "exhausted"}
	putOffAs    = map[error]string{ErrBusy: "busy", ErrHeld: "held"}
)

// Deliver makes the attempt that is due for the delivery: claim, sign, POST, record. Running it
// twice, late, or after a crash at any line is safe; at worst the receiver sees an event again, and
// knows it by its transactionGroupId and eventType.
//
// It returns nil when the delivery has arrived, when nothing is due (unknown id, delivered, dead,
// claimed by somebody else, due later), and when its claim was gone before it could record.
// retry.At says when the row is due again: after a failed attempt, or without one ([ErrBusy],
// [ErrHeld], [ErrEarly]: the caller should count no failure). retry.Exhausted says that this was
// the last attempt and the row is a dead letter. Any other error is ours: the attempt was not
// recorded (or it was, and the answer of Postgres is lost), and once the lease has run out the row
// says what is due.
func (s *Service) Deliver(ctx context.Context, id uuid.UUID) error {
	return s.Claim(ctx, []uuid.UUID{id})[0](ctx)
}

// Claim claims deliveries together, and returns for each the rest of what [Service.Deliver] does.
func (s *Service) Claim(ctx context.Context, ids []uuid.UUID) []func(context.Context) error {
	attempts := make([]func(context.Context) error, len(ids))
	for i, o := range s.claims.DoAll(ctx, ids) {
		attempts[i] = func(ctx context.Context) error {
			if o.Err != nil || o.Value == nil {
				return o.Err
			}
			return s.attempt(ctx, o.Value)
		}
	}
	return attempts
}

// attempt makes the attempt of a claimed delivery.
func (s *Service) attempt(ctx context.Context, w *dueDelivery) error {
	now := s.clock.Now()
	if w.DueAt.After(now) {
		return retry.At(w.DueAt, ErrEarly)
	}
	secrets, err := w.secrets.open(s.box, w.tenant, now)
	if err != nil {
		return err
	}
	e := w.endpoint()
	ctx, span := trace.Resume(ctx, "deliver", w.traceparent, time.Now())
	defer span.End()
	if span.Traced() {
		span.Text("delivery", w.ID.String())
	}
	back, err := s.limiter.acquire(ctx, e)
	if errors.Is(err, ErrBusy) || errors.Is(err, ErrHeld) {
		metrics.Deferred(putOffAs[err])
		span.Text("outcome", putOffAs[err])
		return s.putOff(ctx, w, s.clock.Now().Add(back).Truncate(time.Microsecond), err)
	} else if err != nil { // the caller has gone: another has it at once, not when the lease ends
		return s.putOff(context.WithoutCancel(ctx), w, now, err)
	}
	a, err := s.try(ctx, w, secrets, e)
	if err != nil {
		return err
	}
	// The receiver has been called: its answer is kept even when the caller has gone.
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
		metrics.Delivered(a.DeliveredAt.Sub(w.createdAt))
		return nil
	}
}

// putOff gives back a delivery that found no slot, to be due at the given time: it is no attempt.
// The item says when it is due again, so that the sweep does not enqueue all that wait for a dead
// endpoint.
func (s *Service) putOff(ctx context.Context, w *dueDelivery, to time.Time, why error) error {
	moved, err := s.holds.Do(ctx, work.Outcome{Claim: w.Claim, Next: &to})
	if err != nil || !moved {
		return err
	}
	return retry.At(to, why)
}

// try calls the receiver, in an acquired slot, which it releases.
func (s *Service) try(ctx context.Context, w *dueDelivery, secrets []secret.Redacted, e endpoint) (*attemptResult, error) {
	var took time.Duration
	found := nothing
	defer func() { s.release(e, took, found) }()
	defer work.Hold(ctx, s.pool, s.clock, work.Deliver, w.Claim, work.Term).Release()
	now := s.clock.Now()
	header := s.header()
	sign(header, secrets, messageID(w.event, w.group), now, w.body)
	answer, err := s.call(ctx, w, header, w.attempts+1)
	took = answer.Duration
	if err != nil && ctx.Err() != nil {
		// what the receiver saw is unknown; when the lease ends, the attempt is made again
		return nil, err
	}
	found = judge(answer, err)
	a := &attemptResult{
		claim: w.Claim, StartedAt: now, DurationMS: int32(answer.Duration.Milliseconds()),
		StatusCode: statusCode(answer), Failure: failure(answer, err), Body: answer.Body,
	}
	s.conclude(a, w.attempts+1)
	return a, nil
}

// call makes the call. A tenant that traces can go on with the trace; the signature does not cover
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

// release gives the endpoint's slot back, and logs when the endpoint is found dead, or back.
func (s *Service) release(e endpoint, took time.Duration, found finding) {
	opened, closed := s.limiter.release(e, took, found)
	log := s.opts.Log.With(slog.String("tenant", e.tenant.String()), slog.String("host", e.host))
	if opened {
		metrics.BreakerChanged("open")
		log.Warn("an endpoint is down: its deliveries are held while one at a time probes it")
	}
	if closed {
		metrics.BreakerChanged("closed")
		log.Info("an endpoint is back: its deliveries are held no longer")
	}
}

// judge decides what a call says about the endpoint. A 5xx answer is a gateway's or an
// application's word that nothing works behind it; a 4xx (or 3xx) answer is one of an application
// that is there and does not want this delivery, so it is no reason to hold others. What we refuse
// to call ourselves says nothing.
func judge(r safehttp.Result, err error) finding {
	switch {
	case errors.Is(err, safehttp.ErrURL), errors.Is(err, safehttp.ErrAddress):
		return nothing
	case err != nil, r.StatusCode/100 == 5:
		return endpointDown
	default:
		return endpointUp
	}
}

// conclude decides what the attempt with this number means: its event, and the time of the next
// attempt.
//
// A replay gives a fresh set of attempts while the count goes on, so the place in the set is the
// count modulo its size.
func (s *Service) conclude(a *attemptResult, number int) {
	now := s.clock.Now()
	place := (number-1)%(len(s.opts.Delays)+1) + 1
	switch {
	case a.Failure == "":
		a.event, a.DeliveredAt = EventSucceed, &now
	case place > len(s.opts.Delays):
		a.event = EventExhaust
	default:
		delay := s.opts.Delays[place-1]
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

// endpoint is whose slots the delivery takes; a URL that does not parse fails in the client.
func (w *dueDelivery) endpoint() endpoint {
	e := endpoint{tenant: w.tenant}
	if u, err := url.Parse(w.url); err == nil {
		e.host = u.Host
	}
	return e
}
