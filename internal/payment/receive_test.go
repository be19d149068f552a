package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

// A request without a body is a forged event like any other, and no reason to ask the bank to send
// it again.
func TestReceiveNoBody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, err := b.svc.Receive(b.ctx, payment.InboundRequest{})
	require.NoError(t, err)
	require.Equal(t, payment.CategorySigInvalid, r.Category)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events JOIN event_bodies ON event_id = id WHERE body = '' AND status = 'failed'`))
}

// The body of an authentic event is evidence: it is neither changed nor removed. A forged one's
// goes with its event.
func TestBodiesAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	genuine := b.receive(b.event(nil))
	forged := b.receive(payment.InboundRequest{Body: []byte("{}")})
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM event_bodies`))
	for _, sql := range []string{
		`UPDATE event_bodies SET body = 'x' WHERE event_id = $1`,
		`DELETE FROM event_bodies WHERE event_id = $1`,
	} {
		_, err := b.Pool.Exec(b.ctx, sql, genuine.ID)
		require.Equal(t, "23514", pg.Code(err), sql)
	}
	again := b.receive(b.event(nil))
	require.NotEqual(t, genuine.ID, again.ID)

	b.Clock.Advance(31 * 24 * time.Hour)
	n, err := b.svc.PurgeForged(b.ctx, 100)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, []uuid.UUID{genuine.ID, again.ID}, testenv.Value[[]uuid.UUID](b.Env, `SELECT array_agg(event_id ORDER BY event_id) FROM event_bodies`))
	require.NotContains(t, testenv.Value[[]uuid.UUID](b.Env, `SELECT array_agg(id) FROM inbound_events`), forged.ID)
}
