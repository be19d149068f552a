package workers

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/redisconn"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/tasks"
)

// trap is a back end that reaches Redis by a line on which a command or its answer can be lost. In
// each test below asynq is first shown to stand in the state that the trap is about, with no
// sweeper at work; then a worker with one starts, and the time is taken until the work has ended,
// once.
type trap struct {
	*bundle
	line      *testenv.LostRedis
	inspector *asynq.Inspector
}

const ingestQueue = string(tasks.Ingest)

func newTrap(t *testing.T) *trap {
	t.Parallel()
	e := testenv.New(t)
	line := e.LostRedis()
	client, err := redisconn.Open(line.URL, redisconn.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return &trap{bundle: setupOn(t, e, client), line: line, inspector: asynq.NewInspectorFromRedisClient(e.Redis())}
}

// works starts a worker; without a sweeper it knows of nothing but what asynq gives it.
func (x *trap) works(sweeps bool) *Workers {
	x.T.Helper()
	o := x.opts
	client, err := redisconn.Open(x.line.URL, redisconn.Options{})
	require.NoError(x.T, err)
	if o.Redis = client; !sweeps {
		o.SweepEvery = time.Hour
	}
	w, err := Start(o)
	require.NoError(x.T, err)
	x.T.Cleanup(func() { w.Stop(); _ = client.Close() })
	return w
}

// survives starts a worker that sweeps, and waits for the end of all payments.
func (x *trap) survives(payments int) {
	x.T.Helper()
	x.works(true)
	x.ends(payments, time.Now())
}

// ends waits for the end of all payments: each posted, delivered and confirmed, once.
func (x *trap) ends(payments int, since time.Time) {
	x.T.Helper()
	x.ended(payments)
	x.T.Logf("ended after %s", time.Since(since).Round(10*time.Millisecond))
	x.once(payments)
}

func (x *trap) once(payments int) {
	x.T.Helper()
	require.Equal(x.T, payments, testenv.Value[int](x.Env, `SELECT count(*) FROM ledger_entries`))
	require.Equal(x.T, payments, testenv.Value[int](x.Env, `SELECT sum(attempt_count) FROM deliveries`))
	require.Equal(x.T, payments, int(x.delivered.Load()))
}

// enqueued stores a payment, and returns the id of the task that the commit has enqueued.
func (x *trap) enqueued() (task string) {
	x.T.Helper()
	return x.taskOf(x.stored())
}

// again enqueues the work of a task that enqueued has returned.
func (x *trap) again(task string) {
	x.T.Helper()
	id := uuid.MustParse(strings.Split(task, ":")[1])
	x.opts.Enqueuer.Alone(work.Item{Kind: work.Ingest, ID: id, DueAt: *x.DueAt(work.Ingest, id)})
}

// untouched says that nobody has worked on any payment.
func (x *trap) untouched() {
	x.T.Helper()
	require.Zero(x.T, testenv.Value[int](x.Env, `SELECT count(*) FROM inbound_events WHERE status <> 'received'`))
}

// is waits until the task is in the state.
func (x *trap) is(task string, state asynq.TaskState) *asynq.TaskInfo {
	x.T.Helper()
	var info *asynq.TaskInfo
	testenv.Eventually(x.T, 20*time.Second, "the task to be "+state.String(), func() bool {
		var err error
		info, err = x.inspector.GetTaskInfo(ingestQueue, task)
		if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
			return false
		}
		require.NoError(x.T, err)
		return info.State == state
	})
	return info
}

// gone waits until asynq has no such task.
func (x *trap) gone(task string) {
	x.T.Helper()
	testenv.Eventually(x.T, 30*time.Second, "the task to be gone", func() bool {
		_, err := x.inspector.GetTaskInfo(ingestQueue, task)
		return errors.Is(err, asynq.ErrTaskNotFound)
	})
}

// leaseEnds lets a minute pass for the task's lease: the recoverer looks for those that ended half
// a minute ago.
func (x *trap) leaseEnds(task string) {
	x.T.Helper()
	n, err := x.redis.ZAddXX(x.ctx, "asynq:{ingest}:lease", redis.Z{Score: float64(time.Now().Add(-time.Minute).Unix()), Member: task}).Result()
	require.NoError(x.T, err)
	require.Zero(x.T, n)
	_, err = x.redis.ZScore(x.ctx, "asynq:{ingest}:lease", task).Result()
	require.NoError(x.T, err, "it has a lease")
}

// lostDequeue has a task given to a worker that never hears of it.
func (x *trap) lostDequeue(task string) {
	x.T.Helper()
	x.line.LoseAnswers(1, isDequeue)
	w := x.works(false)
	testenv.Eventually(x.T, 20*time.Second, "the dequeue whose answer is lost", func() bool { return x.line.Left() == 0 })
	x.is(task, asynq.TaskStateActive)
	w.Stop()
	x.is(task, asynq.TaskStateActive)
	x.untouched()
}

// isDequeue and isAck know asynq's scripts by their keys, and isEnqueue by its own.
func isDequeue(command []string) bool {
	return slices.Contains(command, "asynq:{ingest}:pending") && slices.Contains(command, "asynq:{ingest}:paused")
}

func isAck(command []string) bool {
	return slices.Contains(command, "asynq:{ingest}:active") && slices.Contains(command, "asynq:{ingest}:lease") && slices.Contains(command, "asynq:{ingest}:processed")
}

func isEnqueue(command []string) bool {
	return len(command) > 3 && strings.HasPrefix(command[3], "asynq:{ingest}:t:") && slices.Contains(command, "asynq:{ingest}:pending")
}

// A task that has succeeded, and whose ack was lost, stays active and runs again when its lease has
// ended: that run finds nothing to do.
func TestTrapLostAck(t *testing.T) {
	x := newTrap(t)
	task := x.enqueued()
	x.line.LoseCommands(1, isAck)
	x.works(false)
	begin := time.Now()
	x.ends(1, begin) // by the tasks of its commits
	testenv.Eventually(t, time.Minute, "the ack, which comes after what the task has committed", func() bool { return x.line.Left() == 0 })
	require.Equal(t, asynq.TaskStateActive, x.is(task, asynq.TaskStateActive).State, "done, and asynq does not know")
	x.leaseEnds(task)
	x.works(false) // its recoverer looks at once
	require.Equal(t, "asynq: task lease expired", x.is(task, asynq.TaskStateRetry).LastErr)
	require.NoError(t, x.inspector.RunTask(ingestQueue, task))
	x.gone(task)
	x.ended(1)
	x.once(1)
}

// The ack arrives and its answer does not: asynq tries again, learns that there is no such task,
// and leaves it at that.
func TestTrapLostAnswerToAck(t *testing.T) {
	x := newTrap(t)
	task := x.enqueued()
	x.line.LoseAnswers(1, isAck)
	x.works(false)
	x.ends(1, time.Now())
	testenv.Eventually(t, time.Minute, "the ack, which comes after what the task has committed", func() bool { return x.line.Left() == 0 })
	x.gone(task)
	x.once(1)
}

// A task that was given to nobody stays active, and its id taken.
func TestTrapLostDequeue(t *testing.T) {
	x := newTrap(t)
	task := x.enqueued()
	x.lostDequeue(task)
	x.again(task)
	x.works(false)
	require.Equal(t, asynq.TaskStateActive, x.is(task, asynq.TaskStateActive).State, "enqueued again, it was no new task")
	x.untouched()
	x.survives(1)
}

// A task without retries left, that nobody has ever run, is archived by the recoverer; its id stays
// taken for 90 days.
func TestTrapArchivedByRecoverer(t *testing.T) {
	x := newTrap(t)
	id := x.stored()
	task := x.taskOf(id)
	require.NoError(t, x.inspector.DeleteTask(ingestQueue, task))
	payload, err := json.Marshal(map[string][]uuid.UUID{"ids": {id}})
	require.NoError(t, err)
	// Ours are never without retries; one that has used them up is in the same state.
	_, err = asynq.NewClientFromRedisClient(x.redis).Enqueue(asynq.NewTask(ingestQueue, payload), asynq.Queue(ingestQueue), asynq.TaskID(task), asynq.MaxRetry(0))
	require.NoError(t, err)
	x.lostDequeue(task)
	x.leaseEnds(task)
	x.works(false)
	require.Equal(t, "asynq: task lease expired", x.is(task, asynq.TaskStateArchived).LastErr)
	x.again(task)
	x.is(task, asynq.TaskStateArchived)
	x.untouched()
	x.survives(1)
	x.is(task, asynq.TaskStateArchived)

	// Somebody runs it from the dashboard: there is nothing left to do.
	require.NoError(t, x.inspector.RunTask(ingestQueue, task))
	x.gone(task)
	x.ended(1)
	x.once(1)
}

// A task that lost its lease (an eviction, a failover) is active for ever: no recoverer looks for
// it.
func TestTrapWedgedLease(t *testing.T) {
	x := newTrap(t)
	task := x.enqueued()
	x.lostDequeue(task)
	n, err := x.redis.ZRem(x.ctx, "asynq:{ingest}:lease", task).Result()
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	other := x.enqueued() // when this one has ended, the recoverer has long looked
	x.works(false)
	x.gone(other)
	require.Equal(t, asynq.TaskStateActive, x.is(task, asynq.TaskStateActive).State)
	require.Equal(t, 1, testenv.Value[int](x.Env, `SELECT count(*) FROM inbound_events WHERE status = 'received'`))
	x.survives(2)
	x.is(task, asynq.TaskStateActive)
}

// Tasks are deleted in the dashboard while they are pending, archived, or wait for a retry or for
// their time.
func TestTrapDeletedTask(t *testing.T) {
	x := newTrap(t)
	retried := x.enqueued()
	x.lostDequeue(retried)
	x.leaseEnds(retried)
	w := x.works(false)
	x.is(retried, asynq.TaskStateRetry)
	w.Stop()
	pending, archived := x.enqueued(), x.enqueued()
	require.NoError(t, x.inspector.ArchiveTask(ingestQueue, archived))
	x.opts.Enqueuer.Alone(work.Item{Kind: work.Ingest, ID: x.unnoticed(), DueAt: time.Now().Add(time.Hour)})
	scheduled, err := x.inspector.ListScheduledTasks(ingestQueue)
	require.NoError(t, err)
	require.Len(t, scheduled, 1)
	for _, task := range []string{retried, pending, archived, scheduled[0].ID} {
		require.NoError(t, x.inspector.DeleteTask(ingestQueue, task), task)
		x.gone(task)
	}
	x.untouched()
	x.survives(4)
}

// A queue is paused in the dashboard: nothing runs, the sweeper does not fill it, and all runs when
// it goes on.
func TestTrapPausedQueue(t *testing.T) {
	x := newTrap(t)
	require.NoError(t, x.redis.SAdd(x.ctx, asynqQueues, ingestQueue).Err())
	require.NoError(t, x.inspector.PauseQueue(ingestQueue))
	for range 3 {
		x.enqueued()
	}
	// however long a busy machine took from a payment to its task: a row that is due before the
	// oldest task was there is overdue, and rightly enqueued again each round
	x.Exec(`UPDATE work SET due_at = now()`)
	x.works(true)
	testenv.Eventually(t, 20*time.Second, "a few rounds of the sweeper", func() bool {
		info, err := x.inspector.GetQueueInfo(ingestQueue)
		require.NoError(t, err)
		return info.Paused && info.Latency > 3*time.Second
	})
	info, err := x.inspector.GetQueueInfo(ingestQueue)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Pending, 6, "its own age tells that the rows wait behind it")
	x.untouched()
	require.NoError(t, x.inspector.UnpauseQueue(ingestQueue))
	x.ends(3, time.Now())
}

// An enqueue whose answer is lost counts as lost, though the task is there; enqueued again, it is
// no second one.
func TestTrapLostAnswerToEnqueue(t *testing.T) {
	x := newTrap(t)
	x.line.LoseAnswers(1, isEnqueue)
	task := x.enqueued()
	for x.line.Left() == 1 { // the server did not know the script yet
		require.NoError(t, x.inspector.DeleteTask(ingestQueue, task))
		x.again(task)
	}
	require.Equal(t, int64(1), x.opts.Enqueuer.Lost())
	x.is(task, asynq.TaskStatePending)
	x.survives(1)
}

// One row is enqueued by everybody at once, under ids of all kinds, and two workers take its tasks.
func TestTrapDuplicateEnqueue(t *testing.T) {
	x := newTrap(t)
	x.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.SlowAfter, Delay: 50 * time.Millisecond})
	id := x.stored()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			switch at := time.Now().Add(time.Duration(i) * time.Millisecond); i % 3 {
			case 0:
				x.enqueue(tasks.Ingest, id, id)
			case 1:
				x.opts.Enqueuer.Alone(work.Item{Kind: work.Ingest, ID: id, DueAt: at})
			default:
				x.opts.Enqueuer.Sweep(work.Ingest, []work.Item{{Kind: work.Ingest, ID: id}}, at)
			}
		})
	}
	all.Wait()
	info, err := x.inspector.GetQueueInfo(ingestQueue)
	require.NoError(t, err)
	require.Greater(t, info.Size, 20)
	x.works(false)
	x.survives(1)
}
