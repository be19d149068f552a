package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// account is the user that the servers run as.
type account struct {
	name     string
	uid, gid uint32
	other    bool // not the user we run as, so we are root
}

// serverAccount picks the user: the current one; as root, which Postgres refuses, the owner of data
// that exist, or postgres, or nobody.
func serverAccount(dir string) (account, error) {
	self := account{name: "uid " + strconv.Itoa(os.Geteuid()), uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	cluster := filepath.Join(dir, dataName, "postgres")
	if fi, err := os.Stat(cluster); err == nil {
		uid, gid := ownerOf(fi)
		switch {
		case self.uid == uid && uid != 0:
			return self, nil
		case self.uid == 0 && uid != 0:
			return account{name: "uid " + strconv.Itoa(int(uid)), uid: uid, gid: gid, other: true}, nil
		}
		return account{}, fmt.Errorf("%s belongs to another user: run as that user, or remove it with ajo reset", cluster)
	}
	if self.uid != 0 {
		return self, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return account{name: name, uid: uint32(uid), gid: uint32(gid), other: true}, nil
		}
	}
	return account{}, errors.New("postgres does not run as root, and there is neither a user postgres nor a user nobody")
}

func (a account) credential() *syscall.Credential {
	if !a.other {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// own gives path to the account.
func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// makeDir makes a directory that only the account may enter; one that exists stays.
func (a account) makeDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		if os.IsExist(err) {
			return nil
		}
		return err
	}
	return a.own(path)
}

// process is a server, or a helper of one, that this process started.
type process struct {
	name string
	pid  int
	log  string        // the file that takes what it prints
	done chan struct{} // closed when it has ended
	err  error         // how it ended; to be read after done
}

// spawn starts a process with a clean environment in a process group of its own, so that Ctrl-C in
// a terminal reaches us and not the servers beneath us. It prints into logFile. On Linux the kernel
// sends it death when we end.
func (a account) spawn(cmd *exec.Cmd, name, logFile string, death syscall.Signal) (*process, error) {
	discard(os.Rename(logFile, logFile+oldSuffix))
	out, err := os.OpenFile(logFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { discard(out.Close()) }()
	cmd.Stdout, cmd.Stderr = out, out
	// PGPORT and the like would be obeyed
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	if v, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+v)
	}
	cmd.SysProcAttr = sysProcAttr(a.credential(), death)

	p := &process{name: name, log: logFile, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the *thread* that forked ends, and Go ends threads
		// as it likes. So this goroutine keeps its thread, which nobody else can use, for as long
		// as the child lives.
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
	p.pid = cmd.Process.Pid
	return p, nil
}

// stop signals the process and waits for its end; after patience it is killed, and stop returns
// false.
func (p *process) stop(sig os.Signal, patience time.Duration) bool {
	select {
	case <-p.done:
		return true
	default:
	}
	proc, err := os.FindProcess(p.pid)
	if err != nil {
		return true
	}
	discard(proc.Signal(sig))
	select {
	case <-p.done:
		return true
	case <-time.After(patience):
	}
	discard(proc.Kill())
	<-p.done
	return false
}

// await asks ready until it returns nil. It gives up when the process ends, when ctx ends, or after
// readyTimeout.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.failure("ended at once")
		case <-ctx.Done():
			return p.failure(fmt.Sprintf("does not answer (%v)", err))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// failure is an error that says what happened and shows the end of the log.
func (p *process) failure(what string) error {
	return fmt.Errorf("%s (process %d) %s\n%s", p.name, p.pid, what, tail(p.log))
}

// lostPort tells whether a server that ended at once did so because somebody else took its port.
func (p *process) lostPort() bool { return strings.Contains(tail(p.log), "ddress already in use") }

// tail returns the last lines of a log, indented.
func tail(file string) string {
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

// freePort asks the kernel for a port of the loopback interface that nobody uses now.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		panic("stack: a TCP listener without a TCP address")
	}
	return addr.Port, l.Close()
}

// record is what a later run needs to find servers that outlived us. Dir tells a copied directory
// from its original.
type record struct {
	Dir     string    `json:"dir"`
	Servers []running `json:"servers"`
}

// running names a process beyond doubt: numbers are used again, but not with the same time of
// birth.
type running struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	Born string `json:"born"`
}

func recordPath(dir string) string { return filepath.Join(dir, recordName) }

// writeRecord notes the servers that run now.
func (s *Stack) writeRecord() error {
	r := record{Dir: s.dir.path}
	for _, p := range []*process{s.postgres, s.redis} {
		if p != nil {
			r.Servers = append(r.Servers, running{Name: p.name, PID: p.pid, Born: birth(p.pid)})
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(recordPath(s.dir.path), b, 0o600)
}

// stopLeftovers stops the servers of an earlier run that was killed, or waits for those that are
// ending already. The caller holds the directory's lock, so nobody uses them any more.
func stopLeftovers(ctx context.Context, dir string, log func(string, ...any)) error {
	b, err := os.ReadFile(recordPath(dir))
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil || r.Dir != dir {
		return nil // cut short by a crash, or a copy of another directory's: not ours to act on
	}
	for _, s := range r.Servers {
		if err := s.stop(ctx, log); err != nil {
			return err
		}
	}
	return os.Remove(recordPath(dir))
}

func (s running) stop(ctx context.Context, log func(string, ...any)) error {
	alive := func() bool { return s.Born != "" && birth(s.PID) == s.Born }
	if !alive() {
		return nil
	}
	log("stopping %s (process %d), left by an earlier run", s.Name, s.PID)
	sig := redisStop
	if s.Name == postgresName {
		sig = postgresStop
	}
	for deadline := time.Now().Add(stopTimeout); alive(); {
		if err := syscall.Kill(s.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping %s (process %d), left by an earlier run: %w", s.Name, s.PID, err)
		}
		if time.Now().After(deadline) {
			sig = syscall.SIGKILL
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}
