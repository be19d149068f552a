package archive

import (
	"os"
	"path/filepath"
	"syscall"
)

// existing is the folder itself, or the nearest one above it that is there.
func existing(dir string) string {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
	}
}

// giveToOwner gives a file, and the folders between it and one that was there before, to that
// folder's owner, if this process is root: on one machine the operators' commands are, and the
// workers, which read and write there too, are not. Where it may not, all stays as it is.
func giveToOwner(path, top string) {
	info, err := os.Stat(top)
	if err != nil || os.Geteuid() != 0 {
		return
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return
	}
	for ; path != top && path != filepath.Dir(path); path = filepath.Dir(path) {
		_ = os.Lchown(path, int(owner.Uid), int(owner.Gid))
	}
}
