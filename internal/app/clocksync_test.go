package app

import (
	"log/slog"
	"testing"
	"time"

	"ajo/internal/clock"
	"ajo/internal/testenv"
)

// A clock that is in doubt is compared at once, not with the next minute.
func TestADoubtfulClockIsCompared(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	var c clock.Synced // was never compared
	t.Cleanup(keepClockSynced(e.Pool, &c, slog.New(slog.DiscardHandler)))
	testenv.Eventually(t, 30*time.Second, "a comparison", func() bool { return !c.Doubtful() })
}
