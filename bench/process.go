package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ajo/internal/supervise"
)

const (
	startLimit = 30 * time.Second // from the start of a role until it listens
	stopLimit  = 40 * time.Second // above what a worker waits for its tasks
)

// start runs the binary with args, and with settings as its whole environment; what it prints goes
// to dir/name.log.
func start(bin, dir, name string, settings map[string]string, args ...string) (*supervise.Process, error) {
	cmd := exec.Command(bin, args...)
	cmd.Dir = dir
	for k, v := range settings {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return supervise.Start(cmd, supervise.Options{Name: name, Log: filepath.Join(dir, name+".log")})
}

// errNoProc says that this system does not show what processes use: only Linux does.
var errNoProc = errors.New("not measured: this system has no /proc")

// cpuTime is what a process has used of the processors, in user and kernel mode.
func cpuTime(pid int) (time.Duration, error) { return statTime(pid, 11) }

// endedTime is what those of a process' children have used that have ended.
func endedTime(pid int) (time.Duration, error) { return statTime(pid, 13) }

// statTime adds two neighbouring fields, of user and kernel mode.
func statTime(pid, field int) (time.Duration, error) {
	f, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	user, err1 := strconv.ParseInt(f[field], 10, 64)
	system, err2 := strconv.ParseInt(f[field+1], 10, 64)
	const tick = time.Second / 100 // USER_HZ, which Linux shows to programs whatever it ticks at
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// statFields are the fields of /proc/pid/stat after the command's name, from the state (3) on.
func statFields(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, errNoProc
	}
	text := string(b)
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 20 {
		return nil, errNoProc
	}
	return f, nil
}

func parentOf(pid int) (int, error) {
	f, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(f[1])
}

// children are the processes that pid has started, as Postgres has its backends.
func children(pid int) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []int
	for _, d := range dirs {
		child, _ := strconv.Atoi(filepath.Base(d))
		if parent, err := parentOf(child); err == nil && parent == pid {
			found = append(found, child)
		}
	}
	return found
}

// highestMemory is the most that a process has had in memory since its start, in bytes.
func highestMemory(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, errNoProc
	}
	for line := range strings.Lines(string(b)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, errNoProc
}
