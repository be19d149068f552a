package main

import "syscall"

// endsWithUs has the kernel kill a process when the thread that started it ends, so that a run that
// is killed leaves none behind.
func endsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
