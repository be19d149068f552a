package pg_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// The kernel ends a connection of the pool after a minute without a sign of the server, not after a
// quarter of an hour.
func TestSilentConnectionsEnd(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	line := e.LostCommits() // by TCP
	conn, err := line.Pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	tcp, ok := conn.Conn().PgConn().Conn().(*net.TCPConn)
	require.True(t, ok)
	raw, err := tcp.SyscallConn()
	require.NoError(t, err)
	var ms int
	require.NoError(t, raw.Control(func(fd uintptr) { ms, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, 18) }))
	require.NoError(t, err)
	require.Equal(t, 60_000, ms)
}
