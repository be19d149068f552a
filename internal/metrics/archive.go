package metrics

import "time"

var overdueGauge = gauges("ajo_archive_overdue_seconds", "How long ago the oldest partition that is not archived yet was due to be, as the last run of this process saw it: waiting, something in it may still move; failing, the last attempt failed.", "table", "why")

// ArchiveOverdue shows what a run left of a table's partitions.
func ArchiveOverdue(table string, waiting, failing time.Duration) {
	overdueGauge.WithLabelValues(table, "waiting").Set(waiting.Seconds())
	overdueGauge.WithLabelValues(table, "failing").Set(failing.Seconds())
}

func init() {
	for _, table := range []string{"event_bodies", "deliveries", "delivery_attempts"} {
		ArchiveOverdue(table, 0, 0)
	}
}
