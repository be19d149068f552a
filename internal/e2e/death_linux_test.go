package e2e

import "syscall"

// endsWithUs has the kernel kill a process when the thread that started it ends, so that a test run
// that is killed leaves none behind.
func endsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
