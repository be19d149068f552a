package transfer_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/freeze"
	"ajo/internal/idempotency"
	"ajo/internal/provider"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
)

var stop = audit.By{Actor: "cli:ada", Reason: "a ticket"}

func (b *bundle) freezes() *freeze.Service { return &freeze.Service{Pool: b.Pool, Clock: b.Clock} }

// freeze begins a freeze and returns what lifts it.
func (b *bundle) freeze(n freeze.New) (lift func()) {
	b.T.Helper()
	f, err := b.freezes().Begin(b.ctx, n, stop)
	require.NoError(b.T, err)
	return func() {
		_, err := b.freezes().Lift(b.ctx, f.ID, stop)
		require.NoError(b.T, err)
	}
}

// stops are the ways in which operators stop payouts; each returns what lets them go on.
var stops = map[string]func(b *bundle) (goOn func()){
	"account": func(b *bundle) func() { return b.freeze(freeze.New{Scope: freeze.Account, Subject: b.account}) },
	"requests": func(b *bundle) func() {
		return b.freeze(freeze.New{Scope: freeze.Account, Subject: b.account, Requests: true})
	},
	"tenant":  func(b *bundle) func() { return b.freeze(freeze.New{Scope: freeze.Tenant, Subject: b.tenant}) },
	"payouts": func(b *bundle) func() { return b.freeze(freeze.New{Scope: freeze.Payouts}) },
	"suspension": func(b *bundle) func() {
		tenants := tenant.New(tenant.Options{Pool: b.Pool, Clock: b.Clock, Log: b.log.Logger()})
		b.T.Cleanup(func() { _ = tenants.Close(b.ctx) })
		changed, err := tenants.Suspend(b.ctx, b.tenant, stop)
		require.NoError(b.T, err)
		require.True(b.T, changed)
		return func() {
			_, err := tenants.Activate(b.ctx, b.tenant, stop)
			require.NoError(b.T, err)
		}
	},
}

// What has not been submitted waits, for as long as it takes and without a question to the bank,
// and goes on at once when it may. Others' payouts are not concerned.
func TestAFrozenPayoutWaits(t *testing.T) {
	for name, begin := range stops {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := b.settle("100.00")
			goOn := begin(b)
			for range 12 {
				at := b.step(p)
				require.LessOrEqual(t, at.Sub(b.Clock.Now()), 5*time.Minute)
				b.untilDue(p)
			}
			require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status)
			require.Contains(t, row[string](b, p, "last_error"), "frozen")
			require.Zero(t, b.bank.Calls(lookupCall)+b.bank.Calls(payCall))
			if name != "payouts" {
				other := b.anotherAccount(t)
				other.fund("10.00")
				require.Equal(t, transfer.Success, other.run(other.settle("10.00")).Status)
			}
			b.step(p)
			goOn()
			require.False(t, b.DueAt(work.Settle, p.ID).After(b.Clock.Now()), "it is due at once")
			require.Equal(t, transfer.Success, b.run(p).Status)
			b.money("0.00", "credit 100.00 confirmed", "debit 100.00 confirmed")
		})
	}
}

// A freeze ends by itself to the moment, whoever is up then, and another one that stands goes on.
func TestAFreezeEndsByItself(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	p := b.settle("100.00")
	soon := b.Clock.Now().Add(90 * time.Second)
	b.freeze(freeze.New{Scope: freeze.Account, Subject: b.account, Until: &soon})
	require.Equal(t, soon, b.step(p).UTC())
	b.Clock.Set(soon.Add(-time.Second))
	lift := b.freeze(freeze.New{Scope: freeze.Payouts})
	b.Clock.Set(soon)
	b.step(p)
	require.Zero(t, b.bank.Calls(lookupCall))
	lift()
	require.Equal(t, transfer.Success, b.run(p).Status)
	_, err := b.freezes().Begin(b.ctx, freeze.New{Scope: freeze.Payouts, Until: &soon}, stop)
	require.ErrorIs(t, err, freeze.ErrUntil)
}

// A freeze between the claim and the submission: nothing leaves.
func TestAFreezeAfterTheClaim(t *testing.T) {
	for name, begin := range stops {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			slow := &testenv.BankWith{Bank: b.client}
			b.svc = b.service(func(o *transfer.Options) { o.Bank = slow })
			b.fund("100.00")
			p := b.settle("100.00")
			var goOn func()
			slow.AfterLookup = func(*provider.Holder) { goOn, slow.AfterLookup = begin(b), nil }
			b.step(p)
			require.Equal(t, 1, b.bank.Calls(lookupCall))
			b.step(p) // it is due again at once, and finds out why
			require.Zero(t, b.bank.Calls(payCall))
			require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status)
			require.Zero(t, b.get(p.MerchantTxRef).AttemptCount)
			goOn()
			require.Equal(t, transfer.Success, b.run(p).Status)
			b.paid(p)
		})
	}
}

// What was submitted is followed to its end, freeze or not.
func TestAFreezeAfterTheSubmission(t *testing.T) {
	for name, begin := range stops {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := b.settle("100.00")
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter, Next: 1})
			b.step(p)
			begin(b)
			require.Equal(t, transfer.Success, b.run(p).Status)
			b.paid(p)
		})
	}
}

// A submission that was counted and never reached the bank is not made again under a freeze.
func TestAFreezeStopsTheNextSubmission(t *testing.T) {
	for name, begin := range stops {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := b.settle("100.00")
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Drop, Next: 1})
			b.step(p)
			goOn := begin(b)
			start := b.Clock.Now()
			for b.Clock.Now().Before(start.Add(6 * time.Hour)) {
				b.untilDue(p)
				b.step(p)
			}
			require.Equal(t, transfer.Processing, b.get(p.MerchantTxRef).Status)
			require.Equal(t, 1, b.bank.Calls(payCall))
			b.paid()
			goOn()
			require.Equal(t, transfer.Success, b.run(p).Status)
			require.Equal(t, 2, b.get(p.MerchantTxRef).AttemptCount)
			b.paid(p)
		})
	}
}

// A freeze is at hand only when no transaction from before it can submit any more.
func TestAFreezeWaitsForOpenSubmissions(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	p := b.settle("100.00")
	open, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	_, err = open.Exec(b.ctx, `UPDATE transfers SET updated_at = updated_at WHERE id = $1`, p.ID)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := b.freezes().Begin(b.ctx, freeze.New{Scope: freeze.Payouts}, stop)
		done <- err
	}()
	testenv.Eventually(t, 30*time.Second, "the freeze to be committed", func() bool {
		var n int
		return b.Pool.QueryRow(b.ctx, `SELECT count(*) FROM freezes`).Scan(&n) == nil && n == 1
	})
	require.Empty(t, done, "it has not returned")
	require.NoError(t, open.Commit(b.ctx))
	require.NoError(t, <-done)
}

// Settle requests are accepted while payouts are frozen, but for an account that is frozen with
// its requests.
func TestRequestsUnderAFreeze(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.freeze(freeze.New{Scope: freeze.Payouts})
	b.freeze(freeze.New{Scope: freeze.Tenant, Subject: b.tenant})
	b.freeze(freeze.New{Scope: freeze.Account, Subject: b.account})
	b.settle("10.00")
	lift := b.freeze(freeze.New{Scope: freeze.Account, Subject: b.account, Requests: true})
	_, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("10.00"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrFrozen)
	b.money("90.00", "credit 100.00 confirmed", "debit 10.00 provisional")
	b.fund("5.00") // what comes in is posted
	lift()
	b.settle("95.00")
	_, err = b.freezes().Lift(b.ctx, uuid.New(), stop)
	require.ErrorIs(t, err, freeze.ErrNotFound)
}
