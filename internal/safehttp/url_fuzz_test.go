package safehttp

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/errs"
)

// What is taken for a callback URL is one that a request can be made of, to the host that was
// looked at, and no other.
func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{
		"", "https://example.com/hook", "http://127.0.0.1/", "https://[::1]:8080/", "https://0177.0.0.1", "https://2130706433/", "https://0x7f.1/", "https://a:b@c/", "https://c#d",
		"javascript:alert(1)", "https:x", "//x", "https://x:0/", "https://x:/", "https://x:99999/", "https://[fe80::1%25eth0]/", "https://ex\\ample.com@evil/", "https://a/%zz", "https://a/\x00", "https://127。0。0。1/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		err := CheckURL("url", raw, Rules{RequirePublic: true})
		if err != nil {
			require.Equal(t, errs.Invalid, errs.KindOf(err))
			return
		}
		require.LessOrEqual(t, len(raw), maxURL)
		u, err := url.Parse(raw)
		require.NoError(t, err)
		require.Contains(t, []string{"http", "https"}, u.Scheme)
		require.Nil(t, u.User)
		require.NotEmpty(t, u.Hostname())
		r, err := http.NewRequest(http.MethodPost, raw, nil)
		require.NoError(t, err)
		require.Equal(t, u.Host, r.URL.Host)
	})
}
