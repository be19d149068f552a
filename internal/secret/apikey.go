package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
)

// The form of an API key: its kind, 32 random bytes in base62 (43 digits), and the CRC-32 of all
// that in base62 (6 digits).
const (
	keyDigits   = 43
	checkDigits = 6
	alphabet    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// KeyKind is what an API key begins with, and says who accepts it. No key has the form of two
// kinds.
type KeyKind string

// The kinds. The live service accepts the first alone, and the sandbox the second alone.
const (
	LiveKey KeyKind = "ajo_"
	TestKey KeyKind = "ajo_test_"
)

// APIKey is a tenant's key for /v1. It prints as "[redacted]"; what is stored is its [Hash] and its
// Suffix.
type APIKey struct{ Redacted }

// New returns a fresh key.
func (k KeyKind) New() APIKey {
	body := string(k) + base62(new(big.Int).SetBytes(random(32)), keyDigits)
	return APIKey{Redact(body + checksum(body))}
}

// Check reports whether s has the form of a key of this kind, its checksum included. It says
// nothing about whose it is; it keeps typing errors and noise away from the database.
func (k KeyKind) Check(s string) bool {
	if len(s) != len(k)+keyDigits+checkDigits || !strings.HasPrefix(s, string(k)) || strings.Trim(s[len(k):], alphabet) != "" {
		return false
	}
	body := s[:len(s)-checkDigits]
	return s[len(body):] == checksum(body)
}

// Suffix returns "…" and the last four characters, for visual confirmation (specification,
// "Tenant": apiKeySuffix).
func (k APIKey) Suffix() string {
	s := k.Reveal()
	return "…" + s[max(0, len(s)-4):]
}

// Hash returns the SHA-256 of a key or token: what the database keeps and looks up. It is for texts
// of full randomness only; passwords have [HashPassword].
func Hash(s string) [32]byte { return sha256.Sum256([]byte(s)) }

// NewToken returns a session token: 32 random bytes in base64url without padding, 43 characters.
func NewToken() Redacted { return Redact(base64.RawURLEncoding.EncodeToString(random(32))) }

// NewCode returns a one-time code: six decimal digits, each of the million equally likely.
func NewCode() Redacted {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		panic("secret: no randomness: " + err.Error())
	}
	return Redact(fmt.Sprintf("%06d", n))
}

// NewSigningSecret returns a webhook signing secret: 32 random bytes as 64 lowercase hex digits.
func NewSigningSecret() Redacted { return Redact(hex.EncodeToString(random(32))) }

func checksum(body string) string {
	return base62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(body)))), checkDigits)
}

// base62 writes n with exactly the given number of digits, most significant first.
func base62(n *big.Int, digits int) string {
	out := make([]byte, digits)
	n, digit, base := new(big.Int).Set(n), new(big.Int), big.NewInt(int64(len(alphabet)))
	for i := digits - 1; i >= 0; i-- {
		n.QuoRem(n, base, digit)
		out[i] = alphabet[digit.Int64()]
	}
	return string(out)
}
