package tenant

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"

	"ajo/internal/batch"
	"ajo/internal/errs"
	"ajo/internal/secret"
)

// KeyWarning accompanies a key, which is shown only once.
const KeyWarning = "Store this API key now: it is shown only once and cannot be retrieved later."

// Keys of concurrent requests are looked up together, in this many queries at once.
const (
	keyWriters = 1
	keyBatch   = 100
)

// Key is the API key of a request.
type Key struct {
	ID       uuid.UUID
	scopes   []Scope // nil: all
	networks []netip.Prefix
	lastUsed *time.Time
}

// Allows refuses a key without the scope, with a text that names it.
func (k Key) Allows(s Scope) error {
	if k.scopes == nil || slices.Contains(k.scopes, s) {
		return nil
	}
	return errs.New(errs.Forbidden, "this API key lacks the scope "+string(s))
}

// allowsFrom refuses a key that may not be used from the address, with a text that names it.
func (k Key) allowsFrom(addr netip.Addr) error {
	if len(k.networks) == 0 {
		return nil
	}
	addr = addr.Unmap().WithZone("")
	for _, n := range k.networks {
		if n.Contains(addr) {
			return nil
		}
	}
	return errs.New(errs.Forbidden, fmt.Sprintf("this API key may not be used from %s", addr))
}

// ByAPIKey returns the tenant that owns the key, which is used from the address. Every request
// looks its key up in the database, by its SHA-256, in a query that begins after the request has
// arrived: together with the keys of other requests, but never from memory. [ErrUnauthorized] for a
// key that is missing, malformed, rotated, revoked, expired or unknown; [ErrSuspended]; a refusal
// that names the address when the key is restricted to others. What the key may be used for is for
// the caller to ask ([Key.Allows]). (Specification, "API key (server to server)".)
func (s *Service) ByAPIKey(ctx context.Context, key secret.Redacted, from netip.Addr) (Tenant, error) {
	if !secret.CheckAPIKey(key.Reveal()) {
		return Tenant{}, ErrUnauthorized
	}
	hash := secret.Hash(key.Reveal())
	t, err := s.keys.Do(ctx, hash)
	if err != nil {
		return Tenant{}, err
	}
	if _, err := admit(t); err != nil {
		return Tenant{}, err
	}
	if err := t.Key.allowsFrom(from); err != nil {
		return Tenant{}, err
	}
	s.uses.note(t.Key, from, s.Clock.Now())
	return t, nil
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
	rows, err := s.Pool.Query(ctx, `
		SELECT k.hash, k.id, k.scopes, k.networks, k.last_used_at, `+rowColumns+`
		FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
		WHERE k.hash = ANY($1) AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $2)`, asked, s.Clock.Now())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	byHash := map[[sha256.Size]byte]Tenant{}
	for rows.Next() {
		var hash []byte
		var t Tenant
		k := &t.Key
		if err := rows.Scan(append([]any{&hash, &k.ID, &k.scopes, &k.networks, &k.lastUsed}, t.rowFields()...)...); err != nil {
			return nil, err
		}
		byHash[[sha256.Size]byte(hash)] = t
	}
	return byHash, rows.Err()
}
