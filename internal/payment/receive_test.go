package payment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/payment"
	"ajo/internal/testenv"
)

// A request without a body is a forged event like any other, and no reason to ask the bank to send
// it again.
func TestReceiveNoBody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, err := b.svc.Receive(b.ctx, payment.Delivery{})
	require.NoError(t, err)
	require.Equal(t, payment.CategorySigInvalid, r.Category)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE body = '' AND status = 'failed'`))
}
