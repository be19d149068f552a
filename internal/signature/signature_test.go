package signature

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	at     = time.Unix(1700000000, 0)
	secret = strings.Repeat("0123456789abcdef", 4)
	body   = []byte(`{"a":1}`)
)

func TestVerify(t *testing.T) {
	t.Parallel()
	other := strings.Repeat("f", 64)
	one, two := http.Header{}, http.Header{}
	Sign(one, []string{secret}, "id", at, body)
	Sign(two, []string{other, secret}, "id", at, body)
	good := one.Get(Header)
	_, v1, _ := strings.Cut(good, ",")
	for name, c := range map[string]struct {
		header, body, secret string
		at                   time.Time
		want                 error
	}{
		"signed":              {header: good},
		"by two secrets":      {header: two.Get(Header)},
		"by the other of two": {header: two.Get(Header), secret: other},
		"300 s late":          {header: good, at: at.Add(300 * time.Second)},
		// whole seconds count
		"300 s and a bit late":  {header: good, at: at.Add(300*time.Second + 999*time.Millisecond)},
		"300 s early":           {header: good, at: at.Add(-300 * time.Second)},
		"a part of the future":  {header: good + ",v2=xyz"},
		"301 s late":            {header: good, at: at.Add(301 * time.Second), want: ErrTime},
		"301 s early":           {header: good, at: at.Add(-301 * time.Second), want: ErrTime},
		"the end of time":       {header: "t=9223372036854775807," + v1, want: ErrTime},
		"the beginning of time": {header: "t=-9223372036854775808," + v1, want: ErrTime},
		"another secret":        {header: good, secret: other, want: ErrMismatch},
		"another body":          {header: good, body: `{"a":1} `, want: ErrMismatch},
		"another time":          {header: "t=1700000001," + v1, want: ErrMismatch},
		"upper case":            {header: strings.ToUpper(v1) + "," + good, want: nil},
		"upper case alone":      {header: "t=1700000000,v1=" + strings.ToUpper(v1[3:]), want: ErrMismatch},
		"half a signature":      {header: good[:len(good)-32], want: ErrMismatch},
		"an empty signature":    {header: "t=1700000000,v1=", want: ErrMismatch},
		"no signature":          {header: "t=1700000000", want: ErrMissing},
		"another scheme only":   {header: "t=1700000000,v0=" + v1[3:], want: ErrMissing},
		"no time":               {header: v1, want: ErrMissing},
		"two times":             {header: good + ",t=1700000000", want: ErrMissing},
		"no number":             {header: "t=now," + v1, want: ErrMissing},
		"nothing":               {header: "", want: ErrMissing},
		"garbage":               {header: ",,=,t=,v1", want: ErrMissing},
	} {
		t.Run(name, func(t *testing.T) {
			if c.body == "" {
				c.body = string(body)
			}
			if c.secret == "" {
				c.secret = secret
			}
			if c.at.IsZero() {
				c.at = at
			}
			require.ErrorIs(t, Verify(c.header, []byte(c.body), c.secret, c.at, 300*time.Second), c.want)
		})
	}
	// What an empty key signs, anybody can sign.
	Sign(one, []string{""}, "id", at, body)
	require.ErrorIs(t, Verify(one.Get(Header), body, "", at, time.Minute), ErrNoSecret)
}

// A header that verifies is one that the secret's holder has made for this body: whatever else is
// tried does not pass.
func FuzzVerify(f *testing.F) {
	h := http.Header{}
	Sign(h, []string{secret}, "id", at, body)
	good := h.Get(Header)
	for _, s := range []string{"", good, good + ",v2=1", "t=1,v1=", ",,", "t=1700000000", strings.ToUpper(good)} {
		f.Add(s, body)
	}
	f.Fuzz(func(t *testing.T, header string, b []byte) {
		if Verify(header, b, secret, at, 300*time.Second) == nil {
			require.Contains(t, header, good[len("t=1700000000,"):])
			require.Equal(t, body, b)
		}
	})
}
