package ledger_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/money"
	"ajo/ledger"
)

// The parts of any sum by any percentages and amounts sum to it, and none is below zero; a
// remainder leaves nothing.
func TestPartsSumToTheWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		whole := money.FromKobo(rapid.Int64Range(1, 1_000_000_000_000).Draw(t, "whole"))
		var s ledger.Split
		remainder := rapid.IntRange(-1, 20).Draw(t, "remainder")
		left := 1_000_000
		for i := range rapid.IntRange(1, 20).Draw(t, "shares") {
			share := ledger.Share{AccountID: uuid.New()}
			switch {
			case i == remainder:
				share.Remainder = true
			case rapid.Bool().Draw(t, "percent"):
				n := rapid.IntRange(0, left).Draw(t, "of a million")
				left -= n
				r, err := money.ParseRate(money.FromKobo(int64(n) / 100).String())
				if err != nil {
					t.Fatal(err)
				}
				share.Percent = &r
			default:
				share.Amount = new(money.FromKobo(rapid.Int64Range(1, 1_000_000_000_000).Draw(t, "amount")))
			}
			s.Shares = append(s.Shares, share)
		}
		parts, own := s.Parts(whole)
		sum := own
		for _, p := range parts {
			if p.Sign() < 0 {
				t.Fatalf("a part of %s", p)
			}
			sum = sum.Add(p)
		}
		if own.Sign() < 0 || !sum.Equal(whole) {
			t.Fatalf("%s of %s, %s is the account's own", sum, whole, own)
		}
		if remainder >= 0 && remainder < len(s.Shares) && own.Sign() != 0 {
			t.Fatalf("%s is left", own)
		}
	})
}

func TestParts(t *testing.T) {
	t.Parallel()
	percent := func(s string) ledger.Share { return ledger.Share{Percent: new(money.MustRate(s))} }
	amount := func(s string) ledger.Share { return ledger.Share{Amount: new(money.Must(s))} }
	for _, c := range []struct {
		whole  string
		shares []ledger.Share
		parts  []string
		own    string
	}{
		{"100.00", []ledger.Share{percent("10"), amount("5.00")}, []string{"10.00", "5.00"}, "85.00"},
		{"100.00", []ledger.Share{percent("100"), amount("5.00")}, []string{"95.00", "5.00"}, "0.00"},
		{"3.00", []ledger.Share{amount("2.00"), amount("2.00"), percent("50")}, []string{"2.00", "1.00", "0.00"}, "0.00"},
		{"0.01", []ledger.Share{percent("50"), percent("50")}, []string{"0.01", "0.00"}, "0.00"},
		{"100.00", []ledger.Share{{Remainder: true}, percent("33.3333")}, []string{"66.67", "33.33"}, "0.00"},
	} {
		parts, own := (&ledger.Split{Shares: c.shares}).Parts(money.Must(c.whole))
		got := make([]string, len(parts))
		for i, p := range parts {
			got[i] = p.String()
		}
		require.Equal(t, c.parts, got)
		require.Equal(t, c.own, own.String())
	}
}
