// Package money is the one representation of naira: an exact decimal with two places.
//
// An [Amount] never passes through a float, is never rounded, and always prints two decimals
// ("5000.00"). The two parsers here are the only ways in: [Parse] for client text and
// [ParseNumber] for the text of a JSON number (specification, "Conventions"; decisions, "Money").
package money

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/shopspring/decimal"
)

// Currency is the only currency that Ajo keeps.
const Currency = "NGN"

// maxText is the longest text a parser looks at: fifteen digits, a point, and room for trailing
// zeros.
const maxText = 32

// errInvalid says that a text is not an amount in naira with at most two decimals.
var errInvalid = errors.New("invalid amount")

var (
	textForm   = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})(\.[0-9]{1,2})?$`)
	numberForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})(\.[0-9]{1,2}0*)?$`)
)

// Amount is a sum of naira with two decimals. The zero value is 0.00. A balance may be negative;
// parsed text never is. Compare with Equal or Cmp, never with ==.
type Amount struct{ d decimal.Decimal }

// Zero is 0.00.
var Zero Amount

// Parse reads client text: an unsigned decimal of at most 15 whole digits and two decimals, without
// exponent or sign. Anything else is [errInvalid].
func Parse(s string) (Amount, error) { return parseForm(s, textForm) }

// ParseNumber reads the text of a JSON number by the same rules, but allows zeros after the second
// decimal.
func ParseNumber(n json.Number) (Amount, error) { return parseForm(n.String(), numberForm) }

func parseForm(s string, form *regexp.Regexp) (Amount, error) {
	if len(s) > maxText || !form.MatchString(s) {
		return Zero, errInvalid
	}
	d, err := decimal.NewFromString(s)
	if err != nil {
		return Zero, errInvalid
	}
	return Amount{d}, nil
}

// Must is Parse for constants in code and tests; it panics on a bad text.
func Must(s string) Amount {
	neg := strings.HasPrefix(s, "-")
	a, err := Parse(strings.TrimPrefix(s, "-"))
	if err != nil {
		panic(fmt.Sprintf("money.Must(%q): %v", s, err))
	}
	if neg {
		return a.Neg()
	}
	return a
}

// FromKobo returns n hundredths of a naira.
func FromKobo(n int64) Amount { return Amount{decimal.New(n, -2)} }

// Add returns a + b.
func (a Amount) Add(b Amount) Amount { return Amount{a.d.Add(b.d)} }

// Sub returns a − b.
func (a Amount) Sub(b Amount) Amount { return Amount{a.d.Sub(b.d)} }

// Left is a − used, or zero where more was used.
func (a Amount) Left(used Amount) Amount {
	if a.Cmp(used) < 0 {
		return Zero
	}
	return a.Sub(used)
}

// Neg returns −a.
func (a Amount) Neg() Amount { return Amount{a.d.Neg()} }

// Sum adds up the amounts that there are; nil is none.
func Sum(amounts ...*Amount) Amount {
	sum := Zero
	for _, a := range amounts {
		if a != nil {
			sum = sum.Add(*a)
		}
	}
	return sum
}

// Cmp returns −1, 0 or 1 as a is below, equal to or above b.
func (a Amount) Cmp(b Amount) int { return a.d.Cmp(b.d) }

// Equal reports whether a and b are the same sum.
func (a Amount) Equal(b Amount) bool { return a.d.Equal(b.d) }

// Sign returns −1, 0 or 1.
func (a Amount) Sign() int { return a.d.Sign() }

// IsPositive reports whether a is above zero.
func (a Amount) IsPositive() bool { return a.d.Sign() > 0 }

// String prints the sum with exactly two decimals: "5000.00".
func (a Amount) String() string { return a.d.StringFixed(2) }

// Grouped prints the sum for people: "1,234,567.00", and with a minus sign "−5.00".
func (a Amount) Grouped() string {
	s, sign := a.String(), ""
	if a.Sign() < 0 {
		s, sign = s[1:], "−"
	}
	for i := len(s) - len(".00") - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// MarshalJSON writes the sum as the specification has it: a decimal string.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(`"` + a.String() + `"`), nil }

// UnmarshalJSON reads a decimal string. A JSON number, null or anything else is [errInvalid].
func (a *Amount) UnmarshalJSON(b []byte) error {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return errInvalid
	}
	v, err := Parse(string(b[1 : len(b)-1]))
	if err != nil {
		return err
	}
	*a = v
	return nil
}

// Number returns the sum as a JSON number with two decimals, for the fields that the specification
// keeps numeric.
func (a Amount) Number() json.Number { return json.Number(a.String()) }

// Value stores the sum in a numeric column.
func (a Amount) Value() (driver.Value, error) { return a.String(), nil }

// ScanNumeric reads a numeric column as the driver has it, without the detour over a text. NULL,
// NaN and more than two decimals are errors.
func (a *Amount) ScanNumeric(n pgtype.Numeric) error {
	if !n.Valid || n.NaN || n.InfinityModifier != pgtype.Finite {
		return errors.New("money: cannot read NULL, NaN or infinity")
	}
	return a.set(decimal.NewFromBigInt(n.Int, n.Exp))
}

// Scan reads a numeric column. NULL, NaN and more than two decimals are errors.
func (a *Amount) Scan(src any) error {
	var s string
	switch v := src.(type) {
	case string:
		s = v
	case []byte:
		s = string(v)
	default:
		return fmt.Errorf("money: cannot read %T", src)
	}
	d, err := decimal.NewFromString(s)
	if err != nil {
		return fmt.Errorf("money: cannot read %q", s)
	}
	return a.set(d)
}

func (a *Amount) set(d decimal.Decimal) error {
	if !d.Equal(d.Truncate(2)) {
		return fmt.Errorf("money: %s has more than two decimals", d)
	}
	a.d = d
	return nil
}

// Kobo returns the sum in hundredths of a naira, for exact arithmetic outside this package.
func (a Amount) Kobo() *big.Int { return a.d.Shift(2).BigInt() }
