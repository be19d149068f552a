package money

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// accepted and refused are client texts, with what they print (decisions, "Money").
var (
	accepted = map[string]string{
		"0": "0.00", "0.0": "0.00", "0.00": "0.00", "0.01": "0.01", "0.1": "0.10", "1": "1.00", "5000": "5000.00", "5000.5": "5000.50", "5000.00": "5000.00",
		"999999999999999": "999999999999999.00", "999999999999999.99": "999999999999999.99",
	}
	refused = []string{
		"", " ", "1 ", " 1", "1\n", "\t1", "1\x00", "+1", "-1", "-0", "−1", "--1", "1-", ".5", "1.", ".", "1.005", "1.000", "0.001", "00", "01", "00.1", "1e2", "1E2", "1e-2", "0x10", "0b1", "1_000",
		"1,000", "1,5", "1.0.0", "1/2", "NaN", "nan", "Inf", "Infinity", "-Infinity", "null", "true", "١", "１", "Ⅷ", "½", "1000000000000000", "1000000000000000.00", strings.Repeat("9", 33), strings.Repeat("1", 1<<16),
		"NGN 5", "₦5", "5 NGN", "\"5\"", "\xff", "1\u200b",
	}
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range accepted {
		a, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, a.String())
	}
	for _, text := range refused {
		a, err := Parse(text)
		require.ErrorIs(t, err, errInvalid, "%.40q", text)
		require.True(t, a.Equal(Zero))
	}
}

func TestParseNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0": "0.00", "5000": "5000.00", "5000.5": "5000.50", "5000.50": "5000.50", "5000.500": "5000.50", "5000.5000000000": "5000.50", "0.010": "0.01",
		"9007199254740.99": "9007199254740.99", "999999999999999.990000": "999999999999999.99",
	} {
		a, err := ParseNumber(json.Number(text))
		require.NoError(t, err, text)
		require.Equal(t, want, a.String())
	}
	for _, text := range append([]string{"5000.001", "5000.0001", "0.001", "5e3", "5E3", "5e+3", "1e400", "-5", "-0", "-0.0", "9007199254740993.01", "1." + strings.Repeat("0", 40)}, refused...) {
		if text == "1.000" {
			continue // zeros after the second decimal change nothing
		}
		_, err := ParseNumber(json.Number(text))
		require.ErrorIs(t, err, errInvalid, "%.40q", text)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(struct {
		A Amount
		B *Amount
		N json.Number
	}{A: Must("-5000.5"), N: Must("12.3").Number()})
	require.NoError(t, err)
	require.Equal(t, `{"A":"-5000.50","B":null,"N":12.30}`, string(b))
	var a Amount
	require.NoError(t, json.Unmarshal([]byte(`"12.3"`), &a))
	require.Equal(t, "12.30", a.String())
	for _, bad := range []string{`5`, `5.00`, `"5.001"`, `""`, `"`, `{}`, `[]`, `true`, `"-1"`, `"\u0035"`} {
		require.Error(t, json.Unmarshal([]byte(bad), &a), bad)
		require.Equal(t, "12.30", a.String(), "a refused value leaves the old one")
	}
	// as a caller other than encoding/json may have it
	for _, bare := range []string{"null", "", `"`} {
		require.ErrorIs(t, a.UnmarshalJSON([]byte(bare)), errInvalid, bare)
	}
}

func TestScan(t *testing.T) {
	t.Parallel()
	for in, want := range map[any]string{"0": "0.00", "12.3": "12.30", "-12.30": "-12.30", "12.3000": "12.30", "1e3": "1000.00", "123456789012345678.99": "123456789012345678.99"} {
		var a Amount
		require.NoError(t, a.Scan(in))
		require.Equal(t, want, a.String())
	}
	var a Amount
	require.NoError(t, a.Scan([]byte("7.5")))
	require.Equal(t, "7.50", a.String())
	for _, bad := range []any{nil, 5, 5.5, int64(5), true, "NaN", "Infinity", "", "x", "1.005", []byte("0.001")} {
		require.Error(t, a.Scan(bad), bad)
		require.Equal(t, "7.50", a.String(), "a refused value leaves the old one")
	}
	v, err := Must("1.5").Value()
	require.NoError(t, err)
	require.Equal(t, "1.50", v)
}

func TestScanNumeric(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]pgtype.Numeric{
		"0.00": {Int: big.NewInt(0), Valid: true}, "12.30": {Int: big.NewInt(123), Exp: -1, Valid: true}, "-12.30": {Int: big.NewInt(-123000), Exp: -4, Valid: true},
		"500.00": {Int: big.NewInt(5), Exp: 2, Valid: true},
	} {
		var a Amount
		require.NoError(t, a.ScanNumeric(n))
		require.Equal(t, want, a.String())
	}
	a := Must("7.50")
	for _, bad := range []pgtype.Numeric{
		{}, {NaN: true, Valid: true}, {InfinityModifier: pgtype.Infinity, Valid: true}, {Int: big.NewInt(1005), Exp: -3, Valid: true},
	} {
		require.Error(t, a.ScanNumeric(bad), bad)
		require.Equal(t, "7.50", a.String(), "a refused value leaves the old one")
	}
}

// Arithmetic is exact: it agrees with whole numbers of kobo.
func TestArithmetic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x, y := rapid.Int64Range(-1e15, 1e15).Draw(t, "x"), rapid.Int64Range(-1e15, 1e15).Draw(t, "y")
		a, b := FromKobo(x), FromKobo(y)
		require.Equal(t, big.NewInt(x+y), a.Add(b).Kobo())
		require.Equal(t, big.NewInt(x-y), a.Sub(b).Kobo())
		require.Equal(t, big.NewInt(-x), a.Neg().Kobo())
		require.Equal(t, big.NewInt(x).Cmp(big.NewInt(y)), a.Cmp(b))
		require.Equal(t, x == y, a.Equal(b))
		require.Equal(t, big.NewInt(x).Sign(), a.Sign())
		require.Equal(t, x > 0, a.IsPositive())
		require.True(t, Must(a.String()).Equal(a))
	})
}

// Zero is neither above zero nor below it, and nothing is left where more was used than there is.
func TestAroundZero(t *testing.T) {
	t.Parallel()
	for _, kobo := range []int64{-1, 0, 1} {
		a := FromKobo(kobo)
		require.Equal(t, int(kobo), a.Sign())
		require.Equal(t, kobo > 0, a.IsPositive())
		require.Equal(t, max(kobo, 0), Must("5.00").Add(a).Left(Must("5.00")).Kobo().Int64())
	}
}

func TestMustPanics(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { Must("1.005") })
	require.Equal(t, "-1.00", Must("-1").String())
}

var printed = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})\.[0-9]{2}$`)

// What is parsed prints as money, and parses again to the same sum; the number form takes all that
// the text form takes.
func FuzzParse(f *testing.F) {
	for text := range accepted {
		f.Add(text)
	}
	for _, text := range refused {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		n, numberErr := ParseNumber(json.Number(text))
		if err != nil {
			require.ErrorIs(t, err, errInvalid)
		} else {
			require.NoError(t, numberErr)
			require.True(t, a.Equal(n))
		}
		if numberErr != nil {
			require.ErrorIs(t, numberErr, errInvalid)
			return
		}
		require.Regexp(t, printed, n.String())
		again, err := Parse(n.String())
		require.NoError(t, err)
		require.True(t, again.Equal(n))
		exact, ok := new(big.Rat).SetString(text)
		require.True(t, ok)
		require.Zero(t, exact.Cmp(new(big.Rat).SetFrac(n.Kobo(), big.NewInt(100))), "the sum is the text's, to the last digit")
	})
}

func TestGrouped(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0.00", "-0.5": "−0.50", "999.99": "999.99", "1000": "1,000.00", "-1234567.8": "−1,234,567.80", "999999999999999.99": "999,999,999,999,999.99",
	} {
		require.Equal(t, want, Must(in).Grouped())
	}
}
