package workers

import (
	"context"
	"log/slog"
	"time"

	"ajo/internal/clock"
	"ajo/internal/invariant"
)

const (
	checkEvery   = time.Minute
	checkTimeout = 2 * time.Minute // the sums of very many balances take long
	// checkShown bounds the findings of one check that are logged; the count says how many there
	// are.
	checkShown = 20
)

// check runs the cheap checks of the books every minute ([invariant.Checker]). Every worker does
// so, since the figures belong to its own process.
func (w *Workers) check(ctx context.Context) {
	var c invariant.Checker
	w.checkOnce(ctx, &c)
	clock.Every(ctx, checkEvery, func() { w.checkOnce(ctx, &c) })
}

func (w *Workers) checkOnce(stopped context.Context, c *invariant.Checker) {
	ctx, cancel := context.WithTimeout(stopped, checkTimeout)
	defer cancel()
	now := w.Clock.Now()
	s, err := c.Light(ctx, w.Pool, now)
	if stopped.Err() != nil {
		return
	}
	if err != nil {
		w.Log.Warn("the books were not checked; the next check tries again", slog.Any("err", err))
		return
	}
	for _, m := range s.Missed {
		w.Log.Warn("the books were not checked as a whole; the next check tries again", slog.String("part", m.Part), slog.Any("err", m.Err))
	}
	s.Publish(now)
	for _, f := range s.Findings[:min(len(s.Findings), checkShown)] {
		w.Log.Error("the books are inconsistent: run ajo ledger verify", slog.String("alert", "invariant"), slog.String("check", f.Check),
			slog.String("subject", f.Subject), slog.String("detail", f.Detail), slog.Int("findings", len(s.Findings)))
	}
}
