package payment_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// A payment that is confirmed, and whose refund by policy waits, is not judged again when the
// bank's list of its second is read for others: the reason why it waits stays, and so does its
// time.
func TestListLeavesAWaitingPolicyRefund(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Refund})
	b.svc.SendBack = func(context.Context, uuid.UUID) error { return errors.New("the account is frozen") }
	at := b.Clock.Now()
	waits, _ := b.pays("4000.00")
	b.toTheEnd(waits, 3)
	var others []uuid.UUID
	for range 20 {
		id, _ := b.pays("5000.00", func(p *fakebank.Payment) { p.Time = at })
		others = append(others, id)
	}
	b.untilAllAreDue()
	b.Exec(`UPDATE work SET due_at = $2 WHERE id = $1`, waits, b.Clock.Now().Add(time.Hour))
	due := *b.DueAt(work.Confirm, waits)
	testenv.AtOnce(len(others), func(i int) { _ = b.svc.Confirm(b.ctx, others[i]) }) // what the list confirms counts
	b.untilConfirmed(21)
	testenv.Eventually(t, time.Minute, "the list has been read", func() bool {
		return testenv.Value[string](b.Env, `SELECT coalesce(string_agg(DISTINCT (read_at IS NOT NULL)::text, ' '), '') FROM confirm_lists`) == "true"
	})
	require.Equal(t, "the account is frozen", testenv.Value[string](b.Env, `SELECT last_error FROM inbound_events WHERE id = $1`, waits))
	require.Equal(t, due, *b.DueAt(work.Confirm, waits))
}
