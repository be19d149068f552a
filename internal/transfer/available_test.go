package transfer_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// shown is what the balance endpoint says of the account.
func (b *bundle) shown(provisional bool) account.Balance {
	b.T.Helper()
	s := account.New(account.Options{Pool: b.Pool, Clock: b.Clock, Provisional: provisional})
	have, err := s.Balance(b.ctx, b.tenant, "shop")
	require.NoError(b.T, err)
	return have
}

// What is available is what a settlement may take: whatever has happened to the account, a
// settlement of just so much leaves at its first step, and one of a kobo more does not.
func TestAvailableIsWhatMayLeave(t *testing.T) {
	for name, provisional := range map[string]bool{"confirmed": false, "provisional": true} {
		t.Run(name, func(t *testing.T) {
			top := setup(t, func(o *transfer.Options) { o.Provisional = provisional })
			rng := rand.New(rand.NewPCG(16, 5))
			left, stayed := 0, 0
			for range 25 {
				b := top.anotherAccount(t)
				b.live(rng)
				have := b.shown(provisional)
				more := have.Available.Add(money.FromKobo(1))
				try := []money.Amount{more, have.Available}[rng.IntN(2)]
				if !try.IsPositive() {
					try = more
				}
				s, err := b.svc.Settle(b.ctx, b.tenant, "shop", order(try.String()), idempotency.Request{})
				if have.Balance.Cmp(try) < 0 {
					require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
					continue
				}
				require.NoError(t, err)
				p := b.get(accepted(t, s).MerchantTxRef)
				_ = b.svc.Advance(b.ctx, p.ID)
				status := b.get(p.MerchantTxRef).Status
				if try.Cmp(have.Available) <= 0 {
					left++
					require.Equal(t, transfer.Success, status, "%+v, and %s", have, try)
				} else {
					stayed++
					require.NotEqual(t, transfer.Success, status, "%+v, and %s", have, try)
				}
			}
			require.NotZero(t, left)
			if !provisional {
				require.NotZero(t, stayed)
			}
		})
	}
}

// live gives the account payments, recalls, reviews and settlements, each with some chance.
func (b *bundle) live(rng *rand.Rand) {
	b.T.Helper()
	amount := func() string { return money.FromKobo(100 + rng.Int64N(100_00)).String() }
	var confirmed []uuid.UUID
	for range 2 + rng.IntN(5) {
		c := b.credit(amount())
		switch rng.IntN(6) {
		case 0, 1, 2:
			b.MoveCredit(c, ledger.EventConfirm)
			confirmed = append(confirmed, c)
		case 3:
			b.MoveCredit(c, ledger.EventHold)
		}
	}
	if len(confirmed) > 1 && rng.IntN(3) == 0 {
		b.recall(confirmed[0])
	}
	for range rng.IntN(3) {
		s, err := b.svc.Settle(b.ctx, b.tenant, "shop", order(amount()), idempotency.Request{})
		if err == nil && rng.IntN(2) == 0 {
			_ = b.svc.Advance(b.ctx, s.TransferID)
		}
	}
}

// What each part of a balance has, for one account and for all, and what a freeze makes of it.
func TestPartsOfABalance(t *testing.T) {
	b := setup(t)
	recalled := b.funded("40.00")
	b.fund("60.00")
	b.credit("7.00")
	b.MoveCredit(b.credit("5.00"), ledger.EventHold)
	b.recall(recalled)
	b.settle("30.00")
	parts := func(f account.Funds) []string {
		return []string{f.Balance.String(), f.Available.String(), f.Provisional.String(), f.Held.String()}
	}
	require.Equal(t, []string{"77.00", "30.00", "7.00", "45.00"}, parts(b.shown(false).Funds))
	require.Equal(t, []string{"77.00", "37.00", "7.00", "45.00"}, parts(b.shown(true).Funds))

	other := *b
	other.account = b.Account(b.tenant, "poor")
	other.credit("9.00")
	_, err := b.svc.Settle(b.ctx, b.tenant, "poor", order("8.00"), idempotency.Request{})
	require.NoError(t, err)
	all := func() []string {
		f, err := account.New(account.Options{Pool: b.Pool, Clock: b.Clock}).TenantBalance(b.ctx, b.tenant)
		require.NoError(t, err)
		return parts(f)
	}
	require.Equal(t, []string{"78.00", "30.00", "16.00", "45.00"}, all(), "the other account's lack takes nothing from this one")
	for name, begin := range stops {
		if name != "suspension" {
			goOn := begin(b)
			require.Equal(t, []string{"77.00", "0.00", "7.00", "45.00"}, parts(b.shown(false).Funds), name)
			require.Equal(t, []string{"78.00", "0.00", "16.00", "45.00"}, all(), name)
			goOn()
		}
	}
	require.Equal(t, "30.00", b.shown(false).Available.String())
	empty, err := account.New(account.Options{Pool: b.Pool, Clock: b.Clock}).TenantBalance(b.ctx, b.Tenant())
	require.NoError(t, err)
	require.Equal(t, []string{"0.00", "0.00", "0.00", "0.00"}, parts(empty))
}
