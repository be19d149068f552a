package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// devSettingsFile is where `ajo dev` writes the settings that other commands on the machine need.
// It is locked while that process runs: a file without a lock is stale.
const devSettingsFile = "settings.json"

// publishSettings writes and locks the file; release unlocks it.
func (d *devRun) publishSettings() (release func(), err error) {
	path := filepath.Join(d.Dir, devSettingsFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	release = func() {
		_ = f.Truncate(0)
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		_ = f.Close()
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use: %w", path, err)
	}
	text, err := json.MarshalIndent(map[string]string{
		"AJO_DATABASE_URL": d.cfg.DatabaseURL.Reveal(), "AJO_REDIS_URL": d.cfg.RedisURL.Reveal(), "AJO_ENCRYPTION_KEYS": d.cfg.EncryptionKeys.Reveal(),
		"AJO_PROVIDER_URL": d.cfg.ProviderURL, "AJO_PROVIDER_ACCOUNT_ID": d.cfg.ProviderAccountID, "AJO_PROVIDER_CLIENT_ID": d.cfg.ProviderClientID,
		"AJO_PROVIDER_CLIENT_SECRET": d.cfg.ProviderClientSecret.Reveal(), "AJO_HTTP_ADDR": strings.TrimPrefix(d.api.URL, "http://"),
	}, "", "  ")
	if err == nil {
		err = errors.Join(f.Truncate(0), f.Chmod(0o600))
	}
	if err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// DevSettings are the settings of the `ajo dev` that runs with its data in dir, by the names of
// environment variables; nil when none runs.
func DevSettings(dir string) map[string]string {
	f, err := os.Open(filepath.Join(dir, devSettingsFile))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	// Only a running process holds the lock.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return nil
	}
	var settings map[string]string
	if json.Unmarshal(text, &settings) != nil { // it is being written
		return nil
	}
	return settings
}
