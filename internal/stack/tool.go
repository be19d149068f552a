package stack

import (
	"fmt"
	"os"
	"path/filepath"
)

// PostgresTool returns the path of a program that comes with Postgres, as pg_dump, of the version
// that this package starts.
func PostgresTool(name string) (string, error) {
	server := filepath.Join(choose(findPostgres(), 0), "postgres")
	// a directory on PATH may have links to the servers alone
	if behind, err := filepath.EvalSymlinks(server); err == nil {
		server = behind
	}
	path := filepath.Join(filepath.Dir(server), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s of PostgreSQL: %w", name, err)
	}
	return path, nil
}
