package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthCommand(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ready" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(`{"status":"…"}`))
	}))
	ask := func(url string) (string, error) {
		var out bytes.Buffer
		cmd := newHealthCmd()
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"--url", url})
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		err := cmd.ExecuteContext(context.Background())
		return out.String(), err
	}
	out, err := ask(s.URL + "/ready")
	require.NoError(t, err)
	require.Equal(t, `{"status":"…"}`, out)
	out, err = ask(s.URL + "/health")
	require.EqualError(t, err, s.URL+"/health answered 503 Service Unavailable")
	require.Equal(t, `{"status":"…"}`, out, "what is wrong stands in the answer")
	s.Close()
	_, err = ask(s.URL + "/ready")
	require.ErrorContains(t, err, "connection refused")
	_, err = ask("\x00")
	require.ErrorContains(t, err, "--url: ")
}
