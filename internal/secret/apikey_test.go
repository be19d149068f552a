package secret

import (
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPIKey(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^ajo_[0-9A-Za-z]{49}$`)
	seen := map[string]bool{}
	for range 200 {
		k := LiveKey.New()
		require.Regexp(t, form, k.Reveal())
		require.True(t, LiveKey.Check(k.Reveal()))
		require.False(t, seen[k.Reveal()])
		seen[k.Reveal()] = true
		require.Equal(t, "…"+k.Reveal()[49:], k.Suffix())
	}
	require.Equal(t, "…", APIKey{}.Suffix())
}

// A key has the form of one kind, so neither the live service nor the sandbox takes the other's.
func TestKindsOfKeys(t *testing.T) {
	t.Parallel()
	live, test := LiveKey.New().Reveal(), TestKey.New().Reveal()
	require.Regexp(t, `^ajo_test_[0-9A-Za-z]{49}$`, test)
	require.True(t, TestKey.Check(test))
	require.False(t, LiveKey.Check(test))
	require.False(t, TestKey.Check(live))
	require.False(t, TestKey.Check("ajo_test_"+live[4:]), "the checksum covers the kind")
}

func TestCheckAPIKeyRefuses(t *testing.T) {
	t.Parallel()
	good := LiveKey.New().Reveal()
	for i := range good { // each single wrong character
		for _, c := range []byte("0aZ_-\x00") {
			if good[i] != c {
				require.False(t, LiveKey.Check(good[:i]+string(c)+good[i+1:]), "byte %d is %q", i, c)
			}
		}
	}
	for _, s := range []string{
		"", "ajo_", good[:len(good)-1], good + "0", " " + good, good + "\n",
		strings.ToUpper(good), strings.Replace(good, "ajo_", "aja_", 1), strings.Repeat("x", 1<<16),
		"ajo_" + strings.Repeat("é", 24) + "0",
	} {
		require.False(t, LiveKey.Check(s), "%.60q", s)
	}
}

func TestBase62(t *testing.T) {
	t.Parallel()
	all := new(big.Int).SetBytes([]byte(strings.Repeat("\xff", 32)))
	require.Len(t, base62(all, keyDigits), keyDigits)
	back := new(big.Int)
	for _, c := range base62(all, keyDigits) {
		back.Add(back.Mul(back, big.NewInt(62)), big.NewInt(int64(strings.IndexRune(alphabet, c))))
	}
	require.Zero(t, back.Cmp(all), "43 digits hold 32 bytes")
	require.Equal(t, "000000", base62(big.NewInt(0), 6))
	require.Equal(t, "4gfFC3", base62(big.NewInt(1<<32-1), 6))
}

func TestTokensAndCodes(t *testing.T) {
	t.Parallel()
	first := map[byte]int{}
	for range 3000 {
		code := NewCode().Reveal()
		require.Regexp(t, `^[0-9]{6}$`, code)
		first[code[0]]++
	}
	for d := byte('0'); d <= '9'; d++ { // 300 expected; 10 standard deviations are about 165
		require.InDelta(t, 300, first[d], 165, "digit %c", d)
	}
	a, b := NewToken().Reveal(), NewToken().Reveal()
	require.Regexp(t, `^[A-Za-z0-9_-]{43}$`, a)
	require.NotEqual(t, a, b)
	require.Regexp(t, `^[0-9a-f]{64}$`, NewSigningSecret().Reveal())
	require.NotEqual(t, Hash(a), Hash(b))
	require.Equal(t, Hash(a), Hash(a))
}

func FuzzCheckAPIKey(f *testing.F) {
	f.Add(LiveKey.New().Reveal())
	f.Add("ajo_")
	f.Fuzz(func(t *testing.T, s string) {
		if LiveKey.Check(s) && (len(s) != 53 || s[:4] != "ajo_" || checksum(s[:47]) != s[47:]) {
			t.Fatalf("%q passed", s)
		}
	})
}
