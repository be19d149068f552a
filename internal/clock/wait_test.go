package clock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
)

func TestSleep(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	require.NoError(t, clock.Sleep(t.Context(), 2*time.Millisecond))
	require.GreaterOrEqual(t, time.Since(begun), 2*time.Millisecond)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, clock.Sleep(ended, time.Hour), context.Canceled)
}

func TestEvery(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	begun, calls := time.Now(), 0
	clock.Every(ctx, time.Millisecond, func() {
		if calls++; calls == 3 {
			cancel()
		}
	})
	require.GreaterOrEqual(t, calls, 3)
	require.GreaterOrEqual(t, time.Since(begun), 2*time.Millisecond)
}
