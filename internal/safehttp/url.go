package safehttp

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"ajo/internal/errs"
)

// maxURL is the longest callback URL, in characters.
const maxURL = 2048

// Rules are what a callback URL must keep to beside its form. The zero value asks for the form
// alone.
type Rules struct {
	RequireHTTPS bool // refuse http://
	// refuse a host that is plainly not public: an address in digits, or localhost
	RequirePublic bool
	// addresses that RequirePublic lets pass all the same, as [Options] Allow at the connection
	Allow []netip.Prefix
}

// CallbackRules are those of the service: in production a callback must be https and public
// (decisions, "Outbound deliveries"). The prefixes in allow may be reached though they are not
// public.
func CallbackRules(production bool, allow []netip.Prefix) Rules {
	return Rules{RequireHTTPS: production, RequirePublic: production, Allow: allow}
}

// CheckURL reports whether raw has the form of a callback URL and keeps to the rules: absolute,
// http or https, with a host, without user info and fragment, printable ASCII, at most [maxURL]
// characters. The refusal is errs.Invalid and its text begins with field, the name under which the
// client sent the URL.
//
// What a name resolves to is not looked at: that is checked at each connection, where it counts. To
// refuse an address in digits here too only tells the client sooner.
func CheckURL(field, raw string, rules Rules) error {
	refuse := func(why string) error { return errs.New(errs.Invalid, field+" "+why) }
	switch {
	case raw == "":
		return refuse("is empty")
	case len(raw) > maxURL:
		return refuse("is longer than " + strconv.Itoa(maxURL) + " characters")
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' }):
		return refuse("may have printable ASCII characters only, without spaces")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" {
		return refuse("is not a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("must begin with https:// or http://")
	case rules.RequireHTTPS && u.Scheme != "https":
		return refuse("must begin with https://")
	case u.User != nil:
		return refuse("must not have a user name or password")
	case strings.Contains(raw, "#"):
		return refuse("must not have a fragment")
	case !isHost(u.Hostname()):
		return refuse("must have a host: a name or an IP address")
	case !isPort(u):
		return refuse("has a port that is not a number from 1 to 65535")
	case rules.RequirePublic && !newGuard(rules.Allow).mayBePublic(u.Hostname()):
		return refuse("must not point to a private address")
	}
	return nil
}

// isHost refuses the forms that resolvers disagree about: an address with a zone, and the octal,
// hexadecimal and short spellings of an IPv4 address (0177.0.0.1, 0x7f.1, 2130706433), which one
// resolver takes for a name and another for 127.0.0.1.
func isHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "" || len(name) > 253 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return false
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	return strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}

func isPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

// Shown is a URL as the audit log and e-mails have it, for good: without the values of its query,
// which may be secrets.
func Shown(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.RawQuery == "" {
		return raw
	}
	u.RawQuery = ""
	return u.String() + "?…"
}
