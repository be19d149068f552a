package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Only a standby of the same history that has replayed as much has what the primary has.
func TestStanding(t *testing.T) {
	t.Parallel()
	at := position{system: 7, database: 1, timeline: 3, lsn: 1000}
	require.NoError(t, standing{true, at}.has(at))
	require.NoError(t, standing{true, position{7, 1, 3, 1001}}.has(at))
	require.ErrorIs(t, standing{true, position{7, 1, 3, 999}}.has(at), errBehind)
	require.ErrorIs(t, standing{true, position{7, 1, 2, 1001}}.has(at), errTimeline, "of the primary that has died")
	require.ErrorIs(t, standing{true, position{7, 1, 4, 1001}}.has(at), errTimeline, "of a primary that we do not know")
	require.ErrorIs(t, standing{true, position{8, 1, 3, 1001}}.has(at), errSystem)
	require.ErrorIs(t, standing{true, position{7, 2, 3, 1001}}.has(at), errSystem, "restored beside it")
	require.ErrorIs(t, standing{false, at}.has(at), errPromoted)
}

// The lag is that of the newest sample that the standby has, also while it follows at a distance.
func TestLag(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	after := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	has := func(lsn int64) standing { return standing{true, position{7, 1, 1, lsn}} }
	var h history
	_, known := h.lag(begun)
	require.False(t, known)
	for s := range 10 {
		h.add(sample{position{7, 1, 1, int64(100 * s)}, after(s)})
	}
	h.reach(has(-1))
	_, known = h.lag(after(10))
	require.False(t, known, "it may be any time behind")
	for s := 10; s < 1000; s++ {
		h.add(sample{position{7, 1, 1, int64(100 * s)}, after(s)})
		h.reach(has(int64(100*s - 500))) // always five seconds behind
		lag, known := h.lag(after(s))
		require.True(t, known)
		require.Equal(t, 5*time.Second, lag)
	}
	h.reach(has(100 * 999))
	lag, _ := h.lag(after(999))
	require.Zero(t, lag)
	for s := 1000; s < 10000; s++ { // it no longer moves
		h.add(sample{position{7, 1, 1, int64(100 * s)}, after(s)})
		h.reach(has(100 * 999))
	}
	lag, _ = h.lag(after(10000))
	require.Equal(t, 9001*time.Second, lag)
	require.LessOrEqual(t, len(h.samples), maxSamples)
	h.add(sample{position{7, 1, 2, 50}, after(10000)})
	_, known = h.lag(after(10000))
	require.False(t, known, "positions of another timeline are not compared")
}
