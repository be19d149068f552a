package archive_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/archive"
	"ajo/internal/clock"
	"ajo/internal/failpoint"
	"ajo/internal/pg"
)

// A process that dies at any point loses nothing, and drops nothing unchecked: the next one does
// what is left. The process is this test's own program, which ends as by kill -9.
func TestKilledAtEachPoint(t *testing.T) {
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 25)
	content := b.content("deliveries")
	name, tries := b.name("deliveries", 0), b.name("delivery_attempts", 0)
	dir := b.opts.Store.(archive.Folder).Dir
	tried := 0
	for _, point := range failpoint.Points {
		if !strings.HasPrefix(point, "archive/") {
			continue
		}
		tried++
		restores := strings.Contains(point, "restore")
		if restores { // it can be brought back again and again
			_, err := b.Archive(b.ctx, name)
			require.NoError(t, err, point)
			_, err = b.Archive(b.ctx, tries)
			require.NoError(t, err, point)
			_, err = b.Restore(b.ctx, tries, by)
			require.NoError(t, err, point)
		}
		out, err := child(point, name, b.DatabaseURL, dir, b.Clock.Now())
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended, "%s: %s", point, out)
		require.Contains(t, out, "failpoint: ends at "+point)

		b.Clock.Advance(2 * time.Minute) // the lease of the dead
		if !restores {
			dropped := b.rows("deliveries") == 0
			require.Equal(t, point == "archive/after-drop-commit", dropped, point)
			if !dropped {
				require.Equal(t, content, b.content("deliveries"), point)
				_, err = b.Archive(b.ctx, name)
				require.NoError(t, err, point)
			}
			_, err = b.Archive(b.ctx, tries)
			require.NoError(t, err, point)
			_, err = b.Restore(b.ctx, tries, by)
			require.NoError(t, err, point)
		}
		r, err := b.Verify(b.ctx, nil)
		require.NoError(t, err)
		for _, f := range r.Findings { // an attempt that was killed leaves an object without a manifest, and no more
			t.Errorf("%s: %s: %s", point, f.Object, f.Problem)
		}
		_, err = b.Restore(b.ctx, name, by)
		require.NoError(t, err, point)
		require.Equal(t, content, b.content("deliveries"), point)
		b.Clock.Advance(31 * day)
	}
	require.Greater(t, tried, 12)
}

// child archives, or restores, in a process of its own that ends at the point.
func child(point, partition, url, dir string, now time.Time) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(slices.Clone(os.Environ()), "ARCHIVE_CHILD="+point, "ARCHIVE_PARTITION="+partition, "ARCHIVE_URL="+url, "ARCHIVE_DIR="+dir,
		"ARCHIVE_NOW="+now.Format(time.RFC3339Nano))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// TestChild is what TestKilledAtEachPoint starts; by itself it does nothing but check that.
func TestChild(t *testing.T) {
	point := os.Getenv("ARCHIVE_CHILD")
	if point == "" {
		require.Error(t, failpoint.Arm("archive/nowhere"))
		return
	}
	now, err := time.Parse(time.RFC3339Nano, os.Getenv("ARCHIVE_NOW"))
	require.NoError(t, err)
	ctx := context.Background()
	pool, err := pg.Open(ctx, os.Getenv("ARCHIVE_URL"), 4)
	require.NoError(t, err)
	s := archive.New(archive.Options{
		Pool: pool, Store: archive.Folder{Dir: os.Getenv("ARCHIVE_DIR")}, Clock: clock.NewFake(now), Log: slog.New(slog.DiscardHandler), KeepDeliveries: 10 * day, Rows: 7,
	})
	require.NoError(t, failpoint.Arm(point))
	if strings.Contains(point, "restore") {
		_, err = s.Restore(ctx, os.Getenv("ARCHIVE_PARTITION"), by)
	} else {
		_, err = s.Archive(ctx, os.Getenv("ARCHIVE_PARTITION"))
	}
	require.NoError(t, errors.Join(err, errors.New("the process did not end")))
}
