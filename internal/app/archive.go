package app

import (
	"fmt"
	"log/slog"

	"ajo/internal/archive"
	"ajo/internal/clock"
	"ajo/internal/config"
	"ajo/internal/pg"
)

// archiveOf makes the archive that the settings name. Without a store it still lists.
func archiveOf(cfg config.Config, pool *pg.Pool, c clock.Clock, log *slog.Logger) (*archive.Service, error) {
	o := archive.Options{Pool: pool, Clock: c, Log: log, KeepEvents: cfg.KeepEvents, KeepDeliveries: cfg.KeepDeliveries}
	switch {
	case cfg.ArchiveDir != "":
		o.Store = archive.Folder{Dir: cfg.ArchiveDir, Lasting: cfg.Production()}
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
