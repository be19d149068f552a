package stack

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	postgresName = "postgres"
	postgresStop = syscall.SIGINT // "fast shutdown": ends the sessions, writes a checkpoint
	// "immediate shutdown": ends at once, and recovers at the next start
	postgresQuit = syscall.SIGQUIT
	roleAndDB    = "ajo"
)

// startPostgres makes the cluster when there is none, starts the server and makes the database.
func (s *Stack) startPostgres(ctx context.Context, bin string) error {
	cluster := filepath.Join(s.data, "postgres")
	if _, err := os.Stat(cluster); os.IsNotExist(err) {
		if err := s.initCluster(ctx, bin, cluster); err != nil {
			return err
		}
	}
	s.Postgres = s.newPostgres(pgLogName, bin, cluster)
	err := s.Postgres.startFirst(ctx)
	s.DatabaseURL = s.databaseURL(s.Postgres.port, roleAndDB)
	return err
}

// newPostgres is a Postgres on a cluster that is there, not started yet.
func (s *Stack) newPostgres(log, bin, cluster string) *Server {
	v := &Server{name: postgresName, log: log, stack: s, bin: bin, cluster: cluster, ready: s.makeDatabase, stop: postgresStop}
	if s.opt.Ephemeral {
		v.stop = postgresQuit // the data goes away: no checkpoint is needed
	}
	v.cmd = func(port int) *exec.Cmd { return s.postgresCmd(bin, cluster, port) }
	return v
}

// initCluster runs initdb beside the final place and moves the result there, so that a cluster is
// whole or absent.
func (s *Stack) initCluster(ctx context.Context, bin, cluster string) error {
	s.opt.Log("making an empty postgres cluster")
	fresh, pwfile := cluster+".new", filepath.Join(s.data, "initdb.password")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := s.account.makeDir(fresh); err != nil {
		return err
	}
	verifier, err := scramVerifier(s.password)
	if err != nil {
		return err
	}
	defer func() { discard(os.Remove(pwfile)) }()
	if err := os.WriteFile(pwfile, []byte(verifier), 0o600); err != nil {
		return err
	}
	if err := s.account.own(pwfile); err != nil {
		return err
	}
	args := []string{
		"--pgdata=" + fresh, "--username=" + roleAndDB, "--pwfile=" + pwfile, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-instructions",
	}
	if s.opt.Ephemeral {
		args = append(args, "--no-sync")
	}
	cmd := exec.Command(filepath.Join(bin, "initdb"), args...)
	cmd.Dir = s.data
	if err := s.run(ctx, cmd, "initdb", pgLogName); err != nil {
		return err
	}
	return os.Rename(fresh, cluster)
}

// run runs one of Postgres' programs to its end.
func (s *Stack) run(ctx context.Context, cmd *exec.Cmd, name, log string) error {
	p, err := s.account.spawn(cmd, name, filepath.Join(s.dir.path, log), syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
		if err := ctx.Err(); err != nil { // both have ended, when this was kept waiting for a processor
			return err
		}
	case <-ctx.Done():
		p.Stop(syscall.SIGTERM, stopTimeout)
		return ctx.Err()
	}
	if err := p.Err(); err != nil {
		return p.Failure("failed: " + err.Error())
	}
	return nil
}

// scramVerifier returns what Postgres stores for a password under SCRAM-SHA-256. One round instead
// of 4,096: the rounds slow down guessing, which is hopeless against 128 random bits, and under the
// race detector they made a connection cost 15 ms instead of 3.
func scramVerifier(password string) (string, error) {
	const rounds = 1
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return "", err
	}
	mac := func(text string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", rounds, b64(salt), b64(stored[:]), b64(mac("Server Key"))), nil
}

func (s *Stack) postgresCmd(bin, cluster string, port int) *exec.Cmd {
	settings := []string{
		"listen_addresses=127.0.0.1",
		"port=" + strconv.Itoa(port),
		// a socket's path may have 107 bytes at the most, and a clone may lie deep
		"unix_socket_directories=",
		"max_connections=" + strconv.Itoa(s.opt.MaxConnections),
		"timezone=UTC",
		"log_timezone=UTC",
		"logging_collector=off", // to stderr, which is our log file
	}
	if s.opt.Ephemeral {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off",
			"wal_level=minimal", "max_wal_senders=0", "max_wal_size=1GB", "checkpoint_timeout=1h", "shared_buffers=256MB")
	} else {
		settings = append(settings, "fsync=on", "synchronous_commit=on", "full_page_writes=on")
	}
	args := []string{"-D", cluster}
	for _, v := range append(settings, s.opt.PostgresSettings...) {
		args = append(args, "-c", v)
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	cmd.Dir = cluster
	return cmd
}

func (s *Stack) databaseURL(port int, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(roleAndDB, s.password),
		Host: "127.0.0.1:" + strconv.Itoa(port), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// makeDatabase connects, and makes the database when it is not there. That it can is what "ready"
// means. A standby has its primary's.
func (s *Stack) makeDatabase(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.databaseURL(port, "postgres"))
	if err != nil {
		return err
	}
	defer func() { discard(conn.Close(ctx)) }()
	var standby bool
	if err = conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil || standby {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+roleAndDB)
	const duplicateDatabase = "42P04"
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == duplicateDatabase {
		return nil
	}
	return err
}
