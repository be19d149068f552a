package api

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that was told to stop answers as before, and asks each client to close its connection.
func TestStopping(t *testing.T) {
	var stopping atomic.Bool
	w := setup(t, func(o *Options) { o.Stopping = stopping.Load })
	closes := func() bool {
		resp, err := w.client.Get(w.url + "/health")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return resp.Close
	}
	require.False(t, closes())
	stopping.Store(true)
	require.True(t, closes())
}
