// Package migrations is the schema: one numbered file per capability, run forward only.
//
// Until the service is first deployed, a change edits its capability's file. From then on a file is
// never edited: the next change is the next number, and runs beside payments and beside the version
// before. docs/operations.md says how to write one; a test applies each to tables with rows and
// refuses what would stop payments (live_test.go).
package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"ajo/internal/clock"
	"ajo/internal/pg"
)

// Files are the migrations.
//
//go:embed *.sql
var Files embed.FS

// Digest is of the files' content: it names what was made by them, of the benchmark and of tests.
func Digest() (string, error) {
	names, err := fs.Glob(Files, "*.sql")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, n := range names {
		b, err := fs.ReadFile(Files, n)
		if err != nil {
			return "", err
		}
		sum.Write(b)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// ErrBehind says that the database lacks a migration; `ajo migrate` applies it.
var ErrBehind = errors.New("the database's schema is behind this program: run `ajo migrate`")

const (
	// LockTimeout is how long a migration waits for a lock, and so how long payments wait behind
	// it: what comes after a request for a table's lock queues up.
	LockTimeout = 400 * time.Millisecond
	// giveUpAfter is how long the lock is asked for again and again.
	giveUpAfter = 10 * time.Minute
	// alone marks a file whose statements run outside of a transaction, as CONCURRENTLY needs it.
	alone = "+goose NO TRANSACTION"
)

// Options say what is applied; the zero value is this program's schema, applied silently.
type Options struct {
	Files fs.FS                            // nil: [Files]
	Log   func(format string, args ...any) // what takes long, and why; nil: nobody
}

// Up applies every migration that the database at url lacks and returns the files' names. Several
// processes may call it at once: an advisory lock lets one work while the others wait. A file that
// cannot have its locks within [LockTimeout] is undone and tried again, for minutes.
func Up(ctx context.Context, url string, o Options) ([]string, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	r, err := open(ctx, url, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	var applied []string
	for begin := time.Now(); ; {
		version, _, err := r.GetVersions(ctx)
		if err != nil {
			return applied, fmt.Errorf("schema version: %w", err)
		}
		next := r.after(version)
		if next == 0 {
			return applied, nil
		}
		r.patient = strings.Contains(r.texts[next], alone)
		_, err = r.ApplyVersion(ctx, next, true)
		switch {
		case errors.Is(err, goose.ErrAlreadyApplied): // by another process, meanwhile
		case err == nil:
			applied = append(applied, r.names[next])
			begin = time.Now()
		case !isLocked(err) || time.Since(begin) > giveUpAfter:
			return applied, fmt.Errorf("migrate: %s: %w", r.names[next], err)
		default:
			o.Log("%s: a lock was not granted within %s; nothing has changed, trying again", r.names[next], LockTimeout)
			if err := clock.Sleep(ctx, time.Second+rand.N(time.Second)); err != nil {
				return applied, err
			}
		}
	}
}

// isLocked reports whether Postgres ended a statement since it waited too long for a lock, or in a
// circle.
func isLocked(err error) bool {
	const lockNotAvailable, deadlockDetected = "55P03", "40P01"
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == lockNotAvailable || refused.Code == deadlockDetected)
}

// Check returns [ErrBehind] when the database at url lacks a migration that this program knows.
func Check(ctx context.Context, url string) error {
	r, err := open(ctx, url, Options{})
	if err != nil {
		return err
	}
	defer r.close()
	pending, err := r.HasPending(ctx)
	if err != nil {
		return fmt.Errorf("schema version: %w", err)
	}
	if pending {
		return ErrBehind
	}
	return nil
}

// runner applies files one by one, each by a connection of its own.
type runner struct {
	*goose.Provider
	db      *sql.DB
	names   map[int64]string
	texts   map[int64]string
	patient bool // the next file waits for locks for as long as it takes, since nobody waits behind it
	log     func(format string, args ...any)
}

func open(ctx context.Context, url string, o Options) (*runner, error) {
	if o.Files == nil {
		o.Files = Files
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres address: %w", err)
	}
	pg.FollowPrimary(ctx, cfg)
	r := &runner{names: map[int64]string{}, texts: map[int64]string{}, log: o.Log}
	r.db = stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		wait := LockTimeout
		if r.patient {
			wait = 0
		}
		_, err := conn.Exec(ctx, fmt.Sprintf("SET application_name = 'ajo migrate'; SET statement_timeout = 0; SET lock_timeout = %d", wait.Milliseconds()))
		return err
	}))
	r.db.SetMaxIdleConns(0) // so that each file begins with these settings
	if r.Provider, err = r.provider(o.Files); err != nil {
		r.close()
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return r, nil
}

func (r *runner) provider(files fs.FS) (*goose.Provider, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	var backfills []*goose.Migration
	var ours []string
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		r.names[version], r.texts[version] = name, string(text)
		if b, ok := backfillOf(version, name, string(text)); ok {
			ours = append(ours, name)
			backfills = append(backfills, goose.NewGoMigration(version, &goose.GoFunc{RunDB: func(ctx context.Context, db *sql.DB) error {
				return b.run(ctx, db, r.log)
			}}, nil))
		}
	}
	// whoever comes second waits for an index or a backfill of hours
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 7*24*3600))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, r.db, files, goose.WithSessionLocker(locker),
		goose.WithDisableGlobalRegistry(true), goose.WithExcludeNames(ours), goose.WithGoMigrations(backfills...))
}

// after is the version that follows on another; 0 when there is none.
func (r *runner) after(version int64) (next int64) {
	for v := range r.names {
		if v > version && (next == 0 || v < next) {
			next = v
		}
	}
	return next
}

func (r *runner) close() { _ = r.db.Close() }
