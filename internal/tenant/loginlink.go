package tenant

import (
	"context"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// LoginLinkLife is how long a login link is valid.
const LoginLinkLife = 10 * time.Minute

// Refusals of a login link.
var (
	errTokenMissing = errs.New(errs.Invalid, "token is required")
	errLoginLink    = errs.New(errs.Invalid, "invalid or expired link")
)

// LoginLink makes a token that opens one session of the tenant's owner, within [LoginLinkLife], for
// whoever has it; only its hash is stored. Operators use it for a tenant that cannot log in.
// [ErrNotFound]; [ErrSuspended].
func (s *Service) LoginLink(ctx context.Context, id uuid.UUID, by audit.By) (token secret.Redacted, expires time.Time, err error) {
	token = secret.NewToken()
	hash := secret.Hash(token.Reveal())
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		expires = now.Add(LoginLinkLife)
		t, err := lockTenant(ctx, tx, id, forLogin)
		if err != nil {
			return err
		}
		if err := admit(t.Tenant); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO login_links (token_hash, tenant_id, created_at, expires_at) VALUES ($1, $2, $3, $4)`, hash[:], id, now, expires)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("tenant.login-link", target(id), struct {
			Name    string
			Expires time.Time
		}{t.Name, expires}).Of(id))
	})
	return token, expires, err
}

// LoginByLink uses a login link's token and opens a session of the owner. Anyone may call it.
// [errLoginLink] whatever is wrong with the token: unknown, used, expired, or ended with the
// tenant's sessions; [ErrSuspended]. The tenant's row is locked first (see openSession), and the
// token's row is removed in the transaction that writes the session, so that only one of two
// concurrent uses succeeds. No second factor is asked for: the link is an operator's word, as its
// reset is.
func (s *Service) LoginByLink(ctx context.Context, token secret.Redacted, from netip.Addr) (Session, error) {
	switch {
	case token.IsZero():
		return Session{}, errTokenMissing
	case len(token.Reveal()) != tokenLength:
		return Session{}, errLoginLink
	}
	hash := secret.Hash(token.Reveal())
	var out Session
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		var id uuid.UUID
		err := tx.QueryRow(ctx, `SELECT tenant_id FROM login_links WHERE token_hash = $1 AND expires_at > $2`, hash[:], s.Clock.Now()).Scan(&id)
		if err != nil {
			return pg.OrNone(err, errLoginLink)
		}
		t, err := lockTenant(ctx, tx, id, forLogin)
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT `+memberColumns+` FROM members m WHERE m.tenant_id = $1 AND m.role = $2`, id, Owner).Scan(t.Member.fields()...); err != nil {
			return err
		}
		if err := admit(t.Tenant); err != nil {
			return err
		}
		spent, err := tx.Exec(ctx, `DELETE FROM login_links WHERE token_hash = $1`, hash[:])
		if err != nil {
			return err
		}
		if spent.RowsAffected() == 0 {
			return errLoginLink
		}
		out, err = s.writeSession(ctx, tx, t.Tenant, "login link", from)
		return err
	})
	return out, err
}
