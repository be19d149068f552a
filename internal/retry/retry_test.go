package retry_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/retry"
)

func TestErrorsCarryTheirTime(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection refused")
	at := time.Date(2026, 3, 2, 9, 2, 0, 0, time.UTC)

	again := fmt.Errorf("deliver: %w", retry.At(at, cause))
	when, ok := retry.When(again)
	require.True(t, ok)
	require.Equal(t, at, when)
	require.ErrorIs(t, again, cause)
	require.Equal(t, "deliver: connection refused", again.Error())
	require.False(t, retry.IsExhausted(again))

	last := fmt.Errorf("deliver: %w", retry.Exhausted(cause))
	require.True(t, retry.IsExhausted(last))
	require.ErrorIs(t, last, cause)
	_, ok = retry.When(last)
	require.False(t, ok)

	for _, other := range []error{nil, cause} {
		_, ok = retry.When(other)
		require.False(t, ok)
		require.False(t, retry.IsExhausted(other))
	}
}
