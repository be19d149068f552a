package webhook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"ajo/internal/retry"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
)

// Why a delivery was put off without an attempt. Neither counts as one.
var (
	// ErrBusy says that the endpoint has as many calls under way as it may.
	ErrBusy = errors.New("webhook: endpoint is busy")
	// ErrEarly says that the caller came a moment before the time.
	ErrEarly = errors.New("webhook: not due yet")
)

// early is how much too soon a queue may ring: it keeps appointments to the second. Whoever comes sooner than that is a
// stray ring; somebody else has the appointment.
const early = 2 * time.Second

// Deliver makes the attempt that is due for the delivery: claim, sign, POST, record. Running it twice, late, or after a
// crash at any line is safe; at worst the receiver sees an event again, and knows it by its transactionGroupId.
//
// It returns nil when the delivery has arrived, when nothing is due (unknown id, delivered, dead, claimed by somebody else,
// due later), and when its claim was gone before it could record. retry.At says when the row is due again: after a
// failed attempt, or without one ([ErrBusy], [ErrEarly]: the caller should count no failure). retry.Exhausted says that this
// was the last attempt and the row is a dead letter. Any other error is ours: the attempt was not recorded (or it was, and
// the word of it is lost), and once the lease has run out the row tells what is due.
func (s *Service) Deliver(ctx context.Context, id uuid.UUID) error {
	w, err := s.loads.Do(ctx, id)
	if err != nil || w == nil {
		return err
	}
	now := s.clock.Now()
	if wait := w.due().Sub(now); wait > early {
		return nil
	} else if wait > 0 {
		return retry.At(w.due(), ErrEarly)
	}
	secrets, err := w.secrets.open(s.box, w.tenant, now)
	if err != nil {
		return err
	}
	e := w.endpoint()
	in, back, err := s.lanes.enter(ctx, e)
	if err != nil {
		return err
	}
	if !in {
		return retry.At(now.Add(back).Truncate(time.Microsecond), ErrBusy)
	}
	a, err := s.try(ctx, w, secrets, e)
	if err != nil || a == nil {
		return err
	}
	// The receiver has been called: its answer is kept even when the caller has gone.
	kept, err := s.records.Do(context.WithoutCancel(ctx), *a)
	if err != nil || !kept {
		return err
	}
	switch a.event {
	case EventFail:
		return retry.At(*a.nextAttemptAt, errors.New(a.failure))
	case EventExhaust:
		return retry.Exhausted(errors.New(a.failure))
	default:
		return nil
	}
}

// try claims the delivery and calls the receiver, in a place of the lane that it gives back. The attempt is nil when the
// claim went to somebody else.
func (s *Service) try(ctx context.Context, w *work, secrets []secret.Redacted, e endpoint) (*attempt, error) {
	var took time.Duration
	defer func() { s.lanes.leave(e, took) }()
	c, err := s.claims.Do(ctx, w.id)
	if err != nil || c == nil {
		return nil, err
	}
	now := s.clock.Now()
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"ajo/" + s.opts.Version}}
	sign(header, secrets, w.group, now, w.body)
	answer, err := s.client.Post(ctx, w.url, header, w.body)
	took = answer.Duration
	if err != nil && ctx.Err() != nil {
		return nil, err // nobody knows what the receiver saw; the lease runs out, and the attempt is made again
	}
	a := &attempt{
		id: w.id, lease: c.lease, startedAt: now, durationMS: int32(answer.Duration.Milliseconds()),
		statusCode: statusCode(answer), failure: failure(answer, err), body: answer.Body,
	}
	s.conclude(a, c.attempts+1)
	return a, nil
}

// conclude decides what the attempt with this number means: its event, and the time of the next attempt.
//
// A replay gives a fresh set of attempts while the count goes on, so the place in the set is the count modulo its size.
func (s *Service) conclude(a *attempt, number int) {
	now := s.clock.Now()
	place := (number-1)%(len(s.opts.Delays)+1) + 1
	switch {
	case a.failure == "":
		a.event, a.deliveredAt = EventSucceed, &now
	case place > len(s.opts.Delays):
		a.event = EventExhaust
	default:
		delay := s.opts.Delays[place-1]
		next := now.Add(delay + rand.N(delay/10+1)).Truncate(time.Microsecond)
		a.event, a.nextAttemptAt = EventFail, &next
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

// endpoint is the lane that the delivery goes by; a URL that does not parse fails in the client.
func (w *work) endpoint() endpoint {
	e := endpoint{tenant: w.tenant}
	if u, err := url.Parse(w.url); err == nil {
		e.host = u.Host
	}
	return e
}
