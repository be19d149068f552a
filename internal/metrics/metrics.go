// Package metrics declares every metric that Ajo shows at /metrics, and nothing else does.
//
// What always holds: names are Prometheus's (ajo_…, base units, _total for what only grows); the
// values of a label are few and known at the start, so no tenant, account, address or URL is ever
// one; and a series is there from the start, at zero, so that its first increase is seen. A count
// or an observation on the way of a payment is an atomic addition to a series that was looked up
// before: tens of nanoseconds. Gauges are set by a background job ([ajo/internal/app]), never read
// from a database by a scrape.
//
// A series is exported, and whoever knows its value counts or sets it. Only series that move
// together, or whose label must be worked out, stand behind a function.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metric is the declaration of one.
type Metric struct {
	Name, Type, Help string // Type: counter, gauge or histogram
	Labels           []string
}

var (
	registry = prometheus.NewRegistry()
	catalog  []Metric
)

func init() {
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// Declared lists all metrics of this package, in the order of their declaration.
func Declared() []Metric { return catalog }

// Handler answers a scrape. It reads what is in memory, and nothing else.
func Handler() http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Gatherer reads the metrics of this process, for tests.
func Gatherer() prometheus.Gatherer { return registry }

func declare(c prometheus.Collector, kind, name, help string, labels []string) {
	registry.MustRegister(c)
	catalog = append(catalog, Metric{Name: name, Type: kind, Help: help, Labels: labels})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	declare(v, "counter", name, help, labels)
	return v
}

func counter(name, help string) prometheus.Counter { return counters(name, help).WithLabelValues() }

// Counts are the series of a counter by the value of its label. Of a value that was not declared,
// nothing is kept.
type Counts map[string]prometheus.Counter

func each(v *prometheus.CounterVec, values ...string) Counts {
	m := make(Counts, len(values))
	for _, s := range values {
		m[s] = v.WithLabelValues(s)
	}
	return m
}

// Inc adds one to the series of a value.
func (m Counts) Inc(value string) {
	if c := m[value]; c != nil {
		c.Inc()
	}
}

// QueueCounts are the series of a counter by queue. Whoever knows the queues adds 0 at first.
type QueueCounts struct{ vec *prometheus.CounterVec }

// Add adds n to the series of a queue.
func (c QueueCounts) Add(n int, queue string) { c.vec.WithLabelValues(queue).Add(float64(n)) }

// Value is what a gauge shows: a number, seconds of a duration, the Unix time of a moment, or 1 for
// true.
type Value interface {
	int | int64 | bool | time.Duration | time.Time
}

// Gauge is a gauge of one series, or of some by the values of its labels.
type Gauge[V Value] struct{ vec *prometheus.GaugeVec }

func newGauge[V Value](name, help string, labels ...string) Gauge[V] {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	declare(v, "gauge", name, help, labels)
	if len(labels) == 0 {
		v.WithLabelValues()
	}
	return Gauge[V]{v}
}

// Set sets the series that has these values, one for each label.
func (g Gauge[V]) Set(v V, labels ...string) { g.vec.WithLabelValues(labels...).Set(number(v)) }

// number is what Prometheus keeps of a [Value].
func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case time.Duration:
		return v.Seconds()
	case time.Time:
		return float64(v.Unix())
	case bool:
		if v {
			return 1
		}
	}
	return 0
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	declare(v, "histogram", name, help, labels)
	return v
}

func histogram(name, help string, buckets []float64) prometheus.Observer {
	return histograms(name, help, buckets).WithLabelValues()
}

// Buckets, in seconds: of what a machine does, of what another one answers, and of what waits for a
// queue or for the bank.
var (
	quick  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20}
	remote = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	waited = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 1800, 7200}
)

// Age is how long ago at was, by now: zero when there is no such moment, or when it has not come
// yet.
func Age(now time.Time, at *time.Time) time.Duration {
	if at == nil {
		return 0
	}
	return max(0, now.Sub(*at))
}
