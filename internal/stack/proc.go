package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"ajo/internal/clock"
	"ajo/internal/supervise"
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

// spawn starts a server, or a helper of one, with a clean environment. It prints into logFile, and
// the kernel sends it death when we end.
func (a account) spawn(cmd *exec.Cmd, name, logFile string, death syscall.Signal) (*supervise.Process, error) {
	// PGPORT and the like would be obeyed
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	if v, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+v)
	}
	return supervise.Start(cmd, supervise.Options{Name: name, Log: logFile, Death: death, User: a.credential()})
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

// started notes that a server's process runs, beside those of the others.
func (s *Stack) started(v *Server, p *supervise.Process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.p = p
	return s.writeRecord()
}

// writeRecord notes the servers that run now. The caller holds the lock.
func (s *Stack) writeRecord() error {
	r := record{Dir: s.dir.path}
	for _, v := range []*Server{s.Postgres, s.Standby, s.Redis} {
		if v != nil && v.p != nil {
			r.Servers = append(r.Servers, running{Name: v.name, PID: v.p.PID, Born: birth(v.p.PID)})
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
		if err := s.end(ctx, log); err != nil {
			return err
		}
	}
	return os.Remove(recordPath(dir))
}

func (s running) end(ctx context.Context, log func(string, ...any)) error {
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
		if err := clock.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
