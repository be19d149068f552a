package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What waits, by queue, and what is done.
var (
	queueTasks     = newGauge[int]("ajo_queue_tasks", "Tasks in Redis by state. A task can carry many rows; a lost task loses none of them.", "queue", "state")
	queueLatency   = newGauge[time.Duration]("ajo_queue_latency_seconds", "Age of the oldest task in Redis that waits for a worker.", "queue")
	QueueOldestDue = newGauge[time.Duration]("ajo_queue_oldest_due_seconds", "How long the oldest due row that no worker has claimed has been due, read from Postgres. Scale by this.", "queue")
	// QueueWorkers is 0 for a queue that this process does not serve.
	QueueWorkers    = newGauge[int]("ajo_queue_workers", "Items of the queue that this process works on at once.", "queue")
	SlowTenants     = newGauge[int]("ajo_slow_queue_tenants", "Tenants with more to do than their share, as this process sees it: what comes for them goes to the slow queue.", "queue")
	queueRows       = counters("ajo_queue_rows_total", "Rows processed: done; later, due again at a known time; failed, to be retried; exhausted, given up.", "queue", "outcome")
	queueDuration   = histograms("ajo_queue_row_duration_seconds", "Time to process one row.", remote, "queue")
	EnqueueFailures = QueueCounts{counters("ajo_enqueue_failures_total", "Tasks that could not be enqueued. The sweeper finds their rows.", "queue")}

	Swept     = QueueCounts{counters("ajo_sweep_rows_total", "Overdue rows that the sweeper enqueued again, because their task was lost or never enqueued.", "queue")}
	SweepDone = newGauge[time.Time]("ajo_sweep_last_success_timestamp_seconds", "When a sweep of this process last completed.")
	TidyDone  = newGauge[time.Time]("ajo_tidy_last_success_timestamp_seconds", "When this process last made partitions ahead, removed old rows, looked for failing endpoints and released what new tiers allow, and all of it succeeded.")
)

// taskStates are the states of a task that [QueueDepth] knows.
var taskStates = []string{"pending", "active", "scheduled", "retry", "archived"}

// Queue counts the work on the rows of one queue.
type Queue struct {
	done, later, failed, exhausted prometheus.Counter
	took                           prometheus.Observer
}

// NewQueue returns the counts of a queue.
func NewQueue(name string) *Queue {
	return &Queue{
		done: queueRows.WithLabelValues(name, "done"), later: queueRows.WithLabelValues(name, "later"),
		failed: queueRows.WithLabelValues(name, "failed"), exhausted: queueRows.WithLabelValues(name, "exhausted"),
		took: queueDuration.WithLabelValues(name),
	}
}

// Outcome is the result of processing a row.
type Outcome uint8

// The outcomes.
const (
	Done      Outcome = iota // nothing is left to do now
	Later                    // due again at a time of its own
	Failed                   // an unexpected error; retried
	Exhausted                // given up
)

// Worked counts the work on one row.
func (q *Queue) Worked(o Outcome, took time.Duration) {
	switch o {
	case Done:
		q.done.Inc()
	case Later:
		q.later.Inc()
	case Failed:
		q.failed.Inc()
	case Exhausted:
		q.exhausted.Inc()
	}
	q.took.Observe(took.Seconds())
}

// QueueDepth shows how many tasks of a queue Redis has in each of [taskStates], and the age of the
// oldest that waits.
func QueueDepth(queue string, inState [5]int, oldest time.Duration) {
	for i, s := range taskStates {
		queueTasks.Set(inState[i], queue, s)
	}
	queueLatency.Set(oldest, queue)
}
