package clock_test

import (
	"testing"
	"time"
	"unsafe"

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

		require.Equal(t, off, c.Sync(asked, asked.Add(time.Minute), asked.Add(-off)), "it took a minute, so it is ignored")
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

// An answer that took long is vague, but not by ten minutes: a clock that it shows to be wrong does
// not stay so.
func TestSyncedBySlowAnswers(t *testing.T) {
	const off, took = 10 * time.Minute, 3 * time.Second
	var c clock.Synced
	now := time.Now()
	sync := func(took, said time.Duration) (offset time.Duration) {
		return c.Sync(now.Add(-took), now, now.Add(said).Round(0))
	}
	is := func(want time.Duration, doubtful bool) {
		t.Helper()
		require.WithinDuration(t, time.Now().Add(want), c.Now(), time.Second)
		require.Equal(t, doubtful, c.Doubtful())
	}
	// it may be right: the other clock showed something of these three seconds
	require.Zero(t, sync(took, -took-clock.Slack))
	require.Zero(t, sync(took, clock.Slack))
	is(0, true)
	require.Equal(t, off, sync(took, -took/2-off))
	is(-off, true)
	require.Equal(t, off, sync(0, -off))
	is(-off, false)
	for _, said := range []time.Duration{-took - clock.Slack, clock.Slack} {
		require.Equal(t, off, sync(took, said-off))
		is(-off, false)
	}
	require.Equal(t, off+2*time.Second+time.Millisecond, sync(took, -took-clock.Slack-off-time.Millisecond))
	is(-off-2*time.Second, true)
	require.Zero(t, sync(0, 0))
	is(0, false)
}

// A machine's clock is set while a process runs, by NTP or by hand: the process' time goes on as if
// nothing had happened. Not parallel, as the clocks share the ids.
func TestSyncedWhileTheMachinesClockIsSet(t *testing.T) {
	for name, c := range map[string]struct{ showed, said time.Duration }{ // then; now the machine shows 0
		"it was behind, and is set right": {-time.Hour, 0},
		"it was ahead, and is set right":  {time.Hour, 0},
		"it was right, and is set ahead":  {-time.Hour, -time.Hour},
		"it was right, and is set back":   {time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			var s clock.Synced
			now := time.Now()
			then := showing(t, now, c.showed)
			require.True(t, s.Doubtful())
			require.Equal(t, c.showed-c.said, s.Sync(then, then, now.Add(c.said).Round(0)))
			require.WithinDuration(t, time.Now().Add(c.said), s.Now(), time.Minute)
			require.True(t, s.Doubtful())

			now = time.Now()
			require.Equal(t, -c.said, s.Sync(now, now, now.Add(c.said).Round(0)))
			require.WithinDuration(t, time.Now().Add(c.said), s.Now(), time.Minute)
			require.False(t, s.Doubtful())
		})
	}
}

// showing is a reading of the machine's clock, had that shown as much more; what has passed until
// other readings ([time.Time.Sub]) stays the same.
func showing(t *testing.T, reading time.Time, more time.Duration) time.Time {
	t.Helper()
	was := reading
	seconds := uint64(more/time.Second) << 30 // as package time keeps them
	*(*uint64)(unsafe.Pointer(&reading)) += seconds
	require.Equal(t, more, reading.Round(0).Sub(was.Round(0)))
	require.Zero(t, reading.Sub(was))
	return reading
}
