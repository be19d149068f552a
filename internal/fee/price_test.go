package fee

import (
	"math/big"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/audit"
	"ajo/internal/money"
	"ajo/internal/testenv"
)

func TestPriceOfASum(t *testing.T) {
	most := money.Must("2000.00")
	p := Price{Percent: money.MustRate("1.5"), Flat: money.Must("100.00"), Minimum: money.Must("120.00"), Cap: &most}
	for sum, want := range map[string]string{
		"1000.00": "120.00", "1333.33": "120.00", "1334.00": "120.01", "2500.33": "137.50", "2500.34": "137.51", "126666.66": "2000.00", "999999999999999.99": "2000.00",
	} {
		require.Equal(t, want, p.Of(money.Must(sum)).String(), sum)
	}
	half := Standing{Price: Price{Percent: money.MustRate("0.5")}, VAT: money.MustRate("7.5")}
	require.Equal(t, "0.01 0.00", half.Charge(money.Must("1.00")).Fee.String()+" "+half.Charge(money.Must("1.00")).VAT.String(), "half a kobo is one")
	require.Equal(t, "0.00", half.Charge(money.Must("0.99")).Fee.String())
	require.Equal(t, "5.00 0.38", half.Charge(money.Must("1000.00")).Fee.String()+" "+half.Charge(money.Must("1000.00")).VAT.String())
	flat := Standing{Price: Price{Flat: money.Must("50.00")}, VAT: money.MustRate("7.5")}
	require.NoError(t, Price{On: OnPayout, Minimum: most, Cap: &most}.Check(), "one sum for all")
	c := flat.ChargeWithin(money.Must("30.00"), money.Must("20.00"))
	require.Equal(t, "18.60 1.40", c.Fee.String()+" "+c.VAT.String(), "no more than arrives")
}

func drawPrice(rt *rapid.T) Standing {
	kobo := func(name string, most int64) money.Amount {
		return money.FromKobo(rapid.Int64Range(0, most).Draw(rt, name))
	}
	rate := func(name string) money.Rate {
		n := rapid.OneOf(rapid.Int64Range(0, 30_000), rapid.Int64Range(0, 1_000_000)).Draw(rt, name)
		return money.MustRate(big.NewRat(n, 10_000).FloatString(4))
	}
	s := Standing{Price: Price{Percent: rate("percent"), Flat: kobo("flat", 100_00), Minimum: kobo("minimum", 100_00)}, VAT: rate("vat")}
	if rapid.Bool().Draw(rt, "capped") {
		most := s.Minimum.Add(kobo("cap", 1000_00))
		s.Cap = &most
	}
	return s
}

// A fee is exact to the kobo by big integers, within its bounds, never falls as the sum grows, and
// never takes more than arrives.
func TestPriceProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawPrice(rt)
		sum := money.FromKobo(rapid.OneOf(rapid.Int64Range(1, 100_000_00), rapid.Int64Range(1, 1e15)).Draw(rt, "sum"))
		c := s.Charge(sum)
		if s.Cap != nil && c.Fee.Cmp(*s.Cap) > 0 || c.Fee.Cmp(s.Minimum) < 0 {
			rt.Fatalf("%s is out of bounds", c.Fee)
		}
		if next := s.Charge(sum.Add(money.Must("0.01"))); next.Fee.Cmp(c.Fee) < 0 {
			rt.Fatalf("a larger sum has a smaller fee: %s, %s", c.Fee, next.Fee)
		}
		for _, x := range []struct{ of, got money.Amount }{{sum, s.Percent.Of(sum)}, {c.Fee, c.VAT}} {
			rate := s.Percent
			if x.got.Equal(c.VAT) && x.of.Equal(c.Fee) {
				rate = s.VAT
			}
			r, _ := new(big.Rat).SetString(rate.String())
			exact := new(big.Rat).Mul(r, new(big.Rat).SetFrac(x.of.Kobo(), big.NewInt(100)))
			off := new(big.Rat).Sub(new(big.Rat).SetInt(x.got.Kobo()), exact)
			if off.Cmp(big.NewRat(1, 2)) > 0 || off.Cmp(big.NewRat(-1, 2)) <= 0 {
				rt.Fatalf("%s percent of %s is not %s", rate, x.of, x.got)
			}
		}
		most := money.FromKobo(rapid.Int64Range(1, 1000_00).Draw(rt, "most"))
		within := s.ChargeWithin(sum, most)
		if within.Whole().Cmp(most) > 0 || within.Fee.Sign() < 0 || within.VAT.Sign() < 0 || within.Whole().Cmp(c.Whole()) > 0 {
			rt.Fatalf("%s and %s of %s, by %s and %s", within.Fee, within.VAT, most, c.Fee, c.VAT)
		}
	})
}

// The time alone says which price holds: a tenant's own before the list's, each from its start on.
func TestWhichPriceHolds(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	ctx := t.Context()
	s := &Prices{Pool: e.Pool, Clock: e.Clock}
	by := audit.By{Actor: "cli:ada", Reason: "price list 7"}
	tenant, other := uuid.New(), uuid.New()
	now := e.Clock.Now()
	set := func(p Price) Price {
		t.Helper()
		p, err := s.Set(ctx, p, by)
		require.NoError(t, err)
		return p
	}
	flat := func(sum string) Price { return Price{On: OnPayment, Flat: money.Must(sum)} }
	list := set(flat("10.00"))
	require.Equal(t, now.Add(Lead), list.ValidFrom)
	own := flat("3.00")
	own.TenantID, own.ValidFrom = tenant, now.Add(time.Hour)
	own = set(own)
	later := flat("20.00")
	later.ValidFrom = now.Add(2 * time.Hour)
	later = set(later)
	set(Price{On: OnVAT, Percent: money.MustRate("7.5"), ValidFrom: now.Add(90 * time.Minute)})
	set(Price{On: OnPayment, TenantID: tenant, AsListed: true, ValidFrom: now.Add(3 * time.Hour)})
	again := flat("2.00")
	again.TenantID, again.ValidFrom = tenant, now.Add(4*time.Hour)
	again = set(again)
	for _, c := range []struct {
		after       time.Duration
		own, others uuid.UUID
		vat         string
	}{
		{0, uuid.Nil, uuid.Nil, ""},
		{Lead - time.Microsecond, uuid.Nil, uuid.Nil, ""},
		{Lead, list.ID, list.ID, "0"},
		{time.Hour - time.Microsecond, list.ID, list.ID, "0"},
		{time.Hour, own.ID, list.ID, "0"},
		{90 * time.Minute, own.ID, list.ID, "7.5"},
		{2 * time.Hour, own.ID, later.ID, "7.5"},
		{3*time.Hour - time.Microsecond, own.ID, later.ID, "7.5"},
		{3 * time.Hour, later.ID, later.ID, "7.5"}, // as listed
		{4 * time.Hour, again.ID, later.ID, "7.5"},
	} {
		got, err := Read(ctx, e.Pool, now.Add(c.after), OnPayment, []uuid.UUID{tenant, other})
		require.NoError(t, err)
		require.Equal(t, []uuid.UUID{c.own, c.others}, []uuid.UUID{got[tenant].ID, got[other].ID}, c.after)
		if c.own != uuid.Nil {
			require.Equal(t, c.vat, got[tenant].VAT.String(), c.after)
		}
	}
	got, err := Read(ctx, e.Pool, now.Add(3*time.Hour), OnPayout, []uuid.UUID{tenant})
	require.NoError(t, err)
	require.Empty(t, got, "of another kind")
	for p, want := range map[*Price]error{
		{On: "refund"}: ErrOn,
		{On: OnPayment, ValidFrom: now.Add(Lead - time.Second)}:                        ErrFrom,
		{On: OnPayment, ValidFrom: list.ValidFrom}:                                     ErrFrom,
		{On: OnPayout, Flat: money.Must("-1.00")}:                                      errPrice,
		{On: OnPayout, Minimum: money.Must("2.00"), Cap: new(money.Must("1.00"))}:      ErrCap,
		{On: OnVAT, TenantID: tenant}:                                                  ErrOnlyOf,
		{On: OnVAT, Flat: money.Must("1.00")}:                                          ErrOnlyOf,
		{On: OnVAT, Minimum: money.Must("1.00")}:                                       ErrOnlyOf,
		{On: OnVAT, Cap: new(money.Must("1.00"))}:                                      ErrOnlyOf,
		{On: OnPayout, AsListed: true}:                                                 ErrListed,
		{On: OnPayout, AsListed: true, TenantID: tenant, Flat: money.Must("1.00")}:     ErrListed,
		{On: OnPayout, AsListed: true, TenantID: tenant, Percent: money.MustRate("1")}: ErrListed,
		{On: OnPayout, AsListed: true, TenantID: tenant, Minimum: money.Must("1.00")}:  ErrListed,
		{On: OnPayout, AsListed: true, TenantID: tenant, Cap: new(money.Must("1.00"))}: ErrListed,
	} {
		_, err := s.Set(ctx, *p, by)
		require.ErrorIs(t, err, want)
	}
	all, err := s.List(ctx, uuid.Nil)
	require.NoError(t, err)
	require.Len(t, all, 6)
	all, err = s.List(ctx, other)
	require.NoError(t, err)
	require.Len(t, all, 3)
	_, err = e.Pool.Exec(ctx, `UPDATE prices SET flat = 0`)
	require.Error(t, err, "append-only")
}
