package archive

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// A disk that is mounted from elsewhere may hang in a call, which nothing ends. Whoever waits for
// the call goes on without it when its context ends.

// endsWithin is how long a call is waited for whose context has ended. One that notices the end
// removes what it has written meanwhile.
const endsWithin = time.Second

var errHangs = errors.New("the folder hangs: an earlier call of its disk has not ended yet")

// abandoned has, by folder, the newest call that was abandoned, as a channel that is closed when it
// ends. Until then the folder is not asked again: each call that hangs keeps a thread.
var abandoned sync.Map

func (f Folder) abandon(call <-chan struct{}) {
	select {
	case <-call:
	case <-time.After(endsWithin):
		abandoned.Store(f.Dir, call)
	}
}

func (f Folder) hangs() bool {
	call, ok := abandoned.Load(f.Dir)
	if !ok {
		return false
	}
	select {
	case <-call.(<-chan struct{}):
		return false
	default:
		return true
	}
}

// within calls do, and abandons the call when the context ends.
func within[T any](ctx context.Context, f Folder, do func() (T, error)) (T, error) {
	var v, none T
	if f.hangs() {
		return none, errHangs
	}
	var err error
	call := make(chan struct{})
	go func() {
		defer close(call)
		v, err = do()
	}()
	select {
	case <-call:
		return v, err
	case <-ctx.Done():
		f.abandon(call)
		return none, context.Cause(ctx)
	}
}

// opened is a file that is being read. What hangs is the goroutine that reads it.
type opened struct {
	*io.PipeReader
	stop func() bool
}

func (f Folder) read(ctx context.Context, file *os.File) opened {
	r, w := io.Pipe()
	call := make(chan struct{})
	go func() {
		defer close(call)
		_, err := io.Copy(w, file)
		_ = file.Close()
		w.CloseWithError(err) // nil: the end
	}()
	return opened{r, context.AfterFunc(ctx, func() {
		w.CloseWithError(context.Cause(ctx))
		f.abandon(call)
	})}
}

func (o opened) Close() error {
	o.stop()
	return o.PipeReader.Close()
}
