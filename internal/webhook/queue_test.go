package webhook

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/spec"
)

func TestQueueStoresTheWireForm(t *testing.T) {
	spec.Shows(t, "field.case.webhook")
	spec.Shows(t, "event.out.field.event-type", "event.out.field.account-ref", "event.out.field.gross", "event.out.field.fee",
		"event.out.field.currency", "event.out.field.sender", "event.out.field.narration", "event.out.field.status")
	b := setup(t)
	p := b.payment("https://example.com/hook")
	p.TransactionGroupID = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
	p.CreatedAt = b.Clock.Now().Add(-time.Minute)
	id := b.queue(p)[0]
	require.Equal(t, `{"eventType":"payment.received","transactionGroupId":"01890a5d-ac96-774b-bcce-b302099a8057","accountRef":"customer-1",`+
		`"amount":"4990.00","gross_amount":"5000.00","provider_fee":"10.00","currency":"NGN","senderName":"Bola <Ade> & Sons",`+
		`"narration":"Rent \"May\"\u0000\ufffd","status":"provisional"}`,
		b.Delivered(`id = $1`, id)[0].Body)
	d := b.get(id)
	require.Equal(t, Pending, d.Status)
	require.True(t, d.NextAttemptAt.Equal(b.Clock.Now()), "due at once")
	require.True(t, d.CreatedAt.Equal(p.CreatedAt), "the event's time")
	require.Equal(t, []any{b.tenant, b.account, p.TransactionGroupID, PaymentReceived, p.CallbackURL},
		[]any{d.TenantID, d.AccountID, d.TransactionGroupID, d.EventType, d.CallbackURL})
}

func TestQueueIsOnceAPayment(t *testing.T) {
	spec.Shows(t, "event.out.once")
	b := setup(t)
	require.Empty(t, b.queue())
	first := b.payment("https://example.com/1")
	firstID := b.queue(first)
	var many []NewDelivery
	for range 5 {
		many = append(many, b.payment("https://example.com/2"))
	}
	ids := b.queue(append([]NewDelivery{first, many[0]}, many...)...)
	require.Len(t, ids, 5, "neither the one that exists nor the one named twice")
	for i, id := range ids {
		require.Equal(t, many[i].TransactionGroupID, b.get(id).TransactionGroupID, "in the order given")
	}
	require.Equal(t, "https://example.com/1", b.get(firstID[0]).CallbackURL)
}

func TestQueueGoesWithItsTransaction(t *testing.T) {
	spec.Shows(t, "event.in.order.queue")
	b := setup(t)
	err := pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		if _, err := Queue(b.ctx, tx, b.Clock.Now(), []NewDelivery{b.payment("https://example.com/")}); err != nil {
			return err
		}
		return safehttp.ErrCut // any error
	})
	require.ErrorIs(t, err, safehttp.ErrCut)
	require.Zero(t, b.deliveries())
}
