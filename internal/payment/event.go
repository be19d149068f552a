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
	"slices"
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

// values are the scalars of an event's JSON with their paths ("data.transaction.fee"). There are some two dozen, and as many are
// looked for: a list costs less than a map.
type values []value

// value is one scalar. Of true, false and null only the kind is kept.
type value struct {
	path string
	kind jsontext.Kind // '"' or '0' for a string or a number, whose text is kept
	text string
}

// find returns the text of the scalar at path if it is of that kind. Within an array, where several have one path, it is the last.
func (v values) find(path string, kind jsontext.Kind) (string, bool) {
	for i := len(v) - 1; i >= 0; i-- {
		if v[i].path == path {
			return v[i].text, v[i].kind == kind
		}
	}
	return "", false
}

// names are the keys of an object, folded. The few of a real event are a list; a body of thousands must not be compared pairwise.
type names struct {
	few  []string
	many map[string]bool
}

const fewNames = 32

// add tells whether the name is new.
func (n *names) add(name string) bool {
	if n.many != nil {
		is := !n.many[name]
		n.many[name] = true
		return is
	}
	if slices.Contains(n.few, name) {
		return false
	}
	if n.few = append(n.few, name); len(n.few) == fewNames {
		n.many = make(map[string]bool, 2*fewNames)
		for _, name := range n.few {
			n.many[name] = true
		}
	}
	return true
}

// fold makes names that differ in case only the same.
func fold(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return strings.ToLower(strings.ToUpper(name))
		}
	}
	return strings.ToLower(name) // the same for ASCII, and mostly the name itself
}

// parseValues reads the body into its scalars. Keys are matched exactly, and a key that occurs twice in an object, or twice
// but for its case, is refused: encoding/json would let the second one win, and the signature would still hold.
func parseValues(body []byte) (values, error) {
	if !utf8.Valid(body) {
		return nil, errNotJSON
	}
	// An escape that is half a character becomes U+FFFD, as with encoding/json: a bank may cut a narration there.
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v := make(values, 0, 32)
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

func (v *values) readObject(d *jsontext.Decoder, prefix string, depth int) error {
	seen := names{few: make([]string, 0, 12)}
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return errNotJSON
		}
		key := t.String()
		if !seen.add(fold(key)) {
			return errDoubledKey
		}
		if err := v.readValue(d, prefix+key, depth); err != nil {
			return err
		}
	}
	return closing(d)
}

func (v *values) readValue(d *jsontext.Decoder, path string, depth int) error {
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
	case '"', '0':
		*v = append(*v, value{path, t.Kind(), t.String()})
	default:
		*v = append(*v, value{path: path, kind: t.Kind()})
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
	if s, ok := v.find(path, '"'); ok {
		return s
	}
	return ""
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
	n, ok := v.find(path, '0')
	if !ok {
		return money.Zero, fmt.Errorf("%s is not a number", path)
	}
	a, err := money.ParseNumber(json.Number(n))
	if err != nil {
		return money.Zero, fmt.Errorf("%s is not an amount in naira: %w", path, err)
	}
	return a, nil
}
