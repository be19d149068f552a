package archive_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/archive"
	"ajo/internal/metrics"
	"ajo/internal/testenv"
)

// stuck is a store whose Put ends only when it is told to.
type stuck struct {
	archive.Store
	back chan struct{}
}

func (s stuck) Put(context.Context, string, io.Reader) error {
	<-s.back
	return context.Canceled
}

// overdue is for how long a partition of deliveries is overdue, as the metrics say.
func overdue(t *testing.T, why string) time.Duration {
	t.Helper()
	families, err := metrics.Gatherer().Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "ajo_archive_overdue_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["table"] == "deliveries" && labels["why"] == why {
				return time.Duration(m.GetGauge().GetValue() * float64(time.Second))
			}
		}
	}
	return 0
}

// An attempt that never ends is shown: the age of its partition grows while it lasts.
func TestArchiveThatHangsIsTold(t *testing.T) {
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 5)
	o := b.opts
	o.Lease = 40 * time.Millisecond
	store := stuck{b.opts.Store, make(chan struct{})}
	back := sync.OnceFunc(func() { close(store.back) })
	t.Cleanup(back)
	o.Store = store
	ended := make(chan error, 1)
	go func() { ended <- archive.New(o).Run(b.ctx) }()
	testenv.Eventually(t, 30*time.Second, "an attempt", func() bool { return overdue(t, "archiving") > day })
	b.Clock.Advance(400 * day)
	testenv.Eventually(t, 30*time.Second, "an older one", func() bool { return overdue(t, "archiving") > 400*day })
	back()
	require.Error(t, <-ended)
	testenv.Eventually(t, 30*time.Second, "its end", func() bool { return overdue(t, "archiving") < 400*day })
}

// A folder whose disk hangs, as one that is mounted from elsewhere may, is given up after a while,
// and is asked again when it is back.
func TestFolderThatHangs(t *testing.T) {
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 5)
	b.deliver(b.begin.Add(25*time.Hour), 5)
	m, err := b.Archive(b.ctx, b.name("deliveries", 0))
	require.NoError(t, err)
	manifest := filepath.Join(b.opts.Store.String(), strings.Replace(m.Object, ".copy.zst", ".json", 1))
	require.NoError(t, os.Rename(manifest, manifest+".kept"))
	require.NoError(t, syscall.Mkfifo(manifest, 0o600)) // to open it takes for ever

	o := b.opts
	o.Stall, o.Lease = 50*time.Millisecond, 100*time.Millisecond
	name := b.name("deliveries", 1)
	_, err = archive.New(o).Archive(b.ctx, name)
	require.ErrorContains(t, err, "neither taken nor given")
	_, err = b.Archive(b.ctx, name)
	require.ErrorContains(t, err, "the folder hangs")
	require.ErrorContains(t, b.opts.Store.Put(b.ctx, "any", nil), "the folder hangs")

	writer, err := os.OpenFile(manifest, os.O_WRONLY, 0) // the disk is back
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	require.NoError(t, os.Rename(manifest+".kept", manifest))
	testenv.Eventually(t, 30*time.Second, "an archived partition", func() bool {
		_, err = b.Archive(b.ctx, name)
		return err == nil
	})
	require.Zero(t, b.rows("deliveries"))
}

// An object that is opened may hang while it is read.
func TestReadThatHangs(t *testing.T) {
	t.Parallel()
	folder := archive.Folder{Dir: t.TempDir()}
	pipe := filepath.Join(folder.Dir, "a")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // it gives nothing
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := folder.Get(ctx, "a")
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(r)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, r.Close())
	require.NoError(t, writer.Close())
}

// What is written to a folder may hang too.
func TestPutThatHangs(t *testing.T) {
	t.Parallel()
	folder := archive.Folder{Dir: t.TempDir()}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	r, w := io.Pipe()
	require.ErrorIs(t, folder.Put(ctx, "a", r), context.DeadlineExceeded)
	require.ErrorContains(t, folder.Put(context.Background(), "b", r), "the folder hangs")
	require.NoError(t, w.CloseWithError(io.ErrUnexpectedEOF))
	testenv.Eventually(t, 30*time.Second, "the end of the call", func() bool {
		_, err := folder.Get(context.Background(), "a")
		return err != nil && err.Error() == "a: the store has no such object"
	})
	left, err := filepath.Glob(filepath.Join(folder.Dir, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
