package tenant

import (
	"context"
	"crypto/sha256"

	"github.com/google/uuid"

	"ajo/internal/batch"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// KeyWarning accompanies a key, which is shown only once.
const KeyWarning = "Store this API key now: it is shown only once and cannot be retrieved later."

// Keys of concurrent requests are looked up together, in this many queries at once.
const (
	keyWriters = 1
	keyBatch   = 100
)

// ByAPIKey returns the tenant that owns the key. Every request looks its key up in the database, by
// its SHA-256, in a query that begins after the request has arrived: together with the keys of
// other requests, but never from memory. [ErrUnauthorized] for a key that is missing, malformed,
// rotated or unknown; [ErrSuspended]. (Specification, "API key (server to server)".)
func (s *Service) ByAPIKey(ctx context.Context, key secret.Redacted) (Tenant, error) {
	if !secret.CheckAPIKey(key.Reveal()) {
		return Tenant{}, ErrUnauthorized
	}
	hash := secret.Hash(key.Reveal())
	t, err := s.keys.Do(ctx, hash)
	if err != nil {
		return Tenant{}, err
	}
	return admit(t)
}

// byKeys finds the tenants of many keys in one query.
func (s *Service) byKeys(ctx context.Context, hashes [][sha256.Size]byte) []batch.Outcome[Tenant] {
	out := make([]batch.Outcome[Tenant], len(hashes))
	byHash, err := s.readKeys(ctx, hashes)
	for i, h := range hashes {
		t, ok := byHash[h]
		switch {
		case err != nil:
			out[i].Err = err
		case !ok:
			out[i].Err = ErrUnauthorized
		default:
			out[i].Value = t
		}
	}
	return out
}

func (s *Service) readKeys(ctx context.Context, hashes [][sha256.Size]byte) (map[[sha256.Size]byte]Tenant, error) {
	asked := make([][]byte, len(hashes))
	for i := range hashes {
		asked[i] = hashes[i][:]
	}
	rows, err := s.Pool.Query(ctx, `SELECT t.api_key_hash, `+columns+` FROM tenants t WHERE t.api_key_hash = ANY($1)`, asked)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	byHash := map[[sha256.Size]byte]Tenant{}
	for rows.Next() {
		var hash []byte
		var t Tenant
		if err := rows.Scan(append([]any{&hash}, t.fields()...)...); err != nil {
			return nil, err
		}
		byHash[[sha256.Size]byte(hash)] = t
	}
	return byHash, rows.Err()
}

// RotateKey gives the tenant a new key and returns it; the previous key stops working at once.
// Session only.
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
