package tenant

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// Bounds of a tenant's keys. maxKeys are those that work.
const (
	maxKeys     = 50
	maxKeyName  = 100 // characters
	maxNetworks = 20
)

// MaxOverlap is how long a key may work beside the one that has taken its place.
const MaxOverlap = 7 * 24 * time.Hour

// mainKeyName is the name of the specification's key.
const mainKeyName = "Main key"

// Refusals of a change of keys.
var (
	errKeyName     = errs.New(errs.Invalid, "name must have 1 to 100 characters, without control characters")
	errKeyExpiry   = errs.New(errs.Invalid, "expiresAt must be in the future")
	errKeyNetworks = errs.New(errs.Invalid, fmt.Sprintf("networks must have at most %d entries", maxNetworks))
	errManyKeys    = errs.New(errs.Unprocessable, fmt.Sprintf("a tenant has at most %d active keys", maxKeys))
	ErrKeyNotFound = errs.New(errs.NotFound, "key not found")
	errKeyEnded    = errs.New(errs.Unprocessable, "key is expired or revoked")
	errKeyRotated  = errs.New(errs.Conflict, "key has already been rotated")
)

// KeyStatus says whether a key works.
type KeyStatus string

// The statuses of a key. They follow from its times and the present one; only the last two last.
const (
	KeyActive   KeyStatus = "active"
	KeyRotating KeyStatus = "rotating" // another has taken its place; it works until it expires
	KeyExpired  KeyStatus = "expired"
	KeyRevoked  KeyStatus = "revoked"
)

// KeyRecord is an API key as its tenant sees it. The key itself is no part of it.
type KeyRecord struct {
	ID           uuid.UUID      `json:"id"`
	Name         string         `json:"name"`
	Main         bool           `json:"main"` // the specification's, which POST /auth/rotate-key replaces
	Suffix       string         `json:"suffix"`
	Status       KeyStatus      `json:"status"`
	Scopes       []Scope        `json:"scopes"`
	Networks     []netip.Prefix `json:"networks"` // empty: it may be used from anywhere
	CreatedAt    time.Time      `json:"createdAt"`
	RotatedAt    *time.Time     `json:"rotatedAt"`
	ExpiresAt    *time.Time     `json:"expiresAt"`
	RevokedAt    *time.Time     `json:"revokedAt"`
	LastUsedAt   *time.Time     `json:"lastUsedAt"` // to a minute
	LastUsedFrom *netip.Addr    `json:"lastUsedFrom"`

	allScopes bool
}

// keyColumns are those of a KeyRecord, in the order of its scan; $1 is the present time.
const keyColumns = `k.id, k.name, k.main, k.suffix,
	CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked' WHEN k.expires_at <= %s THEN 'expired' WHEN k.rotated_at IS NOT NULL THEN 'rotating' ELSE 'active' END,
	k.scopes, k.networks, k.created_at, k.rotated_at, k.expires_at, k.revoked_at, k.last_used_at, k.last_used_from`

func scanKey(row pgx.CollectableRow) (KeyRecord, error) {
	var k KeyRecord
	err := row.Scan(&k.ID, &k.Name, &k.Main, &k.Suffix, &k.Status, &k.Scopes, &k.Networks, &k.CreatedAt, &k.RotatedAt, &k.ExpiresAt,
		&k.RevokedAt, &k.LastUsedAt, &k.LastUsedFrom)
	if k.Scopes == nil {
		k.Scopes, k.allScopes = Scopes, true
	}
	return k, err
}

// works reports whether the key is accepted.
func (k KeyRecord) works() bool { return k.Status == KeyActive || k.Status == KeyRotating }

// keyShown is what the audit log keeps of a key.
type keyShown struct {
	Name      string         `json:"name"`
	Suffix    string         `json:"suffix"`
	Scopes    []Scope        `json:"scopes,omitempty"` // none: all
	Networks  []netip.Prefix `json:"networks,omitempty"`
	ExpiresAt *time.Time     `json:"expiresAt,omitempty"`
}

func (k KeyRecord) shown() keyShown {
	s := keyShown{k.Name, k.Suffix, k.Scopes, k.Networks, k.ExpiresAt}
	if k.allScopes {
		s.Scopes = nil
	}
	return s
}

func keyTarget(id uuid.UUID) string { return "key:" + id.String() }

// Keys returns a page of the tenant's keys, newest first, those that have ended within 90 days
// too. Session, or an operator. A bad cursor is [page.ErrCursor].
func (s *Service) Keys(ctx context.Context, id uuid.UUID, r page.Request) ([]KeyRecord, page.Info, error) {
	list := pg.List[KeyRecord]{Name: page.Keys, ID: func(k KeyRecord) uuid.UUID { return k.ID }, Row: scanKey}
	return list.Page(ctx, s.Pool, r, `
		SELECT `+fmt.Sprintf(keyColumns, "@now")+` FROM api_keys k
		WHERE k.tenant_id = @tenant AND k.id < @before ORDER BY k.id DESC LIMIT @limit`, pgx.NamedArgs{"now": s.Clock.Now(), "tenant": id})
}

// Key returns a key of a tenant. Session, or an operator; [ErrKeyNotFound].
func (s *Service) Key(ctx context.Context, id, keyID uuid.UUID) (KeyRecord, error) {
	return readKey(ctx, s.Pool, id, keyID, s.Clock.Now())
}

// NewKey is what a tenant asks for with a new key.
type NewKey struct {
	Name      string
	Scopes    []string
	Networks  []string   // addresses, or CIDR ranges; none: anywhere
	ExpiresAt *time.Time // nil: never
}

func (n NewKey) read(now time.Time) (KeyRecord, error) {
	k := KeyRecord{Name: strings.TrimSpace(n.Name), ExpiresAt: n.ExpiresAt, Networks: []netip.Prefix{}}
	if k.Name == "" || !errs.Plain(k.Name, maxKeyName) {
		return k, errKeyName
	}
	if k.ExpiresAt != nil && !k.ExpiresAt.After(now) {
		return k, errKeyExpiry
	}
	if len(n.Networks) > maxNetworks {
		return k, errKeyNetworks
	}
	for i, text := range n.Networks {
		p, err := readNetwork(fmt.Sprintf("networks[%d]", i), strings.TrimSpace(text))
		if err != nil {
			return k, err
		}
		k.Networks = append(k.Networks, p)
	}
	var err error
	k.Scopes, err = readScopes(n.Scopes)
	return k, err
}

// readNetwork reads an address or a CIDR range. An IPv4 address that is written as IPv6 is the IPv4
// one, as callers' addresses are.
func readNetwork(field, text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	switch {
	case err != nil || p.Addr().Is4In6():
		return p, errs.New(errs.Invalid, field+" must be an IP address or a range such as 203.0.113.0/24 or 2001:db8::/32")
	case p != p.Masked():
		return p, errs.New(errs.Invalid, fmt.Sprintf("%s has host bits set; the range is %s", field, p.Masked()))
	}
	return p, nil
}

// CreateKey gives the tenant one more key and returns it, once, with its record. The owner gets an
// e-mail. Session only: a developer's, or the owner's for a key that moves money. [errKeyName],
// [errKeyExpiry], the refusals of scopes and networks; a refusal that names scope and role;
// [errManyKeys].
func (s *Service) CreateKey(ctx context.Context, id uuid.UUID, m Member, n NewKey, by audit.By) (secret.APIKey, KeyRecord, error) {
	now := s.Clock.Now()
	key := s.KeyKind.New()
	k, err := n.read(now)
	if err != nil {
		return key, k, err
	}
	if err := m.mayMake(k); err != nil {
		return key, k, err
	}
	var email string
	err = s.locking(ctx, id, func(tx pg.Tx, _ time.Time, t locked) error {
		email = t.Email
		if err := roomForKey(ctx, tx, id, now); err != nil {
			return err
		}
		k, err = writeKey(ctx, tx, keyRow{tenant: id, name: k.Name, scopes: k.Scopes, networks: k.Networks, expires: k.ExpiresAt}, key, now)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("keys.create", keyTarget(k.ID), audit.Change{After: k.shown()}).Of(id))
	})
	if err == nil {
		s.mails.send(keyEmail(email, "A new API key was made", k, by))
	}
	return key, k, err
}

// RotateKey gives the tenant a new main key and returns it; the previous one stops working at once,
// and no other key changes. The owner gets an e-mail. Session only. (Specification, POST
// /auth/rotate-key.)
func (s *Service) RotateKey(ctx context.Context, id uuid.UUID, by audit.By) (secret.APIKey, error) {
	key := s.KeyKind.New()
	var email string
	var k KeyRecord
	err := s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) (err error) {
		email = t.Email
		var change audit.Change
		old, err := pg.One(ctx, tx, scanKey, ErrKeyNotFound, `SELECT `+fmt.Sprintf(keyColumns, "$2")+` FROM api_keys k WHERE k.tenant_id = $1 AND k.main`, id, now)
		switch {
		case err == nil:
			change.Before = old.shown()
			_, err = endKey(ctx, tx, old.ID, now)
		case errs.As(err) == ErrKeyNotFound: // it was revoked
			err = roomForKey(ctx, tx, id, now)
		}
		if err != nil {
			return err
		}
		if k, err = writeKey(ctx, tx, mainKey(id), key, now); err != nil {
			return err
		}
		change.After = k.shown()
		return audit.Write(ctx, tx, now, by.Entry("keys.rotate", keyTarget(k.ID), change).Of(id))
	})
	if err == nil {
		s.mails.send(keyEmail(email, "Your main API key was replaced", k, by))
	}
	return key, err
}

// RotateOne puts a new key in the place of one: it has its name, scopes, networks and expiry, and
// is the main key if that was. The old one works beside it for the overlap, at most [MaxOverlap]
// and not beyond its own expiry. The owner gets an e-mail. Session only, of who may create such a
// key. [ErrKeyNotFound], [errKeyEnded]; [errKeyRotated] when it was rotated before.
func (s *Service) RotateOne(ctx context.Context, id uuid.UUID, m Member, keyID uuid.UUID, overlap time.Duration, by audit.By) (secret.APIKey, KeyRecord, error) {
	key := s.KeyKind.New()
	var email string
	var k KeyRecord
	err := s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) (err error) {
		email = t.Email
		old, err := readKey(ctx, tx, id, keyID, now)
		switch {
		case err != nil:
			return err
		case !old.works():
			return errKeyEnded
		case old.RotatedAt != nil:
			return errKeyRotated
		}
		if err := m.mayMake(old); err != nil {
			return err
		}
		n := keyRow{tenant: id, main: old.Main, name: old.Name, scopes: old.Scopes, networks: old.Networks, expires: old.ExpiresAt}
		if old.allScopes {
			n.scopes = nil
		}
		if overlap > 0 {
			if err := roomForKey(ctx, tx, id, now); err != nil {
				return err
			}
			old, err = changeKey(ctx, tx, keyID, now, `rotated_at = $2, expires_at = least(k.expires_at, $3)`, now.Add(overlap))
		} else {
			old, err = endKey(ctx, tx, keyID, now)
		}
		if err != nil {
			return err
		}
		if k, err = writeKey(ctx, tx, n, key, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("keys.rotate", keyTarget(k.ID), audit.Change{Before: old.shown(), After: k.shown()}).Of(id))
	})
	if err == nil {
		s.mails.send(keyEmail(email, "An API key was replaced", k, by))
	}
	return key, k, err
}

// RevokeKey ends a key at once, and returns it. One that has ended already stays as it is. Session,
// or an operator. [ErrKeyNotFound].
func (s *Service) RevokeKey(ctx context.Context, id, keyID uuid.UUID, by audit.By) (k KeyRecord, err error) {
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, _ locked) error {
		old, err := readKey(ctx, tx, id, keyID, now)
		if err != nil || !old.works() {
			k = old
			return err
		}
		if k, err = endKey(ctx, tx, keyID, now); err != nil {
			return err
		}
		action := "keys.revoke"
		if !by.Own() {
			action = "tenant.revoke-key"
		}
		return audit.Write(ctx, tx, now, by.Entry(action, keyTarget(keyID), audit.Change{Before: old.shown()}).Of(id))
	})
	return k, err
}

// roomForKey refuses one more key that works, with [errManyKeys].
func roomForKey(ctx context.Context, tx pg.Tx, id uuid.UUID, now time.Time) error {
	var n int
	err := tx.QueryRow(ctx, `
		SELECT count(*) FROM api_keys WHERE tenant_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`, id, now).Scan(&n)
	if err == nil && n >= maxKeys {
		return errManyKeys
	}
	return err
}

func readKey(ctx context.Context, q pg.Querier, id, keyID uuid.UUID, now time.Time) (KeyRecord, error) {
	return pg.One(ctx, q, scanKey, ErrKeyNotFound, `SELECT `+fmt.Sprintf(keyColumns, "$3")+` FROM api_keys k WHERE k.tenant_id = $1 AND k.id = $2`, id, keyID, now)
}

// endKey ends a key that works, and returns it.
func endKey(ctx context.Context, tx pg.Tx, keyID uuid.UUID, now time.Time) (KeyRecord, error) {
	return changeKey(ctx, tx, keyID, now, `revoked_at = $2, expires_at = least(k.expires_at, $2)`)
}

// changeKey changes a key that works so that it is not the main one any more, and returns it. $2 is
// the time now, and args follow it.
func changeKey(ctx context.Context, tx pg.Tx, keyID uuid.UUID, now time.Time, set string, args ...any) (KeyRecord, error) {
	return pg.One(ctx, tx, scanKey, ErrKeyNotFound, `UPDATE api_keys k SET main = false, `+set+` WHERE k.id = $1 RETURNING `+fmt.Sprintf(keyColumns, "$2"),
		append([]any{keyID, now}, args...)...)
}

// keyRow is a row of api_keys that is written.
type keyRow struct {
	tenant   uuid.UUID
	main     bool
	name     string
	scopes   []Scope // nil: all
	networks []netip.Prefix
	expires  *time.Time
}

// mainKey is the specification's key: all scopes, from anywhere, for ever.
func mainKey(tenant uuid.UUID) keyRow { return keyRow{tenant: tenant, main: true, name: mainKeyName} }

// writeKey writes a key, and returns it.
func writeKey(ctx context.Context, tx pg.Tx, n keyRow, key secret.APIKey, now time.Time) (KeyRecord, error) {
	id, hash := uuid.Must(uuid.NewV7()), secret.Hash(key.Reveal())
	if n.networks == nil {
		n.networks = []netip.Prefix{}
	}
	return pg.One(ctx, tx, scanKey, ErrKeyNotFound, `
		INSERT INTO api_keys AS k (id, tenant_id, main, name, hash, suffix, scopes, networks, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING `+fmt.Sprintf(keyColumns, "$9"),
		id, n.tenant, n.main, n.name, hash[:], key.Suffix(), n.scopes, n.networks, now, n.expires)
}
