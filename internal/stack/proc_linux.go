package stack

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// sysProcAttr starts a process as cred's user (nil: ours) in its own process group; the kernel
// sends it death (0: none) when the thread that started it ends.
func sysProcAttr(cred *syscall.Credential, death syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred, Setpgid: true, Pdeathsig: death}
}

// birth identifies the process that bears the number pid now: the machine's boot, and the tick of
// the process's start. It is "" when there is none; one that has ended and waits to be collected is
// none.
func birth(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// pid (name) state …; the name may hold anything, so count from its closing parenthesis.
	const state, startTime = 0, 19
	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) <= startTime || fields[state] == "Z" || fields[state] == "X" {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[startTime]
}
