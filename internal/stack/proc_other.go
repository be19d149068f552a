//go:build !linux

package stack

import (
	"os/exec"
	"strconv"
	"strings"
)

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

// roomInMemory: only Linux has a file system in memory that everybody may use.
func roomInMemory() bool { return false }
