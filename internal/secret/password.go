package secret

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/argon2"
)

// Argon2id with OWASP's parameters: 19 MiB of memory, two passes, one lane; 16 bytes of salt, 32 of
// hash.
const (
	owaspMemory = 19 * 1024 // KiB
	owaspTime   = 2
	argonLanes  = 1
	saltSize    = 16
	hashSize    = 32
)

// What a new hash costs; only [CheapHashes] changes it.
var (
	argonMemory uint32 = owaspMemory
	argonTime   uint32 = owaspTime
)

// CheapHashes has passwords hashed with hardly any memory, or again as in production. It is for
// tests, most of which log in and ask nothing of the hash, and panics elsewhere. Nothing may be
// hashed meanwhile.
func CheapHashes(yes bool) {
	if !testing.Testing() {
		panic("secret: cheap hashes outside a test")
	}
	argonMemory, argonTime = owaspMemory, owaspTime
	if yes {
		argonMemory, argonTime = 64, 1
	}
}

// What a stored hash may ask for at most, so that a damaged row cannot eat the machine.
const (
	maxArgonMemory = 64 * 1024 // KiB
	maxArgonTime   = 8
	maxArgonLanes  = 4
)

// errPasswordHash says that a stored text is not an argon2id hash that this package can check.
var errPasswordHash = errors.New("secret: not a usable argon2id hash")

// hashing bounds how many passwords are hashed at once: one a processor, as each takes one whole. A
// flood of logins so waits in line instead of taking 19 MiB each.
var hashing = make(chan struct{}, max(1, min(runtime.GOMAXPROCS(0), 16)))

// dummySalt is the salt of a hash that no password is checked against in earnest.
var dummySalt = sync.OnceValue(func() []byte { return random(saltSize) })

type argonHash struct {
	memory, time uint32
	lanes        uint8
	salt, sum    []byte
}

// HashPassword returns the argon2id hash of a password in PHC form
// ("$argon2id$v=19$m=19456,t=2,p=1$salt$hash"). It waits for its turn; its only error is the
// context's.
func HashPassword(ctx context.Context, password Redacted) (string, error) {
	h := argonHash{memory: argonMemory, time: argonTime, lanes: argonLanes, salt: random(saltSize), sum: make([]byte, hashSize)}
	sum, err := h.compute(ctx, password)
	if err != nil {
		return "", err
	}
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.memory, h.time, h.lanes,
		b64.EncodeToString(h.salt), b64.EncodeToString(sum)), nil
}

// verifyPassword reports whether a password is the one hashed in phc. It waits for its turn. The
// error is the context's, or [errPasswordHash].
func verifyPassword(ctx context.Context, phc string, password Redacted) (bool, error) {
	h, err := parsePHC(phc)
	if err != nil {
		return false, err
	}
	sum, err := h.compute(ctx, password)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(sum, h.sum) == 1, nil
}

// IsPassword reports whether the hash is of the password. Without a hash it takes the same time and
// reports false.
func IsPassword(ctx context.Context, hash string, password Redacted) (bool, error) {
	if hash == "" {
		return false, dummyVerify(ctx, password)
	}
	return verifyPassword(ctx, hash, password)
}

// dummyVerify takes as long as verifyPassword and reports nothing: for a login under an unknown
// address, so that the answer's time does not give away which addresses are known. Its only error
// is the context's.
func dummyVerify(ctx context.Context, password Redacted) error {
	dummy := argonHash{memory: argonMemory, time: argonTime, lanes: argonLanes, salt: dummySalt(), sum: make([]byte, hashSize)}
	_, err := dummy.compute(ctx, password)
	return err
}

// NeedsRehash reports whether phc was made with other parameters than today's, so that the next
// good login can replace it.
func NeedsRehash(phc string) bool {
	h, err := parsePHC(phc)
	return err != nil || h.memory != argonMemory || h.time != argonTime || h.lanes != argonLanes ||
		len(h.salt) != saltSize || len(h.sum) != hashSize
}

// compute hashes a password with h's parameters and salt, when its turn has come.
func (h argonHash) compute(ctx context.Context, password Redacted) ([]byte, error) {
	select {
	case hashing <- struct{}{}:
		defer func() { <-hashing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	sum := argon2.IDKey([]byte(password.Reveal()), h.salt, h.time, h.memory, h.lanes, uint32(len(h.sum)))
	if h.memory >= owaspMemory {
		runtime.GC() // the next hash takes the memory of this one
	}
	return sum, nil
}

func parsePHC(phc string) (argonHash, error) {
	var h argonHash
	parts := strings.Split(phc, "$")
	if len(phc) > 512 || len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" ||
		parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return h, errPasswordHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memory, &h.time, &h.lanes); err != nil ||
		parts[3] != fmt.Sprintf("m=%d,t=%d,p=%d", h.memory, h.time, h.lanes) {
		return h, errPasswordHash
	}
	var saltErr, sumErr error
	h.salt, saltErr = base64.RawStdEncoding.Strict().DecodeString(parts[4])
	h.sum, sumErr = base64.RawStdEncoding.Strict().DecodeString(parts[5])
	if saltErr != nil || sumErr != nil || len(h.salt) < 8 || len(h.salt) > 64 || len(h.sum) < 16 || len(h.sum) > 64 ||
		h.time < 1 || h.time > maxArgonTime || h.lanes < 1 || h.lanes > maxArgonLanes ||
		h.memory < 8*uint32(h.lanes) || h.memory > maxArgonMemory {
		return h, errPasswordHash
	}
	return h, nil
}
