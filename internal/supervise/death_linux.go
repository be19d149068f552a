package supervise

import "syscall"

// attributes has the kernel send the program the death signal when the thread that started it ends.
func attributes(o Options) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: o.User, Setpgid: true, Pdeathsig: o.Death}
}
