// Package stack runs a private Postgres and a private Redis for `ajo dev` and for the tests, so
// that a machine needs nothing but Go to work on this repository.
//
// It owns one directory a stack: the data, the logs, a lock and the generated password. What always
// holds: both servers listen on 127.0.0.1 only, on ports the kernel picked, behind a random
// password; one stack at a time runs on a directory; on Linux the servers end with the process that
// started them, however that ends, and everywhere [Start] first stops what an earlier run left
// behind. It is never part of a production deployment.
package stack

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ajo/internal/supervise"
)

// ErrInUse says that another process runs a stack on the directory.
var ErrInUse = errors.New("in use")

// Options say where and how a stack runs.
type Options struct {
	// Dir holds everything the stack writes (".ajo/dev"); it is made when missing.
	Dir string
	// Ephemeral trades durability for speed (no fsync, no append-only file, and no disk where there
	// is memory enough) and removes Dir's content on [Stack.Stop]. Without it every commit is on
	// disk, and the next Start on Dir finds its data again.
	Ephemeral bool
	// MaxConnections is Postgres' limit; 0 means 200.
	MaxConnections int
	// PostgresSettings are further settings of the server, as name=value.
	PostgresSettings []string
	// Also are further programs that must be there, of those that [install] knows: pgbackrest,
	// patroni, etcd.
	Also []string
	// Install allows missing servers to be installed with the machine's package manager, where that
	// needs no password.
	Install bool
	// Log takes one line of progress a call, without a line end; nil drops them.
	Log func(format string, args ...any)
}

// Stack is a running Postgres and Redis. Whoever started it must call [Stack.Stop].
type Stack struct {
	DatabaseURL string // postgres://ajo:…@127.0.0.1:…/ajo?sslmode=disable; the role is a superuser
	RedisURL    string // redis://:…@127.0.0.1:…/0; databases 0 to 4095
	Postgres    *Server
	Redis       *Server
	Standby     *Server // of Postgres, if there is one, or the primary that died

	opt     Options
	dir     *lockedDir
	account account
	// where the servers write; inside Dir, or elsewhere when the account cannot reach Dir
	data     string
	password string
	failed   chan error
	stopping chan struct{}
	stopOnce sync.Once

	// mu guards which server is which, and the processes: a start of any server notes all of them.
	mu sync.Mutex
}

const (
	// crash recovery of a large database comes before the first answer
	readyTimeout = 60 * time.Second
	stopTimeout  = time.Minute // of an orderly end, then the server is killed: the disk may be busy
	// the kernel's free port can be taken by another before the server binds it
	portTries = 5
)

// Start brings both servers up and returns when both answer. It waits at most a few seconds for a
// stack on the same directory to go away, then fails with [ErrInUse]. An error names what is
// missing, or shows the end of the server's log; nothing is left running then. The end of ctx
// aborts Start, but does not stop a stack that has started.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	o.MaxConnections = cmp.Or(o.MaxConnections, 200)
	dir, err := lockDir(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	if err := stopLeftovers(ctx, dir.path, o.Log); err != nil {
		dir.unlock() // and no more: servers may still be at work in there
		return nil, err
	}
	s := &Stack{opt: o, dir: dir, failed: make(chan error, 1), stopping: make(chan struct{})}
	if err := s.startServers(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	go s.watch(s.Postgres.p, s.Redis.p)
	return s, nil
}

func (s *Stack) startServers(ctx context.Context) error {
	if s.opt.Ephemeral {
		if err := s.dir.clear(); err != nil { // a crash may have left some
			return err
		}
	}
	bin, err := locate(ctx, s.dir.path, s.opt)
	if err != nil {
		return err
	}
	if s.account, err = serverAccount(s.dir.path); err != nil {
		return err
	}
	inMemory := false
	if s.opt.Ephemeral {
		s.data, inMemory = placeInMemory(s.dir.path)
	}
	if !inMemory {
		if s.data, err = placeData(s.dir.path, s.account, s.opt.Log); err != nil {
			return err
		}
	}
	if s.password, err = keepPassword(filepath.Join(s.data, "password")); err != nil {
		return err
	}
	if err := s.startPostgres(ctx, bin.postgres); err != nil {
		return err
	}
	return s.startRedis(ctx, bin.redis)
}

// Failed yields one error when a server ends although nobody stopped it. It is never closed.
func (s *Stack) Failed() <-chan error { return s.failed }

func (s *Stack) watch(postgres, redis *supervise.Process) {
	p := postgres
	select {
	case <-s.stopping:
		return
	case <-postgres.Done():
	case <-redis.Done():
		p = redis
	}
	select {
	case <-s.stopping: // Stop closes this before it signals, so an end it asked for is told apart
	default:
		s.failed <- p.Failure("ended unexpectedly")
	}
}

// Stop ends both servers in order, kills what does not end within a minute, and gives the directory
// free; an ephemeral stack's data is removed. It may be called more than once and from several
// goroutines; each call returns when the stack is down.
func (s *Stack) Stop() {
	s.stopOnce.Do(func() {
		close(s.stopping)
		var wg sync.WaitGroup
		wg.Go(s.Redis.end)
		wg.Go(s.Postgres.end)
		wg.Go(s.Standby.end)
		wg.Wait()
		if err := os.Remove(recordPath(s.dir.path)); err != nil && !os.IsNotExist(err) {
			s.opt.Log("%v", err)
		}
		if s.opt.Ephemeral {
			if err := s.dir.remove(); err != nil {
				s.opt.Log("%v", err)
			}
		}
		s.dir.unlock()
	})
}

// Reset removes dir and every stack's data in it, also what lies elsewhere (see the package's
// fallback for root). It fails with [ErrInUse], and removes nothing, while a stack runs on dir or
// on one of the directories in it. A directory that does not exist is no error.
func Reset(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	const deep = 2 // .ajo, .ajo/dev, .ajo/test/123
	found, err := stackDirs(dir, deep)
	if err != nil {
		return err
	}
	var locked []*lockedDir
	defer func() {
		for _, d := range locked {
			d.unlock()
		}
	}()
	for _, f := range found {
		d, err := tryLockDir(f)
		if err != nil {
			return err
		}
		locked = append(locked, d)
	}
	for _, d := range locked {
		if err := stopLeftovers(context.Background(), d.path, func(string, ...any) {}); err != nil {
			return err
		}
		if err := d.clear(); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// stackDirs lists the directories that have been a stack's: dir itself, and those below it down to
// depth.
func stackDirs(dir string, depth int) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	var found []string
	for _, e := range entries {
		switch {
		case e.Name() == lockName && e.Type().IsRegular():
			found = append(found, dir)
		case e.IsDir() && e.Name() != dataName && depth > 0:
			below, err := stackDirs(filepath.Join(dir, e.Name()), depth-1)
			if err != nil {
				return nil, err
			}
			found = append(found, below...)
		}
	}
	return found, nil
}
