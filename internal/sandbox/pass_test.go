package sandbox_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/sandbox"
	"ajo/internal/secret"
)

// A pass says what it was written with, to whoever has the secret, for its request and its minute.
func TestPass(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	at := clock.NewFake(now)
	p := sandbox.NewPasses(secret.Redact("a secret of test mode, long enough"), at)
	want := sandbox.Pass{From: netip.MustParseAddr("203.0.113.9"), Caller: &sandbox.Caller{TenantID: uuid.New(), TenantName: "Ada & Söhne", MemberID: uuid.New(), Role: "viewer"}}
	r := sandbox.Request{Method: "POST", URI: "/auth/keys?x=%2F", Body: []byte("{}")}
	text, err := p.Write(want, r)
	require.NoError(t, err)
	got, err := p.Read(text, r)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for name, other := range map[string]sandbox.Request{
		"method": {Method: "GET", URI: r.URI, Body: r.Body}, "address": {Method: r.Method, URI: "/auth/keys?x=/", Body: r.Body}, "body": {Method: r.Method, URI: r.URI},
	} {
		_, err := p.Read(text, other)
		require.ErrorIs(t, err, sandbox.ErrPass, name)
	}
	for i := range text {
		for bit := range 7 {
			changed := []byte(text)
			changed[i] ^= 1 << bit
			_, err := p.Read(string(changed), r)
			require.ErrorIs(t, err, sandbox.ErrPass, "byte %d, bit %d", i, bit)
		}
	}
	_, err = sandbox.NewPasses(secret.Redact("another secret of test mode, long too"), at).Read(text, r)
	require.ErrorIs(t, err, sandbox.ErrPass)
	for _, d := range []time.Duration{time.Minute, time.Hour, -61 * time.Second} {
		at.Set(now.Add(d))
		_, err = p.Read(text, r)
		require.ErrorIs(t, err, sandbox.ErrPass, d)
	}
}
