package clock_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
)

// A machine's clock was ahead, and is set right while a process runs: its ids have the time that it
// is, and ascend. Not parallel, as all ids of a process are made one after the other.
func TestIDsAfterAClockThatWasAhead(t *testing.T) {
	var c clock.Synced
	begun := time.Now()
	c.Sync(begun, begun, begun.Round(0))
	synctest.Test(t, func(*testing.T) { // where the clock can be moved
		time.Sleep(time.Until(begun.Add(10 * time.Minute)))
		clock.NewID()
	})
	made := [][]string{{}, {}}
	first := clock.NewID()
	require.WithinDuration(t, begun, time.Unix(first.Time().UnixTime()), time.Minute)
	var makers sync.WaitGroup
	for n := range made {
		makers.Go(func() {
			for range 10_000 {
				id := clock.NewID()
				made[n] = append(made[n], id.String())
			}
		})
	}
	makers.Wait()
	last := clock.NewID()
	require.Equal(t, []uuid.Version{7, 7}, []uuid.Version{first.Version(), last.Version()})
	require.Equal(t, []uuid.Variant{uuid.RFC4122, uuid.RFC4122}, []uuid.Variant{first.Variant(), last.Variant()})
	all := map[string]bool{}
	for _, ids := range made {
		require.True(t, slices.IsSorted(ids))
		for _, id := range ids {
			require.Less(t, first.String(), id)
			require.Less(t, id, last.String())
			require.False(t, all[id], id)
			all[id] = true
		}
	}
}
