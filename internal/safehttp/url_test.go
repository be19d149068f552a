package safehttp

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/errs"
)

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"https://example.com", "https://example.com/hook?token=a%20b&x=1", "HTTPS://Example.COM./hook", "https://example.com:8443/",
		"https://93.184.215.14/hook", "https://[2606:4700::1]:444/hook", "https://my_host.example/", "https://1.example/", "https://0x7f.example/",
		"https://xn--bcher-kva.example/", "https://localhost/hook", "https://example.com/" + strings.Repeat("a", 2028),
	} {
		https := Rules{RequireHTTPS: true}
		require.NoError(t, CheckURL("url", good, https), good)
		require.NoError(t, CheckURL("url", "http"+good[5:], Rules{}), good)
		require.EqualError(t, CheckURL("url", "http"+good[5:], https), "url must begin with https://")
	}
	bad := map[string]string{
		"":                                   "callbackUrl is empty",
		"example.com/hook":                   "callbackUrl must begin with https:// or http://",
		"//example.com/hook":                 "callbackUrl must begin with https:// or http://",
		"ftp://example.com/":                 "callbackUrl must begin with https:// or http://",
		"javascript:alert(1)":                "callbackUrl is not a URL",
		"https:example.com":                  "callbackUrl is not a URL",
		"https://exa mple.com/":              "callbackUrl may have printable ASCII characters only, without spaces",
		"https://example.com/\r\nX-Bad: 1":   "callbackUrl may have printable ASCII characters only, without spaces",
		"https://example.com/\x00":           "callbackUrl may have printable ASCII characters only, without spaces",
		"https://127。0。0。1/":                 "callbackUrl may have printable ASCII characters only, without spaces",
		"https://example.com/\xff":           "callbackUrl may have printable ASCII characters only, without spaces",
		"https://example.com/%zz":            "callbackUrl is not a URL",
		"https://user:word@example.com/":     "callbackUrl must not have a user name or password",
		"https://user@example.com/":          "callbackUrl must not have a user name or password",
		"https://example.com/#part":          "callbackUrl must not have a fragment",
		"https://example.com/#":              "callbackUrl must not have a fragment",
		"https://":                           "callbackUrl must have a host: a name or an IP address",
		"https:///hook":                      "callbackUrl must have a host: a name or an IP address",
		"https://:443/":                      "callbackUrl must have a host: a name or an IP address",
		"https://0177.0.0.1/":                "callbackUrl must have a host: a name or an IP address",
		"https://2130706433/":                "callbackUrl must have a host: a name or an IP address",
		"https://0x7f.1/":                    "callbackUrl must have a host: a name or an IP address",
		"https://0x7f000001/":                "callbackUrl must have a host: a name or an IP address",
		"https://127.0x1/":                   "callbackUrl must have a host: a name or an IP address",
		"https://127.1./":                    "callbackUrl must have a host: a name or an IP address",
		"https://256.1.1.1/":                 "callbackUrl must have a host: a name or an IP address",
		"https://[fe80::1%25lo]/":            "callbackUrl must have a host: a name or an IP address",
		"https://exa(mple.com/":              "callbackUrl must have a host: a name or an IP address",
		"https://example.com:0/":             "callbackUrl has a port that is not a number from 1 to 65535",
		"https://example.com:65536/":         "callbackUrl has a port that is not a number from 1 to 65535",
		"https://example.com:/":              "callbackUrl has a port that is not a number from 1 to 65535",
		"https://e.com/" + string(long[:]):   "callbackUrl is longer than 2048 characters",
		"https://good.example\\@127.0.0.1/":  "callbackUrl is not a URL",
		"https://good.example:80@127.0.0.1/": "callbackUrl must not have a user name or password",
	}
	for raw, text := range bad {
		err := CheckURL("callbackUrl", raw, Rules{})
		require.EqualError(t, err, text, raw)
		require.Equal(t, errs.Invalid, errs.KindOf(err))
	}
}

func TestCheckURLRefusesWhatIsPlainlyPrivate(t *testing.T) {
	t.Parallel()
	production := CallbackRules(true, nil)
	const text = "url must not point to a private address"
	for _, host := range []string{
		"127.0.0.1", "127.9.9.9", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "168.63.129.16", "100.64.0.1", "0.0.0.0", "224.0.0.1",
		"255.255.255.255", "203.0.113.9", "[::1]", "[::]", "[fd00::1]", "[fe80::1]", "[::ffff:10.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
		"[64:ff9b::a00:1]", "[2002:7f00:1::1]", "localhost", "LOCALHOST.", "x.localhost",
	} {
		for _, port := range []string{"", ":8443"} {
			raw := "https://" + host + port + "/hook"
			require.EqualError(t, CheckURL("url", raw, production), text)
			require.NoError(t, CheckURL("url", raw, CallbackRules(false, nil)), "in development the connection decides alone")
		}
	}
	for _, host := range []string{"example.com", "93.184.215.14", "[2606:4700::1]", "[::ffff:8.8.8.8]", "localhost.example", "notlocalhost", "10.1.2.3.example"} {
		require.NoError(t, CheckURL("url", "https://"+host+":8443/hook", production), host)
	}
	require.EqualError(t, CheckURL("url", "http://93.184.215.14/", production), "url must begin with https://")

	allow := CallbackRules(true, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("127.0.0.0/8")})
	for _, host := range []string{"10.1.2.3", "127.0.0.1", "[::ffff:10.1.2.3]", "localhost"} {
		require.NoError(t, CheckURL("url", "https://"+host+"/hook", allow), host)
	}
	for _, host := range []string{"10.2.0.1", "[::1]", "169.254.169.254"} {
		require.EqualError(t, CheckURL("url", "https://"+host+"/hook", allow), text)
	}
}

var long = [2048]byte([]byte(strings.Repeat("a", 2048)))

func TestShown(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"": "", "https://shop.example/hook": "https://shop.example/hook", "https://shop.example/hook?token=abc&x=1": "https://shop.example/hook?…",
	} {
		require.Equal(t, want, Shown(url))
		require.False(t, strings.Contains(Shown(url), "abc"))
	}
}
