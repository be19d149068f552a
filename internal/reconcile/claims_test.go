package reconcile

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

// A run whose lease has ended, five minutes after its last sign of life, is another worker's, at
// once: the first one can neither go on nor finish, and its failure is not the run's.
func TestRunThatAnotherWorkerHas(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	s := &Service{pool: e.Pool, clock: e.Clock}
	window := func(*time.Time) (from, to time.Time) { return testenv.Epoch, testenv.Epoch.Add(time.Hour) }
	claim := func(kind string) *comparison {
		r := s.newRun(kind)
		claimed, err := r.claim(t.Context(), window)
		require.NoError(t, err)
		require.True(t, claimed)
		return r
	}
	first := claim(kindDaily)
	e.Clock.Advance(5 * time.Minute)
	second := claim(kindDaily)
	require.Equal(t, first.report.ID, second.report.ID)
	is := func(status string, lease *time.Time) {
		t.Helper()
		require.Equal(t, status, testenv.Value[string](e, `SELECT status FROM reconciliations`))
		got := testenv.Value[*time.Time](e, `SELECT leased_until FROM reconciliations`)
		require.Equal(t, lease == nil, got == nil)
		require.True(t, lease == nil || lease.Equal(*got), got)
	}
	e.Clock.Advance(time.Second)
	require.ErrorIs(t, first.keepClaim(t.Context(), e.Pool, nil, nil), errLostRun)
	require.ErrorIs(t, first.finish(t.Context()), errLostRun)
	require.NoError(t, first.fail(errors.New("too late")))
	is("running", &second.lease)
	require.NoError(t, second.keepClaim(t.Context(), e.Pool, nil, nil))
	is("running", &second.lease)
	require.NoError(t, second.finish(t.Context()))
	is("finished", nil)
}

// Of the runs that can be taken over, a worker takes the first one of its kind that no other has,
// and none before its time.
func TestWhichRunIsResumed(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	s := &Service{pool: e.Pool, clock: e.Clock}
	now := e.Clock.Now()
	run := func(kind, status string, hour int, lease *time.Time) (id uuid.UUID) {
		from := now.Add(time.Duration(hour-100) * time.Hour)
		id = uuid.Must(uuid.NewV7())
		e.Exec(`INSERT INTO reconciliations (id, kind, window_from, window_to, status, started_at, leased_until, finished_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $5 = 'failed' THEN $6::timestamptz END)`,
			id, kind, from, from.Add(time.Hour), status, now, lease)
		return id
	}
	resume := func() (uuid.UUID, bool) {
		r := s.newRun(kindAgain)
		resumed, err := r.resume(t.Context())
		require.NoError(t, err)
		return r.report.ID, resumed
	}
	run(kindDaily, "failed", 1, nil)
	run(kindAgain, "running", 2, new(now.Add(time.Minute)))
	run(kindAgain, "waiting", 2, new(now.Add(time.Minute)))
	_, resumed := resume()
	require.False(t, resumed, "another kind's, one that another worker has, and one before its time")
	third, fourth := run(kindAgain, "waiting", 3, &now), run(kindAgain, "waiting", 4, &now)
	var got uuid.UUID
	require.NoError(t, e.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE reconciliations SET status = 'running', leased_until = $2 WHERE id = $1`, third, now.Add(runLease))
		return err
	}, func() error {
		got, resumed = resume()
		return nil
	}))
	require.True(t, resumed)
	require.Equal(t, fourth, got, "the third is taken just now")
	require.Equal(t, 1, testenv.Value[int](e, `SELECT count(*) FROM reconciliations WHERE kind = 'daily' AND status = 'failed'`))
}

// A failed run of a time that is yet to come, by a clock that was ahead, goes on: only what has
// finished there does not count.
func TestFailedRunOfATimeToComeIsResumed(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	s := &Service{pool: e.Pool, clock: e.Clock}
	now := e.Clock.Now()
	failed := uuid.Must(uuid.NewV7())
	e.Exec(`INSERT INTO reconciliations (id, kind, window_from, window_to, status, started_at, finished_at) VALUES ($1, 'periodic', $2, $3, 'failed', $4, $4)`,
		failed, now.Add(time.Hour), now.Add(2*time.Hour), now)
	r := s.newRun(kindPeriodic)
	claimed, err := r.claim(t.Context(), func(*time.Time) (from, to time.Time) { return now.Add(-time.Hour), now })
	require.NoError(t, err)
	require.True(t, claimed)
	require.Equal(t, failed, r.report.ID)
}

// A time in which the list was behind is read again together with the one before it only while that
// waits: what a run reads, or has read, is not made longer.
func TestOnlyWhatWaitsIsExtended(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"running", "failed", "finished"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			e := testenv.New(t)
			s := &Service{pool: e.Pool, clock: e.Clock}
			at := e.Clock.Now()
			e.Exec(`INSERT INTO reconciliations (id, kind, window_from, window_to, status, started_at, leased_until, finished_at, report)
				VALUES ($1, 'again', $2, $3, $4, $3, CASE WHEN $4 = 'running' THEN $5::timestamptz END, CASE WHEN $4 <> 'running' THEN $3::timestamptz END,
					CASE WHEN $4 = 'finished' THEN '{}'::jsonb END)`,
				uuid.Must(uuid.NewV7()), at.Add(-30*time.Minute), at, status, at.Add(runLease))
			r := s.newRun(kindPeriodic)
			r.behind = 2 * time.Hour
			claimed, err := r.claim(t.Context(), func(*time.Time) (from, to time.Time) { return at, at.Add(time.Hour) })
			require.NoError(t, err)
			require.True(t, claimed)
			for _, want := range []string{"waiting 0 to 15", "waiting 0 to 30"} {
				from := r.readTo
				r.readTo = from.Add(15 * time.Minute)
				require.NoError(t, r.checkpoint(t.Context(), &slice{from: from, to: r.readTo, young: true}))
				require.Equal(t, []string{status + " -30 to 0", want}, testenv.Value[[]string](e, `
					SELECT array_agg(format('%s %s to %s', status, extract(epoch FROM window_from - $1)::int / 60, extract(epoch FROM window_to - $1)::int / 60) ORDER BY window_from)
					FROM reconciliations WHERE kind = 'again'`, at))
			}
		})
	}
}

// A run by a person ends with its process, however that ended (Ctrl-C is enough): a worker's next
// run, or a person's, says so. One that is alive goes on.
func TestRunByAPersonWhoseProcessEnded(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	s := &Service{pool: e.Pool, clock: e.Clock}
	begin := func() *comparison {
		r := s.newRun(kindManual)
		r.report.From, r.report.To = testenv.Epoch, testenv.Epoch.Add(time.Hour)
		require.NoError(t, r.begin(t.Context()))
		return r
	}
	is := func(r *comparison, status, why string) {
		t.Helper()
		runs, _, err := s.Reconciliations(t.Context(), page.Request{Limit: 10})
		require.NoError(t, err)
		i := slices.IndexFunc(runs, func(v Run) bool { return v.ID == r.report.ID })
		require.Equal(t, [2]string{status, why}, [2]string{runs[i].Status, runs[i].LastError})
	}
	byWorker := func() {
		_, err := s.newRun(kindPeriodic).claim(t.Context(), func(*time.Time) (from, to time.Time) { return from, to })
		require.NoError(t, err)
	}
	dead, alive := begin(), begin()
	e.Clock.Advance(runLease - time.Second)
	require.NoError(t, alive.checkpoint(t.Context(), nil))
	byWorker()
	is(dead, "running", "")
	e.Clock.Advance(time.Second)
	byWorker()
	is(dead, "failed", errDiedRun.Error())
	is(alive, "running", "")
	e.Clock.Advance(runLease)
	require.NoError(t, begin().finish(t.Context()))
	is(alive, "failed", errDiedRun.Error())
	require.ErrorIs(t, alive.finish(t.Context()), errLostRun)
}
