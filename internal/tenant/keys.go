package tenant

import (
	"context"

	"github.com/google/uuid"

	"ajo/internal/pg"
	"ajo/internal/secret"
)

// KeyWarning goes with a key that is shown for the only time.
const KeyWarning = "Store this API key now: it is shown only once and cannot be retrieved later."

// ByAPIKey returns the tenant whose key it is. The key is looked up in the database for every request, by its SHA-256.
// [ErrUnauthorized] for a key that is missing, malformed, rotated away or nobody's; [ErrSuspended]. (Specification,
// "API key (server to server)".)
func (s *Service) ByAPIKey(ctx context.Context, key secret.Redacted) (Tenant, error) {
	if !secret.CheckAPIKey(key.Reveal()) {
		return Tenant{}, ErrUnauthorized
	}
	hash := secret.Hash(key.Reveal())
	var t Tenant
	err := s.Pool.QueryRow(ctx, `SELECT `+columns+` FROM tenants t WHERE t.api_key_hash = $1`, hash[:]).Scan(t.fields()...)
	if pg.IsNoRows(err) {
		return Tenant{}, ErrUnauthorized
	}
	if err != nil {
		return Tenant{}, err
	}
	return admit(t)
}

// RotateKey gives the tenant a new key and returns it; the one before is dead from that moment on. Session only.
func (s *Service) RotateKey(ctx context.Context, id uuid.UUID) (secret.APIKey, error) {
	key := secret.NewAPIKey()
	return key, s.setKey(ctx, s.Pool, id, key)
}

func (s *Service) setKey(ctx context.Context, q pg.Querier, id uuid.UUID, key secret.APIKey) error {
	hash := secret.Hash(key.Reveal())
	_, err := q.Exec(ctx, `UPDATE tenants SET api_key_hash = $2, api_key_suffix = $3, updated_at = $4 WHERE id = $1`,
		id, hash[:], key.Suffix(), s.Clock.Now())
	return err
}
