//go:build !linux

package supervise

import "syscall"

// attributes ties the program to nothing: only Linux has a death signal.
func attributes(o Options) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: o.User, Setpgid: true}
}
