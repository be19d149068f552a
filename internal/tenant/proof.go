package tenant

import (
	"context"
	"net/netip"

	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// Prove has the member of a session show once more who is there, before money leaves: by the
// password or, where the member has a second factor, by a code of it or a recovery code, which is
// used up. So a session that was left open is not enough. A refusal is recorded as that of a
// sign-in is. [errPasswordMissing], [ErrPassword]; [ErrResetCodeMissing], [errWrongCode].
func (s *Service) Prove(ctx context.Context, t Tenant, password, code secret.Redacted, from netip.Addr) error {
	err := s.proveMember(ctx, t.Member, password, code, from)
	if refusal := errs.As(err); refusal == ErrPassword || refusal == errWrongCode {
		s.noteRefusal(t.ID, t.Member.Email, from)
	}
	return err
}

func (s *Service) proveMember(ctx context.Context, m Member, password, code secret.Redacted, from netip.Addr) error {
	if !m.TOTP {
		if password.IsZero() {
			return errPasswordMissing
		}
		_, err := s.checkOwnPassword(ctx, m.ID, password, ErrPassword)
		return err
	}
	if code.IsZero() {
		return ErrResetCodeMissing
	}
	left := -1
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) (err error) {
		var right bool
		if right, left, err = s.spend(ctx, tx, m.ID, code, s.Clock.Now()); err == nil && !right {
			err = errWrongCode
		}
		return err
	})
	if err == nil && left >= 0 {
		s.mails.send(recoveryEmail(m.Email, left, from))
	}
	return err
}
