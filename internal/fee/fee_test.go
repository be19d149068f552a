package fee

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/config"
	"ajo/internal/money"
	"ajo/internal/spec"
)

func tiers(t require.TestingT, s string) Tiers {
	var ts Tiers
	require.NoError(t, ts.UnmarshalText([]byte(s)))
	return ts
}

func TestBoundaries(t *testing.T) {
	spec.Shows(t, "limit.fee.low", "limit.fee.middle", "limit.fee.high", "limit.fee.receiver", "endpoint.fees.amount.sum")
	ts := tiers(t, config.Defaults().FeeTiers)
	for sum, want := range map[string]string{"0.01": "10.00", "4999.99": "10.00", "5000.00": "25.00", "50000.00": "25.00", "50000.01": "50.00", "999999999999999.99": "50.00"} {
		require.Equal(t, want, ts.Of(money.Must(sum)).String(), sum)
	}
	for amount, want := range map[string]string{
		"0.01": "10.01", "1": "11.00", "4989.99": "4999.99", "4990.00": "5015.00", "4975.00": "4985.00", "4999.99": "5024.99",
		"49975.00": "50000.00", "49975.01": "50025.01", "50000": "50050.00", "100000.5": "100050.50",
	} {
		q, err := ts.For(amount)
		require.NoError(t, err, amount)
		require.Equal(t, want, q.Send.String(), amount)
		require.Equal(t, q.Send.String(), q.Receive.Add(q.Fee).String())
	}
	for _, bad := range []string{"", "0", "0.00", "-1", "1.005", "1e3", "abc", "+5", ".5", "1,000", " 1"} {
		_, err := ts.For(bad)
		require.ErrorIs(t, err, ErrAmount, bad)
	}
}

// The answer leaves the amount, and no smaller sum does.
func TestSmallestSum(t *testing.T) {
	ts := tiers(t, config.Defaults().FeeTiers)
	rapid.Check(t, func(rt *rapid.T) {
		a := money.FromKobo(rapid.OneOf(rapid.Int64Range(1, 6_000_000), rapid.Int64Range(1, 1e15)).Draw(rt, "kobo"))
		q, err := ts.For(a.String())
		if err != nil {
			rt.Fatal(err)
		}
		if !q.Send.Sub(ts.Of(q.Send)).Equal(a) {
			rt.Fatalf("%s leaves %s", q.Send, q.Send.Sub(ts.Of(q.Send)))
		}
		for _, tier := range ts {
			if s := a.Add(tier.Fee); s.Cmp(q.Send) < 0 && s.Sub(ts.Of(s)).Equal(a) {
				rt.Fatalf("%s is smaller than %s", s, q.Send)
			}
		}
	})
}

// A schedule whose fee falls leaves some amounts out of reach: that is said, not guessed.
func TestAmountOutOfReach(t *testing.T) {
	_, err := tiers(t, "100.00=10.00,*=50.00").For("90.01")
	require.NoError(t, err)
	_, err = tiers(t, "100.00=50.00,*=10.00").For("70.00")
	require.ErrorIs(t, err, errNone)
}

func TestTiersAreChecked(t *testing.T) {
	for _, bad := range []string{"", "*", "5=1", "*=1,5=2", "5=1,4=2,*=3", "5=1,5=2,*=3", "5=x,*=1", "x=1,*=1", "*=1,*=2"} {
		var ts Tiers
		require.Error(t, ts.UnmarshalText([]byte(bad)), bad)
	}
}
