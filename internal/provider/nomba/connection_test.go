package nomba

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
)

// A connection that no longer answers is given up, and the next call makes another one.
func TestADeadConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
		}
	}))
	l := &fakebank.Dying{Listener: s.Listener}
	s.Listener, s.EnableHTTP2 = l, true
	s.StartTLS()
	t.Cleanup(s.Close)
	client := httpClient(nil)
	transport := client.Transport.(*http.Transport)
	transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	t.Cleanup(transport.CloseIdleConnections)
	transport.HTTP2.SendPingTimeout, transport.HTTP2.PingTimeout = transport.HTTP2.SendPingTimeout/10, transport.HTTP2.PingTimeout/10
	call := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
		require.NoError(t, err)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return resp.Body.Close()
	}
	require.NoError(t, call())
	l.Die()
	begun := time.Now()
	for call() != nil { // of the first one nobody knows whether it arrived
		require.Less(t, time.Since(begun), time.Minute)
	}
	require.Less(t, time.Since(begun), time.Minute)
}
