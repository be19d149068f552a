package safehttp

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGuardDecidesOnTheAddress(t *testing.T) {
	t.Parallel()
	g := newGuard(nil)
	refused := []string{
		"0.0.0.0:80", "0.1.2.3:80", "10.0.0.1:80", "10.255.255.255:443", "100.64.0.1:80", "100.100.100.200:80",
		"127.0.0.1:80", "127.255.0.9:8080", "169.254.169.254:80", "168.63.129.16:80", "172.16.0.1:80", "172.31.255.255:80",
		"192.0.0.1:80", "192.0.2.1:80", "192.88.99.1:80", "192.168.1.1:80", "198.18.0.1:80", "198.51.100.7:80", "203.0.113.9:80",
		"224.0.0.1:80", "239.255.255.250:1900", "240.0.0.1:80", "255.255.255.255:80",
		"[::]:80", "[::1]:80", "[::ffff:127.0.0.1]:80", "[::ffff:10.0.0.1]:80", "[::ffff:169.254.169.254]:80", "[::127.0.0.1]:80",
		"[64:ff9b::7f00:1]:80", "[64:ff9b::5db8:d70e]:80", "[64:ff9b:1::a00:1]:80", "[100::1]:80",
		"[2001::1]:80", "[2001:0:4136:e378:8000:63bf:3fff:fdd2]:80", "[2001:db8::1]:80", "[2002:7f00:1::1]:80", "[3fff::1]:80",
		"[5f00::1]:80", "[fc00::1]:80", "[fd00:ec2::254]:80", "[fe80::1]:80", "[fe80::1%lo]:80", "[2606:4700::1%eth0]:80",
		"[fec0::1]:80", "[ff02::1]:80", "not-an-address:80", "127.0.0.1",
	}
	for _, address := range refused {
		for _, network := range []string{"tcp4", "tcp6"} {
			require.Error(t, g.control(network, address, nil), address)
		}
	}
	for _, address := range []string{"93.184.215.14:443", "8.8.8.8:80", "8.8.8.8:8443", "172.32.0.1:80", "[2606:4700::1]:443", "[::ffff:8.8.8.8]:443"} {
		require.NoError(t, g.control("tcp4", address, nil), address)
	}
	require.Error(t, g.control("udp4", "8.8.8.8:53", nil), "TCP only")
}

func TestGuardAllowsStatedPrefixesOnly(t *testing.T) {
	t.Parallel()
	g := newGuard([]netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/30"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("::ffff:10.1.0.0/112"),
	})
	for _, address := range []string{"127.0.0.1:80", "127.0.0.3:9", "[::1]:80", "[::ffff:127.0.0.1]:80", "10.1.2.3:80"} {
		require.NoError(t, g.control("tcp4", address, nil), address)
	}
	for _, address := range []string{"127.0.0.4:80", "10.2.0.1:80", "[::2]:80", "[::1%lo]:80", "169.254.169.254:80"} {
		require.Error(t, g.control("tcp4", address, nil), address)
	}
}
