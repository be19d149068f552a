// Package secret keeps what must not be read: values sealed for the database, keys, tokens, codes
// and passwords.
//
// Always true here: a sealed value opens only in the place it was sealed for ([Place]); secrets are
// random to the full length that is stated; whatever is compared with a secret is compared in
// constant time; and a value of type [Redacted] prints as "[redacted]" wherever it turns up, so
// that only a call of Reveal shows it.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What can be wrong with a sealed value. None of them says anything of the content.
var (
	ErrSealed     = errors.New("secret: not a sealed value, or not of this place")
	ErrUnknownKey = errors.New("secret: sealed with a key that is not configured")
)

// The sealed form, version 1: version (1 byte), length of the key id (1), key id, nonce (12),
// AES-256-GCM ciphertext with its tag (16). Version and key id are authenticated together with the
// place.
const (
	version1  = 1
	nonceSize = 12
	tagSize   = 16
	keySize   = 32
)

var keyIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// Place is where a sealed value lives. It is authenticated with the value: copied to another table,
// column or row, the value does not open. All three parts are required; Row is the row's primary
// key as text.
type Place struct {
	Table, Column, Row string
}

// Box seals with its first key and opens with any. It is safe for concurrent use.
type Box struct {
	first string
	ids   []string
	keys  map[string]cipher.AEAD
}

// ParseKeys reads "id:base64,id2:base64": one or more keys of 32 bytes, each under an id of 1–32
// letters, digits, "_" or "-". The first one seals, all open; so a new key is put in front, and an
// old one stays until nothing needs it. The error names the position of what is wrong, never its
// text.
func ParseKeys(s string) (*Box, error) {
	b := &Box{keys: map[string]cipher.AEAD{}}
	for i, item := range strings.Split(s, ",") {
		id, text, ok := strings.Cut(strings.TrimSpace(item), ":")
		if !ok || !keyIDForm.MatchString(id) {
			return nil, fmt.Errorf("secret: key %d is not id:base64 with an id of 1 to 32 letters, digits, _ or -", i+1)
		}
		if _, twice := b.keys[id]; twice {
			return nil, fmt.Errorf("secret: key %d repeats an id", i+1)
		}
		key, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
		if err != nil || len(key) != keySize {
			return nil, fmt.Errorf("secret: key %d is not the base64 of %d bytes", i+1, keySize)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("secret: key %d cannot be used", i+1)
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("secret: key %d cannot be used", i+1)
		}
		b.keys[id] = gcm
		b.ids = append(b.ids, id)
	}
	b.first = b.ids[0]
	return b, nil
}

// NewKey returns a fresh key in the form that [ParseKeys] reads, under id.
func NewKey(id string) Redacted {
	return Redact(id + ":" + base64.StdEncoding.EncodeToString(random(keySize)))
}

// Seal encrypts plaintext for a place with the first key. Sealing the same text twice gives
// different values. It panics when a part of the place is empty: that is a caller's bug.
func (b *Box) Seal(place Place, plaintext []byte) []byte {
	if !place.complete() {
		panic("secret: Seal needs a table, a column and a row")
	}
	header := append([]byte{version1, byte(len(b.first))}, b.first...)
	nonce := random(nonceSize)
	out := make([]byte, 0, len(header)+nonceSize+len(plaintext)+tagSize)
	out = append(append(out, header...), nonce...)
	return b.keys[b.first].Seal(out, nonce, plaintext, place.bind(header))
}

// Open decrypts what Seal made for the same place. The error is [ErrUnknownKey] when the value's
// key is not configured, and [ErrSealed] when the value is damaged, of another place, or never was
// a sealed one.
func (b *Box) Open(place Place, sealed []byte) ([]byte, error) {
	header, rest, err := split(sealed)
	if err != nil || !place.complete() {
		return nil, ErrSealed
	}
	key, ok := b.keys[string(header[2:])]
	if !ok {
		return nil, ErrUnknownKey
	}
	plain, err := key.Open(nil, rest[:nonceSize], rest[nonceSize:], place.bind(header))
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

// KeyID returns the id of the key that sealed the value, or "" when it is no sealed value. Whatever
// differs from [Box.Current] is due to be sealed anew.
func (b *Box) KeyID(sealed []byte) string {
	header, _, err := split(sealed)
	if err != nil {
		return ""
	}
	return string(header[2:])
}

// Current returns the id of the key that seals.
func (b *Box) Current() string { return b.first }

// IDs returns the ids of all keys, the one that seals first.
func (b *Box) IDs() []string { return slices.Clone(b.ids) }

// Format prints the key ids and never a key, whatever the verb.
func (b *Box) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "secret.Box(%s)", strings.Join(b.ids, ","))
}

// split cuts a sealed value into its header (version, length, key id) and the nonce with the
// ciphertext.
func split(sealed []byte) (header, rest []byte, err error) {
	if len(sealed) < 2 || sealed[0] != version1 {
		return nil, nil, ErrSealed
	}
	end := 2 + int(sealed[1])
	if len(sealed) < end+nonceSize+tagSize || !keyIDForm.Match(sealed[2:end]) {
		return nil, nil, ErrSealed
	}
	return sealed[:end], sealed[end:], nil
}

func (p Place) complete() bool { return p.Table != "" && p.Column != "" && p.Row != "" }

// bind returns the data authenticated with a value: its header and its place, each part behind its
// length, so that no two places read alike.
func (p Place) bind(header []byte) []byte {
	var out []byte
	for _, part := range []string{string(header), p.Table, p.Column, p.Row} {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out
}

// random returns n bytes of the system's randomness. crypto/rand ends the process rather than fail.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}
