package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/payment"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/work"
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
		"the payment": {30 * time.Second, payment.CategoryPayment, "expired"},
		// until the task runs
		"the deadline": {90 * time.Second, payment.CategoryMisdirected, "active"},
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

// Only the exact amount ends a one-time account: more or less is posted, and the account stays open
// for the rest. By an operator's assignment it is no different.
func TestOnlyTheExactAmountEndsAOneTimeAccount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		expected, status string
		assigned         bool
	}{
		"less":                     {"5000.01", "active", false},
		"exactly":                  {"5000.00", "expired", false},
		"more":                     {"4999.99", "active", false},
		"its net only":             {"4975.00", "active", false},
		"less, assigned":           {"5000.01", "active", true},
		"exactly, assigned":        {"5000.00", "expired", true},
		"more, assigned":           {"4999.99", "active", true},
		"much more":                {"0.01", "active", false},
		"much more, by assignment": {"0.01", "active", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Exec(`UPDATE accounts SET type = 'onetime', expected_amount = $2::numeric WHERE id = $1`, b.account, c.expected)
			r := b.receive(b.event(func(e *fakebank.Event) {
				if c.assigned {
					e.Data.Transaction.AliasReference = "nobody's"
				}
			}))
			p := b.post(r.ID)
			if c.assigned {
				require.Equal(t, payment.CategoryMisdirected, p.Category)
				var err error
				p, err = b.svc.Assign(b.ctx, r.ID, payment.Destination{AccountID: b.account}, audit.By{Actor: "ops@example.com", Reason: "the payer wrote"})
				require.NoError(t, err)
			}
			require.Equal(t, payment.CategoryPayment, p.Category)
			require.Equal(t, c.status == "expired", b.DueAt(work.Expire, b.account) != nil)
			require.Equal(t, c.status, testenv.Value[string](b.Env, `SELECT status FROM accounts WHERE id = $1`, b.account))
			balance, _ := b.books()
			require.Equal(t, "4975.00", balance)
			if c.status == "active" { // and the rest is taken too
				next := b.receive(b.event(nil))
				require.Equal(t, payment.CategoryPayment, b.post(next.ID).Category)
			}
		})
	}
}

// Of several exact payments in one batch the first ends the account, from its own time on: what was
// paid until then is accepted, whatever came before it in the batch. A payment to an account that
// expects no amount, or to a dedicated one, ends nothing.
func TestExactPaymentsInOneBatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  string
		paid    []time.Duration // before now
		expired bool
		refused int
	}{
		"the first one ends it":    {"type = 'onetime', expected_amount = 5000", []time.Duration{10 * time.Second, 30 * time.Second, 20 * time.Second}, true, 0},
		"made after it":            {"type = 'onetime', expected_amount = 5000", []time.Duration{10 * time.Second, 5 * time.Second}, true, 1},
		"made ahead of our clock":  {"type = 'onetime', expected_amount = 5000", []time.Duration{-10 * time.Second}, true, 0},
		"no amount is expected":    {"type = 'onetime'", []time.Duration{10 * time.Second, 5 * time.Second}, false, 0},
		"the account is dedicated": {"expected_amount = 5000", []time.Duration{10 * time.Second, 5 * time.Second}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Exec(`UPDATE accounts SET `+c.change+` WHERE id = $1`, b.account)
			b.Clock.Advance(time.Minute)
			now := b.Clock.Now()
			var ids []uuid.UUID
			for _, before := range c.paid {
				ids = append(ids, b.receive(b.event(func(e *fakebank.Event) { e.Data.Transaction.Time = now.Add(-before).Format(time.RFC3339) })).ID)
			}
			refused := 0
			for _, o := range b.svc.PostAll(b.ctx, ids) {
				require.NoError(t, o.Err)
				if o.Value.Category != payment.CategoryPayment {
					refused++
				}
			}
			require.Equal(t, c.refused, refused)
			var status string
			var at *time.Time
			require.NoError(t, b.Pool.QueryRow(b.ctx, `SELECT status, expired_at FROM accounts WHERE id = $1`, b.account).Scan(&status, &at))
			if !c.expired {
				require.Equal(t, "active", status)
				return
			}
			require.Equal(t, "expired", status)
			first := now.Add(-max(0, c.paid[0]))
			require.Equal(t, first, at.UTC())
		})
	}
}

// A payment that is assigned to a one-time account went to another number: it ends the account from
// now on.
func TestAssignedPaymentEndsTheAccountNow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(`UPDATE accounts SET type = 'onetime', expected_amount = 5000 WHERE id = $1`, b.account)
	id := b.misdirected(nil)
	b.Clock.Advance(time.Hour)
	_, err := b.svc.Assign(b.ctx, id, b.here(), byHand)
	require.NoError(t, err)
	require.Equal(t, b.Clock.Now(), testenv.Value[time.Time](b.Env, `SELECT expired_at FROM accounts WHERE id = $1`, b.account).UTC())
}

// An account that the bank has not answered for takes no payment, whatever names it; an account
// that has the same reference does.
func TestPaymentToAnAccountThatIsBeingProvisioned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	unfinished := b.Account(b.tenant, "unfinished")
	b.Exec(`ALTER TABLE accounts DISABLE TRIGGER USER`)
	b.Exec(`UPDATE accounts SET status = 'provisioning', bank_account_number = '7777777777' WHERE id = $1`, unfinished)
	b.Exec(`INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_name, status, type, created_at, updated_at)
		SELECT gen_random_uuid(), tenant_id, customer_id, 'customer-1', 'nomba', '', 'provisioning', 'onetime', now(), now() FROM accounts WHERE id = $1`, unfinished)
	for name, c := range map[string]struct {
		ref, number string
		posted      bool
	}{
		"its id":                         {ref: unfinished.String()},
		"its number":                     {ref: "?", number: "7777777777"},
		"its reference":                  {ref: "unfinished"},
		"a reference that another has":   {ref: "customer-1", posted: true},
		"its number, another's ref":      {ref: "customer-1", number: "7777777777", posted: true},
		"its id, another's as reference": {ref: unfinished.String(), number: "0"},
	} {
		r := b.receive(b.event(func(e *fakebank.Event) {
			e.Data.Transaction.AliasReference, e.Data.Transaction.AliasNumber = c.ref, c.number
		}))
		b.post(r.ID)
		_, category, why := b.event1(r.ID)
		if c.posted {
			require.Equal(t, string(payment.CategoryPayment), category, name)
			require.Equal(t, b.account, testenv.Value[uuid.UUID](b.Env, `SELECT account_id FROM inbound_events WHERE id = $1`, r.ID), name)
			continue
		}
		require.Equal(t, string(payment.CategoryMisdirected), category, name)
		require.Equal(t, "no account has this alias", why, name)
		_, err := b.svc.Assign(b.ctx, r.ID, payment.Destination{AccountID: unfinished}, audit.By{Actor: "ops@example.com", Reason: "x"})
		require.ErrorIs(t, err, account.ErrNotFound, "nor can it be assigned to it")
	}
}
