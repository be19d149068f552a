package stack

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ajo/internal/clock"
	"ajo/internal/supervise"
)

// Server is one of a stack's two servers. A test may take it away and start it again: it keeps its
// port and its data. It is not safe for concurrent use.
type Server struct {
	name  string
	log   string
	stack *Stack
	port  int
	// Postgres only: the folders of its programs and of its data
	bin, cluster string
	cmd          func(port int) *exec.Cmd
	ready        func(ctx context.Context, port int) error
	stop         syscall.Signal // an orderly end; the kernel sends it too when we end
	p            *supervise.Process
}

// Addr is where the server listens: 127.0.0.1 and its port.
func (v *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(v.port) }

// startFirst starts the server on a port that nobody uses.
func (v *Server) startFirst(ctx context.Context) error {
	for try := 1; ; try++ {
		var err error
		if v.port, err = supervise.FreePort(); err != nil {
			return err
		}
		err = v.launch(ctx)
		if err == nil {
			v.stack.opt.Log("%s runs on 127.0.0.1:%d", v.name, v.port)
			return nil
		}
		if try == portTries || v.p == nil || !v.p.LostPort() {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
}

// launch starts the process and returns when it answers.
func (v *Server) launch(ctx context.Context) error {
	p, err := v.stack.account.spawn(v.cmd(v.port), v.name, filepath.Join(v.stack.dir.path, v.log), v.stop)
	if err != nil {
		return err
	}
	if err := v.stack.started(v, p); err != nil {
		return err
	}
	return v.p.Await(ctx, readyTimeout, func(ctx context.Context) error { return v.ready(ctx, v.port) })
}

// Start starts a server that was killed, and returns when it answers, after its recovery. It waits
// for what the killed one's processes still hold: the port, Postgres' memory and lock.
func (v *Server) Start(ctx context.Context) error {
	for begin := time.Now(); ; {
		err := v.launch(ctx)
		if err == nil || time.Since(begin) > readyTimeout {
			return err
		}
		text := supervise.Tail(v.p.Log)
		if !v.p.LostPort() && !strings.Contains(text, "pre-existing shared memory block") && !strings.Contains(text, "lock file") {
			return err
		}
		if err := clock.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// Kill is kill -9. Postgres' sessions end when they notice.
func (v *Server) Kill() { v.p.Kill() }

// Quit is Postgres' immediate shutdown: no checkpoint is written, and the next start recovers.
func (v *Server) Quit() { v.p.Stop(postgresQuit, stopTimeout) }

// end stops a server that was started.
func (v *Server) end() {
	if v != nil && v.p != nil && !v.p.Stop(v.stop, stopTimeout) {
		v.stack.opt.Log("%s (process %d) did not end within %v and was killed", v.name, v.p.PID, stopTimeout)
	}
}
