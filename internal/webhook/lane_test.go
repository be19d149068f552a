package webhook

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestLane(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLanes(8)
	l.wait = time.Millisecond
	e := endpoint{tenant: uuid.New(), host: "example.com"}
	enter := func() (bool, time.Duration) {
		in, back, err := l.enter(ctx, e)
		require.NoError(t, err)
		return in, back
	}
	for range 8 {
		in, _ := enter()
		require.True(t, in)
	}
	var last time.Duration
	for range 600 { // the first waits in vain, the others are turned away at once
		in, back := enter()
		l.wait = time.Hour
		require.False(t, in)
		require.GreaterOrEqual(t, back, laneBack)
		require.LessOrEqual(t, back, laneBackMax*3/2)
		last = back
	}
	require.GreaterOrEqual(t, last, laneBackMax, "longer and longer")
	in, _, err := l.enter(ctx, endpoint{tenant: e.tenant, host: "other.example"})
	require.NoError(t, err)
	require.True(t, in, "another host's lane is its own")
	in, _, err = l.enter(ctx, endpoint{tenant: uuid.New(), host: e.host})
	require.NoError(t, err)
	require.True(t, in, "and so is another tenant's")

	for range 6 { // slow calls end: two are left, a quarter of eight
		l.leave(e, 10*time.Second)
	}
	in, back := enter()
	require.False(t, in, "a slow endpoint has a quarter of the places")
	require.Less(t, back, 5*time.Second, "shorter again, as calls end")
	l.leave(e, 10*time.Millisecond)
	for range 7 {
		in, _ = enter()
		require.True(t, in, "a quick answer gives the places back")
	}
	for range 8 {
		l.leave(e, 0)
	}
	require.NotContains(t, l.open, e, "an empty lane is forgotten")
}

func TestLaneWaits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	l := newLanes(1)
	l.wait = time.Minute
	e := endpoint{host: "example.com"}
	_, _, err := l.enter(ctx, e)
	require.NoError(t, err)
	waits := make(chan bool, 1)
	go func() {
		in, _, err := l.enter(context.Background(), e)
		waits <- in && err == nil
	}()
	waiting := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.open[e].waiting)
	}
	require.Eventually(t, func() bool { return waiting() == 1 }, 5*time.Second, time.Millisecond)
	gone := make(chan error, 1)
	go func() {
		_, _, err := l.enter(ctx, e)
		gone <- err
	}()
	require.Eventually(t, func() bool { return waiting() == 2 }, 5*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	l.leave(e, time.Millisecond)
	require.True(t, <-waits, "who waits gets the place that comes free")
	l.leave(e, time.Millisecond)
	require.Empty(t, l.open)
}
