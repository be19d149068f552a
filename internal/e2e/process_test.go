package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/supervise"
	"ajo/internal/testenv"
)

const (
	startLimit = 2 * time.Minute // from the start of a process until it says that it is there: the machine is busy
	// far above what a worker waits for its tasks, and then for what it closes: the machine is busy
	exitLimit = 5 * time.Minute
)

// process is the binary, running or ended.
type process struct {
	*supervise.Process
	t    testing.TB
	args []string
	out  output
	kept sync.Once
	file string // what it printed, after a failure
	// it did what it should: a failure of the test is not its own
	fine atomic.Bool
}

// start runs the binary with args, and with settings as its whole environment. It is killed when
// the test ends.
func start(t testing.TB, dir string, settings map[string]string, args ...string) *process {
	t.Helper()
	return startProgram(t, dir, settings, exec.Command(ajo, args...), args)
}

// startProgram does what start does with another program than the binary that all tests use.
func startProgram(t testing.TB, dir string, settings map[string]string, cmd *exec.Cmd, args []string) *process {
	t.Helper()
	p := &process{t: t, args: args}
	cmd.Dir, cmd.Env = dir, []string{}
	if v, ok := os.LookupEnv("GORACE"); ok {
		cmd.Env = append(cmd.Env, "GORACE="+v) // of the race detector alone
	}
	for name, value := range settings {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	cmd.WaitDelay = 5 * time.Second
	var err error
	p.Process, err = supervise.Start(cmd, supervise.Options{Name: "ajo " + strings.Join(args, " ")})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() && !p.fine.Load() {
			t.Log(p.summary())
		}
		p.Kill()
	})
	return p
}

// exit waits for the end and returns the exit code; -1 is the end by a signal.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.Done():
		return p.State().ExitCode()
	case <-time.After(exitLimit):
		p.t.Fatalf("ajo %v has not ended after %s", p.args, exitLimit)
		return 0
	}
}

// logged waits until the process has logged a line with the message, and returns its last such
// line.
func (p *process) logged(message string) map[string]any {
	p.t.Helper()
	var line map[string]any
	testenv.Eventually(p.t, startLimit, "a log line of ajo "+p.args[0]+": "+message, func() bool {
		line = p.out.line(message)
		if line == nil && p.Ended() {
			p.t.Fatalf("ajo %v ended with code %d:\n%s", p.args, p.State().ExitCode(), p.out.tail(1000))
		}
		return line != nil
	}, func() any { return p.summary() })
	return line
}

// ops is the address of the process's operations listener.
func (p *process) ops() string {
	p.t.Helper()
	address, _ := p.logged("operations listener started")["address"].(string)
	require.NotEmpty(p.t, address)
	return address
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

// summary is what a test that failed shows of a process: whether it runs, the last lines in which
// it complains, and the file in which all that it printed is kept.
func (p *process) summary() string {
	text := p.out.all()
	state := "runs"
	if p.Ended() {
		state = p.State().String()
	}
	var bad []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) || !strings.HasPrefix(line, "{") {
			bad = append(bad, "  "+line[:min(len(line), 400)])
		}
	}
	last := bad[max(0, len(bad)-4):]
	return fmt.Sprintf("ajo %s: %s; %d lines, %d of them a complaint or no log; all are in %s\n%s", strings.Join(p.args, " "), state,
		bytes.Count(text, []byte("\n")), len(bad), p.keep(text), strings.Join(last, ""))
}

// keep writes the text to a file that outlives the test, in .ajo/failed, and returns its name.
func (p *process) keep(text []byte) string {
	p.kept.Do(func() {
		p.file = testenv.KeepFile(p.t, "ajo-"+strings.Join(p.args[:min(1, len(p.args))], "")+"-*.log")
	})
	if err := os.WriteFile(p.file, text, 0o600); err != nil {
		return err.Error()
	}
	return p.file
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
