package payment_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// price has the platform take of payments to the tenant, from a time on: percent, and VAT of 7.5 %.
func (b *bundle) price(percent, flat string, from time.Time) {
	b.T.Helper()
	b.Exec(`INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, valid_from, created_at, actor, reason)
		VALUES (gen_random_uuid(), $1, 'payment', $2::text::numeric, $3::text::numeric, 0, $4, $4::timestamptz - interval '1 hour', 'cli:ada', 'a contract')`, b.tenant, percent, flat, from)
	b.Exec(`INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, valid_from, created_at, actor, reason)
		VALUES (gen_random_uuid(), '00000000-0000-0000-0000-000000000000', 'vat', 7.5, 0, 0, '2020-01-02', '2020-01-01', 'cli:ada', 'the law') ON CONFLICT DO NOTHING`)
}

// platform checks the account's balance, what may leave it, and what the platform has of it; all
// invariants hold, and all accounts sum to zero.
func (b *bundle) platform(balance, available string, charges ...string) {
	b.T.Helper()
	got := testenv.Value[[]string](b.Env, `
		SELECT coalesce(array_agg(format('%s %s %s %s', direction, amount, contra, status) ORDER BY seq), '{}') FROM ledger_entries
		WHERE account_id = $1 AND kind = 'platform_fee'`, b.account)
	require.Equal(b.T, append([]string{}, charges...), got)
	var has, may money.Amount
	require.NoError(b.T, b.Pool.QueryRow(b.ctx, `SELECT balance, `+ledger.Available("false", "$2")+` FROM ledger_balances b WHERE account_id = $1`, b.account, b.Clock.Now()).Scan(&has, &may))
	require.Equal(b.T, balance+" "+available, has.String()+" "+may.String(), "balance and available")
	b.closes(has)
	testenv.FindsNothing(b.T, b.Pool, invariant.Verify)
	trial, err := ledger.ReadTrialBalance(b.ctx, b.Pool, clock.Day(b.Clock.Now()))
	require.NoError(b.T, err)
	require.Equal(b.T, "0.00", trial.Total.String())
	earned := testenv.Value[money.Amount](b.Env, `SELECT coalesce(sum(amount), 0) FROM ledger_entries WHERE kind = 'platform_fee' AND contra = 'platform_revenue' AND status IN ('provisional', 'confirmed')`)
	for _, l := range trial.Accounts {
		if l.Account == string(ledger.PlatformRevenue) {
			require.Equal(b.T, earned.String(), l.Credit.String())
		}
	}
}

// closes checks the balance at the end of the account's statements, whole and of the time to come.
func (b *bundle) closes(balance money.Amount) {
	b.T.Helper()
	accounts := account.New(account.Options{Pool: b.Pool, Clock: b.Clock})
	for _, f := range []ledger.Filter{{}, {From: b.Clock.Now().Add(time.Second)}, {To: b.Clock.Now().Add(time.Second)}} {
		x, err := accounts.Export(b.ctx, b.tenant, "customer-1", f, 100)
		require.NoError(b.T, err)
		require.Equal(b.T, balance.String(), x.Closing.String(), "%+v", f)
	}
}

// oneUnderReview checks what is shown of one payment under review, and of what it would bring: what
// the platform takes of it is no payment of its own.
func (b *bundle) oneUnderReview(sum string) {
	b.T.Helper()
	funds, err := account.New(account.Options{Pool: b.Pool, Clock: b.Clock}).TenantBalance(b.ctx, b.tenant)
	require.NoError(b.T, err)
	require.Equal(b.T, sum, funds.Held.String())
	o, err := ledger.ReadOverview(b.ctx, b.Pool, b.tenant, b.Clock.Now(), ledger.OverviewDays)
	require.NoError(b.T, err)
	require.Equal(b.T, "1 "+sum, fmt.Sprint(o.NeedsReview.Count, " ", o.NeedsReview.Amount))
	seen, err := invariant.Light(b.ctx, b.Pool, b.Clock.Now())
	require.NoError(b.T, err)
	require.EqualValues(b.T, 1, seen.ReviewCount)
	_, err = tenant.New(tenant.Options{Pool: b.Pool, Clock: b.Clock}).BeginClose(b.ctx, b.tenant, byHand)
	require.ErrorContains(b.T, err, "payments under review: 1")
	other := b.Env.Tenant()
	b.Account(other, "customer-1")
	_, err = tenant.New(tenant.Options{Pool: b.Pool, Clock: b.Clock}).BeginClose(b.ctx, other, byHand)
	require.NoError(b.T, err, "another tenant's payment is no reason")
}

const (
	feeDebit = "debit 50.00 platform_revenue "
	vatDebit = "debit 3.75 taxes "
	feeBack  = "credit 50.00 platform_revenue reversed"
	vatBack  = "credit 3.75 taxes reversed"
)

// The fee is debited with the payment, of which it leaves the amount as the specification has it,
// and goes the way of its payment: whatever becomes of that, its entries say the same.
func TestPlatformFeeOfAPayment(t *testing.T) {
	t.Parallel()
	changed := func(change func(*fakebank.Transaction)) func(*bundle, uuid.UUID, fakebank.Transaction) {
		return func(b *bundle, id uuid.UUID, txn fakebank.Transaction) {
			b.bank.SetTransaction(txn.ID, change)
			b.check(id)
		}
	}
	denied := changed(func(x *fakebank.Transaction) { x.Status = "PAYMENT_FAILED" })
	differs := changed(func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
	confirms := changed(func(*fakebank.Transaction) {})
	reviewed := func(event ledger.Event) func(*bundle, uuid.UUID, fakebank.Transaction) {
		return func(b *bundle, id uuid.UUID, txn fakebank.Transaction) {
			differs(b, id, txn)
			b.platform("0.00", "0.00", feeDebit+"needs_review", vatDebit+"needs_review")
			b.oneUnderReview("4921.25")
			v, err := b.svc.Review(b.ctx, id)
			require.NoError(b.T, err)
			require.Equal(b.T, "4975.00 4921.25", v.Amount.String()+" "+v.Brings.String(), "the balance gets what the platform leaves")
			require.False(b.T, v.Split)
			_, err = b.svc.DecideReview(b.ctx, id, event, byHand)
			require.NoError(b.T, err)
		}
	}
	recalled := func(status string) func(*bundle, uuid.UUID, fakebank.Transaction) {
		return func(b *bundle, id uuid.UUID, txn fakebank.Transaction) {
			confirms(b, id, txn)
			b.taken(txn, status)
			b.receive(b.reversal(txn))
			b.platform("4921.25", "0.00", feeDebit+"confirmed", vatDebit+"confirmed")
			b.check(id)
			if status == "SUCCESS" {
				b.check(id)
			}
		}
	}
	confirmed := []string{feeDebit + "confirmed", vatDebit + "confirmed"}
	back := []string{feeDebit + "reversed", vatDebit + "reversed", feeBack, vatBack}
	for name, c := range map[string]struct {
		do      func(*bundle, uuid.UUID, fakebank.Transaction)
		balance string
		charges []string
	}{
		"confirmed":              {confirms, "4921.25", confirmed},
		"denied":                 {denied, "0.00", back},
		"reviewed and confirmed": {reviewed(ledger.EventConfirm), "4921.25", confirmed},
		"reviewed and reversed":  {reviewed(ledger.EventReverse), "0.00", back},
		"recalled":               {recalled("REFUND"), "0.00", back},
		"said to be recalled":    {recalled("SUCCESS"), "4921.25", confirmed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.price("1", "0", b.Clock.Now().Add(-time.Hour))
			id, txn := b.paid()
			b.platform("4921.25", "0.00", feeDebit+"provisional", vatDebit+"provisional")
			require.Equal(t, "4975.00", testenv.Value[money.Amount](b.Env, `SELECT amount FROM ledger_entries WHERE transaction_group_id = $1`, id).String())
			// what is set later changes nothing of what was posted
			b.price("2", "0", b.Clock.Now().Add(time.Second))
			c.do(b, id, txn)
			b.platform(c.balance, c.balance, c.charges...)
			b.post(id)
			require.NoError(t, b.svc.Confirm(b.ctx, id))
			b.platform(c.balance, c.balance, c.charges...)
		})
	}
}

// The light check counts what the platform takes of a payment that goes under review and comes back
// as the balance does: what is posted after each of them has no finding.
func TestLightCheckOfAReviewWithAFee(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.price("1", "0", b.Clock.Now().Add(-time.Hour))
	sound := func() {
		b.T.Helper()
		_, _ = b.paid()
		seen, err := invariant.Light(b.ctx, b.Pool, b.Clock.Now())
		require.NoError(t, err)
		require.Empty(t, seen.Findings)
	}
	id, txn := b.paid()
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
	b.check(id)
	sound()
	_, err := b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
	require.NoError(t, err)
	sound()
}

// The fee is never more than what arrives, and a payment above a limit is held without it.
func TestPlatformFeeAtItsBounds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.price("0", "50", b.Clock.Now().Add(-time.Hour))
	b.post(b.receive(b.event(func(e *fakebank.Event) { e.Data.Transaction.TransactionAmount = json.RawMessage("45.00") })).ID)
	b.platform("0.00", "0.00", "debit 18.60 platform_revenue provisional", "debit 1.40 taxes provisional")
	b.Exec(`INSERT INTO tier_limits (tenant_id, tier, starts_at, max_deposit, created_at, actor, reason) VALUES ($1, 1, $2, 0, $2, 'cli:ada', 'the law')`, b.tenant, b.Clock.Now())
	id, txn := b.paid()
	charges := []string{"debit 18.60 platform_revenue provisional", "debit 1.40 taxes provisional", "debit 50.00 platform_revenue confirmed", "debit 3.75 taxes confirmed"}
	b.check(id)
	b.platform("4921.25", "0.00", charges...)
	require.Equal(t, "4921.25", testenv.Value[money.Amount](b.Env, `SELECT amount FROM holds WHERE status = 'open'`).String(), "all that the platform leaves")
	b.taken(txn, "REFUND")
	b.receive(b.reversal(txn))
	b.check(id)
	b.platform("0.00", "0.00", append(charges[:2], feeDebit+"reversed", vatDebit+"reversed", feeBack, vatBack)...)
}

// 500 payments at once, each event several times, on two services: each has its fee once, by the
// price of the moment of its posting.
func TestPlatformFeesAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.price("1", "0", b.Clock.Now().Add(-time.Hour))
	services := []*payment.Service{b.svc, b.service(b.bank.URL())}
	post := func(n int) {
		var wg sync.WaitGroup
		for range n {
			id := b.receive(b.event(nil)).ID
			for _, s := range services {
				wg.Go(func() {
					if _, err := s.Post(b.ctx, id); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
	}
	post(250)
	b.price("2", "0", b.Clock.Now().Add(time.Second))
	b.Clock.Advance(time.Minute)
	post(250)
	testenv.FindsNothing(t, b.Pool, invariant.Verify)
	require.Equal(t, "37500.00", testenv.Value[money.Amount](b.Env, `SELECT sum(amount) FROM ledger_entries WHERE contra = 'platform_revenue'`).String())
	require.Equal(t, "2812.50", testenv.Value[money.Amount](b.Env, `SELECT sum(amount) FROM ledger_entries WHERE contra = 'taxes'`).String())
	require.Equal(t, 1500, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries`))
}

// A misdirected payment has no fee until it is an account's.
func TestPlatformFeeOfAnAssignedPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.price("1", "0", b.Clock.Now().Add(-time.Hour))
	id := b.misdirected(nil)
	b.platform("0.00", "0.00")
	_, err := b.svc.Assign(b.ctx, id, b.here(), byHand)
	require.NoError(t, err)
	b.platform("4921.25", "0.00", feeDebit+"provisional", vatDebit+"provisional")
}

// Price and VAT are those of the moment of the posting, also where a worker whose clock was a
// little ahead has posted to the account before, so that the payment is dated behind that.
func TestPlatformFeeAtTheStartOfAPrice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	starts := b.Clock.Now().Add(time.Hour)
	b.price("1", "0", b.Clock.Now().Add(-time.Hour))
	b.price("2", "0", starts)
	b.Exec(`INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, valid_from, created_at, actor, reason)
		VALUES (gen_random_uuid(), '00000000-0000-0000-0000-000000000000', 'vat', 10, 0, 0, $1, $1::timestamptz - interval '1 hour', 'cli:ada', 'the law')`, starts)
	for _, at := range []time.Time{starts, starts.Add(-time.Second)} {
		b.Clock.Set(at)
		b.post(b.receive(b.event(nil)).ID)
	}
	b.Clock.Set(starts.Add(time.Minute))
	b.platform("9786.25", "0.00", "debit 100.00 platform_revenue provisional", "debit 10.00 taxes provisional", feeDebit+"provisional", vatDebit+"provisional")
}
