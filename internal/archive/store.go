package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Store keeps objects under names with slashes. An object is there whole or not at all: a Put that
// fails leaves nothing under the name that Get returns, or the check after it fails. Nothing is
// ever removed.
type Store interface {
	// Put writes what r has, up to its end. It writes over an object of the same name.
	Put(ctx context.Context, name string, r io.Reader) error
	// Get reads an object; [ErrNoObject].
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List calls each with the name of every object.
	List(ctx context.Context, each func(name string) error) error
	// String says where the objects are, for people.
	String() string
}

// ErrNoObject says that the store has no object of the name.
var ErrNoObject = errors.New("the store has no such object")

// ErrInMemory refuses to keep the only copy of a partition where a restart loses it.
var ErrInMemory = errors.New("the folder is in memory (tmpfs), and a restart loses what is there: name one on a disk that all workers share, or an S3-compatible store")

// Folder is a store in a folder. Workers on several machines need the same folder.
type Folder struct {
	Dir     string
	Lasting bool // refuse to write to a folder in memory: [ErrInMemory]
}

func (f Folder) String() string { return f.Dir }

// unfinished ends the names of files that are being written.
const unfinished = ".part"

// Put writes to a file beside the object and renames it, after both are on the disk. If the disk
// hangs, it returns when the context ends.
func (f Folder) Put(ctx context.Context, name string, r io.Reader) error {
	_, err := within(ctx, f, func() (struct{}, error) { return struct{}{}, f.write(ctx, name, r) })
	return err
}

func (f Folder) write(ctx context.Context, name string, r io.Reader) (err error) {
	if f.Lasting && InMemory(f.Dir) {
		return ErrInMemory
	}
	path, top := f.path(name), existing(f.Dir)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(path+unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	defer func() {
		// each attempt has a name of its own: what is left of those that fail would fill the disk
		if err = errors.Join(err, closed(file)); err != nil {
			_ = os.Remove(path + unfinished)
		}
	}()
	giveToOwner(path+unfinished, top)
	if _, err = io.Copy(file, &reading{ctx, r}); err != nil {
		return err
	}
	if err = file.Sync(); err != nil {
		return err
	}
	if err = os.Rename(path+unfinished, path); err != nil {
		return err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) { // new folders too
		if err = syncDir(dir); err != nil || dir == filepath.Clean(f.Dir) {
			return err
		}
	}
}

func closed(file *os.File) error {
	if err := file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

// Get opens the file. If the disk hangs, it and whoever reads return when the context ends.
func (f Folder) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	file, err := within(ctx, f, func() (*os.File, error) { return os.Open(f.path(name)) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrNoObject)
	}
	if err != nil {
		return nil, err
	}
	return f.read(ctx, file), nil
}

// List walks the folder. Files that are being written are none.
func (f Folder) List(_ context.Context, each func(string) error) error {
	return filepath.WalkDir(f.Dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path == f.Dir:
			return fs.SkipAll // nothing has been archived yet
		case err != nil || d.IsDir() || strings.HasSuffix(path, unfinished):
			return err
		}
		name, err := filepath.Rel(f.Dir, path)
		if err != nil {
			return err
		}
		return each(filepath.ToSlash(name))
	})
}

func (f Folder) path(name string) string { return filepath.Join(f.Dir, filepath.FromSlash(name)) }

// reading ends with its context.
type reading struct {
	ctx context.Context
	r   io.Reader
}

func (r *reading) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
