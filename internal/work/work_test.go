package work_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

type bundle struct {
	*testenv.Env
	ctx context.Context
}

func setup(t *testing.T) *bundle {
	t.Parallel()
	return &bundle{testenv.New(t), context.Background()}
}

func (b *bundle) inTx(fn func(tx pg.Tx) error) {
	b.T.Helper()
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, fn))
}

// items schedules n items of a kind, the later ones due later, and returns their ids, sorted.
func (b *bundle) items(kind work.Kind, n int) []uuid.UUID {
	b.T.Helper()
	var ids []uuid.UUID
	b.inTx(func(tx pg.Tx) error {
		var items []work.Item
		ids = nil
		for i := range n {
			id := uuid.Must(uuid.NewV7())
			ids = append(ids, id)
			items = append(items, work.Item{Kind: kind, ID: id, TenantID: uuid.New(), DueAt: b.Clock.Now().Add(time.Duration(i) * time.Second)})
		}
		return work.Schedule(b.ctx, tx, items...)
	})
	return ids
}

func (b *bundle) due(kind work.Kind, ids ...uuid.UUID) []work.Claim {
	b.T.Helper()
	found, err := work.Due(b.ctx, b.Pool, kind, b.Clock.Now(), ids)
	require.NoError(b.T, err)
	var claims []work.Claim
	for _, id := range ids {
		if c, ok := found[id]; ok {
			claims = append(claims, c)
		}
	}
	return claims
}

func (b *bundle) finish(kind work.Kind, outcomes ...work.Outcome) (held []bool) {
	b.T.Helper()
	b.inTx(func(tx pg.Tx) (err error) {
		held, err = work.Finish(b.ctx, tx, kind, outcomes)
		return err
	})
	return held
}

// Of items that are given back together some are done and some are due again: all are locked in the
// order of their ids, as by whoever makes several due.
func TestItemsAreGivenBackInOrder(t *testing.T) {
	b := setup(t)
	ids := b.items(work.Settle, 2)
	b.Clock.Advance(time.Second)
	claims := b.due(work.Settle, ids...)
	next := b.Clock.Now().Add(time.Minute)
	require.NoError(t, b.InOrder(testenv.LocksItem(ids[0]), testenv.LocksItem(ids[1]), func() error {
		return pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			held, err := work.Finish(b.ctx, tx, work.Settle, []work.Outcome{{Claim: claims[1]}, {Claim: claims[0], Next: &next}})
			assert.Equal(t, []bool{true, true}, held)
			return err
		})
	}))
	require.Equal(t, next, *b.DueAt(work.Settle, ids[0]))
	require.Nil(t, b.DueAt(work.Settle, ids[1]))
}

// The commit enqueues what was scheduled, with its time; a rollback, or a transaction that is tried
// again, enqueues nothing of its own.
func TestTheCommitEnqueues(t *testing.T) {
	b := setup(t)
	var enqueued []work.Item
	stop := work.EnqueueWith(b.Pool, func(items []work.Item) { enqueued = append(enqueued, items...) })
	item := work.Item{Kind: work.Settle, ID: uuid.New(), TenantID: uuid.New(), DueAt: b.Clock.Now(), Traceparent: "00-1-2-01"}
	failed := errors.New("rolled back")
	require.ErrorIs(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		require.NoError(t, work.Schedule(b.ctx, tx, item))
		return failed
	}), failed)
	require.Empty(t, enqueued)
	require.Nil(t, b.DueAt(work.Settle, item.ID))
	b.inTx(func(tx pg.Tx) error {
		require.NoError(t, work.Schedule(b.ctx, tx, item))
		require.Empty(t, enqueued, "not before the commit")
		return work.Schedule(b.ctx, tx)
	})
	require.Equal(t, []work.Item{item}, enqueued)
	stop()
	b.items(work.Deliver, 1)
	require.Len(t, enqueued, 1, "nobody enqueues: the sweep finds it")
}

// Whoever reads a due item may record its result, until somebody else has leased, finished or
// scheduled it.
func TestOneOfAllWhoClaimRecords(t *testing.T) {
	b := setup(t)
	ids := b.items(work.Confirm, 2)
	b.Clock.Advance(time.Second)
	first, second := b.due(work.Confirm, ids...), b.due(work.Confirm, ids...)
	require.Len(t, first, 2)
	require.Equal(t, first, second, "reading takes nothing from anybody")
	require.Empty(t, b.due(work.Deliver, ids...), "of another kind")
	next := b.Clock.Now().Add(time.Minute)
	require.Equal(t, []bool{true, true}, b.finish(work.Confirm, work.Outcome{Claim: first[0]}, work.Outcome{Claim: first[1], Next: &next}))
	require.Equal(t, []bool{false, false}, b.finish(work.Confirm, work.Outcome{Claim: second[0], Next: &next}, work.Outcome{Claim: second[1]}))
	require.Nil(t, b.DueAt(work.Confirm, ids[0]), "done")
	require.True(t, next.Equal(*b.DueAt(work.Confirm, ids[1])))
	require.Empty(t, b.due(work.Confirm, ids...))
	b.Clock.Set(next)
	again := b.due(work.Confirm, ids...)
	require.Len(t, again, 1)
	require.Equal(t, []bool{true, false}, b.finish(work.Confirm, work.Outcome{Claim: again[0], Next: &next}, work.Outcome{Claim: again[0]}), "of two with one claim, the first")
	require.True(t, next.Equal(*b.DueAt(work.Confirm, ids[1])))
}

// A lost claim stays lost, even when its item has gone and come again.
func TestClaimIsLostForGood(t *testing.T) {
	for name, lose := range map[string]func(b *bundle, c work.Claim){
		"scheduled anew": func(b *bundle, c work.Claim) { b.Schedule(work.Deliver, c.ID, b.Clock.Now()) },
		"done, and scheduled again": func(b *bundle, c work.Claim) {
			b.finish(work.Deliver, work.Outcome{Claim: c})
			b.Schedule(work.Deliver, c.ID, b.Clock.Now())
		},
		"cancelled": func(b *bundle, c work.Claim) {
			b.inTx(func(tx pg.Tx) error { return work.Cancel(b.ctx, tx, work.Deliver, c.ID) })
		},
		"leased": func(b *bundle, c work.Claim) {
			leased, err := work.Lease(b.ctx, b.Pool, work.Deliver, b.Clock.Now().Add(time.Minute), []work.Claim{c})
			require.NoError(b.T, err)
			require.NotNil(b.T, leased[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			c := b.due(work.Deliver, b.items(work.Deliver, 1)...)[0]
			lose(b, c)
			before := b.DueAt(work.Deliver, c.ID)
			require.Equal(t, []bool{false}, b.finish(work.Deliver, work.Outcome{Claim: c}))
			leased, err := work.Lease(b.ctx, b.Pool, work.Deliver, b.Clock.Now().Add(time.Hour), []work.Claim{c})
			require.NoError(t, err)
			require.Equal(t, []*work.Claim{nil}, leased)
			require.Equal(t, before, b.DueAt(work.Deliver, c.ID))
		})
	}
}

// While an item is leased nobody else claims it, and the sweep leaves it alone; when the lease has
// run out, both do, and who had it records nothing any more.
func TestLease(t *testing.T) {
	b := setup(t)
	ids := b.items(work.Settle, 1)
	until := b.Clock.Now().Add(time.Minute)
	leased, err := work.Lease(b.ctx, b.Pool, work.Settle, until, b.due(work.Settle, ids...))
	require.NoError(t, err)
	require.Empty(t, b.due(work.Settle, ids...))
	b.inTx(func(tx pg.Tx) error {
		found, err := work.Expedite(b.ctx, tx, work.Settle, b.Clock.Now(), ids...)
		require.Equal(t, ids, found)
		return err
	})
	b.Clock.Advance(time.Minute - time.Second)
	require.Empty(t, b.Overdue(work.Settle, b.Clock.Now(), b.Clock.Now(), 10))
	b.Clock.Set(until)
	require.Equal(t, ids, b.Overdue(work.Settle, b.Clock.Now(), b.Clock.Now(), 10))
	second, err := work.Lease(b.ctx, b.Pool, work.Settle, until.Add(time.Minute), b.due(work.Settle, ids...))
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, b.finish(work.Settle, work.Outcome{Claim: *leased[0]}, work.Outcome{Claim: *second[0]}))
}

// One item can be in a batch under a claim that is lost and under one that stands, or twice under
// the same one: whoever has it is the one whose claim stood, and one only.
func TestLeaseOfOneItemByMany(t *testing.T) {
	b := setup(t)
	ids := b.items(work.Settle, 1)
	stale := b.due(work.Settle, ids...)[0]
	b.Schedule(work.Settle, ids[0], b.Clock.Now())
	stands := b.due(work.Settle, ids...)[0]
	leased, err := work.Lease(b.ctx, b.Pool, work.Settle, b.Clock.Now().Add(time.Minute), []work.Claim{stale, stands, stands})
	require.NoError(t, err)
	require.Nil(t, leased[0])
	require.NotNil(t, leased[1])
	require.Nil(t, leased[2])
	require.Equal(t, []bool{false, true}, b.finish(work.Settle, work.Outcome{Claim: stands}, work.Outcome{Claim: *leased[1]}))
}

// Of many who take the same items in opposite orders, each item goes to one, and nobody waits for
// ever.
func TestManyLeaseAtOnce(t *testing.T) {
	b := setup(t)
	ids := b.items(work.Deliver, 40)
	b.Clock.Advance(time.Minute)
	claims := b.due(work.Deliver, ids...)
	reversed := slices.Clone(claims)
	slices.Reverse(reversed)
	var wg sync.WaitGroup
	var taken atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			leased, err := work.Lease(b.ctx, b.Pool, work.Deliver, b.Clock.Now().Add(time.Minute), [][]work.Claim{claims, reversed}[i%2])
			assert.NoError(t, err)
			for _, c := range leased {
				if c != nil {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(len(ids)), taken.Load())
}

// An item that exists is due at once; one that is due already stays as it is, with whoever has it.
func TestExpedite(t *testing.T) {
	b := setup(t)
	var enqueued []work.Item
	ids := b.items(work.Settle, 3)
	t.Cleanup(work.EnqueueWith(b.Pool, func(items []work.Item) { enqueued = append(enqueued, items...) }))
	first := b.due(work.Settle, ids[0])[0]
	b.Clock.Advance(time.Second / 2)
	now := b.Clock.Now()
	b.inTx(func(tx pg.Tx) error {
		found, err := work.Expedite(b.ctx, tx, work.Settle, now, ids[0], ids[2], uuid.New())
		require.ElementsMatch(t, []uuid.UUID{ids[0], ids[2]}, found)
		return err
	})
	require.Len(t, enqueued, 2)
	require.True(t, now.Equal(*b.DueAt(work.Settle, ids[2])))
	require.True(t, first.DueAt.Equal(*b.DueAt(work.Settle, ids[0])))
	require.Equal(t, []bool{true}, b.finish(work.Settle, work.Outcome{Claim: first}))
}

// What is expedited while somebody has leased it is given back due at once, done or not, and is
// enqueued: the result may be older than what expedited it. The next claim ends that.
func TestExpediteOfWhatIsLeased(t *testing.T) {
	for name, finished := range map[string]bool{"done": true, "due later": false} {
		for when, beside := range map[string]bool{"before": false, "beside the result": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				b := setup(t)
				ids := b.items(work.Settle, 2)
				b.Clock.Advance(time.Second)
				now := b.Clock.Now()
				lease := func() work.Outcome {
					leased, err := work.Lease(b.ctx, b.Pool, work.Settle, b.Clock.Now().Add(time.Minute), b.due(work.Settle, ids[0]))
					require.NoError(t, err)
					o := work.Outcome{Claim: *leased[0]}
					if !finished {
						o.Next = new(b.Clock.Now().Add(time.Hour))
					}
					return o
				}
				expedite := func(tx pg.Tx) error {
					_, err := work.Expedite(b.ctx, tx, work.Settle, now, ids[0])
					return err
				}
				o, other := lease(), work.Outcome{Claim: b.due(work.Settle, ids[1])[0]}
				b.Clock.Advance(time.Second)
				var held []bool
				var mu sync.Mutex
				var enqueued []uuid.UUID
				finish := func() error {
					return pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) (err error) {
						held, err = work.Finish(b.ctx, tx, work.Settle, []work.Outcome{o, other})
						return err
					})
				}
				t.Cleanup(work.EnqueueWith(b.Pool, func(items []work.Item) {
					mu.Lock()
					defer mu.Unlock()
					for _, m := range items {
						enqueued = append(enqueued, m.ID)
					}
				}))
				if beside {
					require.NoError(t, b.Meanwhile(expedite, finish))
				} else {
					b.inTx(expedite)
					require.NoError(t, finish())
				}
				require.Equal(t, []bool{true, true}, held)
				require.Equal(t, []uuid.UUID{ids[0], ids[0]}, enqueued, "by both")
				require.True(t, now.Equal(*b.DueAt(work.Settle, ids[0])))
				require.Nil(t, b.DueAt(work.Settle, ids[1]))
				require.Equal(t, []bool{false}, b.finish(work.Settle, o))

				o = lease()
				require.Equal(t, []bool{true}, b.finish(work.Settle, o))
				if at := b.DueAt(work.Settle, ids[0]); finished {
					require.Nil(t, at)
				} else {
					require.True(t, o.Next.Equal(*at))
				}
			})
		}
	}
}

// What always fails waits longer each time, an hour at most; what is done well once, or scheduled
// anew, begins again.
func TestPostpone(t *testing.T) {
	b := setup(t)
	id := b.items(work.Ingest, 1)[0]
	why := errors.New("a bug")
	gap := 5 * time.Second
	for range 14 {
		now := b.Clock.Now()
		at, err := work.Postpone(b.ctx, b.Pool, work.Ingest, id, now, why)
		require.NoError(t, err)
		require.Equal(t, min(gap, time.Hour), at.Sub(now))
		again, err := work.Postpone(b.ctx, b.Pool, work.Ingest, id, now, why)
		require.NoError(t, err)
		require.Zero(t, again, "it is not due any more")
		require.Empty(t, b.Overdue(work.Ingest, now, now, 10))
		gap *= 2
		b.Clock.Set(at)
	}
	require.Equal(t, why.Error(), testenv.Value[string](b.Env, `SELECT last_error FROM work`))
	now := b.Clock.Now()
	require.Equal(t, []bool{true}, b.finish(work.Ingest, work.Outcome{Claim: b.due(work.Ingest, id)[0], Next: &now}))
	at, err := work.Postpone(b.ctx, b.Pool, work.Ingest, id, now, why)
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, at.Sub(now))
	at, err = work.Postpone(b.ctx, b.Pool, work.Ingest, uuid.New(), now, why)
	require.NoError(t, err)
	require.Zero(t, at)
}

func TestOverdueIsOldestFirstOfEachKind(t *testing.T) {
	b := setup(t)
	settle, deliver := b.items(work.Settle, 4), b.items(work.Deliver, 2)
	now := b.Clock.Now().Add(2 * time.Second)
	items, err := work.Overdue(b.ctx, b.Pool, now, []work.Span{{Kind: work.Settle, Before: now}, {Kind: work.Deliver, Before: now.Add(time.Hour)}, {Kind: work.Ingest, Before: now}}, 1)
	require.NoError(t, err)
	require.Len(t, items, 2)
	require.ElementsMatch(t, []uuid.UUID{settle[0], deliver[0]}, []uuid.UUID{items[0].ID, items[1].ID})
	require.Equal(t, settle[:2], b.Overdue(work.Settle, now, now, 10), "what is due at the time is not overdue")
	oldest, err := work.Oldest(b.ctx, b.Pool, now)
	require.NoError(t, err)
	require.Len(t, oldest, 2)
	require.True(t, oldest[work.Settle].Equal(b.Clock.Now()))

	b.Lease(work.Settle, settle[0], now.Add(time.Minute))
	b.Lease(work.Deliver, deliver[0], now)
	require.Equal(t, settle[1:2], b.Overdue(work.Settle, now, now, 10), "who has it is at work")
	oldest, err = work.Oldest(b.ctx, b.Pool, now)
	require.NoError(t, err)
	require.True(t, oldest[work.Settle].Equal(b.Clock.Now().Add(time.Second)), "the oldest has somebody")
	require.True(t, oldest[work.Deliver].Equal(b.Clock.Now()), "its lease has ended")
}

// Of each tenant no more is read than its share, all tenants' first before their second, and the
// next look goes on behind what was read, whosever that was.
func TestInTurn(t *testing.T) {
	b := setup(t)
	now := b.Clock.Now().Add(time.Hour)
	noisy, quiet := uuid.New(), uuid.New()
	ids := b.items(work.Settle, 12)
	b.Exec(`UPDATE work SET tenant_id = $1`, noisy)
	b.Exec(`UPDATE work SET tenant_id = $1 WHERE id = ANY($2)`, quiet, []uuid.UUID{ids[5], ids[7]})
	b.Lease(work.Settle, ids[0], now.Add(time.Minute))
	b.items(work.Deliver, 3)
	look := func(s work.Span) (got []uuid.UUID, last *work.Item) {
		items, last, err := work.InTurn(b.ctx, b.Pool, now, s, 8, 3)
		require.NoError(t, err)
		for _, m := range items {
			require.Equal(t, work.Settle, m.Kind)
			require.Equal(t, slices.Contains([]uuid.UUID{ids[5], ids[7]}, m.ID), m.TenantID == quiet)
			got = append(got, m.ID)
		}
		return got, last
	}
	got, last := look(work.Span{Kind: work.Settle, Before: now})
	require.Equal(t, []uuid.UUID{ids[5], ids[1], ids[7], ids[2]}, got, "the first is leased")
	require.Equal(t, ids[7], last.ID)
	b.Lease(work.Settle, ids[7], now.Add(time.Minute))
	got, last = look(work.Span{Kind: work.Settle, Before: now})
	require.NotContains(t, got, ids[7], "it is leased")
	require.Equal(t, ids[7], last.ID, "and is where the next look goes on")
	b.Exec(`UPDATE work SET leased_until = NULL WHERE id = $1`, ids[7])
	got, last = look(work.Span{Kind: work.Settle, After: last.DueAt, ID: last.ID, Before: now})
	require.Equal(t, ids[8:11], got)
	require.Nil(t, last)
	b.inTx(func(tx pg.Tx) error {
		require.NoError(t, pg.PlanAsBatch(b.ctx, tx))
		_, err := tx.Exec(b.ctx, work.InTurnSettings)
		require.NoError(t, err)
		lines, err := pg.Collect(b.ctx, tx, pgx.RowTo[string], `EXPLAIN `+work.InTurnSQL, "settle", time.Time{}, uuid.Nil, now, now, 8, 3)
		require.NoError(t, err)
		plan := strings.Join(lines, "\n")
		require.Contains(t, plan, "Incremental Sort", "it ends at its limit")
		require.Contains(t, plan, "Index Scan using work_due")
		return nil
	})
}

// The statements that every payment runs name their rows by key: a plan that is made while the
// table is empty, and kept, must not read all of it, nor the index of all that is due.
func TestPlansOnAnEmptyTable(t *testing.T) {
	b := setup(t)
	id, now := uuid.New(), time.Now()
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		// as a batcher does
		_, err := tx.Exec(b.ctx, `SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off`)
		require.NoError(t, err)
		read := func() (n int) {
			require.NoError(t, tx.QueryRow(b.ctx, `
				SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'work'`).Scan(&n))
			return n
		}
		run := func() {
			claims, err := work.Due(b.ctx, tx, work.Deliver, now, []uuid.UUID{id})
			require.NoError(t, err)
			for _, c := range claims {
				leased, err := work.Lease(b.ctx, tx, work.Deliver, now.Add(-time.Second), []work.Claim{c})
				require.NoError(t, err)
				held, err := work.Finish(b.ctx, tx, work.Deliver, []work.Outcome{{Claim: *leased[0], Next: &now}})
				require.NoError(t, err)
				require.Equal(t, []bool{true}, held)
			}
			_, err = work.Lease(b.ctx, tx, work.Deliver, now, []work.Claim{{ID: id}})
			require.NoError(t, err)
			_, err = work.Finish(b.ctx, tx, work.Deliver, []work.Outcome{{Claim: work.Claim{ID: id}}})
			require.NoError(t, err)
			_, err = work.Expedite(b.ctx, tx, work.Deliver, now, id)
			require.NoError(t, err)
		}
		run()
		_, err = tx.Exec(b.ctx, `INSERT INTO work (kind, id, due_at) SELECT 'deliver', gen_random_uuid(), now() - interval '1 day' FROM generate_series(1, 5000)`)
		require.NoError(t, err)
		_, err = tx.Exec(b.ctx, `INSERT INTO work (kind, id, due_at) VALUES ('deliver', $1, $2)`, id, now)
		require.NoError(t, err)
		before := read()
		run()
		require.Less(t, read()-before, 50, "rows read of 5,001")
		return nil
	}))
}

// Items are freed whose lease has ended since a time, to the microsecond: not those whose lease had
// ended before, or has not, that nobody has leased, that are not due, or that are of another kind.
func TestFreedByTheEndOfTheirLease(t *testing.T) {
	b := setup(t)
	now := b.Clock.Now().Add(time.Hour)
	since, moment := now.Add(-time.Minute), time.Microsecond
	ids := b.items(work.Confirm, 8)
	for i, until := range []time.Time{since, since.Add(moment), now, now.Add(moment)} {
		b.Lease(work.Confirm, ids[i], until)
	}
	for i, due := range map[int]time.Time{5: now, 6: now.Add(moment)} {
		b.Exec(`UPDATE work SET due_at = $2 WHERE id = $1`, ids[i], due)
		b.Lease(work.Confirm, ids[i], now)
	}
	b.Lease(work.Settle, b.items(work.Settle, 1)[0], now)
	freed, err := work.Freed(b.ctx, b.Pool, []work.Kind{work.Confirm, work.Expire}, since, now)
	require.NoError(t, err)
	var got []uuid.UUID
	for _, m := range freed {
		require.Equal(t, work.Confirm, m.Kind)
		got = append(got, m.ID)
	}
	require.Equal(t, []uuid.UUID{ids[1], ids[2], ids[5]}, got, "the oldest first")
}

// An item is leased by itself, and until its lease ends.
func TestLeased(t *testing.T) {
	b := setup(t)
	ids := b.items(work.Settle, 2)
	now := b.Clock.Now()
	until := now.Add(time.Minute)
	b.Lease(work.Settle, ids[0], until)
	b.Schedule(work.Deliver, ids[1], now)
	b.Lease(work.Deliver, ids[1], until)
	for _, c := range []struct {
		id   uuid.UUID
		at   time.Time
		want bool
	}{
		{ids[0], now, true}, {ids[0], until.Add(-time.Microsecond), true}, {ids[0], until, false}, {ids[1], now, false}, {uuid.New(), now, false},
	} {
		got, err := work.Leased(b.ctx, b.Pool, work.Settle, c.id, c.at)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%s at %s", c.id, c.at)
	}
}
