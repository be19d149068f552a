package payment

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ajo/internal/money"
)

const (
	typePayment = "payment_success"
	maxDepth    = 16   // nesting of an event's JSON; the real one has three
	maxID       = 255  // characters of a signed value
	maxFree     = 1000 // characters of narration and names; longer ones are cut
)

// The reasons for which a body is not an authentic event.
var (
	errNotJSON    = errors.New("the body is not one JSON object")
	errDoubledKey = errors.New("a key occurs twice")
	errSignature  = errors.New("the signature does not hold")
)

// values are the scalars of an event's JSON by their path ("data.transaction.fee"); numbers keep their own text.
type values map[string]any

// parseValues reads the body into its scalars. Keys are matched exactly, and a key that occurs twice in an object, or twice
// but for its case, is refused: encoding/json would let the second one win, and the signature would still hold.
func parseValues(body []byte) (values, error) {
	if !utf8.Valid(body) {
		return nil, errNotJSON
	}
	// An escape that is half a character becomes U+FFFD, as with encoding/json: a bank may cut a narration there.
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v := make(values, 32)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, errNotJSON
	}
	if err := v.readObject(d, "", 1); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errNotJSON
	}
	return v, nil
}

func (v values) readObject(d *jsontext.Decoder, prefix string, depth int) error {
	seen := make(map[string]bool, 16)
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return errNotJSON
		}
		key := t.String()
		folded := strings.ToLower(strings.ToUpper(key))
		if seen[folded] {
			return errDoubledKey
		}
		seen[folded] = true
		if err := v.readValue(d, prefix+key, depth); err != nil {
			return err
		}
	}
	return closing(d)
}

func (v values) readValue(d *jsontext.Decoder, path string, depth int) error {
	t, err := d.ReadToken()
	if err != nil || depth > maxDepth {
		return errNotJSON
	}
	switch t.Kind() {
	case '{':
		return v.readObject(d, path+".", depth+1)
	case '[':
		for d.PeekKind() != ']' {
			if err := v.readValue(d, path+"[]", depth+1); err != nil {
				return err
			}
		}
		return closing(d)
	case '"':
		v[path] = t.String()
	case '0':
		v[path] = json.Number(t.String())
	case 't', 'f':
		v[path] = t.Bool()
	default:
		v[path] = nil
	}
	return nil
}

func closing(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return errNotJSON
	}
	return nil
}

// text returns a string value; absent, null and any other type are empty.
func (v values) text(path string) string {
	s, _ := v[path].(string)
	return s
}

// free returns a text that only people read: cut to a bounded length, control characters made spaces.
func (v values) free(path string) string { return clean(v.text(path)) }

func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if r := []rune(s); len(r) > maxFree {
		return string(r[:maxFree])
	}
	return s
}

// signed are the nine values of the signature, in its order; the last is the timestamp header.
func (v values) signed(timestamp string) [9]string {
	code := v.text("data.transaction.responseCode")
	if code == "null" {
		code = ""
	}
	return [9]string{
		v.text("event_type"), v.text("requestId"), v.text("data.merchant.userId"), v.text("data.merchant.walletId"),
		v.text("data.transaction.transactionId"), v.text("data.transaction.type"), v.text("data.transaction.time"), code, timestamp,
	}
}

// verify checks the signature, and then that the signed string can be cut in one way only: joined by colons, the same nine
// values could be shifted across the joints under the same signature (decisions, "Inbound events").
func (v values) verify(key []byte, signature, timestamp string) error {
	nine := v.signed(timestamp)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(nine[:], ":")))
	if !hmac.Equal(mac.Sum(nil), decodeSignature(signature)) {
		return errSignature
	}
	for i, s := range nine {
		if utf8.RuneCountInString(s) > maxID {
			return fmt.Errorf("signed value %d is too long", i+1)
		}
		if i == 6 || i == 8 {
			continue // the two times have colons of their own
		}
		if strings.ContainsFunc(s, func(r rune) bool { return r == ':' || unicode.IsControl(r) }) {
			return fmt.Errorf("signed value %d has a colon or a control character", i+1)
		}
	}
	if _, err := time.Parse(time.RFC3339, nine[6]); err != nil {
		return errors.New("data.transaction.time is not a time")
	}
	if _, err := time.Parse(time.RFC3339, timestamp); err != nil {
		if _, err := strconv.ParseUint(timestamp, 10, 40); err != nil {
			return errors.New("the timestamp header is not a time")
		}
	}
	if nine[1] == "" {
		return errors.New("requestId is missing")
	}
	return nil
}

// decodeSignature reads base64, as the bank's documentation shows it, or hex; nil when it is neither.
func decodeSignature(s string) []byte {
	if len(s) == hex.EncodedLen(sha256.Size) {
		if b, err := hex.DecodeString(s); err == nil {
			return b
		}
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) != sha256.Size {
		return nil
	}
	return b
}

// amount reads a number of naira from its own text; absent, null, another type, or more than two decimals is an error.
func (v values) amount(path string) (money.Amount, error) {
	n, ok := v[path].(json.Number)
	if !ok {
		return money.Zero, fmt.Errorf("%s is not a number", path)
	}
	a, err := money.ParseNumber(n)
	if err != nil {
		return money.Zero, fmt.Errorf("%s is not an amount in naira: %w", path, err)
	}
	return a, nil
}
