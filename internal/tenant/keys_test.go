package tenant

import (
	"context"
	"strings"
	"sync"
	"testing"

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
