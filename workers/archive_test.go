package workers

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/archive"
	"ajo/internal/clock"
)

// hanging is a store that answers nothing, and does not notice that nobody waits any more.
type hanging struct {
	archive.Store
	asked, back chan struct{}
}

func (h *hanging) Put(context.Context, string, io.Reader) error {
	close(h.asked)
	<-h.back
	return context.Canceled
}

// A worker stops although its archive is in a call that nothing ends.
func TestStopBesideAnArchiveThatHangs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := &hanging{asked: make(chan struct{}), back: make(chan struct{})}
	b.opts.stopTimeout = 100 * time.Millisecond
	b.opts.Archive = archive.New(archive.Options{
		Pool: b.Pool, Store: store, Clock: clock.NewFake(time.Now().Add(10 * 365 * 24 * time.Hour)), Log: b.opts.Log, KeepDeliveries: 31 * 24 * time.Hour,
	})
	w, err := Start(b.opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		close(store.back)
		w.beside.Wait()
	})
	select {
	case <-store.asked:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is archived")
	}
	stopped := make(chan struct{})
	go func() {
		w.Stop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(30 * time.Second):
		t.Fatal("the worker does not stop")
	}
}
