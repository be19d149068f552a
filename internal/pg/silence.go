package pg

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"time"
)

// silence is for how long a connection may be without any sign of the other side, while something
// is on the way to it. The kernel's own limit is some 15 minutes. A server that is there, but works
// on, acknowledges all the while: of that, statement_timeout and the callers' contexts take care.
const silence = time.Minute

// dialer dials as pgx does, and gives up a connection whose other side is gone.
var dialer = &net.Dialer{Control: func(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var set error
	err := c.Control(func(fd uintptr) { set = giveUp(fd) })
	return errors.Join(err, set)
}}
