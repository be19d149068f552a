package tasks

import "time"

// QuietUntil has nothing enqueued until a time of the machine's clock, as after a failure of Redis.
func (e *Enqueuer) QuietUntil(at time.Time) { e.quiet.Store(at.UnixNano()) }
