package tenant

import (
	"context"
	"net/netip"

	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// Proof is what the member of a session gives to show once more who is there.
type Proof struct {
	Password secret.Redacted
	Code     secret.Redacted // of a second factor, or a recovery code
	From     netip.Addr
}

// Prove has the member of a session show once more who is there, before money leaves: by the
// password or, where the member has a second factor, by a code of it or a recovery code, which is
// used up. So a session that was left open is not enough. A refusal is recorded as that of a
// sign-in is. [errPasswordMissing], [ErrPassword]; [ErrResetCodeMissing], [errWrongCode].
func (s *Service) Prove(ctx context.Context, t Tenant, p Proof) error {
	_, err := s.checkProof(ctx, t, p)
	return err
}

// checkProof returns the hash of the password that was right; empty: a code was.
func (s *Service) checkProof(ctx context.Context, t Tenant, p Proof) (hash string, err error) {
	hash, err = s.proveMember(ctx, t.Member, p)
	if refusal := errs.As(err); refusal == ErrPassword || refusal == errWrongCode {
		s.noteRefusal(t.ID, t.Member.Email, p.From)
	}
	return hash, err
}

func (s *Service) proveMember(ctx context.Context, m Member, p Proof) (hash string, err error) {
	if !m.TOTP {
		if p.Password.IsZero() {
			return "", errPasswordMissing
		}
		return s.checkOwnPassword(ctx, m.ID, p.Password, ErrPassword)
	}
	if p.Code.IsZero() {
		return "", ErrResetCodeMissing
	}
	left := -1
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) (err error) {
		var right bool
		if right, left, err = s.spend(ctx, tx, m.ID, p.Code, s.Clock.Now()); err == nil && !right {
			err = errWrongCode
		}
		return err
	})
	if err == nil && left >= 0 {
		s.mails.send(recoveryEmail(m.Email, left, p.From))
	}
	return "", err
}
