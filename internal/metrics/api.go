package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	httpRequests = counters("ajo_http_requests_total", "Requests answered, by route and status class. Route none: no such endpoint, or not a valid request.", "method", "route", "class")
	httpDuration = histograms("ajo_http_request_duration_seconds", "Time from the last byte of a request to its answer.", quick, "method", "route")
	// ConnectionsCut are connections that were ended to make room for new ones.
	ConnectionsCut = counter("ajo_http_connections_cut_total", "Connections closed to make room for new ones: those that the API had waited for longest without getting a whole request.")

	limitDecisions = counters("ajo_ratelimit_decisions_total", "Requests that a rate limit allowed or refused, by limit.", "limit", "outcome")
	limitLocal     = counter("ajo_ratelimit_local_decisions_total", "Decisions by the counters of this process alone, because Redis was unavailable.")
	// LimitsAreLocal is whether the limits are kept in this process for now.
	LimitsAreLocal = newGauge[bool]("ajo_ratelimit_fallback", "1 while this process keeps its own rate limits, because Redis is unavailable.")
)

// HTTP counts the requests of one route.
type HTTP struct {
	classes [6]prometheus.Counter // by the status' first digit
	took    prometheus.Observer
}

// NewHTTP returns the counts of a route, given by its template ("/v1/accounts/:accountRef"), never
// by a request's path.
func NewHTTP(method, route string) *HTTP {
	h := &HTTP{took: httpDuration.WithLabelValues(method, route)}
	for i := 2; i < len(h.classes); i++ {
		h.classes[i] = httpRequests.WithLabelValues(method, route, strconv.Itoa(i)+"xx")
	}
	return h
}

// Answered counts an answer and the time that it took.
func (h *HTTP) Answered(status int, took time.Duration) {
	if c := status / 100; c >= 2 && c < len(h.classes) {
		h.classes[c].Inc()
	}
	h.took.Observe(took.Seconds())
}

// Limit counts what one kind of limit decides.
type Limit struct{ allowed, limited prometheus.Counter }

// NewLimit returns the counts of a kind of limit: "key", "session", "member" (all but the owner),
// "stranger", "open", "account", "tenant" (an action of one).
func NewLimit(kind string) *Limit {
	return &Limit{limitDecisions.WithLabelValues(kind, "allowed"), limitDecisions.WithLabelValues(kind, "limited")}
}

// Decided counts a decision. Local says that it was taken without Redis.
func (l *Limit) Decided(ok, local bool) {
	if ok {
		l.allowed.Inc()
	} else {
		l.limited.Inc()
	}
	if local {
		limitLocal.Inc()
	}
}
