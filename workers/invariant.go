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
	checkTimeout = 30 * time.Second
	// checkShown bounds the findings of one check that are logged; the count says how many there
	// are.
	checkShown = 20
)

// check runs the cheap checks of the books every minute ([invariant.Light]). Every worker does so,
// since the figures belong to its own process.
func (w *Workers) check(ctx context.Context) {
	w.checkOnce(ctx)
	clock.Every(ctx, checkEvery, func() { w.checkOnce(ctx) })
}

func (w *Workers) checkOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	now := w.Clock.Now()
	s, err := invariant.Light(ctx, w.Pool, now)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.Warn("the books were not checked; the next check tries again", slog.Any("err", err))
		}
		return
	}
	s.Publish(now)
	for _, f := range s.Findings[:min(len(s.Findings), checkShown)] {
		w.Log.Error("the books do not hold: run ajo ledger verify", slog.String("alert", "invariant"), slog.String("check", f.Check),
			slog.String("subject", f.Subject), slog.String("detail", f.Detail), slog.Int("findings", len(s.Findings)))
	}
}
