package tenant

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"ajo/internal/pg"
)

// shadowDomain ends the e-mail addresses of the owners of shadow tenants. No mail reaches it, so no
// registration of a live tenant with it can be verified.
const shadowDomain = "@shadow.invalid"

// Why a service does not start with a database.
var (
	errLiveDatabase = errors.New("it has live tenants: the sandbox needs a database of its own")
	errTestDatabase = errors.New("it is the sandbox's, which has no live tenants")
)

// CheckDatabase refuses a database of the other mode: live tenants in the sandbox, and shadow
// tenants in the live service, whose workers would pay out test money.
func CheckDatabase(ctx context.Context, q pg.Querier, sandbox bool) error {
	var live, shadow bool
	err := q.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM tenants WHERE email NOT LIKE '%' || $1), EXISTS (SELECT FROM tenants WHERE email LIKE '%' || $1)`, shadowDomain).Scan(&live, &shadow)
	switch {
	case err != nil:
		return err
	case sandbox && live:
		return errLiveDatabase
	case !sandbox && shadow:
		return errTestDatabase
	}
	return nil
}

// Shadow returns the sandbox's tenant for a live one, with the member that calls, and makes both at
// first sight. of is as the live service knows it: its name, e-mail, member and role count here
// too. The shadow has a verified business and an owner of its own, who cannot log in: which member
// owns the live tenant may change. Callers at once make one. [ErrSuspended].
func (s *Service) Shadow(ctx context.Context, of Tenant) (Tenant, error) {
	t, known, err := s.findShadow(ctx, of)
	if err == nil && !known {
		if err = s.makeShadow(ctx, of); err == nil {
			t, _, err = s.findShadow(ctx, of)
		}
	}
	if err == nil {
		err = admit(t)
	}
	if err != nil {
		return Tenant{}, err
	}
	t.Name, t.Email, t.Member = of.Name, of.Email, of.Member
	return t, nil
}

// findShadow reports whether the tenant and its member are here as they should be.
func (s *Service) findShadow(ctx context.Context, of Tenant) (t Tenant, known bool, err error) {
	err = s.Pool.QueryRow(ctx, `
		SELECT `+columns+`, EXISTS (SELECT FROM members m WHERE m.tenant_id = t.id AND m.id = $2 AND m.role = $3 AND m.removed_at IS NULL)
		FROM tenants t WHERE t.id = $1`, of.ID, of.Member.ID, shadowRole(of.Member.Role)).Scan(append(t.fields(), &known)...)
	return t, known, pg.OrNone(err, nil)
}

// shadowRole is the role of a member's row: there is one owner, who is nobody.
func shadowRole(r Role) Role {
	if r == Owner {
		return Finance
	}
	return r
}

// makeShadow writes what is missing. An e-mail address opens one live tenant at a time, so whoever
// had it here before has it no more.
func (s *Service) makeShadow(ctx context.Context, of Tenant) error {
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		owner := of.ID.String() + shadowDomain
		if _, err := tx.Exec(ctx, `
			INSERT INTO tenants (id, name, email, email_verified_at, kyc_status, business_type, created_at, updated_at)
			VALUES ($1, $2, $3, $4, 'verified', 'other', $4, $4) ON CONFLICT DO NOTHING`, of.ID, of.Name, owner, now); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT FROM tenants t`+string(forChange), of.ID); err != nil {
			return err
		}
		const insert = `
			INSERT INTO members (id, tenant_id, email, name, role, password_hash, invited_at, joined_at) VALUES ($1, $2, $3, $4, $5, '', $6, $6)
			ON CONFLICT (id) DO UPDATE SET role = excluded.role WHERE members.role <> excluded.role AND members.removed_at IS NULL`
		if _, err := tx.Exec(ctx, insert, of.ID, of.ID, owner, of.Name, Owner, now); err != nil {
			return err
		}
		if of.Member.ID == uuid.Nil {
			return nil
		}
		if _, err := tx.Exec(ctx, `
			UPDATE members SET removed_at = $3, password_hash = NULL WHERE email = $1 AND id <> $2 AND removed_at IS NULL`, of.Member.Email, of.Member.ID, now); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, insert, of.Member.ID, of.ID, of.Member.Email, of.Member.Name, shadowRole(of.Member.Role), now)
		return err
	})
}
