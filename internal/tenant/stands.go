package tenant

import (
	"context"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// standsIn refuses what a request asks for when its credential has ended since it came, as it may
// while the request waits for the bank, a lock or a turn: the key, or the session of the token,
// with the member's role and the second factor. In a transaction the member's row stays as it is
// until that ends, so whoever is removed before it commits does nothing more.
func (s *Service) standsIn(ctx context.Context, q pg.Querier, t Tenant, token secret.Redacted, need Role) error {
	now := s.Clock.Now()
	if t.Key.ID != uuid.Nil {
		err := q.QueryRow(ctx, `
			SELECT t.status FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
			WHERE k.id = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $2)`, t.Key.ID, now).Scan(&t.Status)
		if err == nil {
			err = admit(t)
		}
		return pg.OrNone(err, ErrUnauthorized)
	}
	hash := secret.Hash(token.Reveal())
	var open, removed bool
	err := q.QueryRow(ctx, `
		SELECT s.member_id, t.status, t.totp_required, s.ended_at IS NULL AND s.expires_at > $2 FROM sessions s JOIN tenants t ON t.id = ANY(ARRAY[s.tenant_id])
		WHERE s.token_hash = $1`, hash[:], now).Scan(&t.Member.ID, &t.Status, &t.TOTPRequired, &open)
	if err == nil {
		err = admit(t)
	}
	if err == nil {
		err = q.QueryRow(ctx, `SELECT m.role, m.totp_confirmed_at IS NOT NULL, m.removed_at IS NOT NULL FROM members m WHERE m.id = $1 FOR SHARE`, t.Member.ID).Scan(&t.Member.Role, &t.Member.TOTP, &removed)
	}
	switch {
	case err != nil:
		return pg.OrNone(err, ErrUnauthorized)
	case !open || removed:
		return ErrUnauthorized
	}
	if err := t.Member.Allows(need); err != nil {
		return err
	}
	return t.Complete()
}

// Standing is the check for a use case that has waited, which makes it in its own transaction:
// [ErrUnauthorized], [ErrSuspended], [errTOTPNeeded], or a refusal that names the role, where the
// credential has ended, lacks a second factor that is required by now, or has another role since
// the request came.
func (s *Service) Standing(t Tenant, token secret.Redacted, need Role) func(context.Context, pg.Querier) error {
	return func(ctx context.Context, q pg.Querier) error { return s.standsIn(ctx, q, t, token, need) }
}

// Present is the check for a change of the member itself: only the session counts, as the role and
// the second factor may be what changes.
func (s *Service) Present(t Tenant, token secret.Redacted) func(context.Context, pg.Querier) error {
	return func(ctx context.Context, q pg.Querier) error {
		if err := s.standsIn(ctx, q, t, token, Viewer); errs.As(err) != errTOTPNeeded { // which is asked last
			return err
		}
		return nil
	}
}

// Stands is the check of [Service.Standing] for what a request has read while it waited.
func (s *Service) Stands(ctx context.Context, t Tenant, token secret.Redacted, need Role) error {
	return s.standsIn(ctx, s.Pool, t, token, need)
}
