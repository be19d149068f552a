package tenant

import (
	"context"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/pg"
)

// What the audit log calls the acts on sessions.
const (
	actSignIn  = "session.begin"
	actRefused = "session.refused"
	actSignOut = "session.end"
)

// maxRefusals is how many sign-ins with a wrong password are recorded in an hour, for each tenant.
// A stranger who guesses for ever adds no more lines than that.
const maxRefusals = 10

// noteRefusal records a sign-in with a wrong password. It returns at once: the answer must not take
// longer for a tenant that exists.
func (s *Service) noteRefusal(id uuid.UUID, email string, from netip.Addr) {
	s.mails.later(email, "a refused sign-in", func(ctx context.Context) error { return s.writeRefusal(ctx, id, email, from) })
}

func (s *Service) writeRefusal(ctx context.Context, id uuid.UUID, email string, from netip.Addr) error {
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		var n int
		err := tx.QueryRow(ctx, `
			SELECT count(*) FROM (SELECT FROM audit_log WHERE tenant_id = $1 AND action = 'session.refused' AND at > $2 LIMIT $3) recent`,
			id, now.Add(-time.Hour), maxRefusals).Scan(&n)
		if err != nil || n >= maxRefusals {
			return err
		}
		return audit.Write(ctx, tx, now, audit.Unknown(from).Entry(actRefused, target(id), audit.Change{After: emailShown{email}}).Of(id))
	})
}

// SignedIn remembers the network from which a session was opened, and tells the member by e-mail
// when it is a new one, but for its first session.
func (s *Service) SignedIn(ctx context.Context, in Session, from netip.Addr, network string) error {
	known, err := s.remember(ctx, in.Email, network)
	if err == nil && !known && !in.First {
		s.mails.send(signInEmail(in.Email, from, s.Clock.Now()))
	}
	return err
}

// emailShown is what the audit log keeps of whose session it is.
type emailShown struct {
	Email string `json:"email"`
}

// urlShown is what the audit log keeps of the webhook URL.
type urlShown struct {
	URL string `json:"url"`
}
