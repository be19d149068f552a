package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ajo/internal/payment"
)

// skipAfter is for how long the bank's list must not have been readable at one place before the
// run goes on behind it: else it would keep all later windows from being read, for ever.
const skipAfter = time.Hour

// hole is a time whose list cannot be read.
type hole struct {
	from, to time.Time
	why      error
}

// maySkip reports whether the run may go on without a part of the list, which has this error. It
// may not while the bank lists nothing at all: it is waited for.
func (r *comparison) maySkip(ctx context.Context, err error) bool {
	if !errors.Is(err, errUnlisted) || r.failing == nil || r.clock.Now().Sub(*r.failing) < skipAfter || ctx.Err() != nil {
		return false
	}
	now := r.clock.Now()
	_, err = r.list(ctx, now.Add(-time.Minute), now, "")
	return err == nil
}

// skip returns where to go on, as the list of a slice cannot be read. A long one is read again in
// halves, so that only what cannot be read is left out; a short one makes a hole.
func (r *comparison) skip(ctx context.Context, s *slice, why error) (from time.Time) {
	if long := s.to.Sub(s.from); long > sliceLeast {
		r.longest = max(sliceLeast, (long / 2).Truncate(time.Second))
		return s.from
	}
	r.log.ErrorContext(ctx, "a part of the bank's list cannot be read: the reconciliation goes on behind it", slog.Time("from", s.from), slog.Time("to", s.to), slog.Any("err", why))
	r.longest = 0
	if r.hole == nil {
		r.hole = &hole{from: s.from}
	}
	r.hole.to, r.hole.why = s.to, why
	return s.to
}

// nameHole reports the hole, once what follows it has been read, or if nothing follows.
func (r *comparison) nameHole() {
	if h := r.hole; h != nil {
		r.hole = nil
		r.nameNotRead(h.from, h.to, "the bank cannot list it, run ajo reconcile over it later: "+cut(h.why))
	}
}

// cut is an error's text, of bounded length.
func cut(err error) string {
	const most = 300
	text := []rune(payment.Clean(fmt.Sprint(err)))
	return string(text[:min(len(text), most)])
}
