package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ajo/internal/clock"
	"ajo/internal/pg"
)

// position is a place in the WAL of a primary.
type position struct {
	system   int64
	database int64 // a server may have several, one of them restored beside the old one
	timeline int32
	lsn      int64
}

// databaseSQL names a database: by its system, and within it.
const databaseSQL = `(SELECT system_identifier FROM pg_control_system()), (SELECT oid::bigint FROM pg_database WHERE datname = current_database())`

// positionSQL is up to where the primary has committed. A commit is answered when it is flushed,
// unless synchronous_commit is off.
const positionSQL = `
	SELECT ` + databaseSQL + `, ('x' || left(pg_walfile_name(w.lsn), 8))::bit(32)::integer, pg_wal_lsn_diff(w.lsn, '0/0')::bigint
	FROM (SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN pg_current_wal_insert_lsn() ELSE pg_current_wal_flush_lsn() END AS lsn) w`

// replayedSQL is up to where a standby has replayed. Its timeline is known as that of the WAL that
// it receives, which not every role may see, or as that of the WAL that it has replayed and written
// to disk.
const replayedSQL = `
	SELECT pg_is_in_recovery(), ` + databaseSQL + `,
		greatest((SELECT received_tli FROM pg_stat_wal_receiver), (SELECT timeline_id FROM pg_control_checkpoint()), (SELECT min_recovery_end_timeline FROM pg_control_recovery())),
		coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0)::bigint`

// standing is what a server says of itself.
type standing struct {
	standby bool
	position
}

func ask(ctx context.Context, q pg.Querier) (s standing, err error) {
	if err = q.QueryRow(ctx, replayedSQL).Scan(&s.standby, &s.system, &s.database, &s.timeline, &s.lsn); err != nil {
		err = fmt.Errorf("%w: %w", errSilent, err)
	}
	return s, err
}

// has is nil when the standby has all that the primary had at a position.
func (s standing) has(at position) error {
	switch {
	case !s.standby:
		return errPromoted
	case s.system != at.system || s.database != at.database:
		return errSystem
	case s.timeline != at.timeline:
		return errTimeline
	case s.lsn < at.lsn:
		return errBehind
	}
	return nil
}

// reach waits until the standby has what the primary had at a position, [catchUp] at most.
func reach(ctx context.Context, q pg.Querier, at position) (standing, error) {
	for begun := time.Now(); ; {
		s, err := ask(ctx, q)
		if err == nil {
			err = s.has(at)
		}
		if !errors.Is(err, errBehind) || time.Since(begun) >= catchUp {
			return s, err
		}
		if clock.Sleep(ctx, pollEvery) != nil {
			return s, err
		}
	}
}

// answer is one answer of the primary, for all who asked before the statement began.
type answer struct {
	came chan struct{}
	at   position
	err  error
}

// position returns where the primary is, as of a time after the call.
func (r *Replica) position(ctx context.Context) (position, error) {
	r.mu.Lock()
	a := r.next
	if a == nil {
		a = &answer{came: make(chan struct{})}
		r.next = a
		r.wake <- struct{}{}
	}
	r.mu.Unlock()
	select {
	case <-a.came:
		return a.at, a.err
	case <-ctx.Done():
		return position{}, fmt.Errorf("%w: %w", errPrimary, ctx.Err())
	}
}

// answer asks the primary, one statement at a time, for as many as wait.
func (r *Replica) answer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		r.mu.Lock()
		a := r.next
		r.next = nil
		r.mu.Unlock()
		asked, cancel := context.WithTimeout(ctx, answerTime)
		if err := r.primary.QueryRow(asked, positionSQL).Scan(&a.at.system, &a.at.database, &a.at.timeline, &a.at.lsn); err != nil {
			a.err = fmt.Errorf("%w: %w", errPrimary, err)
		}
		cancel()
		close(a.came)
	}
}
