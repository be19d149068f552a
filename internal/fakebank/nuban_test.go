package fakebank_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/fakebank"
)

func TestNUBANVectors(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0000014579", fakebank.NUBAN("011", 1457))
	require.Equal(t, "0000000220", fakebank.NUBAN("011", 22))
	require.Equal(t, "0010246780", fakebank.NUBAN("044", 1024678))
	require.True(t, fakebank.ValidNUBAN("011", "0000014579"))
	for _, bad := range []string{"0000014578", "000001457", "00000145790", "00000l4579", ""} {
		require.False(t, fakebank.ValidNUBAN("011", bad), bad)
	}
	require.False(t, fakebank.ValidNUBAN("0111", "0000014579"))
	require.Panics(t, func() { fakebank.NUBAN("1", 1) })
	require.Panics(t, func() { fakebank.NUBAN("011", 1_000_000_000) })
}

// Any one digit mistyped is found: what a check digit is for. (Weights 3 and 7 have inverses modulo
// ten.)
func TestNUBANFindsAMistypedDigit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		code := rapid.StringMatching(`[0-9]{3}|[0-9]{5}|[0-9]{6}`).Draw(t, "code")
		number := fakebank.NUBAN(code, rapid.IntRange(0, 999_999_999).Draw(t, "serial"))
		require.True(t, fakebank.ValidNUBAN(code, number))
		wrong := []byte(number)
		at := rapid.IntRange(0, 9).Draw(t, "at")
		wrong[at] = '0' + (wrong[at]-'0'+byte(rapid.IntRange(1, 9).Draw(t, "by")))%10
		require.False(t, fakebank.ValidNUBAN(code, string(wrong)))
	})
}
