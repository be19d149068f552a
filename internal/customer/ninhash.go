package customer

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"

	"github.com/google/uuid"

	"ajo/internal/pg"
	"ajo/internal/secret"
)

// ninHash returns the hash by which two customers are known to have one NIN. There are few enough
// NINs to hash them all, so the hash has a key, which is made by whoever needs it first and kept
// sealed.
func (s *Service) ninHash(ctx context.Context, tx pg.Tx, nin secret.Redacted) ([]byte, error) {
	const read = `SELECT id, key FROM hash_keys WHERE name = 'nin'`
	place := func(id uuid.UUID) secret.Place {
		return secret.Place{Table: "hash_keys", Column: "key", Row: id.String()}
	}
	var id uuid.UUID
	var sealed []byte
	err := tx.QueryRow(ctx, read).Scan(&id, &sealed)
	if pg.IsNoRows(err) {
		id = uuid.Must(uuid.NewV7())
		fresh := make([]byte, sha256.Size)
		_, _ = rand.Read(fresh) // never fails
		_, err = tx.Exec(ctx, `INSERT INTO hash_keys (id, name, key, created_at) VALUES ($1, 'nin', $2, $3) ON CONFLICT (name) DO NOTHING`,
			id, s.Box.Seal(place(id), fresh), s.Clock.Now())
		if err == nil {
			err = tx.QueryRow(ctx, read).Scan(&id, &sealed) // another's, where two made one
		}
	}
	if err != nil {
		return nil, err
	}
	key, err := s.Box.Open(place(id), sealed)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(nin.Reveal()))
	return mac.Sum(nil), nil
}

// ninTaken reports whether the NIN of the hash has approved another customer of the tenant.
func ninTaken(ctx context.Context, q pg.Querier, c Customer, hash []byte) (taken bool, err error) {
	err = q.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM customers WHERE tenant_id = $1 AND nin_hash = $2 AND id <> $3 AND kyc_status = 'approved')`,
		c.TenantID, hash, c.ID).Scan(&taken)
	return taken, err
}
