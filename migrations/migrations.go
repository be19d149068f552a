// Package migrations is the schema: one numbered file per capability, run forward only.
//
// Until the service is first deployed, a change edits its capability's file. From then on a file is
// never edited: the next change is the next number, which sets lock_timeout and is safe to run
// beside the version before.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Files are the migrations.
//
//go:embed *.sql
var Files embed.FS

// ErrBehind says that the database lacks a migration; `ajo migrate` applies it.
var ErrBehind = errors.New("the database's schema is behind this program: run `ajo migrate`")

// Up applies every migration that the database at url lacks and returns the files' names. Several
// processes may call it at once: an advisory lock lets one work while the others wait.
func Up(ctx context.Context, url string) ([]string, error) {
	p, done, err := open(url)
	if err != nil {
		return nil, err
	}
	defer done()
	results, err := p.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	var applied []string
	for _, r := range results {
		applied = append(applied, r.Source.Path)
	}
	return applied, nil
}

// Check returns [ErrBehind] when the database at url lacks a migration that this program knows.
func Check(ctx context.Context, url string) error {
	p, done, err := open(url)
	if err != nil {
		return err
	}
	defer done()
	pending, err := p.HasPending(ctx)
	if err != nil {
		return fmt.Errorf("schema version: %w", err)
	}
	if pending {
		return ErrBehind
	}
	return nil
}

func open(url string) (*goose.Provider, func(), error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, nil, fmt.Errorf("postgres address: %w", err)
	}
	db := stdlib.OpenDB(*cfg)
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, nil, err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, Files, goose.WithSessionLocker(locker))
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("migrations: %w", err)
	}
	return p, func() { _ = db.Close() }, nil
}
