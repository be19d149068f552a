package payment_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
)

// Events of payments say nothing of a payout, and none is looked for.
func TestPaymentEventsAskAboutNoPayout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.svc.ExpeditePayouts = func(context.Context, pg.Tx, []string) error { return errors.New("a payout was looked for") }
	require.NotZero(t, b.receive(b.event(nil)).ID)
}

// A payout that has ended long ago is asked about no more. What the bank's event says of it then is
// not lost on any way: the transaction that stores the event has it asked about, whether it came
// while Postgres was away, or comes again because the bank did not learn that it was stored.
func TestPayoutEventsAreActedOn(t *testing.T) {
	for name, send := range map[string]func(*policies, payment.InboundRequest){
		"at once":           func(b *policies, d payment.InboundRequest) { b.receive(d) },
		"through the spool": func(b *policies, d payment.InboundRequest) { require.NoError(b.T, b.drain(b.spooled(d))) },
		"again": func(b *policies, d payment.InboundRequest) {
			b.svc.ExpeditePayouts = nil
			require.False(b.T, b.receive(d).Duplicate)
			b.svc.ExpeditePayouts = b.transfers.ExpediteTx
			require.True(b.T, b.receive(d).Duplicate)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setupPolicy(t, account.Policy{})
			b.svc.ExpeditePayouts = b.transfers.ExpediteTx
			id, _ := b.pays("5000.00")
			b.Clock.Advance(time.Minute)
			require.NoError(t, b.svc.Confirm(b.ctx, id))
			s, err := b.transfers.Settle(b.ctx, b.tenant, "customer-1", transfer.Order{Amount: "100.00", BankCode: "058", AccountNumber: "0123456789"}, idempotency.Request{})
			require.NoError(t, err)
			for at := b.DueAt(work.Settle, s.TransferID); at != nil; at = b.DueAt(work.Settle, s.TransferID) {
				if at.After(b.Clock.Now()) {
					b.Clock.Set(*at)
				}
				_ = b.transfers.Advance(b.ctx, s.TransferID) // its status counts
			}
			status := func() transfer.Status {
				return testenv.Value[transfer.Status](b.Env, `SELECT status FROM transfers WHERE id = $1`, s.TransferID)
			}
			require.Equal(t, transfer.Success, status())
			ref := testenv.Value[string](b.Env, `SELECT merchant_tx_ref FROM transfers WHERE id = $1`, s.TransferID)
			p, err := b.bank.EndPayout(ref, fakebank.StatusRefund)
			require.NoError(t, err)
			e := b.bank.Event(fakebank.PayoutRefund, fakebank.Transaction{ID: p.ID, RequestID: uuid.NewString(), Amount: p.Amount, Time: b.Clock.Now()})
			e.Data.Transaction.MerchantTxRef = ref
			body, err := json.Marshal(e)
			require.NoError(t, err)
			send(b, b.sign(body))
			require.NotNil(t, b.DueAt(work.Settle, s.TransferID))
			_ = b.transfers.Advance(b.ctx, s.TransferID)
			require.Equal(t, transfer.Refunded, status())
		})
	}
}
