package payment

import (
	"maps"
	"slices"
	"time"
)

// A list covers a span of seconds. Where few payments of each second wait, one page has those of
// many seconds. How many records the bank has for a span is not known before it is read, and its
// pages come one after the other. So a span is no longer than a few pages cover, judging by the
// last lists, and long lists cover one second each, several at a time.
const (
	spanLongest = 64 // seconds
	// a span ends once a page's worth of payments wait
	spanWaiting = 50
	// a list of several seconds is given up after this many pages, and spans become shorter
	spanPages = 8
	// a list of at most this many pages lets spans become longer
	spanShort = 2
)

// span is a time in unix seconds, without its end.
type span struct{ from, to int64 }

// spansOf returns the spans, at most of the longest length, in which enough payments wait for their
// list to be worth reading. It gets how many payments wait for each second.
func spansOf(waiting map[int64]int, longest int64) (spans []span) {
	seconds := slices.Sorted(maps.Keys(waiting))
	for i := 0; i < len(seconds); {
		n, end := 0, i
		for ; end < len(seconds) && seconds[end]-seconds[i] < longest && n < spanWaiting; end++ {
			n += waiting[seconds[end]]
		}
		if n < listFrom {
			i++
			continue
		}
		spans = append(spans, span{seconds[i], seconds[end-1] + 1})
		i = end
	}
	return spans
}

// contiguous returns the contiguous spans that these seconds form, oldest first.
func contiguous(seconds []time.Time) (spans []span) {
	for _, at := range seconds {
		second := at.Unix()
		if n := len(spans); n > 0 && spans[n-1].to == second {
			spans[n-1].to++
		} else {
			spans = append(spans, span{second, second + 1})
		}
	}
	return spans
}

// learn makes spans shorter after a list that was too long, and longer after a short one.
func (l *lists) learn(ended *listing, pages int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ended.cut:
		l.length = min(l.length, max(1, int64(len(ended.seconds)/4)))
	case pages <= spanShort:
		l.length = min(spanLongest, 2*l.length)
	}
}
