//go:build !linux

package stack

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// sysProcAttr starts a process as cred's user (nil: ours) in its own process group. Only Linux has
// a death signal: elsewhere servers that outlive a killed parent are stopped by the next Start or
// Reset on their directory.
func sysProcAttr(cred *syscall.Credential, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred, Setpgid: true}
}

// birth identifies the process that bears the number pid now by its time of start; "" when there is
// none. One that has ended and waits to be collected is none.
func birth(pid int) string {
	out, err := exec.Command("ps", "-o", "state=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	state, start, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if strings.HasPrefix(state, "Z") {
		return ""
	}
	return strings.TrimSpace(start)
}
