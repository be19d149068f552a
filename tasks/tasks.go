// Package tasks is the contract between the API and the workers: the five kinds of work, their
// queues, payloads, timeouts and limits, and the [Enqueuer].
//
// A task only starts work at the right time: it carries the ids of items, and the item says whether
// the work is still due. The sweep replaces a task that is lost; an additional one changes nothing.
// Each kind has a queue of its own name, and a slow queue for what exceeds a tenant's share.
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

// Kinds lists them all, in the order in which a payment passes through them.
var Kinds = work.Kinds

// Spec has the rules for all tasks of a kind.
type Spec struct {
	Concurrency int           // items at work at once in one process, unless --queues says otherwise
	Room        int           // items admitted for each of these; the rest is left to other processes
	Timeout     time.Duration // of one run; the handler's context ends then
	MaxRetry    int           // after that the task is archived, and the sweep enqueues the item anew
	MaxIDs      int           // rows in one task; a row that is due again is a task of its own
	IdlePoll    time.Duration // how long a queue that has been empty for a while is not polled
	DelayedPoll time.Duration // how often scheduled tasks are checked for being due
}

// Specs are the kinds' rules. With them an idle worker sends Redis some 40 commands a second, and a
// payment that comes then waits an eighth of a second at most until it is posted, and as long until
// it is delivered. MaxRetry is never 0: a task whose dequeue was lost would be archived without
// having run.
var Specs = map[Kind]Spec{
	// Concurrency: enough to collect a full batch while one is written (with 256, twice as many
	// batches were written); a new item waits for both.
	Ingest: {Concurrency: 512, Room: 2, Timeout: 30 * time.Second, MaxRetry: 20, MaxIDs: 100, IdlePoll: 125 * time.Millisecond, DelayedPoll: 5 * time.Second},
	// Concurrency: enough calls at once for a bank that answers after 200 ms (docs/scale.md); more
	// would only wait for their turn.
	Confirm: {Concurrency: 384, Room: 2, Timeout: 60 * time.Second, MaxRetry: 100, MaxIDs: 100, IdlePoll: 500 * time.Millisecond, DelayedPoll: time.Second},
	// Concurrency: as for Confirm. Room: more, as the bank accepts few a second, and items for
	// which a tenant has no room wait behind those of others. MaxIDs: as for Deliver.
	Settle: {Concurrency: 64, Room: 8, Timeout: 3 * time.Minute, MaxRetry: 100, MaxIDs: 16, IdlePoll: 333 * time.Millisecond, DelayedPoll: time.Second},
	// MaxIDs: few, as a slow row keeps its task's place in the queue server until it ends, although
	// not the other rows of the task.
	Deliver: {Concurrency: 256, Room: 4, Timeout: 60 * time.Second, MaxRetry: 20, MaxIDs: 16, IdlePoll: 125 * time.Millisecond, DelayedPoll: 2 * time.Second},
	Expire:  {Concurrency: 4, Room: 8, Timeout: 60 * time.Second, MaxRetry: 100, MaxIDs: 1, IdlePoll: time.Second, DelayedPoll: 5 * time.Second},
}

// SlowIdlePoll and SlowDelayedPoll are those of every slow queue: nothing in it is urgent, and no
// task comes back to it.
const (
	SlowIdlePoll    = 1500 * time.Millisecond
	SlowDelayedPoll = 30 * time.Second
)

// SlowQueue names the queue for what exceeds a tenant's share.
func SlowQueue(k Kind) string { return string(k) + ":slow" }

// Queues are the names of a kind's queues.
func Queues(k Kind) []string { return []string{string(k), SlowQueue(k)} }

// Concurrency is how many items of the kind a process works on at once when it serves the given
// queues: what they say, or the kind's own number when they say 0, and none when the kind is not
// among them.
func Concurrency(k Kind, queues map[Kind]int) int {
	n, wanted := queues[k]
	if wanted && n == 0 {
		return Specs[k].Concurrency
	}
	return n
}

// payload is what a task carries: ids only, since it is visible in Redis and in the dashboard.
type payload struct {
	IDs     []uuid.UUID `json:"ids"`
	Tenants []uuid.UUID `json:"tenants,omitempty"` // of each item; empty: no item's tenant is known
}

// Items reads the items that a task is about.
func Items(t *asynq.Task) ([]work.Item, error) {
	var p payload
	if err := json.Unmarshal(t.Payload(), &p); err != nil {
		return nil, fmt.Errorf("task payload: %w", err)
	}
	items := make([]work.Item, len(p.IDs))
	for i, id := range p.IDs {
		items[i] = work.Item{Kind: Kind(t.Type()), ID: id}
		if len(p.Tenants) == len(p.IDs) {
			items[i].TenantID = p.Tenants[i]
		}
	}
	return items, nil
}

// Trace is the traceparent of a task of one row, "" if there is none. The row has it too, and takes
// precedence.
func Trace(t *asynq.Task) string { return t.Headers()[trace.Header] }

// newTask makes the task of items. The traceparent is for one item; of many, each row has its own.
func newTask(k Kind, items []work.Item) *asynq.Task {
	p := payload{IDs: make([]uuid.UUID, len(items)), Tenants: make([]uuid.UUID, len(items))}
	known := false
	for i, m := range items {
		p.IDs[i], p.Tenants[i] = m.ID, m.TenantID
		known = known || m.TenantID != uuid.Nil
	}
	if !known {
		p.Tenants = nil
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // ids always marshal
	}
	if items[0].Traceparent != "" && len(items) == 1 {
		return asynq.NewTaskWithHeaders(string(k), b, map[string]string{trace.Header: items[0].Traceparent})
	}
	return asynq.NewTask(string(k), b)
}
