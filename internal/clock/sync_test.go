package clock_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
)

func TestSynced(t *testing.T) {
	t.Parallel()
	near := func(want, got time.Time) {
		t.Helper()
		require.WithinDuration(t, want, got, 100*time.Millisecond)
	}
	var c clock.Synced
	near(time.Now(), c.Now())
	for _, off := range []time.Duration{10 * time.Minute, -10 * time.Minute, 600 * time.Millisecond} {
		asked := time.Now()
		answered := asked.Add(200 * time.Millisecond)
		require.Equal(t, off, c.Sync(asked, answered, asked.Add(100*time.Millisecond-off).UTC()))
		near(time.Now().Add(-off), c.Now())
		earlier, id := clock.NewID(), clock.NewID()
		near(time.Now().Add(-off), time.Unix(id.Time().UnixTime()))
		require.Less(t, earlier.String(), id.String())
		require.Equal(t, uuid.Version(7), id.Version())
		require.Equal(t, time.UTC, c.Now().Location())
		require.Zero(t, c.Now().Nanosecond()%1000)

		require.Equal(t, off, c.Sync(asked, asked.Add(time.Minute), asked), "it took a minute, so it is ignored")
		near(time.Now().Add(-off), c.Now())
	}
	// the other clock goes back a little: ids do not
	newest := clock.NewID()
	now := time.Now()
	c.Sync(now, now, now.Add(-30*time.Second))
	require.Equal(t, newest.Time(), clock.NewID().Time())

	now = time.Now()
	require.Equal(t, 400*time.Millisecond, c.Sync(now, now, now.Add(-400*time.Millisecond)))
	near(time.Now(), c.Now())
}
