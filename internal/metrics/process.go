package metrics

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

var (
	buildInfo   = newGauge[int]("ajo_build_info", "1, with the version and the role of the process.", "version", "go_version", "role")
	postgresUp  = newGauge[bool]("ajo_postgres_up", "1 when Postgres answered the last collection of this process. At 0, gauges that are read from it keep their last value.")
	redisUp     = newGauge[bool]("ajo_redis_up", "1 when Redis answered the last collection of this process, and takes writes or is merely full. At 0, gauges that are read from it keep their last value.")
	collectLast = newGauge[time.Time]("ajo_collection_last_run_timestamp_seconds", "When this process last collected its gauges: databases, due work, spool.")
	ClockOffset = newGauge[time.Duration]("ajo_clock_offset_seconds", "Postgres' clock minus the clock of this process.")

	replicaUnused = newGauge[bool]("ajo_replica_unused", "1 while AJO_DATABASE_READ_URL is set and its standby is not used.")
	replicaLag    = newGauge[time.Duration]("ajo_replica_lag_seconds", "How far the standby of AJO_DATABASE_READ_URL is behind the primary; 0 when it had the primary's position within 0.1 s.")
	reads         = counters("ajo_replica_reads_total", "Requests that may be answered by the standby of AJO_DATABASE_READ_URL, by where they were: replica, primary, or again at the primary after a failure.", "at")

	spoolBytes   = newGauge[int64]("ajo_spool_bytes", "Bytes in the spool: the bank's events that wait for Postgres.")
	spoolMax     = newGauge[int64]("ajo_spool_max_bytes", "Largest size of the spool.")
	spoolRecords = newGauge[int64]("ajo_spool_records", "Events in the spool.")
	spoolOldest  = newGauge[time.Duration]("ajo_spool_oldest_seconds", "Age of the spool's oldest segment.")
	spoolDamaged = newGauge[int]("ajo_spool_damaged_segments", "Segments of the spool that were set aside because records in them could not be stored. They need an operator.")
)

// Started shows the version and the role ("api", "worker") of this process.
func Started(version, role string) {
	buildInfo.Set(1, version, runtime.Version(), role)
}

// Collected records that the gauges were collected, and which databases answered.
func Collected(now time.Time, postgres, redis bool) {
	postgresUp.Set(postgres)
	redisUp.Set(redis)
	collectLast.Set(now)
}

// ReplicaChecked shows whether the standby that is read from is used, and its lag.
func ReplicaChecked(used bool, lag time.Duration) {
	replicaUnused.Set(!used)
	replicaLag.Set(lag)
}

// Where a request was that may be answered by the standby.
var (
	ReadReplica = reads.WithLabelValues("replica")
	ReadPrimary = reads.WithLabelValues("primary")
	ReadAgain   = reads.WithLabelValues("again")
)

// Spool shows what waits in the spool.
func Spool(bytes, most, records int64, oldest time.Duration, damaged int) {
	spoolBytes.Set(bytes)
	spoolMax.Set(most)
	spoolRecords.Set(records)
	spoolOldest.Set(oldest)
	spoolDamaged.Set(damaged)
}

// pools reads the connection pools of this process when it is scraped: their figures are in memory.
// A process may have several, as `ajo dev` has; they are added up.
type pools struct {
	mu       sync.Mutex
	postgres []*pgxpool.Pool
	redis    []redis.UniversalClient
}

var all = &pools{}

type poolMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newPoolMetric(kind prometheus.ValueType, name, help string, labels ...string) poolMetric {
	catalog = append(catalog, Metric{Name: name, Type: map[prometheus.ValueType]string{prometheus.CounterValue: "counter", prometheus.GaugeValue: "gauge"}[kind], Help: help, Labels: labels})
	return poolMetric{prometheus.NewDesc(name, help, labels, nil), kind}
}

func (m poolMetric) value(v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

var (
	pgConns    = newPoolMetric(prometheus.GaugeValue, "ajo_postgres_connections", "Connections of the pool.", "state")
	pgMax      = newPoolMetric(prometheus.GaugeValue, "ajo_postgres_connections_max", "Connections that the pool may open.")
	pgAcquires = newPoolMetric(prometheus.CounterValue, "ajo_postgres_acquires_total", "Connections taken from the pool.")
	pgWaits    = newPoolMetric(prometheus.CounterValue, "ajo_postgres_acquire_waits_total", "Requests for a connection that had to wait because none was idle.")
	pgWaited   = newPoolMetric(prometheus.CounterValue, "ajo_postgres_acquire_wait_seconds_total", "Time spent waiting for connections.")
	pgCanceled = newPoolMetric(prometheus.CounterValue, "ajo_postgres_acquires_canceled_total", "Waits that ended without a connection.")
	rdConns    = newPoolMetric(prometheus.GaugeValue, "ajo_redis_connections", "Connections of the pool.", "state")
	rdTimeouts = newPoolMetric(prometheus.CounterValue, "ajo_redis_pool_timeouts_total", "Commands that got no connection in time.")
	rdStale    = newPoolMetric(prometheus.CounterValue, "ajo_redis_stale_connections_total", "Connections that were found broken.")
)

func init() { registry.MustRegister(all) }

// CollectPools adds a process's pools; the function that it returns takes them away again, before
// they are closed.
func CollectPools(p *pgxpool.Pool, r redis.UniversalClient) (forget func()) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.postgres, all.redis = append(all.postgres, p), append(all.redis, r)
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		all.postgres = slices.DeleteFunc(all.postgres, func(have *pgxpool.Pool) bool { return have == p })
		all.redis = slices.DeleteFunc(all.redis, func(have redis.UniversalClient) bool { return have == r })
	}
}

// Describe names what Collect gives.
func (*pools) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range []poolMetric{pgConns, pgMax, pgAcquires, pgWaits, pgWaited, pgCanceled, rdConns, rdTimeouts, rdStale} {
		ch <- m.desc
	}
}

// Collect adds up the pools' own counts.
func (p *pools) Collect(ch chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var idle, used, opening, most int32
	var acquires, waits, canceled int64
	var waited time.Duration
	for _, pool := range p.postgres {
		s := pool.Stat()
		idle, used, opening, most = idle+s.IdleConns(), used+s.AcquiredConns(), opening+s.ConstructingConns(), most+s.MaxConns()
		acquires, waits, canceled = acquires+s.AcquireCount(), waits+s.EmptyAcquireCount(), canceled+s.CanceledAcquireCount()
		waited += s.EmptyAcquireWaitTime()
	}
	ch <- pgConns.value(float64(idle), "idle")
	ch <- pgConns.value(float64(used), "used")
	ch <- pgConns.value(float64(opening), "opening")
	ch <- pgMax.value(float64(most))
	ch <- pgAcquires.value(float64(acquires))
	ch <- pgWaits.value(float64(waits))
	ch <- pgWaited.value(waited.Seconds())
	ch <- pgCanceled.value(float64(canceled))
	var rIdle, rTotal, timeouts, stale uint32
	for _, client := range p.redis {
		s := client.PoolStats()
		rIdle, rTotal, timeouts, stale = rIdle+s.IdleConns, rTotal+s.TotalConns, timeouts+s.Timeouts, stale+s.StaleConns
	}
	ch <- rdConns.value(float64(rIdle), "idle")
	ch <- rdConns.value(float64(rTotal-min(rIdle, rTotal)), "used")
	ch <- rdTimeouts.value(float64(timeouts))
	ch <- rdStale.value(float64(stale))
}
