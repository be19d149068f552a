package stack

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ajo/internal/clock"
)

// What a stack's directory holds.
const (
	lockName    = "lock"
	dataName    = "data" // password, postgres/, redis/; a symbolic link when it lies elsewhere
	recordName  = "running.json"
	pgLogName   = "postgres.log"
	redisLog    = "redis.log"
	installLog  = "install.log"
	oldSuffix   = ".old" // the log of the run before
	lockPatient = 2 * time.Second
)

// lockedDir is a directory that this process has to itself.
type lockedDir struct {
	path string // absolute, links resolved
	lock *os.File
}

// lockDir makes and locks a directory. A stack that is just stopping gets a moment to go away.
func lockDir(ctx context.Context, path string) (*lockedDir, error) {
	for start := time.Now(); ; {
		err := os.MkdirAll(path, 0o755)
		if err == nil {
			var d *lockedDir
			if d, err = tryLockDir(path); err == nil {
				return d, nil
			}
		}
		if passing := errors.Is(err, ErrInUse) || errors.Is(err, fs.ErrNotExist); !passing || time.Since(start) > lockPatient {
			return nil, err
		}
		if err := clock.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// tryLockDir locks a directory that exists, or fails at once. The kernel gives the lock free when
// the process ends.
func tryLockDir(path string) (*lockedDir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, err
	}
	name := filepath.Join(abs, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(name) // only for the message
		discard(f.Close())
		return nil, fmt.Errorf("%s is %w by another ajo (process %s)", abs, ErrInUse, strings.TrimSpace(string(holder)))
	}
	// Between open and lock the file may have been removed by a reset: a lock on a removed file
	// guards nothing.
	if held, err := f.Stat(); err != nil || !sameFile(held, name) {
		discard(f.Close())
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	discard(f.Truncate(0))
	_, err = fmt.Fprintln(f, os.Getpid())
	discard(err)
	return &lockedDir{path: abs, lock: f}, nil
}

func sameFile(held os.FileInfo, name string) bool {
	now, err := os.Stat(name)
	return err == nil && os.SameFile(held, now)
}

// unlock gives the directory free. Closing alone would not always do it at once: a child that is
// just being forked shares the open file, and the lock with it, until it executes its program.
func (d *lockedDir) unlock() {
	discard(syscall.Flock(int(d.lock.Fd()), syscall.LOCK_UN))
	discard(d.lock.Close())
}

// clear removes all that stacks write, but not the lock, nor anything that somebody else put there.
func (d *lockedDir) clear() error {
	data := filepath.Join(d.path, dataName)
	if target, err := os.Readlink(data); err == nil && (target == farDir(d.path) || target == memoryDir(d.path)) && isOurs(target) {
		if err := os.RemoveAll(target); err != nil {
			return err
		}
	}
	for _, n := range []string{
		dataName, recordName, installLog, pgLogName, pgLogName + oldSuffix, redisLog, redisLog + oldSuffix,
	} {
		if err := os.RemoveAll(filepath.Join(d.path, n)); err != nil {
			return err
		}
	}
	return nil
}

// remove clears the directory and takes it away, unless there is something in it that is not ours.
func (d *lockedDir) remove() error {
	if err := d.clear(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(d.path, lockName)); err != nil {
		return err
	}
	if err := os.Remove(d.path); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// placeInMemory has the servers write in memory when there is plenty of it: a test's database is
// copied there in a tenth of the time that a disk takes. dir/data is then a link to their data.
func placeInMemory(dir string) (string, bool) {
	if !roomInMemory() {
		return "", false
	}
	near, memory := filepath.Join(dir, dataName), memoryDir(dir)
	return memory, makeFar(near, memory) == nil
}

// placeData returns the directory that the servers write in. It is dir/data when the servers'
// account can go there. When it cannot (root's clone under /root), the data lie in /var/tmp, and
// dir/data is a link to them.
func placeData(dir string, who account, log func(string, ...any)) (string, error) {
	near, far := filepath.Join(dir, dataName), farDir(dir)
	if target, err := os.Readlink(near); err == nil {
		if target == far && isOurs(far) {
			return far, nil
		}
		// a copied clone
		log("%s pointed to %s, which is not this directory's: starting with empty data", near, target)
		if err := os.Remove(near); err != nil {
			return "", err
		}
	}
	made := os.Mkdir(near, 0o700)
	if made != nil && !os.IsExist(made) {
		return "", made
	}
	if !who.other {
		return near, nil
	}
	if err := os.Chmod(near, 0o711); err != nil { // the account passes through, and lists nothing
		return "", err
	}
	if who.reaches(near) {
		return near, nil
	}
	if made != nil {
		return "", fmt.Errorf("user %s can no longer reach %s: make its parent directories passable, or run ajo reset", who.name, near)
	}
	if err := os.Remove(near); err != nil {
		return "", err
	}
	log("user %s cannot reach %s: the data are in %s", who.name, near, far)
	return far, makeFar(near, far)
}

func makeFar(near, far string) error {
	// Without the link it belongs to a clone that was deleted from this very path. Its parent is
	// everybody's, so what is not our own directory is somebody's trap, and Mkdir below refuses it.
	if isOurs(far) {
		if err := os.RemoveAll(far); err != nil {
			return err
		}
	}
	if err := os.Mkdir(far, 0o711); err != nil {
		return err
	}
	if err := os.Chmod(far, 0o711); err != nil { // whatever the umask
		return err
	}
	return os.Symlink(far, near)
}

func farDir(dir string) string { return filepath.Join("/var/tmp", farName(dir)) }

// memoryDir is where Linux keeps files in memory.
func memoryDir(dir string) string { return filepath.Join("/dev/shm", farName(dir)) }

func farName(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "ajo-" + hex.EncodeToString(sum[:8])
}

// isOurs reports whether path is a directory of the user that we run as.
func isOurs(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil || !fi.IsDir() {
		return false
	}
	uid, _ := ownerOf(fi)
	return int(uid) == os.Geteuid()
}

func ownerOf(fi os.FileInfo) (uid, gid uint32) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		panic("stack: no owner in a file's information")
	}
	return st.Uid, st.Gid
}

// reaches reports whether the account may enter dir. It asks the kernel, which knows every rule, by
// entering it.
func (a account) reaches(dir string) bool {
	name, err := exec.LookPath("true")
	if err != nil {
		return false
	}
	cmd := exec.Command(name)
	cmd.Dir = dir // entered after the change of user
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential()}
	return cmd.Run() == nil
}

// keepPassword reads the password from file, or makes one and keeps it there, readable by this user
// only.
func keepPassword(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	if !os.IsNotExist(err) {
		return "", err
	}
	password := rand.Text()
	return password, os.WriteFile(file, []byte(password+"\n"), 0o600)
}

// discard marks an error that changes nothing: the call only tidies up, or the result serves a
// message.
func discard(error) {}
