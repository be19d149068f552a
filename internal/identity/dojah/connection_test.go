package dojah

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/identity"
)

// A connection that no longer answers is given up, and the next check makes another one: else no
// customer is approved until TCP gives it up.
func TestADeadConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
			return
		}
		answer(200, `{"entity":{"first_name":"ADA","last_name":"OBI"}}`)(w, r)
	}))
	l := &fakebank.Dying{Listener: s.Listener}
	s.Listener, s.EnableHTTP2 = l, true
	s.StartTLS()
	t.Cleanup(s.Close)
	c, err := New(Options{URL: s.URL, AppID: "app", Key: "key-seeded", Timeout: 20 * time.Second})
	require.NoError(t, err)
	transport := c.http.Transport.(*http.Transport)
	transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	t.Cleanup(transport.CloseIdleConnections)
	transport.HTTP2.SendPingTimeout, transport.HTTP2.PingTimeout = transport.HTTP2.SendPingTimeout/10, transport.HTTP2.PingTimeout/10
	check := func() error {
		r, err := c.CheckNIN(t.Context(), nin, name)
		if err == nil {
			require.Equal(t, identity.Match, r)
		}
		return err
	}
	require.NoError(t, check())
	l.Die()
	begun := time.Now()
	for check() != nil { // of the first one nobody knows whether it arrived
		require.Less(t, time.Since(begun), 15*time.Second)
	}
	require.Less(t, time.Since(begun), 15*time.Second)
}
