package webhook

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

func TestDeadLettersArePaged(t *testing.T) {
	b := setup(t)
	var want []uuid.UUID
	for range 5 {
		want = append(want, b.in(Dead))
		b.in(Pending)
		b.in(Delivered)
	}
	slices.Reverse(want)
	other := b.Env.Tenant()
	var got []uuid.UUID
	r := page.Request{Limit: 2}
	for range 3 {
		letters, info, err := b.DeadLetters(b.ctx, b.tenant, r)
		require.NoError(t, err)
		for _, l := range letters {
			got = append(got, l.ID)
		}
		b.in(Dead) // newer: not on a later page
		if info.NextCursor == nil {
			break
		}
		r.After = *info.NextCursor
	}
	require.Equal(t, want, got)
	letters, _, err := b.DeadLetters(b.ctx, other, page.Request{Limit: 2})
	require.NoError(t, err)
	require.NotNil(t, letters)
	require.Empty(t, letters, "another tenant's are not shown")
	_, _, err = b.DeadLetters(b.ctx, b.tenant, page.Request{Limit: 2, After: "x"})
	require.ErrorIs(t, err, page.ErrCursor)
}

func TestDeadLetterWireForm(t *testing.T) {
	b := setup(t)
	id := b.in(Dead)
	letters, _, err := b.DeadLetters(b.ctx, b.tenant, page.Request{Limit: 1})
	require.NoError(t, err)
	text, err := json.Marshal(letters)
	require.NoError(t, err)
	require.Equal(t, `[{"ID":"`+id.String()+`","CallbackURL":"https://example.com","Status":"dead_letter","AttemptCount":0,"LastError":"",`+
		`"NextRetryAt":null,"CreatedAt":"2026-03-02T09:00:00Z"}]`, string(text))
}

var byHand = audit.By{Actor: "cli:test", Reason: "the endpoint is up again"}

func TestReplayGivesAFreshSet(t *testing.T) {
	b := setup(t)
	var code atomic.Int32
	code.Store(500)
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(code.Load())) })
	id := b.queueOne(r.URL)
	exhaust := func() (tries int) {
		for {
			tries++
			err := b.Deliver(b.ctx, id)
			if retry.IsExhausted(err) {
				return tries
			}
			at, ok := retry.When(err)
			require.True(t, ok)
			b.Clock.Set(at)
		}
	}
	for round := 1; round <= 2; round++ {
		require.Equal(t, 6, exhaust())
		require.Equal(t, Dead, b.get(id).Status)
		require.Equal(t, 6*round, b.get(id).AttemptCount)
		require.NoError(t, b.Replay(b.ctx, id, byHand))
		d := b.get(id)
		require.Equal(t, Pending, d.Status)
		require.True(t, d.NextAttemptAt.Equal(b.Clock.Now()), "due now")
		require.ErrorIs(t, b.Replay(b.ctx, id, byHand), ErrNotDeadLetter)
	}
	require.Empty(t, b.Overdue(work.Deliver, b.Clock.Now(), b.Clock.Now().Add(1), 10))
	code.Store(200)
	require.NoError(t, b.Deliver(b.ctx, id))
	require.Equal(t, Delivered, b.get(id).Status)
	tries := b.attempts(id)
	require.Len(t, tries, 13)
	for i, a := range tries {
		require.Equal(t, i+1, a.Number, "the numbers go on")
	}
	require.ErrorIs(t, b.Replay(b.ctx, id, byHand), ErrNotDeadLetter)
	require.ErrorIs(t, b.Replay(b.ctx, uuid.New(), byHand), ErrNotFound)
}

// A replay and its record are one: without a reason there is neither, and of two operators at once
// one replays.
func TestReplayIsRecorded(t *testing.T) {
	b := setup(t)
	id := b.in(Dead)
	require.ErrorIs(t, b.Replay(b.ctx, id, audit.By{Actor: "cli:test"}), audit.ErrReason)
	require.Equal(t, Dead, b.get(id).Status)
	var wg sync.WaitGroup
	var replayed, refused atomic.Int32
	for range 8 {
		wg.Go(func() {
			switch err := b.Replay(b.ctx, id, byHand); {
			case err == nil:
				replayed.Add(1)
			case errors.Is(err, ErrNotDeadLetter):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, []int32{1, 7}, []int32{replayed.Load(), refused.Load()})
	list, _, err := audit.List(b.ctx, b.Pool, audit.Filter{}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []string{"cli:test", "deliveries.replay", "delivery:" + id.String(), "the endpoint is up again"},
		[]string{list[0].Actor, list[0].Action, list[0].Target, list[0].Reason})
	require.JSONEq(t, `{"TenantID":"`+b.tenant.String()+`","CallbackURL":"https://example.com","AttemptCount":0,"LastError":""}`, string(list[0].Detail))
}

func TestOperatorsList(t *testing.T) {
	b := alone(t)
	mine := []uuid.UUID{b.in(Pending), b.in(Dead), b.in(Delivered)}
	first := b.tenant
	b.tenant = b.Env.Tenant()
	b.account = b.Env.Account(b.tenant, "another")
	theirs := b.in(Dead)
	list := func(f Filter, limit int) []uuid.UUID {
		found, _, err := b.List(b.ctx, f, page.Request{Limit: limit})
		require.NoError(t, err)
		var ids []uuid.UUID
		for _, d := range found {
			ids = append(ids, d.ID)
		}
		return ids
	}
	require.Equal(t, []uuid.UUID{theirs, mine[2], mine[1], mine[0]}, list(Filter{}, 10))
	require.Equal(t, []uuid.UUID{theirs, mine[2]}, list(Filter{}, 2))
	require.Equal(t, []uuid.UUID{theirs, mine[1]}, list(Filter{Status: Dead}, 10))
	require.Equal(t, []uuid.UUID{mine[1]}, list(Filter{Status: Dead, TenantID: first}, 10))
	_, info, err := b.List(b.ctx, Filter{}, page.Request{Limit: 2})
	require.NoError(t, err)
	rest, _, err := b.List(b.ctx, Filter{}, page.Request{Limit: 2, After: *info.NextCursor})
	require.NoError(t, err)
	require.Equal(t, mine[1], rest[0].ID)
	_, err = b.Get(b.ctx, uuid.New())
	require.ErrorIs(t, err, ErrNotFound)
	require.Equal(t, 4, testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries`))
}

func TestDeadLetterOfANetworkError(t *testing.T) {
	spec.Shows(t, "field.deadletter.error.network")
	b := setup(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	id := b.queueOne("http://" + closed.Addr().String())
	for range 5 {
		next, ok := retry.When(b.Deliver(b.ctx, id))
		require.True(t, ok)
		b.Clock.Set(next)
	}
	require.EqualError(t, b.Deliver(b.ctx, id), "connection refused")
	for _, try := range b.attempts(id) {
		require.Nil(t, try.StatusCode, "no answer came")
	}
	letters, _, err := b.DeadLetters(b.ctx, b.tenant, page.Request{Limit: 1})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, "connection refused", letters[0].LastError)
}

// All dead letters since a time are due again one after the other, the oldest first, and nothing
// else is; what comes meanwhile is due before most of them. Of two calls at once each is sent once.
func TestReplaySince(t *testing.T) {
	b := setup(t)
	old := b.deadAt(b.Clock.Now().Add(-time.Hour))
	var want []uuid.UUID
	for range 30 {
		want = append(want, b.in(Dead))
	}
	pending, delivered := b.in(Pending), b.in(Delivered)
	stranger := b.Env.Tenant()
	n, more, err := b.ReplaySince(b.ctx, stranger, b.Clock.Now().Add(-time.Minute), audit.Session("ada@example.com", netip.Addr{}))
	require.NoError(t, err)
	require.Zero(t, n, "another tenant's")
	require.False(t, more)

	since := b.Clock.Now().Add(-time.Minute)
	counts := make(chan int, 2)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			n, _, err := b.ReplaySince(b.ctx, b.tenant, since, audit.Session("ada@example.com", netip.Addr{}))
			assert.NoError(t, err)
			counts <- n
		})
	}
	both.Wait()
	require.Equal(t, 30, <-counts+<-counts)
	require.Equal(t, string(Dead), testenv.Value[string](b.Env, `SELECT status FROM deliveries WHERE id = $1`, old))
	require.Equal(t, string(Delivered), testenv.Value[string](b.Env, `SELECT status FROM deliveries WHERE id = $1`, delivered))
	due := testenv.Value[[]uuid.UUID](b.Env, `SELECT array_agg(id ORDER BY due_at, id) FROM work WHERE id <> $1`, pending)
	require.ElementsMatch(t, want, due)
	require.LessOrEqual(t, testenv.Value[int](b.Env, `SELECT count(*) FROM work WHERE due_at <= $1 AND id <> $2`, b.Clock.Now(), pending), 2, "the first of each call")
	live := b.payment("https://example.com/")
	b.queue(live)
	require.GreaterOrEqual(t, testenv.Value[int](b.Env, `SELECT count(*) FROM work w WHERE due_at > (SELECT due_at FROM work JOIN deliveries d USING (id) WHERE d.transaction_group_id = $1)`,
		live.TransactionGroupID), 28)
	require.Equal(t, 30, testenv.Value[int](b.Env, `SELECT sum((detail->>'Count')::int) FROM audit_log WHERE action = 'deliveries.replay_since'`))
}

// deadAt inserts a dead letter that was made at a time, as was its event.
func (b *bundle) deadAt(at time.Time) uuid.UUID {
	b.T.Helper()
	id := partition.Floor(at)
	b.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at)
		VALUES ($1, $2, $3, $1, 'payment.received', 'https://example.com', '{}', 'dead_letter', $4)`, id, b.tenant, b.account, at)
	return id
}

// What a tenant sends again since a time is what was made since then: also for a payment whose
// event came long before, as an operator assigned it only now, and where the event's time is the
// later one, by another clock.
func TestReplaySinceByWhenItWasMade(t *testing.T) {
	b := setup(t)
	since := b.Clock.Now().Add(-24 * time.Hour)
	assigned, ahead, before := b.deadAt(since), b.deadAt(since.Add(-time.Second)), b.deadAt(since.Add(-time.Minute))
	b.Exec(`UPDATE deliveries SET created_at = $2 WHERE id = $1`, assigned, since.AddDate(0, 0, -11))
	b.Exec(`UPDATE deliveries SET created_at = $2 WHERE id = $1`, ahead, since)
	n, more, err := b.ReplaySince(b.ctx, b.tenant, since, byHand)
	require.NoError(t, err)
	require.Equal(t, []any{2, false}, []any{n, more})
	for id, want := range map[uuid.UUID]Status{assigned: Pending, ahead: Pending, before: Dead} {
		require.Equal(t, string(want), testenv.Value[string](b.Env, `SELECT status FROM deliveries WHERE id = $1`, id))
	}
}

// The dead letters of a day are found without reading all older ones, and behind many deliveries
// that are none.
func TestReplaySinceBesideManyOlder(t *testing.T) {
	b := setup(t)
	now := b.Clock.Now()
	older := partition.Floor(now.AddDate(0, -1, 0)).String()
	b.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at)
		SELECT overlay(gen_random_uuid()::text PLACING left($3, 13) FROM 1)::uuid, $1, $2, gen_random_uuid(), 'payment.received', 'https://example.com', '{}', 'dead_letter', $4
		FROM generate_series(1, 2000) n`, b.tenant, b.account, older, now.AddDate(0, -1, 0))
	b.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at, delivered_at)
		SELECT overlay(gen_random_uuid()::text PLACING left($3, 13) FROM 1)::uuid, $1, $2, gen_random_uuid(), 'payment.received', 'https://example.com', '{}', 'delivered', $4, $4
		FROM generate_series(1, 1000) n`, b.tenant, b.account, partition.Floor(now.Add(-time.Hour)).String(), now.Add(-time.Hour))
	b.Exec(`ANALYZE deliveries`)
	want := b.in(Dead)
	since := now.Add(-24 * time.Hour)
	most, plan := b.MostRows(testenv.Statement{SQL: deadSinceSQL, Args: deadSince(b.tenant, since)})
	require.Less(t, most, 100, plan)
	n, more, err := b.ReplaySince(b.ctx, b.tenant, since, byHand)
	require.NoError(t, err)
	require.Equal(t, []any{1, false}, []any{n, more})
	require.Equal(t, string(Pending), testenv.Value[string](b.Env, `SELECT status FROM deliveries WHERE id = $1`, want))
	require.Equal(t, uuid.Nil, firstOf(time.Time{}.Add(-madeBefore)))
	require.Equal(t, uuid.Nil, firstOf(time.Unix(0, 0)))
}

// Dead letters that another call is sending again are left to it: this one waits for none of them.
func TestReplaySinceBesideAnother(t *testing.T) {
	b := setup(t)
	first, second, n := b.in(Dead), b.in(Dead), 0
	require.NoError(t, b.Beside(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `SELECT FROM deliveries WHERE id = $1 FOR UPDATE`, first)
		return err
	}, func() (err error) {
		n, _, err = b.ReplaySince(b.ctx, b.tenant, time.Time{}, byHand)
		return err
	}))
	require.Equal(t, 1, n)
	require.Equal(t, string(Pending), testenv.Value[string](b.Env, `SELECT status FROM deliveries WHERE id = $1`, second))
}
