// Package clock is the time that a use case is told, so that tests can move it.
//
// Every time Ajo records comes from a [Clock], in UTC and cut to microseconds (what Postgres
// keeps), so that a value compares equal before and after it was stored. SQL is told the time and never asks for it.
package clock

import (
	"sync"
	"time"
)

// Clock tells the time.
type Clock interface {
	// Now is the current time in UTC, to the microsecond.
	Now() time.Time
}

// System is the machine's clock.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Fake is a clock that moves only when it is told to. It is safe for concurrent use.
type Fake struct {
	mu  sync.Mutex
	now time.Time
}

// NewFake returns a clock that stands at t.
func NewFake(t time.Time) *Fake { return &Fake{now: t.UTC().Truncate(time.Microsecond)} }

// Now is the time the clock stands at.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Advance moves the clock forward by d and returns the new time.
func (f *Fake) Advance(d time.Duration) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d).Truncate(time.Microsecond)
	return f.now
}

// Set moves the clock to t.
func (f *Fake) Set(t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = t.UTC().Truncate(time.Microsecond)
}
