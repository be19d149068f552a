package tenant

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/testenv"
)

func TestByAPIKey(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, key := b.withKey("ada@example.com")
	for _, bad := range []string{
		"", "ajo_", key.Reveal() + "x", key.Reveal()[1:], strings.ToLower(key.Reveal()), secret.NewAPIKey().Reveal(), "\x00",
		key.Suffix(), " " + key.Reveal(),
	} {
		_, err := b.ByAPIKey(ctx, secret.Redact(bad))
		require.ErrorIs(t, err, ErrUnauthorized, bad)
	}
	require.Equal(t, 0, testenv.Value[int](b.Env, `SELECT count(*) FROM tenants t WHERE t::text LIKE '%' || $1 || '%'`, key.Reveal()), "the key itself is nowhere")

	b.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, id)
	_, err := b.ByAPIKey(ctx, secret.Redact(key.Reveal()))
	require.ErrorIs(t, err, ErrSuspended)
	b.Exec(`UPDATE tenants SET status = 'active' WHERE id = $1`, id)
	_, err = b.ByAPIKey(ctx, secret.Redact(key.Reveal()))
	require.NoError(t, err)
}

func TestRotateKey(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, old := b.withKey("ada@example.com")
	key, err := b.RotateKey(ctx, id)
	require.NoError(t, err)
	_, err = b.ByAPIKey(ctx, secret.Redact(old.Reveal()))
	require.ErrorIs(t, err, ErrUnauthorized, "the old key is dead at once")
	got, err := b.ByAPIKey(ctx, secret.Redact(key.Reveal()))
	require.NoError(t, err)
	require.Equal(t, key.Suffix(), got.APIKeySuffix)
}

// Keys of many requests are looked up together, and each gets its own answer; a rotated one is dead
// to all that come later.
func TestKeysLookedUpTogether(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	ada, hers := b.withKey("ada@example.com")
	bola, theirs := b.withKey("bola@example.com")
	out, shut := b.withKey("suspended@example.com")
	b.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, out)
	look := func(key secret.APIKey, id uuid.UUID, want error) func() {
		return func() {
			got, err := b.ByAPIKey(ctx, secret.Redact(key.Reveal()))
			if !errors.Is(err, want) || got.ID != id {
				t.Errorf("%s and %v, not %s and %v", got.ID, err, id, want)
			}
		}
	}
	many := func(looks ...func()) {
		var wg sync.WaitGroup
		for i := range 400 {
			wg.Go(looks[i%len(looks)])
		}
		wg.Wait()
	}
	many(look(hers, ada, nil), look(theirs, bola, nil), look(shut, uuid.Nil, ErrSuspended), look(secret.NewAPIKey(), uuid.Nil, ErrUnauthorized))
	fresh, err := b.RotateKey(ctx, ada)
	require.NoError(t, err)
	many(look(hers, uuid.Nil, ErrUnauthorized), look(fresh, ada, nil), look(theirs, bola, nil))
}

func TestRotateAtOnce(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, _ := b.withKey("ada@example.com")
	var wg sync.WaitGroup
	keys := make([]secret.APIKey, 10)
	for i := range keys {
		wg.Go(func() {
			var err error
			keys[i], err = b.RotateKey(ctx, id)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	good := 0
	for _, k := range keys {
		if got, err := b.ByAPIKey(ctx, secret.Redact(k.Reveal())); err == nil {
			good++
			require.Equal(t, k.Suffix(), got.APIKeySuffix)
		}
	}
	require.Equal(t, 1, good)
}
