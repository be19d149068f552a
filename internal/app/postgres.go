package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"ajo/internal/tenant"
)

// checkPostgres refuses the other mode's database, and looks at the settings by which a crash of
// Postgres, or a standby that takes over, loses what was answered. These are refused in production
// and named in development.
func (c *core) checkPostgres(ctx context.Context) error {
	if err := tenant.CheckDatabase(ctx, c.Pool, c.cfg.Sandbox); err != nil {
		return err
	}
	var fsync, commit, standbys string
	err := c.Pool.QueryRow(ctx, `SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names')`).
		Scan(&fsync, &commit, &standbys)
	if err != nil {
		return err
	}
	why := losing(fsync, commit, standbys)
	if why != nil && !c.cfg.Production() {
		c.log.Warn("postgres may lose what was answered; production refuses it", slog.Any("why", why))
		return nil
	}
	return why
}

// losing says what is wrong with the settings. full_page_writes may be off: some file systems never
// tear a page.
func losing(fsync, commit, standbys string) error {
	switch {
	case commit == "off":
		return errors.New("synchronous_commit is off: a crash of Postgres loses payments and payouts that were answered")
	case commit == "local" && standbys != "":
		return fmt.Errorf("synchronous_commit is local, and the synchronous standby (%s) lacks what was answered when it takes over", standbys)
	case fsync != "on":
		return errors.New("fsync is off: a crash of the machine loses what was answered, and damages the rest")
	}
	return nil
}
