package replica

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"ajo/internal/metrics"
)

// sample is where the primary was at a time.
type sample struct {
	at   position
	time time.Time
}

// maxSamples bounds those that a standby has not reached yet; of more, every second one is dropped.
const maxSamples = 64

// history are the samples, oldest first, from the newest that the standby has reached.
type history struct {
	samples []sample
	reached bool // the first of them
}

// add adds a sample. After a failover positions are no longer comparable.
func (h *history) add(s sample) {
	if n := len(h.samples); n > 0 && (h.samples[n-1].at.timeline != s.at.timeline || h.samples[n-1].at.system != s.at.system) {
		*h = history{}
	}
	if len(h.samples) == maxSamples {
		kept := h.samples[:0]
		for i := 0; i < maxSamples; i += 2 {
			kept = append(kept, h.samples[i])
		}
		h.samples = kept
	}
	h.samples = append(h.samples, s)
}

// reach drops the samples before the newest one that the standby has.
func (h *history) reach(s standing) {
	for i := len(h.samples) - 1; i >= 0; i-- {
		if s.has(h.samples[i].at) == nil {
			h.samples, h.reached = append(h.samples[:0], h.samples[i:]...), true
			return
		}
	}
}

// lag is how old what the standby has is at most; known is false while it has reached no sample.
func (h *history) lag(now time.Time) (lag time.Duration, known bool) {
	if len(h.samples) == 0 {
		return 0, false
	}
	return now.Sub(h.samples[0].time), h.reached
}

// check judges the standby every [checkEvery] until ctx ends.
func (r *Replica) check(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	defer r.judge(ctx, 0, false, context.Canceled)
	var h history
	for {
		err := r.look(ctx, &h)
		var lag time.Duration
		known := true
		if err != nil {
			lag, known = h.lag(time.Now())
		}
		if ctx.Err() != nil {
			return
		}
		r.judge(ctx, lag, known, err)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// look takes a sample of the primary and says why the standby has it not, [catchUp] later.
func (r *Replica) look(ctx context.Context, h *history) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	at, err := r.position(ctx)
	if err != nil {
		return err
	}
	h.add(sample{at, time.Now()})
	s, err := reach(ctx, r.checks, at)
	h.reach(s)
	if err != nil && !errors.Is(err, errBehind) {
		r.checks.Reset() // a new connection may lead to another server
	}
	return err
}

// judge makes the standby usable when it has caught up, and unusable when it is behind by [maxLag]
// or anything else is wrong with it.
func (r *Replica) judge(ctx context.Context, lag time.Duration, known bool, why error) {
	r.behind.Store(why != nil)
	p := r.usable.Load()
	usable := why == nil || p != nil && errors.Is(why, errBehind) && known && lag < maxLag
	metrics.ReplicaChecked(usable, lag)
	switch {
	case usable && p == nil:
		p := &period{}
		p.ctx, p.end = context.WithCancel(context.WithoutCancel(ctx))
		r.usable.Store(p)
		r.why = nil
		r.log.InfoContext(ctx, "the replica is used for lists, statements and exports")
	case !usable && ctx.Err() == nil && kind(why) != r.why:
		r.why = kind(why)
		r.log.WarnContext(ctx, "the replica is not used; the primary answers all", slog.String("alert", "replica"), slog.Any("err", why), slog.Duration("lag", lag))
	}
	if !usable && p != nil {
		r.usable.Store(nil)
		p.end()
	}
}

// kind is the reason without its details, so that each is logged once.
func kind(why error) error {
	for _, k := range []error{errBehind, errPromoted, errSystem, errTimeline, errSilent, errPrimary} {
		if errors.Is(why, k) {
			return k
		}
	}
	return why
}
