package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/prometheus/procfs"

	"ajo/internal/supervise"
)

const (
	startLimit = 2 * time.Minute  // from the start of a role until it listens
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

// logged waits until a process has logged what the expression matches, and returns its group.
func logged(ctx context.Context, p *supervise.Process, line *regexp.Regexp) (text string, err error) {
	err = p.Await(ctx, startLimit, func(context.Context) error {
		b, err := os.ReadFile(p.Log)
		found := line.FindSubmatch(b)
		if err != nil || found == nil {
			return fmt.Errorf("it has not logged %s", line)
		}
		text = string(found[1])
		return nil
	})
	return text, err
}

// noProc is why a figure is not there: only Linux shows what processes use.
const noProc = "not measured: this system has no /proc"

// processes are the state of all processes, by their ids; none on a system without /proc.
func processes() map[int]procfs.ProcStat {
	all, _ := procfs.AllProcs()
	stats := map[int]procfs.ProcStat{}
	for _, p := range all {
		if s, err := p.Stat(); err == nil { // else it has just ended
			stats[p.PID] = s
		}
	}
	return stats
}

// ticks are what a process has used of the processors, as the kernel counts them (USER_HZ).
func ticks[N int | uint](n N) time.Duration { return time.Duration(n) * time.Second / 100 }

// highestMemory is the most that a process has had in memory since its start, in bytes.
func highestMemory(pid int) (int64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	s, err := p.NewStatus()
	return int64(s.VmHWM), err
}
