// Package tasks is the contract between the API and the workers: the five kinds of work, their
// queues, payloads, timeouts and limits, and the [Enqueuer].
//
// A task only starts work at the right time: it carries the ids of items, and the item says whether
// the work is still due. The sweep replaces a task that is lost; a task too many changes nothing.
// Each kind has a queue of its own name.
package tasks

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"ajo/internal/trace"
	"ajo/internal/work"
)

// Kind is a kind of work, and the name of its queue.
type Kind = work.Kind

// The five kinds.
const (
	Ingest  = work.Ingest
	Confirm = work.Confirm
	Settle  = work.Settle
	Deliver = work.Deliver
	Expire  = work.Expire
)

// Kinds lists them all, in the order of a payment's way.
var Kinds = work.Kinds

// Spec is what holds for every task of a kind.
type Spec struct {
	Concurrency int           // workers in one process, unless --queues says otherwise
	Timeout     time.Duration // of one run; the handler's context ends then
	MaxRetry    int           // after that the task is archived, and the sweep enqueues the item anew
	MaxIDs      int           // rows in one task; a row that is due again is a task of its own
	Rows        int           // rows at work at once in one process, over all tasks; 0: no limit
	Rest        time.Duration // how long a queue that has been empty for a while is not looked at
	Delayed     time.Duration // how often a task whose time has come is looked for
}

// Specs are the kinds' rules. An idle worker asks Redis for some 40 commands a second with them,
// and a payment that comes then waits an eighth of a second at most until it is posted, and as long
// until it is delivered. MaxRetry is never 0: a task whose dequeue was lost would be archived
// without having run.
var Specs = map[Kind]Spec{
	// Many: a task waits for its batch and does little else, and with few ids each, sixteen were
	// what a middling load waited for.
	Ingest: {Concurrency: 64, Timeout: 30 * time.Second, MaxRetry: 20, MaxIDs: 100, Rest: 125 * time.Millisecond, Delayed: 5 * time.Second},
	// Rows: the bank answers so many calls a second, and a row that waits for its turn with its
	// lease taken would lose it.
	Confirm: {Concurrency: 16, Timeout: 60 * time.Second, MaxRetry: 100, MaxIDs: 100, Rows: 256, Rest: 500 * time.Millisecond, Delayed: time.Second},
	// Rows: as for Confirm. MaxIDs: as for Deliver.
	Settle: {Concurrency: 32, Timeout: 3 * time.Minute, MaxRetry: 100, MaxIDs: 16, Rows: 64, Rest: 333 * time.Millisecond, Delayed: time.Second},
	// MaxIDs: few, as a slow row keeps its task's place in the queue server until it ends, though
	// not the rows beside it.
	Deliver: {Concurrency: 256, Timeout: 60 * time.Second, MaxRetry: 20, MaxIDs: 16, Rest: 125 * time.Millisecond, Delayed: 2 * time.Second},
	Expire:  {Concurrency: 4, Timeout: 60 * time.Second, MaxRetry: 100, MaxIDs: 1, Rest: time.Second, Delayed: 5 * time.Second},
}

// Concurrency is how many workers a process has for the kind when it serves the given queues: what
// they say, or the kind's own number when they say 0, and none when the kind is not among them.
func Concurrency(k Kind, queues map[Kind]int) int {
	n, wanted := queues[k]
	if wanted && n == 0 {
		return Specs[k].Concurrency
	}
	return n
}

// payload is what a task carries: ids only, since it stands in Redis and in the dashboard.
type payload struct {
	IDs []uuid.UUID `json:"ids"`
}

// IDs reads the rows that a task is about.
func IDs(t *asynq.Task) ([]uuid.UUID, error) {
	var p payload
	if err := json.Unmarshal(t.Payload(), &p); err != nil {
		return nil, fmt.Errorf("task payload: %w", err)
	}
	return p.IDs, nil
}

// Trace is the traceparent of a task of one row, "" when there is none. The row has it too, and is
// what counts.
func Trace(t *asynq.Task) string { return t.Headers()[trace.Header] }

// newTask makes the task of the rows. The traceparent is for one row; of many, each row has its
// own.
func newTask(k Kind, ids []uuid.UUID, traceparent string) *asynq.Task {
	b, err := json.Marshal(payload{IDs: ids})
	if err != nil {
		panic(err) // ids always marshal
	}
	if traceparent != "" && len(ids) == 1 {
		return asynq.NewTaskWithHeaders(string(k), b, map[string]string{trace.Header: traceparent})
	}
	return asynq.NewTask(string(k), b)
}
