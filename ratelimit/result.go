package ratelimit

import (
	"strconv"
	"time"

	"github.com/ulule/limiter/v3"
)

// Result is the result of a count. OK is false when the request is over the limit. Reset is the
// number of whole seconds, at least one, until the window ends and the count begins anew.
type Result struct {
	Limit, Remaining, Reset int64
	OK                      bool
}

// Header hands the answer's headers to set: RateLimit-Limit, RateLimit-Remaining and
// RateLimit-Reset, and Retry-After when the request was over the limit.
func (r Result) Header(set func(name, value string)) {
	set("RateLimit-Limit", strconv.FormatInt(r.Limit, 10))
	set("RateLimit-Remaining", strconv.FormatInt(r.Remaining, 10))
	set("RateLimit-Reset", strconv.FormatInt(r.Reset, 10))
	if !r.OK {
		set("Retry-After", strconv.FormatInt(r.Reset, 10))
	}
}

func resultOf(got limiter.Context, rate limiter.Rate) Result {
	return Result{Limit: got.Limit, Remaining: got.Remaining, Reset: secondsUntil(got.Reset, time.Now(), rate.Period), OK: !got.Reached}
}

// secondsUntil counts from now to the window's end. The store cuts that end to a whole second, so
// one is added: a client that waits as long as it was asked to must not be refused again.
func secondsUntil(end int64, now time.Time, period time.Duration) int64 {
	left := time.Unix(end+1, 0).Sub(now)
	seconds := int64((left + time.Second - 1) / time.Second)
	return min(max(seconds, 1), int64(period/time.Second))
}
