package safehttp

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// wireServer is a public address that is not public: on one large cloud it answers every machine
// with its own secrets.
var wireServer = netip.MustParsePrefix("168.63.129.16/32")

// guard decides about each address at the moment the dialer connects to it, whatever name led
// there.
type guard struct{ rules *ssrf.Guardian }

// newGuard refuses every special-purpose IPv4 range (private, loopback, link-local with its
// metadata service, CGNAT, documentation, multicast, reserved …) and all of IPv6 but global
// unicast, of which it refuses 6to4, Teredo and the other special ranges too; NAT64 and IPv4-mapped
// addresses lie outside global unicast. A prefix in allow goes first. Any port is allowed: what
// must not be reached is an address, and receivers under development listen anywhere.
func newGuard(allow []netip.Prefix) guard {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return guard{ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...),
		ssrf.WithDeniedV4Prefixes(wireServer))}
}

// control is a net.Dialer's Control: the address is the one that the socket is about to connect to.
func (g guard) control(network, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("safehttp: dialer gave address %q: %w", address, err)
	}
	// An IPv4-mapped address connects by IPv4, so the rules for IPv4 hold. One with a zone is
	// refused by the rules: no prefix contains it.
	target = netip.AddrPortFrom(target.Addr().Unmap(), target.Port())
	if err := g.rules.Safe(network, target.String(), nil); err != nil {
		return &blockedError{addr: target.Addr()}
	}
	return nil
}

// mayBePublic reports whether a URL's host may lead to an address that is allowed, by its own text
// alone: every name may but localhost, which is a loopback address whatever the resolver says (RFC
// 6761).
func (g guard) mayBePublic(host string) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return g.allows(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || g.allows(netip.IPv6Loopback())
	}
	ip, err := netip.ParseAddr(name)
	return err != nil || g.allows(ip)
}

// allows reports whether a connection to the address would be let through.
func (g guard) allows(ip netip.Addr) bool {
	network := "tcp6"
	if ip.Unmap().Is4() {
		network = "tcp4"
	}
	return g.control(network, netip.AddrPortFrom(ip, 443).String(), nil) == nil
}

// blockedError is the guard's refusal on its way through the dialer.
type blockedError struct{ addr netip.Addr }

func (e *blockedError) Error() string { return fmt.Sprintf("address %s is not allowed", e.addr) }
