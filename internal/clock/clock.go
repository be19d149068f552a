// Package clock is the source of the current time, which tests can replace and move.
//
// Every time that Ajo records comes from a [Clock], in UTC and cut to microseconds, as Postgres
// stores it: a value compares equal before and after it was stored. Statements get the time as a
// parameter and never use now(). The clock of a running role is [Synced] with Postgres'.
package clock

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Lagos is where a day begins and ends: UTC+1, all the year.
var Lagos = time.FixedZone("WAT", 60*60)

// Day is the day in Lagos of a time, as 2026-10-31.
func Day(at time.Time) string { return at.In(Lagos).Format(time.DateOnly) }

// ParseDay is the beginning of a day in Lagos, as 2026-10-31.
func ParseDay(s string) (time.Time, error) {
	at, err := time.ParseInLocation(time.DateOnly, s, Lagos)
	if err == nil && at.Year() < 1 {
		err = errors.New("a year before 1")
	}
	return at, err
}

// Clock is a source of the current time.
type Clock interface {
	// Now is the current time in UTC, to the microsecond.
	Now() time.Time
}

// System is the machine's clock.
var System Clock = wallClock{}

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Slack is the smallest offset that is corrected.
const Slack = 500 * time.Millisecond

// Synced is the machine's clock, corrected by the offset from another one. The processes that share
// a database use the database's time, so that none of them sees a lease as ended, or a deadline as
// past, before the others do. After a comparison it goes by the machine's monotonic clock: nobody
// sets that, so nothing happens to Synced when the machine's clock is set. It is safe for
// concurrent use; the zero value is the machine's clock.
type Synced struct{ last atomic.Pointer[comparison] }

// comparison is the last one of two clocks: a reading of the machine's clock, and the time then.
type comparison struct {
	machine, then time.Time
	vague         bool // the answer took more than a second
}

// at is the time at a reading of the machine's clock: that reading, if there was no comparison
// (nil).
func (c *comparison) at(machine time.Time) time.Time {
	if c == nil {
		return machine
	}
	return c.then.Add(machine.Sub(c.machine)) // what has passed by the monotonic clock
}

// Now is the corrected time.
func (s *Synced) Now() time.Time {
	return s.last.Load().at(time.Now()).UTC().Truncate(time.Microsecond)
}

// Sync compares with the other clock, which showed said between asked and answered, two times of
// the machine's clock. It returns by how much the machine's clock is ahead. An answer that took
// longer than a second is vague: it changes nothing, unless it shows that this clock is wrong. An
// offset below [Slack] is ignored, so that a clock that NTP keeps right does not jump with every
// sync.
func (s *Synced) Sync(asked, answered, said time.Time) (offset time.Duration) {
	took := answered.Sub(asked)
	c := &comparison{machine: asked.Add(took / 2), then: said, vague: took > time.Second}
	now := s.last.Load().at(c.machine)
	if c.vague && now.Sub(said).Abs() <= took/2+Slack {
		return c.machine.Sub(now.Round(0))
	}
	offset = c.machine.Sub(said)
	if offset.Abs() < Slack {
		c.then = c.machine
	}
	s.last.Store(c)
	compared.Store(c)
	return offset
}

// Doubtful reports whether a comparison is due at once: there was none yet, or the last one was
// vague, or the machine's clock has been set since, or the machine has slept, when its monotonic
// clock stands still.
func (s *Synced) Doubtful() bool {
	c := s.last.Load()
	if c == nil || c.vague {
		return true
	}
	now := time.Now()
	return (now.Round(0).Sub(c.machine.Round(0)) - now.Sub(c.machine)).Abs() >= Slack
}

// Fake is a clock that moves only when a test moves it. It is safe for concurrent use.
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
