package work_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// list reads all pages of a list, and checks that each is full but the last.
func (b *bundle) list(f work.Filter, limit int) (all []work.Record) {
	b.T.Helper()
	r := page.Request{Limit: limit}
	for {
		items, info, err := work.List(b.ctx, b.Pool, b.Clock.Now(), f, r)
		require.NoError(b.T, err)
		all = append(all, items...)
		if !info.HasMore {
			return all
		}
		require.Len(b.T, items, limit)
		r.After = *info.NextCursor
	}
}

func idsOf(items []work.Record) (ids []uuid.UUID) {
	for _, m := range items {
		ids = append(ids, m.ID)
	}
	return ids
}

func (b *bundle) lease(kind work.Kind, until time.Time, ids ...uuid.UUID) {
	b.T.Helper()
	leased, err := work.Lease(b.ctx, b.Pool, kind, until, b.due(kind, ids...))
	require.NoError(b.T, err)
	require.Len(b.T, leased, len(ids))
}

// A leased item is nobody else's until its lease ends, and is due again at that moment.
func TestLeasedItemsAreNotClaimed(t *testing.T) {
	b := setup(t)
	id, until := b.items(work.Confirm, 1)[0], b.Clock.Now().Add(time.Minute)
	b.lease(work.Confirm, until, id)
	take := func() (taken []uuid.UUID) {
		b.inTx(func(tx pg.Tx) (err error) {
			taken, err = work.Take(b.ctx, tx, work.Confirm, b.Clock.Now(), []uuid.UUID{id})
			return err
		})
		return taken
	}
	b.Clock.Set(until.Add(-time.Microsecond))
	require.Empty(t, b.due(work.Confirm, id))
	require.Empty(t, take())
	require.Empty(t, b.list(work.Filter{Due: true}, 5))
	b.Clock.Set(until)
	require.Len(t, b.due(work.Confirm, id), 1)
	require.Len(t, b.list(work.Filter{Due: true}, 5), 1)
	require.Empty(t, b.list(work.Filter{Leased: true}, 5))
	require.Equal(t, []uuid.UUID{id}, take())
	require.Empty(t, b.list(work.Filter{}, 5))
}

func TestListFilters(t *testing.T) {
	b := setup(t)
	b.Tenant() // has no work
	tenant, now := b.Tenant(), b.Clock.Now()
	ids := map[string]uuid.UUID{}
	add := func(name string, kind work.Kind, owner uuid.UUID, due time.Time) uuid.UUID {
		ids[name] = uuid.New()
		b.inTx(func(tx pg.Tx) error {
			return work.Schedule(b.ctx, tx, work.Item{Kind: kind, ID: ids[name], TenantID: owner, DueAt: due})
		})
		return ids[name]
	}
	add("nobody's", work.Ingest, uuid.Nil, now.Add(-time.Minute))
	add("due now", work.Confirm, uuid.Nil, now)
	leased := add("leased", work.Settle, tenant, now.Add(-time.Hour))
	failing := add("failing", work.Deliver, tenant, now.Add(-time.Second))
	both := add("failing while leased", work.Deliver, uuid.New(), now.Add(-2*time.Second))
	add("later", work.Expire, tenant, now.AddDate(0, 1, 0))
	b.lease(work.Settle, now.Add(time.Minute), leased)
	b.lease(work.Deliver, now.Add(time.Minute), both)
	for _, id := range []uuid.UUID{failing, both} {
		_, err := work.Postpone(b.ctx, b.Pool, work.Deliver, id, now, errors.New("the disk is full"))
		require.NoError(t, err)
	}
	for _, c := range []struct {
		filter work.Filter
		want   string
	}{
		{work.Filter{}, "leased, nobody's, due now, failing while leased|failing, later"},
		{work.Filter{Kind: work.Deliver}, "failing while leased|failing"},
		{work.Filter{Kind: work.Confirm}, "due now"},
		{work.Filter{TenantID: tenant}, "leased, failing, later"},
		{work.Filter{TenantID: uuid.New()}, ""},
		{work.Filter{Due: true}, "nobody's, due now"},
		{work.Filter{Failing: true}, "failing while leased|failing"},
		{work.Filter{Failing: true, TenantID: tenant}, "failing"},
		{work.Filter{Failing: true, Due: true}, ""},
		{work.Filter{Leased: true}, "leased, failing while leased"},
		{work.Filter{Leased: true, Failing: true}, "failing while leased"},
		{work.Filter{Leased: true, Due: true}, ""},
		{work.Filter{Leased: true, Kind: work.Settle, TenantID: tenant}, "leased"},
	} {
		var want []uuid.UUID
		for name := range strings.SplitSeq(c.want, ", ") {
			if first, second, two := strings.Cut(name, "|"); two { // of the same time: by id
				pair := []uuid.UUID{ids[first], ids[second]}
				if pg.CompareIDs(pair[0], pair[1]) > 0 {
					pair[0], pair[1] = pair[1], pair[0]
				}
				want = append(want, pair...)
			} else if name != "" {
				want = append(want, ids[name])
			}
		}
		require.Equal(t, want, idsOf(b.list(c.filter, 100)), "%+v", c.filter)
		require.Equal(t, want, idsOf(b.list(c.filter, 1)), "%+v, a row a page", c.filter)
	}
	all := b.list(work.Filter{Kind: work.Settle}, 5)
	require.Equal(t, []any{tenant, "Test tenant", 0, ""}, []any{*all[0].TenantID, all[0].TenantName, all[0].Attempts, all[0].LastError})
	require.True(t, all[0].Leased(now) && !all[0].Leased(now.Add(time.Minute)))
	all = b.list(work.Filter{Failing: true, TenantID: tenant}, 5)
	require.Equal(t, []any{1, "the disk is full"}, []any{all[0].Attempts, all[0].LastError})
	require.Nil(t, b.list(work.Filter{Kind: work.Ingest}, 5)[0].TenantID)

	_, _, err := work.List(b.ctx, b.Pool, now, work.Filter{Kind: "x"}, page.Request{Limit: 1})
	require.ErrorIs(t, err, work.ErrKind)
	_, _, err = work.List(b.ctx, b.Pool, now, work.Filter{}, page.Request{Limit: 1, After: page.ID(page.Events, uuid.New())})
	require.ErrorIs(t, err, page.ErrCursor)
}

// Items of one time, and of one row, are each on one page; what comes or goes between two pages
// moves no other.
func TestPagesOfTheList(t *testing.T) {
	b := setup(t)
	now := b.Clock.Now()
	var want []uuid.UUID
	for range 7 {
		id := uuid.New()
		want = append(want, id, id)
		b.Schedule(work.Ingest, id, now)
		b.Schedule(work.Confirm, id, now)
	}
	for _, limit := range []int{1, 2, 3, 5, 100} {
		require.ElementsMatch(t, want, idsOf(b.list(work.Filter{}, limit)))
	}
	first, info, err := work.List(b.ctx, b.Pool, now, work.Filter{}, page.Request{Limit: 3})
	require.NoError(t, err)
	b.inTx(func(tx pg.Tx) error { return work.Cancel(b.ctx, tx, first[2].Kind, first[2].ID) })
	early := uuid.New()
	b.Schedule(work.Settle, early, now.Add(-time.Second))
	rest, _, err := work.List(b.ctx, b.Pool, now, work.Filter{}, page.Request{Limit: 100, After: *info.NextCursor})
	require.NoError(t, err)
	require.ElementsMatch(t, want, append(idsOf(first), idsOf(rest)...))
}

func TestSummary(t *testing.T) {
	b := setup(t)
	now := b.Clock.Now()
	ids := b.items(work.Deliver, 4) // due now, and each second after it
	b.Exec(`UPDATE work SET due_at = $1 WHERE id = $2`, now.Add(-time.Hour), ids[1])
	b.lease(work.Deliver, now.Add(time.Minute), ids[1])
	b.Exec(`INSERT INTO work (kind, id, due_at) SELECT 'ingest', gen_random_uuid(), $1::timestamptz - n * interval '1 second' FROM generate_series(0, $2) n`, now, work.CountLimit+50)
	b.Exec(`INSERT INTO work (kind, id, due_at) SELECT 'expire', gen_random_uuid(), $1::timestamptz + n * interval '1 second' FROM generate_series(1, $2) n`, now, work.CountLimit)
	all, err := work.Summarize(b.ctx, b.Pool, now)
	require.NoError(t, err)
	require.Len(t, all, len(work.Kinds))
	for i, k := range work.Kinds {
		s := all[i]
		got := []int{s.Due, s.Leased, s.Later}
		oldest := time.Duration(-1)
		if s.OldestDue != nil {
			oldest = now.Sub(*s.OldestDue)
		}
		switch require.Equal(t, k, s.Kind); k {
		case work.Deliver:
			require.Equal(t, []int{1, 1, 2}, got)
			require.Equal(t, time.Duration(0), oldest)
		case work.Ingest:
			require.Equal(t, []int{work.CountLimit + 1, 0, 0}, got, "counted no further")
			require.Equal(t, time.Duration(work.CountLimit+50)*time.Second, oldest)
		case work.Expire:
			require.Equal(t, []int{0, 0, work.CountLimit}, got)
			require.Equal(t, time.Duration(-1), oldest)
		default:
			require.Equal(t, []int{0, 0, 0}, got)
		}
	}
}

// Each statement of an operator goes by a range of the index for each kind, or by the key: it must
// not read, let alone sort, a million rows.
func TestPlansOfTheList(t *testing.T) {
	b := setup(t)
	b.Exec(`INSERT INTO work (kind, id, tenant_id, due_at, attempts) SELECT (array['ingest', 'confirm', 'settle', 'deliver', 'expire'])[1 + n % 5],
		gen_random_uuid(), gen_random_uuid(), now() + (n - 20000) * interval '1 second', CASE n % 1000 WHEN 0 THEN 1 ELSE 0 END FROM generate_series(1, 40000) n`)
	b.Exec(`ANALYZE work`)
	now := b.Clock.Now()
	check := func(why, plan string) {
		t.Helper()
		require.Contains(t, plan, "Index Scan using work_due on work", "%s:\n%s", why, plan)
		require.NotContains(t, plan, "Seq Scan on work", "%s:\n%s", why, plan)
	}
	cursor := page.Due(page.Work, now, uuid.New(), 2)
	for name, f := range map[string]work.Filter{
		"all": {}, "kind": {Kind: work.Settle}, "due": {Due: true}, "failing": {Failing: true}, "leased": {Leased: true}, "tenant": {TenantID: uuid.New()},
	} {
		for _, after := range []string{"", cursor} {
			sql, args, err := work.ListArgs(now, f, page.Request{Limit: 20, After: after})
			require.NoError(t, err)
			check(name, b.Plan(sql, args...))
		}
	}
	last := testenv.Value[time.Time](b.Env, `SELECT max(due_at) - interval '100 seconds' FROM work`)
	sql, args, err := work.ListArgs(now, work.Filter{}, page.Request{Limit: 20, After: page.Due(page.Work, last, uuid.New(), 0)})
	require.NoError(t, err)
	most, plan := b.MostRows(testenv.Statement{SQL: sql, Args: args})
	require.Less(t, most, 1000, "a page at the end reads what stands before it: %s", plan)
	summary := b.Plan(work.SummarySQL, work.Kinds, now, work.CountLimit+1)
	require.NotContains(t, summary, "Seq Scan on work", summary)
	require.Contains(t, b.Plan(work.ItemsSQL+" FOR UPDATE OF w", uuid.New(), ""), "work_pkey")
}

var byHand = audit.By{Actor: "cli:ada", Reason: "a ticket"}

func TestRetry(t *testing.T) {
	b := setup(t)
	now := b.Clock.Now()
	id := b.items(work.Deliver, 1)[0]
	_, err := work.Postpone(b.ctx, b.Pool, work.Deliver, id, now, errors.New("the disk is full"))
	require.NoError(t, err)
	var enqueued []work.Item
	t.Cleanup(work.EnqueueWith(b.Pool, func(items []work.Item) { enqueued = append(enqueued, items...) }))

	for _, c := range []struct {
		id   uuid.UUID
		kind work.Kind
		by   audit.By
		want error
	}{
		{uuid.New(), "", byHand, work.ErrNoItems},
		{id, work.Settle, byHand, work.ErrNoItems},
		{id, "x", byHand, work.ErrKind},
		{id, "", audit.By{Actor: "cli:ada"}, audit.ErrReason},
	} {
		_, err := work.Retry(b.ctx, b.Pool, now, c.id, c.kind, c.by)
		require.ErrorIs(t, err, c.want)
	}
	require.Empty(t, enqueued)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log`))
	require.Len(t, b.list(work.Filter{Failing: true}, 10), 1, "nothing was changed")

	done, err := work.Retry(b.ctx, b.Pool, now, id, "", byHand)
	require.NoError(t, err)
	require.Len(t, done, 1)
	require.Equal(t, b.list(work.Filter{}, 10), done, "it says what is there now")
	require.True(t, now.Equal(done[0].DueAt))
	require.Zero(t, done[0].Attempts)
	require.Equal(t, []work.Item{{Kind: work.Deliver, ID: id, TenantID: *done[0].TenantID, DueAt: now}}, enqueued)
	log, _, err := audit.List(b.ctx, b.Pool, audit.Filter{Action: "work.retry", Target: "work:" + id.String()}, page.Request{Limit: 5})
	require.NoError(t, err)
	require.Len(t, log, 1)
	require.Equal(t, []string{"cli:ada", "a ticket"}, []string{log[0].Actor, log[0].Reason})
	var detail map[string]any
	require.NoError(t, json.Unmarshal(log[0].Detail, &detail))
	require.Equal(t, []any{"deliver", 1.0, "the disk is full"}, []any{detail["Kind"], detail["Attempts"], detail["LastError"]})

	gap, err := work.Postpone(b.ctx, b.Pool, work.Deliver, id, now, errors.New("again"))
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, gap.Sub(now), "as after a first failure")
	b.Clock.Advance(time.Hour)
	done, err = work.Retry(b.ctx, b.Pool, b.Clock.Now(), id, work.Deliver, byHand)
	require.NoError(t, err)
	require.True(t, gap.Equal(done[0].DueAt), "what is overdue stays so")
	require.Len(t, enqueued, 2)
}

// A leased item is left to whoever has it, and the refusal says until when; of a row's items, none
// is retried then.
func TestRetryOfALeasedItem(t *testing.T) {
	b := setup(t)
	now := b.Clock.Now()
	id := b.items(work.Confirm, 1)[0]
	b.Schedule(work.Ingest, id, now.Add(time.Minute))
	until := now.Add(90 * time.Second)
	b.lease(work.Confirm, until, id)
	_, err := work.Retry(b.ctx, b.Pool, now, id, "", byHand)
	require.Equal(t, errs.Conflict, errs.KindOf(err))
	require.ErrorContains(t, err, "a worker has the confirm item leased until "+until.UTC().Format(time.RFC3339))
	require.True(t, now.Add(time.Minute).Equal(*b.DueAt(work.Ingest, id)))
	_, err = work.Retry(b.ctx, b.Pool, now, id, work.Ingest, byHand)
	require.NoError(t, err)
	require.True(t, now.Equal(*b.DueAt(work.Ingest, id)))
	_, err = work.Retry(b.ctx, b.Pool, until, id, work.Confirm, byHand)
	require.NoError(t, err, "the lease has ended")
}

// Whoever works on an item by its version alone records its result in spite of a retry, and a retry
// that comes in the middle of that finds nothing left.
func TestRetryWhileAWorkerWorks(t *testing.T) {
	b := setup(t)
	id := b.items(work.Settle, 1)[0]
	claim := b.due(work.Settle, id)[0]
	_, err := work.Retry(b.ctx, b.Pool, b.Clock.Now(), id, "", byHand)
	require.NoError(t, err)
	retried := make(chan error, 1)
	b.inTx(func(tx pg.Tx) error {
		held, err := work.Finish(b.ctx, tx, work.Settle, []work.Outcome{{Claim: claim}})
		require.Equal(t, []bool{true}, held)
		go func() {
			_, err := work.Retry(b.ctx, b.Pool, b.Clock.Now(), id, "", byHand)
			retried <- err
		}()
		testenv.Eventually(t, 10*time.Second, "the retry to wait", func() bool {
			return b.LockWaits() == 1
		})
		return err
	})
	require.ErrorIs(t, <-retried, work.ErrNoItems)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log`))
}
