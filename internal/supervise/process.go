// Package supervise runs programs beneath this one, for `ajo dev`, the bench and the tests. It
// starts them so that they end with us, waits until they are ready, and stops them.
package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a program that this process has started. Its methods may be called concurrently.
type Process struct {
	Name string // in messages
	Log  string // the file that takes what it prints; empty: it prints elsewhere
	PID  int
	done chan struct{} // closed when it has ended
	err  error         // how it ended; to be read after done
	cmd  *exec.Cmd
}

// Options say how a program is started.
type Options struct {
	Name string
	// Log takes what the program prints, from its beginning; what was there goes to Log.old. When
	// it is empty, the command says where it prints to.
	Log string
	// Death is what the kernel sends the program when we end, on Linux; 0: SIGKILL.
	Death syscall.Signal
	// User is whom the program runs as; nil: us.
	User *syscall.Credential
}

// Start starts the command in a process group of its own, so that Ctrl-C in a terminal reaches us
// and not what runs beneath us. The command has exactly the environment that it names.
func Start(cmd *exec.Cmd, o Options) (*Process, error) {
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	if o.Log != "" {
		_ = os.Rename(o.Log, o.Log+".old") // there may be none
		out, err := os.OpenFile(o.Log, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		defer func() { _ = out.Close() }() // the program has its own
		cmd.Stdout, cmd.Stderr = out, out
	}
	o.Death = cmp.Or(o.Death, syscall.SIGKILL)
	cmd.SysProcAttr = attributes(o)
	p := &Process{Name: o.Name, Log: o.Log, done: make(chan struct{}), cmd: cmd}
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the *thread* that forked ends, and Go ends threads
		// as it likes. So this goroutine keeps its thread, which nobody else can use, for as long
		// as the program runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.PID = cmd.Process.Pid
	return p, nil
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Err waits for the end and says how it ended.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// State is how a program has ended.
func (p *Process) State() *os.ProcessState {
	<-p.done
	return p.cmd.ProcessState
}

// Signal sends a signal; a program that has ended takes none.
func (p *Process) Signal(s os.Signal) {
	if !p.Ended() {
		_ = p.cmd.Process.Signal(s) // it may end in this very moment
	}
}

// Stop signals the program and waits for its end; after patience it is killed, and Stop returns
// false. A program that was not started has ended.
func (p *Process) Stop(s os.Signal, patience time.Duration) bool {
	if p == nil {
		return true
	}
	p.Signal(s)
	select {
	case <-p.done:
		return true
	case <-time.After(patience):
	}
	p.Kill()
	return false
}

// Kill is kill -9; it returns when the program is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Await asks ready until it returns nil. It gives up when the program ends, when ctx ends, or after
// limit.
func (p *Process) Await(ctx context.Context, limit time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.Failure("ended at once")
		case <-ctx.Done():
			return p.Failure(fmt.Sprintf("does not answer (%v)", err))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Failure is an error that says what happened and shows the end of the log.
func (p *Process) Failure(what string) error {
	return fmt.Errorf("%s (process %d) %s\n%s", p.Name, p.PID, what, Tail(p.Log))
}

// LostPort reports whether a server that ended at once did so because somebody else took its port.
func (p *Process) LostPort() bool { return strings.Contains(Tail(p.Log), "ddress already in use") }

// Logged is ready when the program has logged text.
func (p *Process) Logged(text string) func(context.Context) error {
	return func(context.Context) error {
		b, err := os.ReadFile(p.Log)
		if err == nil && !strings.Contains(string(b), text) {
			err = errors.New("it has not logged: " + text)
		}
		return err
	}
}

// Tail returns the last lines of a log, indented.
func Tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if n := len(lines); n > 15 {
		lines = lines[n-15:]
	}
	return "  " + file + ":\n    " + strings.Join(lines, "\n    ")
}

// Listening is ready when somebody takes connections at addr.
func Listening(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

// The ports that [FreePort] draws from lie below those that kernels give to outgoing connections:
// one of those may be taken before its server listens.
const (
	leastFreePort = 16_000
	freePorts     = 16_000
)

// FreePort draws a port of the loopback interface that nobody uses now.
func FreePort() (int, error) {
	var l net.Listener
	var err error
	for range 100 {
		port := leastFreePort + rand.IntN(freePorts)
		if l, err = net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}
