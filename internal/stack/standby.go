package stack

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	standbyLogName = "standby.log"
	standbyName    = "standby" // of the folder, and by which the primary knows it
)

// StartStandby copies the running Postgres and starts the copy as its synchronous standby: from
// then on, what is committed on the one is on the other's disk too. After [Stack.Promote] it makes
// the standby anew, in the place and on the port of the primary that has died.
func (s *Stack) StartStandby(ctx context.Context) error {
	v := s.Standby
	if v == nil {
		v = s.newPostgres(standbyLogName, s.Postgres.bin, filepath.Join(s.data, standbyName))
	}
	// the copy has it too: how soon a standby looks for its primary again, or notices its promotion
	err := s.onPrimary(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "ALTER SYSTEM SET wal_retrieve_retry_interval = '200ms'")
		return err
	})
	if err != nil {
		return err
	}
	if err := s.copyPrimary(ctx, v.cluster); err != nil {
		return fmt.Errorf("copy for the standby: %w", err)
	}
	start := v.startFirst
	if s.Standby != nil {
		start = v.Start
	}
	s.mu.Lock()
	s.Standby = v
	s.mu.Unlock()
	if err := start(ctx); err != nil {
		return err
	}
	return s.onPrimary(ctx, func(conn *pgx.Conn) error {
		if err := setSynchronous(ctx, conn, "ANY 1 ("+standbyName+")"); err != nil {
			return err
		}
		for synchronous := false; !synchronous; {
			err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND state = 'streaming')`).Scan(&synchronous)
			if err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	})
}

// copyPrimary makes cluster a copy of the running primary that will follow it.
func (s *Stack) copyPrimary(ctx context.Context, cluster string) error {
	if err := os.RemoveAll(cluster); err != nil {
		return err
	}
	if err := s.account.makeDir(cluster); err != nil {
		return err
	}
	server, err := filepath.EvalSymlinks(filepath.Join(s.Postgres.bin, "postgres"))
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(server), "pg_basebackup"), "--pgdata="+cluster, "--checkpoint=fast", "--wal-method=stream",
		"--write-recovery-conf", "--dbname="+s.databaseURL(s.Postgres.port, "postgres")+"&application_name="+standbyName)
	cmd.Dir = s.data
	return s.run(ctx, cmd, "pg_basebackup", "basebackup.log")
}

// Promote makes the standby the primary, as a manager of standbys does when the primary has died.
// Until [Stack.StartStandby] makes another, commits wait for nobody.
func (s *Stack) Promote(ctx context.Context) error {
	s.mu.Lock()
	s.Postgres, s.Standby = s.Standby, s.Postgres
	s.mu.Unlock()
	return s.onPrimary(ctx, func(conn *pgx.Conn) error {
		// before it takes the first commit, which would wait for a standby that is not there
		if err := setSynchronous(ctx, conn, ""); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "SELECT pg_promote()")
		return err
	})
}

// setSynchronous says whom commits wait for. It writes no WAL, so a standby may do it too.
func setSynchronous(ctx context.Context, conn *pgx.Conn, names string) error {
	if _, err := conn.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "SELECT pg_reload_conf()")
	return err
}

func (s *Stack) onPrimary(ctx context.Context, fn func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.databaseURL(s.Postgres.port, "postgres"))
	if err != nil {
		return err
	}
	defer func() { discard(conn.Close(ctx)) }()
	return fn(conn)
}

// StandbyURL is the address of the standby.
func (s *Stack) StandbyURL() string { return s.databaseURL(s.Standby.port, roleAndDB) }

// BothURL is the address of the primary, whichever of the two that is.
func (s *Stack) BothURL() string {
	u, err := url.Parse(s.DatabaseURL)
	if err != nil {
		return ""
	}
	hosts := []string{u.Host}
	for _, v := range []*Server{s.Postgres, s.Standby} {
		if v.Addr() != u.Host {
			hosts = append(hosts, v.Addr())
		}
	}
	u.Host = strings.Join(hosts, ",")
	return u.String()
}
