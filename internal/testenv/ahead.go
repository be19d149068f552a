package testenv

import (
	"testing"
	"time"

	"ajo/internal/clock"
)

// MachineAhead has this machine's clock be ahead of the database's until the test ends, as far as
// ids go. Not for parallel tests, since all ids of a process go by one clock.
func MachineAhead(t *testing.T, by time.Duration) {
	t.Helper()
	var c clock.Synced
	sync := func(by time.Duration) {
		now := time.Now()
		c.Sync(now, now, now.Add(-by).Round(0))
	}
	sync(by)
	t.Cleanup(func() { sync(0) })
}
