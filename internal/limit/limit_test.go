package limit_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/limit"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

var by = audit.By{Actor: "cli:ada", Reason: "a ticket"}

type bundle struct {
	*testenv.Env
	ctx         context.Context
	svc         *limit.Service
	mine, other uuid.UUID // tenants
}

func setup(t *testing.T) *bundle {
	t.Parallel()
	e := testenv.New(t)
	return &bundle{Env: e, ctx: context.Background(), svc: &limit.Service{Pool: e.Pool, Clock: e.Clock}, mine: e.Tenant(), other: e.Tenant()}
}

func (b *bundle) payouts(tenant uuid.UUID, starts time.Time, transfer string) error {
	_, err := b.svc.SetPayouts(b.ctx, tenant, starts, limit.Payouts{MaxTransfer: new(money.Must(transfer))}, by)
	return err
}

func (b *bundle) tier(tenant uuid.UUID, starts time.Time, tier int, deposit string) error {
	_, err := b.svc.SetTier(b.ctx, tenant, starts, limit.Tier{Tier: tier, MaxDeposit: new(money.Must(deposit))}, by)
	return err
}

// shown are the limits that stand of a tenant: of a transfer, and of a deposit by tier.
func (b *bundle) shown(tenant uuid.UUID) (all []string) {
	b.T.Helper()
	s, err := b.svc.Standing(b.ctx, tenant)
	require.NoError(b.T, err)
	if s.Payouts.MaxTransfer != nil {
		all = append(all, s.Payouts.MaxTransfer.String())
	}
	for _, x := range s.Tiers {
		require.NotZero(b.T, x.Tier)
		require.NotNil(b.T, x.MaxDeposit)
		all = append(all, string(rune('0'+x.Tier))+" "+x.MaxDeposit.String())
	}
	return all
}

// Limits stand from their start on, to the microsecond, each tenant's and each tier's by itself,
// the last that started before others; a start in the past or when others start is refused.
func TestLimitsByTheirStart(t *testing.T) {
	b := setup(t)
	now, moment := b.Clock.Now(), time.Microsecond
	later := now.Add(time.Hour)
	require.NoError(t, b.payouts(b.mine, time.Time{}, "1.00"))
	require.NoError(t, b.payouts(b.mine, later, "2.00"))
	require.NoError(t, b.tier(b.mine, now, 1, "10.00"))
	require.NoError(t, b.tier(b.mine, later, 1, "11.00"))
	require.NoError(t, b.tier(b.mine, now, 3, "30.00"), "another tier's later start does not matter")
	require.NoError(t, b.payouts(b.other, now, "5.00"), "nor does another tenant's")
	require.NoError(t, b.tier(b.other, now, 1, "50.00"))

	for _, refused := range []error{
		b.payouts(b.mine, now.Add(-moment), "9.00"), b.payouts(b.mine, later, "9.00"),
		b.tier(b.mine, now.Add(-moment), 2, "9.00"), b.tier(b.mine, later, 1, "9.00"),
	} {
		require.ErrorIs(t, refused, limit.ErrStarts)
	}
	for _, tier := range []int{-1, 0, 4} {
		require.ErrorIs(t, b.tier(b.mine, time.Time{}, tier, "9.00"), limit.ErrTier)
	}
	b.Clock.Set(later.Add(-moment))
	require.Equal(t, []string{"1.00", "1 10.00", "3 30.00"}, b.shown(b.mine))
	b.Clock.Set(later)
	require.Equal(t, []string{"2.00", "1 11.00", "3 30.00"}, b.shown(b.mine))
	require.Equal(t, []string{"5.00", "1 50.00"}, b.shown(b.other))
	_, err := b.svc.SetTier(b.ctx, b.other, time.Time{}, limit.Tier{Tier: 1}, by)
	require.NoError(t, err)
	require.Equal(t, []string{"5.00"}, b.shown(b.other), "a tier without limits is not shown")
	require.NoError(t, b.tier(b.mine, later.Add(moment), 1, "12.00"))

	sets, err := b.svc.Sets(b.ctx, b.mine)
	require.NoError(t, err)
	var values []string
	for _, x := range sets {
		if x.Tier == nil {
			values = append(values, x.MaxTransfer.String())
			continue
		}
		values = append(values, string(rune('0'+x.Tier.Tier))+" "+x.Tier.MaxDeposit.String())
	}
	require.Equal(t, []string{"2.00", "1.00", "1 12.00", "1 11.00", "1 10.00", "3 30.00"}, values)
}

// No limit is below zero; zero is one.
func TestLimitsAreNotBelowZero(t *testing.T) {
	b := setup(t)
	below, zero := money.Must("0.01").Neg(), money.Must("0.00")
	for _, p := range []limit.Payouts{{MaxTransfer: &below}, {MaxAccountDay: &below}, {MaxTenantDay: &below}} {
		_, err := b.svc.SetPayouts(b.ctx, b.mine, time.Time{}, p, by)
		require.ErrorIs(t, err, limit.ErrNegative)
	}
	for _, x := range []limit.Tier{{Tier: 1, MaxDeposit: &below}, {Tier: 1, MaxDay: &below}, {Tier: 1, MaxBalance: &below}} {
		_, err := b.svc.SetTier(b.ctx, b.mine, time.Time{}, x, by)
		require.ErrorIs(t, err, limit.ErrNegative)
	}
	_, err := b.svc.SetPayouts(b.ctx, b.mine, time.Time{}, limit.Payouts{MaxTransfer: &zero, MaxAccountDay: &zero, MaxTenantDay: &zero}, by)
	require.NoError(t, err)
	_, err = b.svc.SetTier(b.ctx, b.mine, time.Time{}, limit.Tier{Tier: 2, MaxDeposit: &zero, MaxDay: &zero, MaxBalance: &zero}, by)
	require.NoError(t, err)
}

// Limits that are yet to start, in a month or by a slip in a year, keep no others from being set
// before them. They take over at their start.
func TestLimitsBeforeOthers(t *testing.T) {
	b := setup(t)
	later := b.Clock.Now().Add(365 * 24 * time.Hour)
	require.NoError(t, b.payouts(b.mine, later, "2.00"))
	require.NoError(t, b.tier(b.mine, later, 1, "11.00"))
	require.NoError(t, b.payouts(b.mine, time.Time{}, "1.00"))
	require.NoError(t, b.tier(b.mine, time.Time{}, 1, "10.00"))
	require.Equal(t, []string{"1.00", "1 10.00"}, b.shown(b.mine))
	b.Clock.Set(later)
	require.Equal(t, []string{"2.00", "1 11.00"}, b.shown(b.mine))
}

// Limits that are set for now stand at once, and until others are set, also where the clocks of who
// sets them and of who goes by them differ.
func TestLimitsForNowByClocksThatDiffer(t *testing.T) {
	b := setup(t)
	begin := b.Clock.Now()
	ahead := *b
	ahead.svc = &limit.Service{Pool: b.Pool, Clock: clock.NewFake(begin.Add(400 * time.Millisecond))}
	require.NoError(t, ahead.payouts(b.mine, time.Time{}, "1.00"))
	require.NoError(t, ahead.tier(b.mine, time.Time{}, 1, "10.00"))
	require.NoError(t, ahead.payouts(b.mine, begin.Add(time.Hour), "9.00"))
	require.Equal(t, []string{"1.00", "1 10.00"}, b.shown(b.mine))
	require.NoError(t, b.payouts(b.mine, time.Time{}, "2.00"))
	require.NoError(t, b.tier(b.mine, time.Time{}, 1, "11.00"))
	for _, after := range []time.Duration{0, time.Minute} {
		b.Clock.Set(begin.Add(after))
		require.Equal(t, []string{"2.00", "1 11.00"}, b.shown(b.mine))
	}
	sets, err := b.svc.Sets(b.ctx, b.mine)
	require.NoError(t, err)
	require.Len(t, sets, 5)
	for i, x := range sets {
		require.Equal(t, i > 0, x.Begun(begin), x)
	}
	require.True(t, sets[0].Begun(begin.Add(time.Hour)))
}

// Of two who set limits at once the second waits for the first: a start that is taken by then is
// refused.
func TestLimitsAtOnce(t *testing.T) {
	b := setup(t)
	later := b.Clock.Now().Add(time.Hour)
	require.ErrorIs(t, b.Meanwhile(func(tx pg.Tx) error {
		if _, err := tx.Exec(b.ctx, `SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE`, b.mine); err != nil {
			return err
		}
		_, err := tx.Exec(b.ctx, `INSERT INTO payout_limits (tenant_id, starts_at, created_at, actor, reason) VALUES ($1, $2, $2, 'x', 'x')`, b.mine, later)
		return err
	}, func() error { return b.payouts(b.mine, later, "1.00") }), limit.ErrStarts)
	require.NoError(t, b.payouts(b.other, later, "1.00"))
}

// A settlement counts for its own account and tenant, on its own day; limits of others and other
// days do not matter to it, and what is over a limit is refused to the kobo.
func TestSumsAreCountedByThemselves(t *testing.T) {
	b := setup(t)
	account, sibling, stranger := b.Account(b.mine, "a"), b.Account(b.mine, "b"), b.Account(b.other, "a")
	_, err := b.svc.SetPayouts(b.ctx, b.mine, time.Time{}, limit.Payouts{MaxTransfer: new(money.Must("60.00")), MaxAccountDay: new(money.Must("100.00")), MaxTenantDay: new(money.Must("150.00"))}, by)
	require.NoError(t, err)
	_, err = b.svc.SetPayouts(b.ctx, b.other, b.Clock.Now().Add(time.Hour), limit.Payouts{MaxTransfer: new(money.Must("1.00"))}, by)
	require.NoError(t, err)
	payers := []limit.Payer{{TenantID: b.mine, AccountID: account}, {TenantID: b.mine, AccountID: sibling}, {TenantID: b.other, AccountID: stranger}}
	take := func(which int, amount string) (err error) {
		require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			c, beginErr := limit.Begin(b.ctx, tx, b.Clock.Now(), payers)
			require.NoError(t, beginErr)
			require.True(t, c.Counts(payers[which]))
			uncounted := limit.Payer{TenantID: b.mine, AccountID: uuid.New()}
			require.False(t, c.Counts(uncounted))
			require.NoError(t, c.Take(uncounted, money.Must("1000.00")), "it is in no sum, so nothing refuses it")
			var nobody *limit.Count
			require.NoError(t, nobody.Take(payers[which], money.Must("1000.00")))
			err = c.Take(payers[which], money.Must(amount))
			return c.Save(b.ctx, tx)
		}))
		return err
	}
	sums := func() map[uuid.UUID]string {
		all := map[uuid.UUID]string{}
		for _, subject := range []uuid.UUID{b.mine, b.other, account, sibling, stranger} {
			all[subject] = testenv.Value[money.Amount](b.Env, `SELECT paid FROM payout_days WHERE subject = $1 AND day = $2::text::date`, subject, clock.Day(b.Clock.Now())).String()
		}
		return all
	}
	for _, step := range []struct {
		which   int
		amount  string
		refusal string
	}{
		{0, "60.01", "maxTransfer: NGN 60.00"},
		{0, "60.00", ""},
		{0, "40.01", "maxAccountDay: NGN 100.00 a day, NGN 40.00 left"},
		{0, "40.00", ""},
		{1, "50.01", "maxTenantDay: NGN 150.00 a day, NGN 50.00 left"},
		{1, "50.00", ""},
		{1, "0.01", "maxTenantDay: NGN 150.00 a day, NGN 0.00 left"},
		{2, "500.00", ""}, // its limits have not started
	} {
		if err := take(step.which, step.amount); step.refusal == "" {
			require.NoError(t, err, step)
		} else {
			require.EqualError(t, err, "amount is above the limit "+step.refusal)
		}
	}
	require.Equal(t, map[uuid.UUID]string{b.mine: "150.00", b.other: "500.00", account: "100.00", sibling: "50.00", stranger: "500.00"}, sums())
	s, err := b.svc.Standing(b.ctx, b.mine)
	require.NoError(t, err)
	require.Equal(t, "150.00 0.00", s.Payouts.Today.String()+" "+s.Payouts.Left.String())
	b.Clock.Advance(24 * time.Hour)
	require.ErrorContains(t, take(2, "1.01"), "maxTransfer: NGN 1.00")
	require.NoError(t, take(0, "10.00"))
	require.Equal(t, map[uuid.UUID]string{b.mine: "10.00", b.other: "0.00", account: "10.00", sibling: "0.00", stranger: "0.00"}, sums())
	s, err = b.svc.Standing(b.ctx, b.mine)
	require.NoError(t, err)
	require.Equal(t, "10.00 140.00", s.Payouts.Today.String()+" "+s.Payouts.Left.String())
	require.Equal(t, 5, testenv.Value[int](b.Env, `SELECT count(*) FROM payout_days WHERE paid >= 50`), "the day before is as it was")
}

// Of two settlements at once the second waits for the first's sums, and is refused by them.
func TestSumsAreLocked(t *testing.T) {
	b := setup(t)
	payer := limit.Payer{TenantID: b.mine, AccountID: b.Account(b.mine, "a")}
	_, err := b.svc.SetPayouts(b.ctx, b.mine, time.Time{}, limit.Payouts{MaxAccountDay: new(money.Must("100.00"))}, by)
	require.NoError(t, err)
	take := func(tx pg.Tx, amount string) error {
		c, err := limit.Begin(b.ctx, tx, b.Clock.Now(), []limit.Payer{payer})
		if err == nil {
			err = c.Take(payer, money.Must(amount))
		}
		if err == nil {
			err = c.Save(b.ctx, tx)
		}
		return err
	}
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error { return take(tx, "10.00") }), "so that the day has its rows")
	require.EqualError(t, b.Meanwhile(func(tx pg.Tx) error { return take(tx, "60.00") }, func() error {
		return pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error { return take(tx, "60.00") })
	}), "amount is above the limit maxAccountDay: NGN 100.00 a day, NGN 30.00 left")
}
