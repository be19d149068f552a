package secret

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPassword(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	phc, err := HashPassword(ctx, Redact("correct horse"))
	require.NoError(t, err)
	require.Regexp(t, `^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`, phc)
	require.False(t, NeedsRehash(phc))

	ok, err := verifyPassword(ctx, phc, Redact("correct horse"))
	require.NoError(t, err)
	require.True(t, ok)
	for _, wrong := range []string{"", "correct hors", "Correct horse", "correct horse "} {
		ok, err = verifyPassword(ctx, phc, Redact(wrong))
		require.NoError(t, err)
		require.False(t, ok, wrong)
	}
	again, err := HashPassword(ctx, Redact("correct horse"))
	require.NoError(t, err)
	require.NotEqual(t, phc, again, "the salt is fresh")
	require.NoError(t, dummyVerify(ctx, Redact("anything")))
}

func TestVerifyPasswordOfOtherParameters(t *testing.T) {
	t.Parallel()
	// A test vector of the algorithm's reference implementation.
	sum, err := hex.DecodeString("09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7")
	require.NoError(t, err)
	b64 := base64.RawStdEncoding.EncodeToString
	phc := "$argon2id$v=19$m=65536,t=2,p=1$" + b64([]byte("somesalt")) + "$" + b64(sum)
	ok, err := verifyPassword(t.Context(), phc, Redact("password"))
	require.NoError(t, err)
	require.True(t, ok)
	require.True(t, NeedsRehash(phc))
	require.True(t, NeedsRehash("plain"))
}

func TestVerifyPasswordRefuses(t *testing.T) {
	t.Parallel()
	salt, sum := "c29tZXNhbHRzb21lc2FsdA", strings.Repeat("A", 43)
	for _, phc := range []string{
		"", "plain", "$2a$10$abcdefghijklmnopqrstuv",
		"$argon2i$v=19$m=19456,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=16$m=19456,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=4294967295,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=4000000000,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=0,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=0$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=300$" + salt + "$" + sum,
		"$argon2id$v=19$m=1,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1,x$" + salt + "$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1$$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$",
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$!!!",
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$" + strings.Repeat("A", 1000),
	} {
		ok, err := verifyPassword(t.Context(), phc, Redact("x"))
		require.ErrorIs(t, err, errPasswordHash, phc)
		require.False(t, ok)
	}
}

// Not parallel: it takes every place that there is.
func TestHashingWaitsForItsTurn(t *testing.T) {
	for range cap(hashing) {
		hashing <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			_, err := HashPassword(ctx, Redact("x"))
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, dummyVerify(ctx, Redact("x")), context.Canceled)
		})
	}
	cancel()
	wg.Wait()
	for range cap(hashing) {
		<-hashing
	}
	_, err := HashPassword(t.Context(), Redact("x"))
	require.NoError(t, err)
}

func FuzzVerifyPassword(f *testing.F) {
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$AAAA")
	f.Fuzz(func(t *testing.T, phc string) {
		if h, err := parsePHC(phc); err == nil && (h.memory > maxArgonMemory || h.time > maxArgonTime || len(h.sum) > 64) {
			t.Fatalf("%q would cost too much", phc)
		}
	})
}

// However many passwords are hashed, no more memory is taken than for one.
func TestHashesTakeTheMemoryOfOne(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 4 {
		_, err := HashPassword(t.Context(), Redact("a password of somebody"))
		require.NoError(t, err)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapSys-after.HeapReleased)-int64(before.HeapSys-before.HeapReleased), int64(2*owaspMemory<<10))
}
