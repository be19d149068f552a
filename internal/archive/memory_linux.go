package archive

import (
	"os"
	"path/filepath"
	"syscall"
)

// The file systems that a restart of the machine or of the container empties, as statfs names them.
const (
	tmpfs = 0x01021994
	ramfs = 0x858458f6
)

// InMemory reports whether a folder, which need not be there yet, is in memory. What is written
// there is lost with the container, or when the machine starts again.
func InMemory(dir string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil {
		return false
	}
	kind := uint32(fs.Type) // of another width on each platform
	return kind == tmpfs || kind == ramfs
}
