package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ajo/internal/money"
)

const (
	typePayment = "payment_success"
	maxDepth    = 16   // nesting of an event's JSON; the real one has three
	MaxID       = 255  // characters of a signed value
	maxFree     = 1000 // characters of narration and names; longer ones are cut
)

// The reasons for which a body is not an authentic event.
var (
	errNotJSON    = errors.New("the body is not one JSON object")
	errDoubledKey = errors.New("a key occurs twice")
	errSignature  = errors.New("the signature does not hold")
)

// free returns a text that only people read: cut to a bounded length, control characters made
// spaces.
func (v *values) free(f field) string { return Clean(v.text(f)) }

// Clean cuts a text that only people read to a bounded length, and makes its control characters
// spaces.
func Clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) <= maxFree {
		return s
	}
	if r := []rune(s); len(r) > maxFree {
		return string(r[:maxFree])
	}
	return s
}

// signed are the nine values of the signature, in its order; the last is the timestamp header.
func (v *values) signed(timestamp string) [9]string {
	code := v.text(responseCode)
	if code == "null" {
		code = ""
	}
	return [9]string{
		v.text(eventType), v.text(requestID), v.text(merchantUser), v.text(merchantWallet),
		v.text(transactionID), v.text(transactionType), v.text(transactionTime), code, timestamp,
	}
}

// verify checks the signature, and then that the signed string can be split in one way only: since
// the nine values are joined by colons, characters could be moved from one value to the next under
// the same signature (decisions, "Inbound events").
func (v *values) verify(key []byte, signature, timestamp string) error {
	nine := v.signed(timestamp)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(nine[:], ":")))
	if !hmac.Equal(mac.Sum(nil), decodeSignature(signature)) {
		return errSignature
	}
	for i, s := range nine {
		if utf8.RuneCountInString(s) > MaxID {
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

// decodeSignature reads base64, as the bank's documentation shows it, or hex; nil when it is
// neither.
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

// amount reads a number of naira from its own text; absent, null, another type, or more than two
// decimals is an error.
func (v *values) amount(f field) (money.Amount, error) {
	n, ok := v.find(f, '0')
	if !ok {
		return money.Zero, fmt.Errorf("%s is not a number", f)
	}
	a, err := money.ParseNumber(json.Number(n))
	if err != nil {
		return money.Zero, fmt.Errorf("%s is not an amount in naira: %w", f, err)
	}
	return a, nil
}
