package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/testenv"
)

// A number that three accounts have had, one after the other, and a payment to it whose event bears
// no reference: it goes to the open one, but for a payment that is older than the open one's
// number, which goes to whoever had it then.
func TestNumberIssuedAgainGoesToItsHolder(t *testing.T) {
	t.Parallel()
	const number = "1234567890"
	for name, c := range map[string]struct {
		at     time.Duration // after the first account was opened
		closed bool          // the third one is closed, too
		to     int           // 0: nobody
		why    string
	}{
		"in the first one's time":              {at: time.Hour, to: 1},
		"after the first one's end":            {at: 150 * time.Minute, why: "account is expired"},
		"while nobody had it":                  {at: 200 * time.Minute, to: 3},
		"in the second one's time":             {at: 5 * time.Hour, to: 2},
		"when the third one was opened":        {at: 8 * time.Hour, to: 3},
		"in the third one's time":              {at: 9 * time.Hour, to: 3},
		"before all, as the bank's clock goes": {at: -time.Minute, to: 3},
		"in the third one's time, all closed":  {at: 9 * time.Hour, closed: true, to: 3},
		"in the second one's time, all closed": {at: 5 * time.Hour, closed: true, to: 2},
		"after all of them are closed":         {at: 11 * time.Hour, closed: true, why: "account is expired"},
		"while nobody had it, all closed":      {at: 200 * time.Minute, closed: true, why: "account is expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			start := b.Clock.Now()
			ids := []uuid.UUID{1: b.Account(b.tenant, "one"), 2: b.Account(b.tenant, "two"), 3: b.Account(b.tenant, "three")}
			opened := func(id uuid.UUID, at, expired, closed time.Duration) {
				b.Exec(`ALTER TABLE account_history DISABLE TRIGGER USER`)
				b.Exec(`UPDATE account_history SET created_at = $2 WHERE account_id = $1`, id, start.Add(at))
				if expired > 0 {
					b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2, closed_at = $3 WHERE id = $1`, id, start.Add(expired), start.Add(closed))
				}
				b.Exec(`UPDATE accounts SET bank_account_number = $2 WHERE id = $1`, id, number)
			}
			opened(ids[1], 0, 2*time.Hour, 3*time.Hour)
			opened(ids[2], 4*time.Hour, 6*time.Hour, 7*time.Hour)
			if c.closed {
				opened(ids[3], 8*time.Hour, 10*time.Hour, 10*time.Hour)
			} else {
				opened(ids[3], 8*time.Hour, 0, 0)
			}
			b.Clock.Set(start.Add(12 * time.Hour))
			r := b.receive(b.event(func(e *fakebank.Event) {
				e.Data.Transaction.AliasReference, e.Data.Transaction.AliasNumber = "", number
				e.Data.Transaction.Time = start.Add(c.at).Format(time.RFC3339)
			}))
			b.post(r.ID)
			_, category, why := b.event1(r.ID)
			require.Equal(t, c.why, why)
			if c.to == 0 {
				require.Equal(t, string(payment.CategoryMisdirected), category)
				return
			}
			require.Equal(t, ids[c.to], testenv.Value[uuid.UUID](b.Env, `SELECT account_id FROM inbound_events WHERE id = $1`, r.ID))
		})
	}
}

// The bank's record of a payment names the account that had the number before: it does not confirm
// the credit of the one that has it now.
func TestRecordOfTheNumbersFormerHolder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.openAtBank()
	former, err := b.client().CreateAccount(b.ctx, newAccount(uuid.New()))
	require.NoError(t, err)
	txn, err := b.bank.Pay(b.ctx, fakebank.Payment{AccountRef: b.account.String(), Amount: money.Must("5000.00"), Silent: true})
	require.NoError(t, err)
	txn.AccountRef = ""
	r := b.receive(b.sign(b.bank.EventFor(txn)))
	require.Equal(t, payment.CategoryPayment, b.post(r.ID).Category)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.AccountRef = former.Ref })
	b.Clock.Advance(30 * time.Second)
	require.NoError(t, b.svc.Confirm(b.ctx, r.ID))
	_, entries := b.books()
	require.Equal(t, []string{"credit needs_review"}, entries)
}
