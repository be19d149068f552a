package secret

import (
	"crypto/subtle"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// hidden is what a secret prints as.
const hidden = "[redacted]"

// errReveal stops a secret on its way into a column: it would be stored as "[redacted]".
var errReveal = errors.New("secret: a Redacted value is not stored as it is; call Reveal, and hash or seal the text")

// Redacted is a text that prints as "[redacted]" through fmt (every verb), slog, encoding/json,
// encoding.TextMarshaler and database/sql. The zero value is the empty text.
//
// It holds a pointer, and is no string type, on purpose: fmt cannot call the methods of a value in
// an unexported field, and would print a string type's text there; of this one it can at most print
// an address. Compare with Equal: == compares addresses.
type Redacted struct{ text *string }

// Redact hides s.
func Redact(s string) Redacted {
	if s == "" {
		return Redacted{}
	}
	return Redacted{&s}
}

// Reveal returns the text. Every place where a secret comes out into the open is a call of it.
func (r Redacted) Reveal() string {
	if r.text == nil {
		return ""
	}
	return *r.text
}

// IsZero reports whether the text is empty.
func (r Redacted) IsZero() bool { return r.text == nil || *r.text == "" }

// Equal reports whether both hold the same text, in a time that depends on the lengths only.
func (r Redacted) Equal(o Redacted) bool {
	return subtle.ConstantTimeCompare([]byte(r.Reveal()), []byte(o.Reveal())) == 1
}

// String returns "[redacted]".
func (r Redacted) String() string { return hidden }

// GoString returns "[redacted]".
func (r Redacted) GoString() string { return hidden }

// Format prints "[redacted]" whatever the verb.
func (r Redacted) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue logs "[redacted]".
func (r Redacted) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText writes "[redacted]".
func (r Redacted) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON writes "[redacted]".
func (r Redacted) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// Value refuses to be stored; see [Redacted.Reveal].
func (r Redacted) Value() (driver.Value, error) { return nil, errReveal }

// UnmarshalText reads a secret, for example from the environment.
func (r *Redacted) UnmarshalText(b []byte) error {
	*r = Redact(string(b))
	return nil
}

// UnmarshalJSON reads a secret from a JSON string. null leaves it empty; anything else is an error
// that does not hold the text.
func (r *Redacted) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New("secret: not a JSON string")
	}
	if s == nil {
		*r = Redacted{}
		return nil
	}
	*r = Redact(*s)
	return nil
}
