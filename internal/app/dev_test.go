package app

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two `ajo dev` that start at once both find port 8080 free, and one of them comes second.
func TestAddressThatIsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	const wanted = "127.0.0.1:0"
	var first net.Listener
	t.Cleanup(func() { require.NoError(t, first.Close()) })
	var asked []string
	err := onFree(wanted, func(addr string) (err error) {
		asked = append(asked, addr)
		if first == nil { // the other one
			first, err = net.Listen("tcp", addr)
			require.NoError(t, err)
			addr = first.Addr().String()
		}
		l, err := net.Listen("tcp", addr)
		if err == nil {
			err = l.Close()
		}
		return err
	})
	require.NoError(t, err)
	require.Len(t, asked, 2, "another one is tried")
}

func TestFreeAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	taken := l.Addr().String()
	require.NotEqual(t, taken, freeAddr(taken))
	require.Equal(t, "127.0.0.1:0", freeAddr("127.0.0.1:0"))
}
