package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"ajo/internal/supervise"
)

// What can be missing, in a person's words.
const (
	needPostgres = "PostgreSQL"
	needRedis    = "Redis"
)

// manager is a package manager, and how it is made to install without leaving a service running.
type manager struct {
	name     string
	packages map[string]string
	command  string // what a person would type before the packages' names
	script   string // for sh; the packages' names are its arguments
	asUser   bool   // refuses to run as root
}

var managers = []manager{
	{
		name: "apt-get", command: "apt-get install -y", script: aptScript,
		packages: map[string]string{
			needPostgres: "postgresql", needRedis: "redis-server", "pgbackrest": "pgbackrest", "patroni": "patroni python3-etcd", "etcd": "etcd-server",
		},
	},
	{
		name: "dnf", command: "dnf install -y", script: dnfScript,
		packages: map[string]string{needPostgres: "postgresql-server", needRedis: "redis"},
	},
	{
		name: "brew", command: "brew install", script: `NONINTERACTIVE=1 brew install "$@"`, asUser: true,
		packages: map[string]string{needPostgres: "postgresql@17", needRedis: "redis"},
	},
}

// aptScript keeps Debian's packages from starting servers of their own: policy-rc.d with status 101
// forbids it, and the drop-in keeps postgresql from making its "main" cluster. Both are taken away
// again, unless they were there before. The lock keeps a second ajo from installing under a policy
// that the first is about to remove.
const aptScript = `
set -eu
export DEBIAN_FRONTEND=noninteractive
exec 9>/run/ajo-install.lock
flock 9
policy=/usr/sbin/policy-rc.d
dropins=/etc/postgresql-common/createcluster.d
dropin=$dropins/ajo.conf
mark='# Made by ajo while it installs packages. If ajo no longer runs, delete this file.'
undo() {
	if grep -qsxF "$mark" "$policy"; then rm -f "$policy"; fi
	rm -f "$dropin"
	rmdir "$dropins" 2>/dev/null || true
}
trap undo EXIT
trap 'exit 1' HUP INT TERM
if [ ! -e "$policy" ]; then
	printf '%s\n' '#!/bin/sh' "$mark" 'exit 101' >"$policy"
	chmod 755 "$policy"
fi
case " $* " in
*" postgresql "*)
	mkdir -p "$dropins"
	printf '%s\n' "$mark" 'create_main_cluster = false' >"$dropin"
	;;
esac
get() { apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "$@"; }
get install --no-install-recommends "$@" || {
	get update
	get install --no-install-recommends "$@"
}
case " $* " in
*" redis-server "*)
	if [ -d /run/systemd/system ]; then systemctl disable redis-server; fi
	;;
esac
`

// dnfScript: Fedora's packages start nothing by themselves, and where Redis was dropped Valkey took
// its place.
const dnfScript = `
for package in "$@"; do
	dnf install -y -q "$package" || { [ "$package" = redis ] && dnf install -y -q valkey; } || exit 1
done
`

// install installs what is missing, or says in one line what is missing and what a person would
// run.
func install(ctx context.Context, missing []string, logFile string, o Options) error {
	m, ok := findManager()
	what := strings.Join(missing, " and ")
	if !ok {
		return fmt.Errorf("missing: %s; install PostgreSQL %d or later and Redis 6 or later (or Valkey), and put them on PATH",
			what, oldestPostgres)
	}
	var packages []string
	for _, n := range missing {
		names, known := m.packages[n]
		if !known {
			return fmt.Errorf("missing: %s, of which the package of %s is not known here: install it, and put it on PATH", n, m.name)
		}
		packages = append(packages, strings.Fields(names)...)
	}
	advice := m.command + " " + strings.Join(packages, " ")
	if !m.asUser && os.Geteuid() != 0 {
		advice = "sudo " + advice
	}
	if !o.Install {
		return fmt.Errorf("missing: %s; run: %s", what, advice)
	}
	prefix, err := m.privilege(ctx)
	if err != nil {
		return fmt.Errorf("missing: %s, and %w; run: %s", what, err, advice)
	}
	o.Log("installing %s with %s …", strings.Join(packages, " and "), m.name)
	out, err := os.OpenFile(logFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { discard(out.Close()) }()
	argv := append(prefix, "sh", "-c", m.script, "ajo")
	argv = append(argv, packages...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// An installation that has begun is not killed midway: an interrupt is passed on, and the
	// script tidies up.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s failed (%w); run: %s\n%s", m.name, err, advice, supervise.Tail(logFile))
	}
	return nil
}

func findManager() (manager, bool) {
	for _, m := range managers {
		if _, err := exec.LookPath(m.name); err == nil {
			return m, true
		}
	}
	return manager{}, false
}

// privilege returns what stands before the command so that it may install.
func (m manager) privilege(ctx context.Context) ([]string, error) {
	root := os.Geteuid() == 0
	switch {
	case m.asUser && root:
		return nil, errors.New("brew does not run as root")
	case m.asUser || root:
		return nil, nil
	}
	if err := exec.CommandContext(ctx, "sudo", "-n", "true").Run(); err != nil {
		return nil, errors.New("this user may not install packages without a password")
	}
	return []string{"sudo", "-n"}, nil
}
