package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"ajo/internal/archive"
	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/config"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// archiveOf makes the archive that the settings name. Without a store it still lists.
func archiveOf(cfg config.Config, pool *pg.Pool, c clock.Clock, log *slog.Logger) (*archive.Service, error) {
	o := archive.Options{Pool: pool, Clock: c, Log: log, KeepEvents: cfg.KeepEvents, KeepDeliveries: cfg.KeepDeliveries}
	switch {
	case cfg.ArchiveDir != "":
		o.Store = archive.Folder{Dir: cfg.ArchiveDir}
	case cfg.ArchiveS3Endpoint != "":
		s, err := archive.OpenS3(archive.S3{
			Endpoint: cfg.ArchiveS3Endpoint, Region: cfg.ArchiveS3Region, Bucket: cfg.ArchiveS3Bucket, Prefix: cfg.ArchiveS3Prefix,
			AccessKey: cfg.ArchiveS3AccessKey, SecretKey: cfg.ArchiveS3SecretKey, PathStyle: cfg.ArchiveS3PathStyle,
		})
		if err != nil {
			return nil, fmt.Errorf("AJO_ARCHIVE_S3_ENDPOINT: %w", err)
		}
		o.Store = s
	}
	return archive.New(o), nil
}

// Archived lists the partitions ([archive.Service.List]); only those of a state, unless it is "".
// The page is always the only one.
func (t *Tools) Archived(ctx context.Context, state archive.State) (list []archive.Entry, _ page.Info, err error) {
	all, err := t.archive.List(ctx, true)
	for _, e := range all {
		if state == "" || e.State == state {
			list = append(list, e)
		}
	}
	return list, page.Info{}, err
}

// ArchivedPartition finds a partition ([archive.Service.Find]).
func (t *Tools) ArchivedPartition(ctx context.Context, name string) (archive.Entry, error) {
	return t.archive.Find(ctx, name)
}

// VerifyArchive reads the store ([archive.Service.Verify]).
func (t *Tools) VerifyArchive(ctx context.Context, note func(string)) (archive.Report, error) {
	return t.archive.Verify(ctx, note)
}

// RestorePartition brings a partition back ([archive.Service.Restore]).
func (t *Tools) RestorePartition(ctx context.Context, name string, by audit.By) (*archive.Manifest, error) {
	return t.archive.Restore(ctx, name, by)
}

// ExportRange exports rows ([archive.Service.Export]).
func (t *Tools) ExportRange(ctx context.Context, table string, from, to time.Time, by audit.By) (*archive.Manifest, error) {
	return t.archive.Export(ctx, table, from, to, by)
}

// ArchiveNow archives a partition that is due ([archive.Service.Archive]).
func (t *Tools) ArchiveNow(ctx context.Context, name string, by audit.By) (*archive.Manifest, error) {
	return t.archive.ArchiveByHand(ctx, name, by)
}
