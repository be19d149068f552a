package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = 30 * time.Second // from the start of a role until it listens
	stopLimit  = 40 * time.Second // above what a worker waits for its tasks
)

// process is a role of the service, running as the built binary.
type process struct {
	name string
	log  string // file with what it prints
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs the binary with args, and with settings as its whole environment; what it prints goes
// to dir/name.log.
func start(bin, dir, name string, settings map[string]string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), cmd: exec.Command(bin, args...), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	p.cmd.Dir, p.cmd.Env = dir, []string{}
	for k, v := range settings {
		p.cmd.Env = append(p.cmd.Env, k+"="+v)
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = endsWithUs()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: see endsWithUs
		err := p.cmd.Start()
		_ = out.Close() // the process has its own
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // what became of it stands in ProcessState
			close(p.done)
		}
	}()
	return p, <-started
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// await waits until ready answers true, and fails when the process ends before.
func (p *process) await(ready func() bool) error {
	for deadline := time.Now().Add(startLimit); !ready(); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended (%s):\n%s", p.name, p.cmd.ProcessState, p.tail())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %s:\n%s", p.name, startLimit, p.tail())
		}
	}
	return nil
}

// logged tells whether the process has printed text.
func (p *process) logged(text string) bool {
	b, err := os.ReadFile(p.log)
	return err == nil && strings.Contains(string(b), text)
}

func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-3000):])
}

// stop ends the process in order, and kills one that does not end.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// listening tells whether somebody takes connections at addr.
func listening(addr string) func() bool {
	return func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}
}

// freeAddr is a loopback address that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
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
