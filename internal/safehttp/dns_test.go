package safehttp

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// dns is a name server whose answers a test changes between calls. It knows A records; all other
// names do not exist.
type dns struct {
	mu       sync.Mutex
	names    map[string][]netip.Addr
	resolver *net.Resolver
}

func newDNS(t *testing.T) *dns {
	conn := must(net.ListenPacket("udp4", "127.0.0.1:0"))
	t.Cleanup(func() { _ = conn.Close() })
	d := &dns{names: map[string][]netip.Addr{}}
	d.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", conn.LocalAddr().String())
	}}
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(d.answer(buf[:n]), from)
		}
	}()
	return d
}

// set gives name, with its final dot, the addresses.
func (d *dns) set(name string, addrs ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[name] = nil
	for _, a := range addrs {
		d.names[name] = append(d.names[name], netip.MustParseAddr(a))
	}
}

// answer makes the reply to a query of one question (RFC 1035, section 4).
func (d *dns) answer(query []byte) []byte {
	const header = 12
	var name strings.Builder
	end := header
	for query[end] != 0 {
		label := query[end+1 : end+1+int(query[end])]
		name.Write(label)
		name.WriteByte('.')
		end += 1 + len(label)
	}
	kind := binary.BigEndian.Uint16(query[end+1:])
	end += 5 // the closing zero, type and class
	d.mu.Lock()
	addrs, known := d.names[strings.ToLower(name.String())]
	d.mu.Unlock()
	if kind != 1 {
		addrs = nil
	}
	flags := uint16(0x8180) // a response, recursion available
	if !known {
		flags |= 3 // no such name
	}
	out := append([]byte{}, query[:2]...)
	for _, v := range []uint16{flags, 1, uint16(len(addrs)), 0, 0} {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	out = append(out, query[header:end]...)
	for _, a := range addrs {
		// the question's name, A, IN, TTL 0, four bytes
		out = append(out, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		out = append(out, a.AsSlice()...)
	}
	return out
}
