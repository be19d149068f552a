package payment_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/testenv"
)

// listed stores a payment to the test's account from the bank's list.
func (b *bundle) listed(amount string, like *payment.LookAlike) uuid.UUID {
	b.T.Helper()
	record := provider.Transaction{
		ID: "LIST-" + uuid.NewString(), Status: provider.Success, Amount: money.Must(amount), Fee: money.Must("25.00"), Currency: money.Currency,
		AccountNumber: b.number(), AccountRef: b.account.String(), SenderName: "Bola Ade", Time: b.Clock.Now().Truncate(time.Second),
	}
	out := b.svc.StoreListed(b.ctx, []payment.Listed{{Record: record, LookAlike: like}})
	require.NoError(b.T, out[0].Err)
	return out[0].Value.ID
}

// A payment of the list is posted once whoever stored it has looked again for its like, and some
// minutes later without that.
func TestWhatTheListBringsWaitsForASecondLook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.listed("5000.00", nil), b.listed("6000.00", nil)
	require.Empty(t, b.post(first).Category)
	require.NoError(t, b.svc.PostListed(b.ctx, []uuid.UUID{first}))
	require.Equal(t, payment.CategoryPayment, b.post(first).Category)
	b.Clock.Advance(9 * time.Second)
	require.Empty(t, b.post(second).Category)
	b.Clock.Advance(time.Second)
	require.Equal(t, payment.CategoryPayment, b.post(second).Category)
}

// An event is held back as a repeat of what the list brought, if that has the same sum, about the
// same time, and counts or waits to; and only if it is not posted yet.
func TestWhatMayRepeatTheList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stored := b.listed("5000.00", nil)
	require.NoError(t, b.svc.PostListed(b.ctx, []uuid.UUID{stored}))
	held := b.listed("7000.00", &payment.LookAlike{EventID: stored, TxnRef: "T-1"})
	status, category, _ := b.event1(held)
	require.Equal(t, []string{"failed", "processing_error"}, []string{status, category})
	event := func(amount string, later time.Duration) (uuid.UUID, payment.Category) {
		t.Helper()
		r := b.receive(b.event(func(e *fakebank.Event) {
			e.Data.Transaction.TransactionAmount = json.RawMessage(amount)
			e.Data.Transaction.Time = b.Clock.Now().Truncate(time.Second).Add(later).Format(time.RFC3339)
		}))
		return r.ID, b.post(r.ID).Category
	}
	for _, at := range []string{"received", "processed"} {
		status, _, _ = b.event1(stored)
		require.Equal(t, at, status)
		for _, later := range []time.Duration{-time.Minute, 0, time.Minute} {
			id, category := event("5000.00", later)
			require.Equal(t, payment.CategoryProcessingError, category)
			e, err := b.svc.InboundEvent(b.ctx, id)
			require.NoError(t, err)
			require.Equal(t, stored, *e.LookAlikeOf)
		}
		if at == "received" {
			require.Equal(t, payment.CategoryPayment, b.post(stored).Category)
		}
	}
	var posted uuid.UUID
	for name, c := range map[string]struct {
		amount string
		later  time.Duration
	}{
		"another sum":                      {"5000.01", 0},
		"later":                            {"5000.00", time.Minute + time.Second},
		"earlier":                          {"5000.00", -time.Minute - time.Second},
		"the list's own was held back too": {"7000.00", 0},
	} {
		id, category := event(c.amount, c.later)
		require.Equal(t, payment.CategoryPayment, category, name)
		posted = id
	}
	kept, err := b.svc.HoldBack(b.ctx, posted, payment.LookAlike{EventID: stored, TxnRef: "T-1"})
	require.NoError(t, err)
	require.False(t, kept)
	status, category, problem := b.event1(posted)
	require.Equal(t, []string{"processed", "payment", ""}, []string{status, category, problem}, "it is posted, and stays so")
	require.Equal(t, 5, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries`))
}
