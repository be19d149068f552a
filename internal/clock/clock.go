// Package clock is the time that a use case is told, so that tests can move it.
//
// Every time Ajo records comes from a [Clock], in UTC and cut to microseconds (what Postgres
// keeps), so that a value compares equal before and after it was stored. SQL is told the time and
// never asks for it; the clock of a running role is [Steered] by Postgres'.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Lagos is where a day begins and ends: UTC+1, all the year.
var Lagos = time.FixedZone("WAT", 60*60)

// Clock tells the time.
type Clock interface {
	// Now is the current time in UTC, to the microsecond.
	Now() time.Time
}

// System is the machine's clock.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Slack is by how much a machine's clock may be off before it is put right.
const Slack = 500 * time.Millisecond

// Steered is the machine's clock, put right by the answers of another one. The processes that share
// a database go by the database's time, so that none of them takes a lease for over, or a deadline
// for past, before the others do. It is safe for concurrent use; the zero value is the machine's
// clock.
type Steered struct{ ahead atomic.Int64 }

// Now is the time by the clock that this one was steered by.
func (s *Steered) Now() time.Time {
	return time.Now().Add(-time.Duration(s.ahead.Load())).UTC().Truncate(time.Microsecond)
}

// Steer takes over the other clock's answer, which came between asked and answered by the machine's
// clock, and returns by how much the machine's is ahead. An answer that took longer than a second
// says nothing, and changes nothing. Less than [Slack] is left alone: a clock that is kept right by
// NTP does not jump with every question.
func (s *Steered) Steer(asked, answered, said time.Time) (ahead time.Duration) {
	took := answered.Sub(asked)
	if took < 0 || took > time.Second {
		return time.Duration(s.ahead.Load())
	}
	ahead = asked.Add(took / 2).Sub(said)
	if ahead.Abs() < Slack {
		s.ahead.Store(0)
	} else {
		s.ahead.Store(int64(ahead))
	}
	return ahead
}

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
