// Package retry is how a use case lets its caller know when to try again.
//
// The time of a retry is that of the work item (package work); asynq only keeps it. A use case that
// failed for now returns [At], one that is out of attempts returns [Exhausted], and the
// workers map these to asynq. An error that is neither is unexpected, and is tried again by the
// queue's own rule.
package retry

import (
	"errors"
	"time"
)

// Retry is an error with the time at which the same work is due again.
type Retry struct {
	At  time.Time
	Err error
}

// Error returns the text of the failure, without the time.
func (r *Retry) Error() string { return r.Err.Error() }

// Unwrap returns the failure.
func (r *Retry) Unwrap() error { return r.Err }

// At says that the work failed with err, which must not be nil, and is due again at the time at.
func At(at time.Time, err error) error { return &Retry{At: at, Err: err} }

// When returns the time at which the work is due again; ok is false when err carries none.
func When(err error) (at time.Time, ok bool) {
	var r *Retry
	if errors.As(err, &r) {
		return r.At, true
	}
	return time.Time{}, false
}

type exhaustedError struct{ err error }

func (e *exhaustedError) Error() string { return e.err.Error() }
func (e *exhaustedError) Unwrap() error { return e.err }

// Exhausted says that the work failed with err, which must not be nil, for the last time: the row
// records it, and nothing tries again by itself.
func Exhausted(err error) error { return &exhaustedError{err: err} }

// IsExhausted reports whether err says that no attempt is left.
func IsExhausted(err error) bool {
	var e *exhaustedError
	return errors.As(err, &e)
}
