package webhook

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// pause pauses an endpoint now, and returns since when it is.
func (b *bundle) pause(endpoint uuid.UUID) time.Time {
	b.T.Helper()
	b.Exec(`UPDATE webhook_endpoints SET paused_at = $2 WHERE id = $1`, endpoint, b.Clock.Now())
	return b.Clock.Now()
}

// goOn ends the pause, without what follows its commit.
func (b *bundle) goOn(endpoint uuid.UUID) {
	b.T.Helper()
	b.Exec(`UPDATE webhook_endpoints SET paused_at = NULL WHERE id = $1`, endpoint)
}

// While an endpoint is paused its deliveries wait, look at it once a day, and count no attempt.
// What is due when the pause has ended is sent.
func TestPausedEndpoint(t *testing.T) {
	b := setup(t)
	b.Clock.Set(time.Now()) // by which ids are made
	r := receive(t, answer(200))
	e, _ := b.endpoint(r.URL, "{payment.received}")
	b.pause(e)
	id := b.queue(b.fanned(""))[0]
	begun, looks := b.Clock.Now(), 0
	for b.Clock.Now().Sub(begun) < 10*24*time.Hour {
		err := b.Deliver(b.ctx, id)
		require.ErrorIs(t, err, errPaused)
		looks++
		next, ok := retry.When(err)
		require.True(t, ok)
		require.True(t, next.Equal(*b.get(id).NextAttemptAt))
		require.WithinRange(t, next, b.Clock.Now().Add(pausedLook-pausedLook/10), b.Clock.Now().Add(pausedLook))
		b.Clock.Set(next)
	}
	require.LessOrEqual(t, looks, 12)
	require.Empty(t, r.seen())
	require.Equal(t, 0, b.get(id).AttemptCount)
	b.goOn(e)
	require.NoError(t, b.Deliver(b.ctx, id), "though the process that ended the pause died")
	require.Len(t, r.seen(), 1)
	require.Equal(t, 1, b.get(id).AttemptCount)
}

// What has waited for a paused endpoint for 30 days becomes a dead letter that says so, without a
// call: it keeps nothing from the archive. It can be sent again once the pause has ended.
func TestPausedEndpointForAMonth(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(200))
	e, _ := b.endpoint(r.URL, "{payment.received}")
	b.Clock.Set(time.Now())
	b.pause(e)
	id := b.queue(b.fanned(""))[0]
	made := partition.TimeOf(id)
	b.Clock.Set(made.Add(PausedMost - time.Hour))
	err := b.Deliver(b.ctx, id)
	require.ErrorIs(t, err, errPaused)
	last, ok := retry.When(err)
	require.True(t, ok)
	require.True(t, last.Equal(made.Add(PausedMost)), "not a day later")
	young := b.queue(b.fanned(""))[0]
	b.Clock.Set(last)
	err = b.Deliver(b.ctx, id)
	require.True(t, retry.IsExhausted(err))
	require.ErrorIs(t, err, errPausedLong)
	require.NoError(t, b.Deliver(b.ctx, id), "it is done")
	d := b.get(id)
	require.Equal(t, []any{Dead, "the endpoint was paused, and the delivery was at least 30 days old", 0}, []any{d.Status, d.LastError, d.AttemptCount})
	require.Empty(t, r.seen())

	refused := func(want error) {
		t.Helper()
		require.Equal(t, want, b.Replay(b.ctx, id, byHand))
		_, err := b.ReplayOwn(b.ctx, b.tenant, id, byHand)
		require.Equal(t, want, err)
		_, err = b.Replayable(b.ctx, id)
		require.Equal(t, want, err)
		n, more, err := b.ReplaySince(b.ctx, b.tenant, time.Time{}, byHand)
		require.NoError(t, err)
		require.Equal(t, []any{0, false}, []any{n, more})
		require.Equal(t, Dead, b.get(id).Status)
	}
	refused(errEndpointPaused)
	b.goOn(e)
	require.Equal(t, Pending, b.get(young).Status)
	require.NoError(t, b.Replay(b.ctx, id, byHand))
	require.NoError(t, b.Deliver(b.ctx, id))
	require.Len(t, r.seen(), 1)
}

// After a pause all that waited is due, the oldest first and ten a second; what somebody has
// leased, what is another endpoint's and what is due sooner stays as it is.
func TestResume(t *testing.T) {
	b := setup(t)
	b.Clock.Set(time.Now())
	r := receive(t, answer(200))
	e, _ := b.endpoint(r.URL, "{payment.received}")
	other, _ := b.endpoint(r.URL+"/other", "{payment.received}")
	since := b.pause(e)
	b.pause(other)
	var ids, others []uuid.UUID
	for range 25 {
		p := b.fanned("")
		b.queue(p)
		ids, others = append(ids, b.to(p, e)), append(others, b.to(p, other))
	}
	for _, id := range slices.Concat(ids, others) {
		require.ErrorIs(t, b.Deliver(b.ctx, id), errPaused)
	}
	b.Clock.Advance(time.Minute)
	now := b.Clock.Now()
	soon, leased, arrived := ids[3], ids[7], ids[11]
	b.Exec(`UPDATE work SET due_at = $2 WHERE id = $1`, soon, now.Add(-time.Second))
	b.Exec(`UPDATE work SET leased_until = $2 WHERE id = $1`, leased, now.Add(time.Second))
	b.Exec(`UPDATE deliveries SET status = 'delivered', delivered_at = $2 WHERE id = $1`, arrived, now)
	b.Exec(`DELETE FROM work WHERE id = $1`, arrived)
	b.goOn(e)
	var enqueued []work.Item
	defer work.EnqueueWith(b.Pool, func(items []work.Item) { enqueued = append(enqueued, items...) })()
	require.NoError(t, Resume(b.ctx, b.Pool, now, b.tenant, e, since))
	place := 0
	for _, id := range ids {
		switch due := b.DueAt(work.Deliver, id); id {
		case arrived:
			require.Nil(t, due)
			continue
		case soon:
			require.True(t, due.Equal(now.Add(-time.Second)))
		case leased:
			require.True(t, due.After(now.Add(time.Hour)))
		default:
			require.True(t, due.Equal(now.Add(time.Duration(place)*resendEvery)), "place %d: %s", place, due.Sub(now))
		}
		place++
	}
	for _, id := range others {
		require.True(t, b.DueAt(work.Deliver, id).After(now.Add(time.Hour)))
	}
	require.Len(t, enqueued, len(ids)-2)
	b.Clock.Advance(3 * time.Second)
	for _, id := range ids {
		if id != leased {
			require.NoError(t, b.Deliver(b.ctx, id))
		}
	}
	require.Len(t, r.seen(), len(ids)-2)
}

// A delivery that has been claimed while its endpoint was paused, and is put off only after the
// pause has ended, is due at once: what makes the others due has left it alone.
func TestPauseThatEndsDuringAClaim(t *testing.T) {
	b := setup(t)
	b.Clock.Set(time.Now())
	r := receive(t, answer(200))
	for _, change := range []string{"paused_at = NULL", "removed_at = now(), secret = NULL"} {
		e, _ := b.endpoint(r.URL+"/"+change[:6], "{payment.received}")
		since := b.pause(e)
		p := b.fanned("")
		b.queue(p)
		id := b.to(p, e)
		claimed := b.Claim(b.ctx, []uuid.UUID{id})[0]
		b.Exec(`UPDATE webhook_endpoints SET `+change+` WHERE id = $1`, e)
		require.NoError(t, Resume(b.ctx, b.Pool, b.Clock.Now(), b.tenant, e, since))
		require.ErrorIs(t, b.Attempt(b.ctx, claimed), errPaused)
		require.True(t, b.DueAt(work.Deliver, id).Equal(b.Clock.Now()), change)
		if err := b.Deliver(b.ctx, id); change[:6] == "paused" {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, errRemoved)
		}
		b.Exec(`UPDATE webhook_endpoints SET removed_at = now(), secret = NULL WHERE id = $1 AND removed_at IS NULL`, e)
	}
	require.Len(t, r.seen(), 1)
}

// What waits for a paused endpoint, however much, hides no other tenant's failing endpoint.
func TestFailingBesideAPause(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(503))
	neighbour := b.Env.Tenant()
	busy := b.Env.Account(neighbour, "busy")
	e := b.Env.Endpoint(neighbour, "https://busy.example/hook", "{payment.received}")
	b.pause(e)
	const scan = 100
	for _, from := range []time.Duration{0, -pausedLook} { // what waits, and what no worker has come to
		b.Exec(`WITH d AS (
				INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at, endpoint_id)
				SELECT `+testenv.IDsAfter(uuid.Nil)+`, $1::uuid, $2::uuid, gen_random_uuid(), 'payment.received', 'https://busy.example/hook', '{}', 'pending', $3::timestamptz, $4::uuid
				FROM generate_series(1, $5::int) RETURNING id)
			INSERT INTO work (kind, id, tenant_id, due_at)
			SELECT 'deliver', id, $1::uuid, $3::timestamptz + $7::interval + row_number() OVER () * $6::interval / $5 FROM d`,
			neighbour, busy, b.Clock.Now(), e, 10*scan, pausedLook, from)
	}
	id := b.queueOne(r.URL)
	require.Error(t, b.Deliver(b.ctx, id))
	for range 5 {
		all, err := b.failingAmong(b.ctx, scan)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, []any{b.tenant, r.URL}, []any{all[0].TenantID, all[0].CallbackURL})
		b.Clock.Advance(time.Minute) // it is due soon, and then overdue
	}
}

// The endpoints that are paused longest are named, of all tenants, and none that was removed.
func TestPausedEndpoints(t *testing.T) {
	b := setup(t)
	first, second, gone := b.Env.Endpoint(b.tenant, "https://a.example", "{payment.received}"), b.Env.Endpoint(b.Env.Tenant(), "https://b.example", "{payment.received}"),
		b.Env.Endpoint(b.tenant, "https://c.example", "{payment.received}")
	since := b.pause(first)
	b.pause(gone)
	b.Exec(`UPDATE webhook_endpoints SET removed_at = now(), secret = NULL WHERE id = $1`, gone)
	b.Clock.Advance(time.Hour)
	b.pause(second)
	named := func(after, until time.Time, limit int) (ids []uuid.UUID) {
		all, err := b.Paused(b.ctx, after, until, limit)
		require.NoError(t, err)
		for _, e := range all {
			ids = append(ids, e.ID)
		}
		return ids
	}
	now := b.Clock.Now()
	require.Equal(t, []uuid.UUID{first, second}, named(time.Time{}, now, 5))
	require.Equal(t, []uuid.UUID{first}, named(time.Time{}, now, 1))
	require.Equal(t, []uuid.UUID{first}, named(time.Time{}, now.Add(-time.Minute), 5))
	require.Equal(t, []uuid.UUID{second}, named(since, now, 5))
	all, err := b.Paused(b.ctx, time.Time{}, now, 1)
	require.NoError(t, err)
	require.Equal(t, []any{b.tenant, "Test tenant", b.tenant.String() + "@tenant.example", "https://a.example", true},
		[]any{all[0].TenantID, all[0].Tenant, all[0].Email, all[0].URL, all[0].Since.Equal(since)})
}

// What waited is found by the endpoint, without what was delivered to it before the pause.
func TestResumeReadsNoHistory(t *testing.T) {
	b := setup(t)
	b.Clock.Set(time.Now())
	e, _ := b.endpoint("https://shop.example", "{payment.received}")
	old := b.Clock.Now().AddDate(0, 0, -10)
	b.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at, delivered_at, endpoint_id)
		SELECT overlay(gen_random_uuid()::text PLACING left($3, 13) FROM 1)::uuid, $1, $2, gen_random_uuid(), 'payment.received', 'https://shop.example', '{}', 'delivered', $4, $4, $5
		FROM generate_series(1, 2000) n`, b.tenant, b.account, partition.Floor(old).String(), old, e)
	b.Exec(`ANALYZE deliveries`)
	since := b.pause(e)
	id := b.queue(b.fanned(""))[0]
	s := testenv.Statement{SQL: waitingSQL, Args: []any{b.tenant, e, partition.Floor(since.Add(-triedFor)), resendMax}}
	most, plan := b.MostRows(s)
	require.Less(t, most, 100, plan)
	found, err := pg.Collect(b.ctx, b.Pool, pgx.RowTo[uuid.UUID], s.SQL, s.Args...)
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{id}, found)
}
