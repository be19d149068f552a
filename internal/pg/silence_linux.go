package pg

import "syscall"

// tcpUserTimeout is the option's number, which package syscall lacks.
const tcpUserTimeout = 18

// giveUp has the kernel end a connection whose other side has acknowledged nothing for
// [silence], of what was sent or of the probes of an idle connection.
func giveUp(fd uintptr) error {
	return syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds()))
}
