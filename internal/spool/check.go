package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// answer is the result of a check, for all who ask while it lasts.
type answer struct {
	done chan struct{}
	err  error // once done is closed
}

// Check reports whether a record could be written now, for readiness. It waits for no append, no
// append for it, and no longer than ctx, since a disk may hang. Such a disk is asked once, however
// many ask meanwhile.
func (s *Spool) Check(ctx context.Context) error {
	a := s.ask()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return fmt.Errorf("spool: the disk does not answer: %w", ctx.Err())
	}
}

// ask begins a check, or joins the one that is under way.
func (s *Spool) ask() *answer {
	s.checking.Lock()
	defer s.checking.Unlock()
	if s.asked != nil {
		return s.asked
	}
	a := &answer{done: make(chan struct{})}
	s.asked = a
	go func() {
		a.err = s.check()
		s.checking.Lock()
		s.asked = nil
		s.checking.Unlock()
		close(a.done)
	}()
	return a
}

// tryWrite writes a byte to the folder, and compares what is there with the bound.
func (s *Spool) tryWrite() error {
	f, err := os.CreateTemp(s.dir, "check-*")
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	_, err = f.Write([]byte{0})
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	if err == nil && s.sizeOnDisk() >= s.max {
		err = ErrFull
	}
	return err
}
