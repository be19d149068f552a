package stack

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

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

// roomInMemory reports whether the file system in memory has room for the data of a test run, and
// the machine memory for it and for the tests beside it.
func roomInMemory() bool {
	const files, free = 4 << 30, 8 << 30
	var fs syscall.Statfs_t
	if syscall.Statfs("/dev/shm", &fs) != nil || fs.Bavail*uint64(fs.Bsize) < files {
		return false
	}
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(b), "MemAvailable:")
	var kib uint64
	_, err = fmt.Sscan(after, &kib)
	return err == nil && kib<<10 >= free
}
