package clock

import (
	"context"
	"time"
)

// Sleep waits, in real time whatever the clock says. When the context ends first, it returns why.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Pauses reports whether a pause of a length, which ends at a time of the machine's clock (in unix
// nanoseconds), still lasts. One with more left than its length began before the clock was set
// back: it is over.
func Pauses(until int64, length time.Duration) bool {
	left := time.Duration(until - time.Now().UnixNano())
	return left > 0 && left <= length
}

// Every calls do after each interval of real time, until the context ends.
func Every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}
