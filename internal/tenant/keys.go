package tenant

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/batch"
	"ajo/internal/errs"
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
	if !s.KeyKind.Check(key.Reveal()) {
		return Tenant{}, ErrUnauthorized
	}
	hash := secret.Hash(key.Reveal())
	t, err := s.keys.Do(ctx, hash)
	if err != nil {
		return Tenant{}, err
	}
	if err := admit(t); err != nil {
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
	asked := make([][]byte, 0, len(hashes)) // each once, though many requests carry it
	for i := range hashes {
		if !slices.ContainsFunc(asked, func(h []byte) bool { return bytes.Equal(h, hashes[i][:]) }) {
			asked = append(asked, hashes[i][:])
		}
	}
	type found struct {
		hash   [sha256.Size]byte
		tenant Tenant
	}
	list, err := pg.CollectAsBatch(ctx, s.Pool, func(row pgx.CollectableRow) (f found, err error) {
		k := &f.tenant.Key
		var hash []byte
		err = row.Scan(append([]any{&hash, &k.ID, &k.scopes, &k.networks, &k.lastUsed}, f.tenant.rowFields()...)...)
		copy(f.hash[:], hash)
		return f, err
	}, `
		SELECT k.hash, k.id, k.scopes, k.networks, k.last_used_at, `+rowColumns+`
		FROM unnest($1::bytea[]) AS m (hash)
		JOIN api_keys k ON k.hash = ANY(ARRAY[m.hash])
		JOIN tenants t ON t.id = ANY(ARRAY[k.tenant_id])
		WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $2)`, asked, s.Clock.Now())
	byHash := make(map[[sha256.Size]byte]Tenant, len(list))
	for _, f := range list {
		byHash[f.hash] = f.tenant
	}
	return byHash, err
}
