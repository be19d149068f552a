package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/spec"
)

var here = Place{Table: "tenants", Column: "webhook_secret", Row: "42"}

func key(fill byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

func box(t testing.TB, keys string) *Box {
	t.Helper()
	b, err := ParseKeys(keys)
	require.NoError(t, err)
	return b
}

func TestSealAndOpen(t *testing.T) {
	t.Parallel()
	b := box(t, "k1:"+key(1))
	for _, plain := range [][]byte{nil, {}, []byte("x"), bytes.Repeat([]byte("long"), 1000)} {
		sealed := b.Seal(here, plain)
		got, err := b.Open(here, sealed)
		require.NoError(t, err)
		require.True(t, bytes.Equal(plain, got))
		require.Equal(t, "k1", b.KeyID(sealed))
		require.Len(t, sealed, 2+len("k1")+nonceSize+len(plain)+tagSize)
		require.NotEqual(t, sealed, b.Seal(here, plain), "the nonce is fresh each time")
	}
}

// What is sealed opens with AES-256-GCM alone: key, nonce and ciphertext are where the form says.
func TestSealedIsAES256GCM(t *testing.T) {
	spec.Shows(t, "field.tenant.secret-cipher")
	t.Parallel()
	sealed := box(t, "k1:"+key(1)).Seal(here, []byte("s3cret"))
	block, err := aes.NewCipher(bytes.Repeat([]byte{1}, 32))
	require.NoError(t, err)
	gcm, err := cipher.NewGCM(block)
	require.NoError(t, err)
	header, rest := sealed[:4], sealed[4:]
	plain, err := gcm.Open(nil, rest[:12], rest[12:], here.bind(header))
	require.NoError(t, err)
	require.Equal(t, "s3cret", string(plain))
}

func TestOpenIsBoundToThePlace(t *testing.T) {
	t.Parallel()
	b := box(t, "k1:"+key(1))
	sealed := b.Seal(here, []byte("s3cret"))
	for _, p := range []Place{
		{Table: "accounts", Column: "webhook_secret", Row: "42"},
		{Table: "tenants", Column: "bvn", Row: "42"},
		{Table: "tenants", Column: "webhook_secret", Row: "43"},
		{Table: "tenantsw", Column: "ebhook_secret", Row: "42"}, // the same letters, cut elsewhere
		{Table: "tenants", Column: "webhook_secret4", Row: "2"},
		{},
	} {
		_, err := b.Open(p, sealed)
		require.ErrorIs(t, err, ErrSealed, "%+v", p)
	}
	require.Panics(t, func() { b.Seal(Place{Table: "tenants", Column: "c"}, nil) })
}

func TestOpenRefusesDamage(t *testing.T) {
	t.Parallel()
	b := box(t, "k1:"+key(1)+",k2:"+key(2))
	sealed := b.Seal(here, []byte("s3cret"))
	for n := range len(sealed) {
		_, err := b.Open(here, sealed[:n])
		require.ErrorIs(t, err, ErrSealed, "cut to %d bytes", n)
	}
	for i := range sealed {
		bad := slices.Clone(sealed)
		bad[i] ^= 1
		_, err := b.Open(here, bad)
		require.Error(t, err, "byte %d flipped", i)
	}
	relabelled := slices.Clone(sealed)
	relabelled[3] = '2' // "k1" → "k2": another configured key
	_, err := b.Open(here, relabelled)
	require.ErrorIs(t, err, ErrSealed)
	_, err = b.Open(here, append(slices.Clone(sealed), 0))
	require.ErrorIs(t, err, ErrSealed)
}

func TestRotation(t *testing.T) {
	t.Parallel()
	before := box(t, "old:"+key(1))
	sealed := before.Seal(here, []byte("s3cret"))

	during := box(t, "new:"+key(2)+", old:"+key(1))
	got, err := during.Open(here, sealed)
	require.NoError(t, err)
	require.Equal(t, "s3cret", string(got))
	require.NotEqual(t, during.Current(), during.KeyID(sealed), "due to be sealed anew")
	require.Equal(t, "new", during.KeyID(during.Seal(here, got)))

	after := box(t, "new:"+key(2))
	_, err = after.Open(here, sealed)
	require.ErrorIs(t, err, ErrUnknownKey)
	wrong := box(t, "old:"+key(3))
	_, err = wrong.Open(here, sealed)
	require.ErrorIs(t, err, ErrSealed)
}

func TestParseKeysRefuses(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"nothing":       "",
		"no id":         key(1),
		"empty id":      ":" + key(1),
		"bad id":        "a b:" + key(1),
		"long id":       strings.Repeat("a", 33) + ":" + key(1),
		"short key":     "a:" + base64.StdEncoding.EncodeToString(make([]byte, 31)),
		"long key":      "a:" + base64.StdEncoding.EncodeToString(make([]byte, 33)),
		"not base64":    "a:" + strings.Repeat("!", 44),
		"id twice":      "a:" + key(1) + ",a:" + key(2),
		"empty item":    "a:" + key(1) + ",",
		"no key":        "a:",
		"second is bad": "a:" + key(1) + ",b:" + key(1)[:20],
	} {
		_, err := ParseKeys(s)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), key(1)[:20], name)
	}
	_, err := ParseKeys("a:" + strings.TrimRight(key(1), "="))
	require.NoError(t, err, "the padding may be missing")
	_, err = ParseKeys(NewKey("made").Reveal())
	require.NoError(t, err)
}

func TestBoxNeverPrintsKeys(t *testing.T) {
	t.Parallel()
	b := box(t, "k1:"+key('K')+",k2:"+key('L'))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		require.Equal(t, "secret.Box(k1,k2)", fmt.Sprintf(verb, b), verb)
	}
}

func TestKeyIDOfGarbage(t *testing.T) {
	t.Parallel()
	b := box(t, "k1:"+key(1))
	for _, s := range [][]byte{nil, {}, {1}, {1, 255}, {2, 1, 'a'}, bytes.Repeat([]byte{1}, 100)} {
		require.Empty(t, b.KeyID(s))
	}
}

func FuzzOpen(f *testing.F) {
	b := box(f, "k1:"+key(1))
	f.Add(b.Seal(here, []byte("s3cret")), "tenants", "webhook_secret", "42")
	f.Add([]byte{1, 2, 'k', '1'}, "", "", "")
	f.Fuzz(func(t *testing.T, sealed []byte, table, column, row string) {
		p := Place{Table: table, Column: column, Row: row}
		if plain, err := b.Open(p, sealed); err == nil && (p != here || string(plain) != "s3cret") {
			t.Fatalf("opened at %+v", p)
		}
	})
}
