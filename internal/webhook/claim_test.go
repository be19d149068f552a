package webhook

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
)

func TestClaimIsGivenOnce(t *testing.T) {
	b := setup(t)
	later := b.queueOne("https://example.com/later")
	b.Exec(`UPDATE deliveries SET next_attempt_at = $2 WHERE id = $1`, later, b.Clock.Now().Add(time.Second))
	one, two := b.queueOne("https://example.com/1"), b.queueOne("https://example.com/2")
	got, err := b.claim(b.ctx, []uuid.UUID{two, one, two, uuid.New(), b.in(Dead), b.in(Delivered), later})
	require.NoError(t, err)
	lease := b.Clock.Now().Add(30 * time.Second)
	require.Equal(t, []*claim{{lease: lease}, {lease: lease}, nil, nil, nil, nil, nil}, got)
	got, err = b.claim(b.ctx, []uuid.UUID{one, two})
	require.NoError(t, err)
	require.Equal(t, []*claim{nil, nil}, got)
}

func TestBadRowDoesNotFailItsNeighbours(t *testing.T) {
	b := setup(t)
	ids := []uuid.UUID{b.queueOne("https://example.com/"), b.queueOne("https://example.com/"), b.queueOne("https://example.com/")}
	claims, err := b.claim(b.ctx, ids)
	require.NoError(t, err)
	// Somebody has written the second one's attempt by hand.
	b.Exec(`INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms) VALUES ($1, 1, $2, 0)`, ids[1], b.Clock.Now())
	attempts := make([]attempt, len(ids))
	for i, id := range ids {
		now := b.Clock.Now()
		attempts[i] = attempt{id: id, lease: claims[i].lease, event: EventSucceed, startedAt: now, deliveredAt: &now, body: []byte("\x00\xff")}
	}
	out := each(b.record)(b.ctx, attempts)
	require.True(t, out[0].Value)
	require.True(t, pg.IsUnique(out[1].Err, "delivery_attempts_pkey"))
	require.True(t, out[2].Value)
	for i, want := range []Status{Delivered, Pending, Delivered} {
		require.Equal(t, want, b.get(ids[i]).Status)
	}
}

func TestRecordTellsTwoClaimsApart(t *testing.T) {
	b := setup(t)
	id := b.queueOne("https://example.com/")
	first, err := b.claim(b.ctx, []uuid.UUID{id})
	require.NoError(t, err)
	b.Clock.Advance(30 * time.Second)
	second, err := b.claim(b.ctx, []uuid.UUID{id})
	require.NoError(t, err)
	require.NotNil(t, second[0])
	now := b.Clock.Now()
	late := attempt{id: id, lease: first[0].lease, event: EventSucceed, startedAt: now, deliveredAt: &now}
	current := attempt{id: id, lease: second[0].lease, event: EventFail, startedAt: now, nextAttemptAt: &now, failure: "HTTP 500"}
	kept, err := b.record(b.ctx, []attempt{late, current, late})
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, false}, kept)
	require.Equal(t, Pending, b.get(id).Status)
	require.Len(t, b.attempts(id), 1)
}

func TestDueIsOldestFirst(t *testing.T) {
	b := setup(t)
	start := b.Clock.Now()
	var ids []uuid.UUID
	for range 4 {
		ids = append(ids, b.queueOne("https://example.com/"))
		b.Clock.Advance(time.Minute)
	}
	b.in(Dead)
	b.in(Delivered)
	_, err := b.claim(b.ctx, ids[:1])
	require.NoError(t, err)
	got, err := b.Due(b.ctx, b.Clock.Now(), start.Add(3*time.Minute), 10)
	require.NoError(t, err)
	require.Equal(t, []Due{{ids[1], 1}, {ids[2], 1}}, got, "neither the claimed one nor the one that is not overdue")
	b.Clock.Advance(30 * time.Second)
	got, err = b.Due(b.ctx, b.Clock.Now(), start.Add(time.Hour), 2)
	require.NoError(t, err)
	require.Equal(t, []Due{{ids[0], 1}, {ids[1], 1}}, got)
}

func TestEachTriesAloneOnlyWhatTheServerRefused(t *testing.T) {
	t.Parallel()
	refused := &pgconn.PgError{Code: "23505"}
	away := errors.New("connection lost")
	run := func(fail error) (sizes []int, oks int) {
		do := each(func(_ context.Context, items []int) ([]int, error) {
			sizes = append(sizes, len(items))
			for _, n := range items {
				if n == 2 {
					return nil, fail
				}
			}
			return items, nil
		})
		for i, o := range do(context.Background(), []int{1, 2, 3}) {
			if o.Err == nil {
				oks++
				require.Equal(t, i+1, o.Value)
			} else {
				require.Equal(t, fail, o.Err)
			}
		}
		return sizes, oks
	}
	sizes, oks := run(refused)
	require.Equal(t, []int{3, 1, 1, 1}, sizes)
	require.Equal(t, 2, oks)
	sizes, oks = run(away)
	require.Equal(t, []int{3}, sizes)
	require.Zero(t, oks)
}
