package webhook

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fsm"
	"ajo/internal/pg"
	"ajo/internal/spec"
	"ajo/internal/work"
)

// in makes a delivery that is in the given state.
func (b *bundle) in(s Status) uuid.UUID {
	b.T.Helper()
	id := uuid.Must(uuid.NewV7())
	var delivered *time.Time
	now := b.Clock.Now()
	if s == Delivered {
		delivered = &now
	}
	b.Exec(`
		INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, delivered_at, created_at)
		VALUES ($1, $2, $3, $1, 'payment.received', 'https://example.com', '{}', $4, $5, $6)`, id, b.tenant, b.account, string(s), delivered, now)
	if s == Pending {
		b.Schedule(work.Deliver, id, now)
	}
	return id
}

// drive lets the event happen to the delivery by the use case's own SQL, and reports whether it was
// allowed.
func (b *bundle) drive(id uuid.UUID, e Event) bool {
	b.T.Helper()
	now := b.Clock.Now()
	a := attemptResult{event: e, StartedAt: now, Failure: "HTTP 500"}
	switch e {
	case EventQueue:
		p := b.payment("https://example.com")
		p.TransactionGroupID = id
		return len(b.queue(p)) == 1
	case EventReplay:
		err := b.Replay(b.ctx, id, byHand)
		if err != nil {
			require.ErrorIs(b.T, err, ErrNotDeadLetter)
		}
		return err == nil
	case EventSucceed:
		a.DeliveredAt, a.Failure = &now, ""
	case EventFail:
		a.NextAttemptAt = new(now.Add(time.Minute))
	}
	c := b.take(id)[0]
	if c == nil {
		return false
	}
	a.claim = *c
	kept, err := b.records.Do(b.ctx, a)
	require.NoError(b.T, err)
	require.Equal(b.T, kept, len(b.attempts(id)) == 1)
	return kept
}

func TestEveryStateAndEvent(t *testing.T) {
	spec.Shows(t, "state.other.delivery")
	b := setup(t)
	for _, from := range Transitions.States() {
		for _, event := range Transitions.Events() {
			id := b.in(from)
			to, allowed := Transitions.Next(from, event)
			require.Equal(t, allowed, b.drive(id, event), "%s on %s", event, from)
			if !allowed {
				to = from
			}
			require.Equal(t, to, b.get(id).Status, "%s on %s", event, from)
		}
	}
	to, ok := Transitions.Next(fsm.Start, EventQueue)
	require.True(t, ok)
	require.Equal(t, to, b.get(b.queueOne("https://example.com")).Status)
}

func TestSchemaHasTheSameMoves(t *testing.T) {
	spec.Shows(t, "state.other.delivery")
	b := setup(t)
	for _, from := range Transitions.States() {
		for _, to := range Transitions.States() {
			if from == to {
				continue
			}
			_, err := b.Pool.Exec(b.ctx, `
				UPDATE deliveries SET status = $2, delivered_at = CASE WHEN $2 = 'delivered' THEN $3::timestamptz END
				WHERE id = $1`, b.in(from), string(to), b.Clock.Now())
			if slices.Contains(Transitions.Moves(), [2]string{string(from), string(to)}) {
				require.NoError(t, err, "%s to %s", from, to)
			} else {
				require.Equal(t, "23514", pg.Code(err), "%s to %s", from, to)
			}
		}
	}
	require.Equal(t, 6, b.deliveries())
}
