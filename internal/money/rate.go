package money

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/shopspring/decimal"
)

// errRate says that a text is not a percentage from 0 to 100 with at most four decimals.
var errRate = errors.New("invalid percentage")

var rateForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,2})(\.[0-9]{1,4})?$`)

// Rate is a percentage from 0 to 100 with at most four decimals. The zero value is 0.
type Rate struct{ d decimal.Decimal }

var hundred = decimal.New(100, 0)

// ParseRate reads a percentage, as in 1.5. Anything else is [errRate].
func ParseRate(s string) (Rate, error) {
	if !rateForm.MatchString(s) {
		return Rate{}, errRate
	}
	d, err := decimal.NewFromString(s)
	if err != nil || d.GreaterThan(hundred) {
		return Rate{}, errRate
	}
	return Rate{d}, nil
}

// MustRate is ParseRate for constants in code and tests; it panics on a bad text.
func MustRate(s string) Rate {
	r, err := ParseRate(s)
	if err != nil {
		panic(fmt.Sprintf("money.MustRate(%q): %v", s, err))
	}
	return r
}

// Of is r percent of a sum, rounded half up to the kobo. The sum is not below zero.
func (r Rate) Of(a Amount) Amount { return Amount{a.d.Mul(r.d).Shift(-2).Round(2)} }

// Within is the sum that together with r percent of it makes a, rounded half up to the kobo.
func (r Rate) Within(a Amount) Amount {
	return Amount{a.d.Mul(hundred).DivRound(hundred.Add(r.d), 2)}
}

// String prints the percentage without needless zeros: "1.5".
func (r Rate) String() string { return r.d.String() }

// MarshalJSON writes the percentage as a decimal string.
func (r Rate) MarshalJSON() ([]byte, error) { return []byte(`"` + r.String() + `"`), nil }

// UnmarshalJSON reads what MarshalJSON writes; anything else is [errRate].
func (r *Rate) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errRate
	}
	v, err := ParseRate(s)
	if err == nil {
		*r = v
	}
	return err
}

// Value stores the percentage in a numeric column.
func (r Rate) Value() (driver.Value, error) { return r.String(), nil }

// Scan reads a numeric column.
func (r *Rate) Scan(src any) error {
	s, ok := src.(string)
	if !ok {
		return fmt.Errorf("money: cannot read %T", src)
	}
	d, err := decimal.NewFromString(s)
	if err != nil {
		return fmt.Errorf("money: cannot read %q", s)
	}
	r.d = d
	return nil
}
