package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const oldestPostgres = 14

// binaries are where the servers' programs lie.
type binaries struct {
	postgres string // the directory that holds postgres and initdb
	redis    string // the program: redis-server or valkey-server
}

// locate finds the programs, and installs what is missing when o allows it.
func locate(ctx context.Context, dir string, o Options) (binaries, error) {
	major, err := clusterMajor(filepath.Join(dir, dataName, "postgres", "PG_VERSION"))
	if err != nil {
		return binaries{}, err
	}
	for installed := false; ; installed = true {
		found := findPostgres()
		b := binaries{postgres: choose(found, major), redis: findRedis()}
		if b.postgres == "" && len(found) > 0 && major != 0 {
			return b, fmt.Errorf("%s was made by PostgreSQL %d, and only %d is installed: install that version, or run ajo reset",
				dir, major, found[0].major)
		}
		var missing []string
		if b.postgres == "" {
			missing = append(missing, needPostgres)
		}
		if b.redis == "" {
			missing = append(missing, needRedis)
		}
		for _, program := range o.Also {
			if _, err := exec.LookPath(program); err != nil {
				missing = append(missing, program)
			}
		}
		if len(missing) == 0 {
			return b, nil
		}
		if installed {
			return b, fmt.Errorf("%s installed, but not found", strings.Join(missing, " and "))
		}
		if err := install(ctx, missing, filepath.Join(dir, installLog), o); err != nil {
			return b, err
		}
	}
}

// postgresAt is one installed Postgres.
type postgresAt struct {
	bin   string
	major int
}

// findPostgres lists the servers on this machine that are new enough, the one on PATH first, the
// others newest first.
func findPostgres() []postgresAt {
	var near, other []string
	if p, err := exec.LookPath("postgres"); err == nil {
		near = append(near, filepath.Dir(p))
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		other = append(other, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin", "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin", "/usr/local/pgsql/bin",
	} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			panic("stack: a pattern of findPostgres is wrong")
		}
		other = append(other, dirs...)
	}
	return append(withVersions(near), withVersions(other)...)
}

func withVersions(dirs []string) []postgresAt {
	var found []postgresAt
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
			continue
		}
		out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
		if err != nil {
			continue // pg_config comes with the client libraries too, where there is no server
		}
		if major := versionMajor(string(out)); major >= oldestPostgres {
			found = append(found, postgresAt{bin: dir, major: major})
		}
	}
	slices.SortStableFunc(found, func(a, b postgresAt) int { return cmp.Compare(b.major, a.major) })
	return found
}

// versionMajor reads 15 out of "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"; 0 when there
// is none.
func versionMajor(text string) int {
	_, rest, _ := strings.Cut(text, "(PostgreSQL) ")
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	major, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return major
}

// choose takes the first server, or the first of the wanted version (0: any); "" when there is
// none.
func choose(found []postgresAt, major int) string {
	for _, p := range found {
		if major == 0 || p.major == major {
			return p.bin
		}
	}
	return ""
}

// clusterMajor reads which version made a cluster: only that version can open it. Without a cluster
// it is 0.
func clusterMajor(file string) (int, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return major, nil
}

func findRedis() string {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
		for _, dir := range []string{
			"/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/homebrew/opt/redis/bin", "/opt/homebrew/opt/valkey/bin",
			"/usr/local/opt/redis/bin", "/usr/local/opt/valkey/bin", "/home/linuxbrew/.linuxbrew/bin",
		} {
			if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return p
			}
		}
	}
	return ""
}
