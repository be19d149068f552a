package payment_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/payment"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

// An account with both an expected amount and a deadline ends by whichever comes first.
func TestWhicheverEndsAOneTimeAccountFirst(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.account.first")
	for name, c := range map[string]struct {
		paid     time.Duration // after the start; the deadline is a minute after it
		category payment.Category
		status   string
	}{
		"the payment":  {30 * time.Second, payment.CategoryPayment, "expired"},
		"the deadline": {90 * time.Second, payment.CategoryMisdirected, "active"}, // until the task runs
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			at := b.Clock.Now()
			b.Exec(`UPDATE accounts SET type = 'onetime', expected_amount = 5000, expires_at = $2 WHERE id = $1`, b.account, at.Add(time.Minute))
			b.Clock.Set(at.Add(c.paid))
			r := b.receive(b.event(func(e *fakebank.Event) { e.Data.Transaction.Time = at.Add(c.paid).Format(time.RFC3339) }))
			require.Equal(t, c.category, b.post(r.ID).Category)
			require.Equal(t, c.status, testenv.Value[string](b.Env, `SELECT status FROM accounts WHERE id = $1`, b.account))
			if c.status == "expired" {
				require.Equal(t, at.Add(c.paid), testenv.Value[time.Time](b.Env, `SELECT expired_at FROM accounts WHERE id = $1`, b.account).UTC(), "not the deadline")
			}
		})
	}
}
