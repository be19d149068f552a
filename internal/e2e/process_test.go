package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

const (
	startLimit = 30 * time.Second // from the start of a process until it says that it is there
	exitLimit  = 40 * time.Second // above what a worker waits for its tasks, and then for what it closes
)

// process is the binary, running or ended.
type process struct {
	t    testing.TB
	args []string
	out  output
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs the binary with args, and with settings as its whole environment. It is killed when the test ends.
func start(t testing.TB, dir string, settings map[string]string, args ...string) *process {
	t.Helper()
	return startProgram(t, dir, settings, exec.Command(ajo, args...), args)
}

// startProgram does what start does with another program than the binary that all tests use.
func startProgram(t testing.TB, dir string, settings map[string]string, cmd *exec.Cmd, args []string) *process {
	t.Helper()
	p := &process{t: t, args: args, cmd: cmd, done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = dir, []string{}
	for name, value := range settings {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = endsWithUs()
	p.cmd.WaitDelay = 5 * time.Second
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: see endsWithUs
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // what became of it stands in ProcessState
			close(p.done)
		}
	}()
	require.NoError(t, <-started)
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		if last := p.out.tail(6000); t.Failed() && len(last) > 0 {
			t.Logf("ajo %v printed:\n%s", args, last)
		}
	})
	return p
}

// signal sends a signal; a process that has ended takes none.
func (p *process) signal(s syscall.Signal) {
	if !p.ended() {
		_ = p.cmd.Process.Signal(s) // it may end in this very moment
	}
}

// kill is kill -9; it returns when the process is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// exit waits for the end and returns the exit code; -1 is the end by a signal.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(exitLimit):
		p.t.Fatalf("ajo %v has not ended after %s", p.args, exitLimit)
		return 0
	}
}

// logged waits until the process has logged a line with the message, and returns its last such line.
func (p *process) logged(message string) map[string]any {
	p.t.Helper()
	var line map[string]any
	testenv.Eventually(p.t, startLimit, "a log line of ajo "+p.args[0]+": "+message, func() bool {
		line = p.out.line(message)
		if line == nil && p.ended() {
			p.t.Fatalf("ajo %v ended with code %d:\n%s", p.args, p.cmd.ProcessState.ExitCode(), p.out.tail(6000))
		}
		return line != nil
	})
	return line
}

// result is a command that ran to its end.
type result struct {
	code int
	out  string // stdout and stderr
}

// runToEnd runs the binary and waits for its end.
func runToEnd(t testing.TB, dir string, settings map[string]string, args ...string) result {
	t.Helper()
	p := start(t, dir, settings, args...)
	code := p.exit()
	return result{code, string(p.out.all())}
}

// output is what a process has printed so far.
type output struct {
	mu   sync.Mutex
	text []byte
}

var errTooMuch = errors.New("e2e: a process printed more than 64 MiB")

// Write appends, as the process prints.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.text) > 64<<20 {
		return 0, errTooMuch
	}
	o.text = append(o.text, b...)
	return len(b), nil
}

func (o *output) all() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.text)
}

// forget gives the memory back.
func (o *output) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = nil
}

func (o *output) tail(n int) []byte {
	all := o.all()
	return all[max(0, len(all)-n):]
}

// line is the last JSON line with the message, or nil.
func (o *output) line(message string) map[string]any {
	for _, text := range slices.Backward(bytes.Split(o.all(), []byte("\n"))) {
		var line map[string]any
		if bytes.Contains(text, []byte(message)) && json.Unmarshal(text, &line) == nil && line["msg"] == message {
			return line
		}
	}
	return nil
}
