package metrics

import "time"

var overduePartition = newGauge[time.Duration]("ajo_archive_overdue_seconds", "How long ago the oldest partition that is not archived yet was due to be, as this process saw it last: waiting, something in it may still move; failing, the last attempt failed; archiving, an attempt is under way, or hangs.", "table", "why")

// ArchiveOverdue shows what a run left of a table's partitions.
func ArchiveOverdue(table string, waiting, failing time.Duration) {
	overduePartition.Set(waiting, table, "waiting")
	overduePartition.Set(failing, table, "failing")
}

// Archiving shows for how long the partition has been due that this process is archiving; 0: none.
func Archiving(table string, due time.Duration) {
	overduePartition.Set(due, table, "archiving")
}

func init() {
	for _, table := range []string{"event_bodies", "deliveries", "delivery_attempts"} {
		ArchiveOverdue(table, 0, 0)
		Archiving(table, 0)
	}
}
