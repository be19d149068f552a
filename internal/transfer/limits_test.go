package transfer_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/invariant"
	"ajo/internal/limit"
	"ajo/internal/money"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

func (b *bundle) limits() *limit.Service { return &limit.Service{Pool: b.Pool, Clock: b.Clock} }

func sum(amount string) *money.Amount {
	if amount == "" {
		return nil
	}
	a := money.Must(amount)
	return &a
}

// limit sets the limits of the bundle's tenant from now on; "" is none.
func (b *bundle) limit(transfer, account, tenant string) {
	b.T.Helper()
	_, err := b.limits().SetPayouts(b.ctx, b.tenant, time.Time{}, limit.Payouts{MaxTransfer: sum(transfer), MaxAccountDay: sum(account), MaxTenantDay: sum(tenant)}, stop)
	require.NoError(b.T, err)
	b.Clock.Advance(time.Second) // two of one tenant do not start at once
}

// refused settles on an account, which is refused with the text.
func (b *bundle) refused(ref, amount, text string) {
	b.T.Helper()
	_, err := b.svc.Settle(b.ctx, b.tenant, ref, order(amount), idempotency.Request{})
	require.EqualError(b.T, err, text)
	require.Equal(b.T, errs.Invalid, errs.KindOf(err))
}

// today is what counts for the tenant.
func (b *bundle) today() string {
	b.T.Helper()
	s, err := b.limits().Standing(b.ctx, b.tenant)
	require.NoError(b.T, err)
	return s.Payouts.Today.String()
}

// Each limit lets exactly itself through and refuses one kobo more, with its name, its value and
// what is left; a refused settlement, by a limit or for want of money, uses nothing up.
func TestEachLimitToTheKobo(t *testing.T) {
	spec.Shows(t, "limit.settle.amount")
	b := setup(t)
	other := *b
	other.account = b.Account(b.tenant, "other")
	b.fund("10000.00")
	other.fund("10000.00")
	b.limit("100.00", "150.00", "200.00")
	b.refused("shop", "100.01", "amount is above the limit maxTransfer: NGN 100.00")
	b.refused("shop", "20000.00", ledger.ErrInsufficientFunds.Error())
	b.settle("100.00")
	b.refused("shop", "50.01", "amount is above the limit maxAccountDay: NGN 150.00 a day, NGN 50.00 left")
	b.settle("50.00")
	b.refused("shop", "0.01", "amount is above the limit maxAccountDay: NGN 150.00 a day, NGN 0.00 left")
	b.refused("other", "50.01", "amount is above the limit maxTenantDay: NGN 200.00 a day, NGN 50.00 left")
	_, err := b.svc.Settle(b.ctx, b.tenant, "other", order("50.00"), idempotency.Request{})
	require.NoError(t, err)
	b.refused("other", "0.01", "amount is above the limit maxTenantDay: NGN 200.00 a day, NGN 0.00 left")
	s, err := b.limits().Standing(b.ctx, b.tenant)
	require.NoError(t, err)
	require.Equal(t, "200.00 0.00", s.Payouts.Today.String()+" "+s.Payouts.Left.String())

	stranger := b.anotherAccount(t)
	stranger.fund("10000.00")
	stranger.settle("5000.00")
	require.Equal(t, "0.00", stranger.today(), "a tenant without limits is not counted")
	b.limit("", "", "100.00")
	s, err = b.limits().Standing(b.ctx, b.tenant)
	require.NoError(t, err)
	require.Equal(t, "0.00", s.Payouts.Left.String(), "never below zero")
	b.limit("", "", "")
	b.settle("3000.00")
	b.consistent(0)
}

// Limits that are set for now bound the next payout, also where the clock of the process that
// accepts it is behind that of the one that has set them.
func TestLimitsForNowByAClockThatIsBehind(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	ahead := &limit.Service{Pool: b.Pool, Clock: clock.NewFake(b.Clock.Now().Add(400 * time.Millisecond))}
	_, err := ahead.SetPayouts(b.ctx, b.tenant, time.Time{}, limit.Payouts{MaxTransfer: sum("50.00")}, stop)
	require.NoError(t, err)
	b.refused("shop", "50.01", "amount is above the limit maxTransfer: NGN 50.00")
	b.settle("50.00")
}

// A day begins at midnight in Lagos, and limits on the day that was named; until then the ones
// before them stand.
func TestLimitsByTheDay(t *testing.T) {
	b := setup(t)
	b.Clock.Set(time.Date(2026, 3, 1, 20, 0, 0, 0, time.UTC))
	b.fund("10000.00")
	b.limit("", "100.00", "")
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, clock.Lagos)
	_, err := b.limits().SetPayouts(b.ctx, b.tenant, midnight, limit.Payouts{MaxAccountDay: sum("300.00")}, stop)
	require.NoError(t, err)
	b.settle("100.00")
	b.Clock.Set(midnight.Add(-time.Millisecond))
	b.refused("shop", "0.01", "amount is above the limit maxAccountDay: NGN 100.00 a day, NGN 0.00 left")
	b.Clock.Set(midnight)
	b.settle("300.00")
	b.refused("shop", "0.01", "amount is above the limit maxAccountDay: NGN 300.00 a day, NGN 0.00 left")
	require.Equal(t, "300.00", b.today())

	for _, starts := range []time.Time{midnight.Add(-time.Hour), midnight} {
		_, err = b.limits().SetPayouts(b.ctx, b.tenant, starts, limit.Payouts{}, stop)
		require.ErrorIs(t, err, limit.ErrStarts)
	}
	below := money.Must("1.00").Neg()
	_, err = b.limits().SetPayouts(b.ctx, b.tenant, time.Time{}, limit.Payouts{MaxTransfer: &below}, stop)
	require.ErrorIs(t, err, limit.ErrNegative)
	sets, err := b.limits().Sets(b.ctx, b.tenant)
	require.NoError(t, err)
	require.Len(t, sets, 2)
	require.Equal(t, stop.Reason, sets[0].Reason)
	b.consistent(0)
}

// What ends without being paid leaves the sums of its own day; what an operator finds to be paid
// after all, or with another sum, is in them as it was paid.
func TestWhatFailsFreesItsPart(t *testing.T) {
	b := setup(t)
	b.fund("10000.00")
	before := b.settle("70.00") // before the limits: not counted, so its failure frees nothing
	b.limit("", "100.00", "100.00")
	p := b.settle("100.00")
	b.refused("shop", "1.00", "amount is above the limit maxAccountDay: NGN 100.00 a day, NGN 0.00 left")
	_, err := b.svc.Cancel(b.ctx, before.MerchantTxRef, stop)
	require.NoError(t, err)
	require.Equal(t, "100.00", b.today())
	_, err = b.svc.Cancel(b.ctx, p.MerchantTxRef, stop)
	require.NoError(t, err)
	require.Equal(t, "0.00", b.today())

	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Reject})
	require.Equal(t, transfer.Failed, b.run(b.settle("100.00")).Status)
	b.bank.Faults.Clear()
	require.Equal(t, "0.00", b.today())
	paid := b.run(b.settle("100.00"))
	require.Equal(t, transfer.Success, paid.Status)
	require.Equal(t, "100.00", b.today())
	b.consistent(0)
}

// An operator's resolutions count by what has left.
func TestLimitsAfterAResolution(t *testing.T) {
	b := setup(t)
	b.fund("10000.00")
	b.limit("", "100.00", "")
	b.svc = b.service(func(o *transfer.Options) { o.Bank = nil })
	resolve := func(p transfer.Transfer, to transfer.Resolution, want string) {
		t.Helper()
		_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, to, stop)
		require.NoError(t, err)
		require.Equal(t, want, b.today())
		b.consistent(0)
	}
	submitted := func(amount string) transfer.Transfer {
		p := b.settle(amount)
		b.Exec(`UPDATE transfers SET status = 'processing', attempt_count = 1, submitted_at = $2 WHERE id = $1`, p.ID, b.Clock.Now())
		return p
	}
	p := submitted("80.00")
	resolve(p, transfer.Resolution{Paid: true, Amount: sum("90.00")}, "90.00")
	resolve(p, transfer.Resolution{Paid: true, Amount: sum("120.00")}, "120.00")
	b.refused("shop", "0.01", "amount is above the limit maxAccountDay: NGN 100.00 a day, NGN 0.00 left")
	resolve(p, transfer.Resolution{}, "0.00")
	resolve(p, transfer.Resolution{Paid: true}, "80.00")
	other := submitted("5.00")
	resolve(other, transfer.Resolution{}, "80.00")
	require.Equal(t, transfer.Failed, b.get(other.MerchantTxRef).Status)
	resolve(other, transfer.Resolution{Paid: true}, "85.00")
}

// Of 500 settlements at once, on several accounts and by two processes, just as many are accepted
// as the limits have room for; those that fail meanwhile make room; nobody deadlocks.
func TestLimitsAreExactAtOnce(t *testing.T) {
	b := setup(t)
	refs := make([]string, 5)
	for i := range refs {
		refs[i] = fmt.Sprint("shop-", i)
		own := *b
		own.account = b.Account(b.tenant, refs[i])
		own.fund("10000.00")
	}
	b.limit("", "500.00", "1203.00") // 71 of an account, 171 of the tenant
	services := []*transfer.Service{b.svc, b.service()}
	var mu sync.Mutex
	var refsAccepted []string
	byAccount := map[string]int{}
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			ref := refs[i%7%5]
			s, err := services[i%2].Settle(b.ctx, b.tenant, ref, order("7.00"), idempotency.Request{})
			if err != nil {
				if errs.KindOf(err) != errs.Invalid {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			byAccount[ref]++
			refsAccepted = append(refsAccepted, accepted(t, s).MerchantTxRef)
		})
	}
	all.Wait()
	require.Len(t, refsAccepted, 171)
	for ref, n := range byAccount {
		require.LessOrEqual(t, n, 71, ref)
	}
	require.Equal(t, "1197.00", b.today())

	// now half of them fail, while others want their place
	var again int
	for i, ref := range refsAccepted[:100] {
		all.Go(func() {
			if _, err := services[i%2].Cancel(b.ctx, ref, stop); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if _, err := services[i%2].Settle(b.ctx, b.tenant, refs[i%5], order("7.00"), idempotency.Request{}); err == nil {
				mu.Lock()
				again++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Equal(t, fmt.Sprintf("%d.00", 7*(71+again)), b.today())
	require.Zero(t, testenv.Value[int](b.Env, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`))
	b.consistent(0)
}

// In one batch, what is refused for want of money leaves its room to those behind it.
func TestLimitsInOneBatch(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.limit("", "90.00", "")
	out := b.svc.SettleTogether(b.ctx, []transfer.Ask{b.ask("50.00", "a"), b.ask("60.00", "b"), b.ask("40.00", "c"), b.ask("0.01", "d")})
	require.NoError(t, out[0].Err)
	require.ErrorContains(t, out[1].Err, ledger.ErrInsufficientFunds.Error())
	require.NoError(t, out[2].Err)
	require.EqualError(t, out[3].Err, "amount is above the limit maxAccountDay: NGN 90.00 a day, NGN 0.00 left")
	require.Equal(t, "90.00", b.today())
	b.consistent(0)
	b.Exec(`UPDATE payout_days SET paid = paid + 1 WHERE subject = $1`, b.account)
	found, err := invariant.Verify(b.ctx, b.Pool)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(found, func(f ledger.Finding) bool { return f.Check == invariant.CheckPayoutDays }), found)
}
