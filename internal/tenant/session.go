package tenant

import (
	"context"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// errSessionNotFound refuses a session that the member may not see, or that has expired.
var errSessionNotFound = errs.New(errs.NotFound, "session not found")

// SessionRecord is a session as members see it. Its token is no part of it.
type SessionRecord struct {
	ID        uuid.UUID   `json:"id"`
	MemberID  uuid.UUID   `json:"memberId"`
	Email     string      `json:"email"`
	Address   *netip.Addr `json:"address"` // from where it was opened
	CreatedAt time.Time   `json:"createdAt"`
	ExpiresAt time.Time   `json:"expiresAt"`
	EndedAt   *time.Time  `json:"endedAt"`
	Current   bool        `json:"current"` // it is the one that asks
}

// sessionColumns are those of a SessionRecord, in its order; the arguments are the tenant, the
// present time, the asking session's hash, and the member whose sessions may be seen, NULL: all.
const sessionColumns = `
	SELECT s.id, s.member_id, m.email, s.address, s.created_at, s.expires_at, s.ended_at, s.token_hash = @asking
	FROM sessions s JOIN members m ON m.tenant_id = s.tenant_id AND m.id = s.member_id
	WHERE s.tenant_id = @tenant AND s.expires_at > @now AND (@member::uuid IS NULL OR s.member_id = @member)`

func (s *Service) sessionArgs(t Tenant, token secret.Redacted) pgx.NamedArgs {
	hash := secret.Hash(token.Reveal())
	args := pgx.NamedArgs{"tenant": t.ID, "now": s.Clock.Now(), "asking": hash[:], "member": &t.Member.ID}
	if t.Member.Role == Owner {
		args["member"] = nil
	}
	return args
}

// Sessions returns a page of the sessions that are open, newest first: the owner sees all of the
// tenant, and others their own. t is the caller, by the session of the token. A bad cursor is
// [page.ErrCursor].
func (s *Service) Sessions(ctx context.Context, t Tenant, token secret.Redacted, r page.Request) ([]SessionRecord, page.Info, error) {
	list := pg.List[SessionRecord]{Name: page.Sessions, ID: func(r SessionRecord) uuid.UUID { return r.ID }, Row: pgx.RowToStructByPos[SessionRecord]}
	return list.Filtered(ctx, s.Pool, r, `sessions WHERE tenant_id = @tenant`, sessionColumns+`
		AND s.ended_at IS NULL AND s.id < @before AND s.id >= @floor ORDER BY s.id DESC LIMIT @limit`, s.sessionArgs(t, token))
}

// EndSession ends one of the sessions that [Service.Sessions] lists, at once; one that has ended
// stays as it is. Behind the tenant's lock, for which changes of members wait, it goes by the role
// that the caller has then, and behind the session's by whether the caller's own is still open.
// [errSessionNotFound]; [ErrUnauthorized], [ErrSuspended].
func (s *Service) EndSession(ctx context.Context, t Tenant, token secret.Redacted, sessionID uuid.UUID, by audit.By) (out SessionRecord, err error) {
	err = s.locking(ctx, t.ID, func(tx pg.Tx, now time.Time, _ locked) error {
		if err := tx.QueryRow(ctx, `SELECT role FROM members WHERE id = $1`, t.Member.ID).Scan(&t.Member.Role); err != nil {
			return err
		}
		args := s.sessionArgs(t, token)
		args["id"] = sessionID
		if out, err = pg.One(ctx, tx, pgx.RowToStructByPos[SessionRecord], errSessionNotFound, sessionColumns+` AND s.id = @id FOR NO KEY UPDATE OF s`, args); err != nil || out.EndedAt != nil {
			return err
		}
		if err := s.Present(t, token)(ctx, tx); err != nil { // not as the line is written: it may be this one
			return err
		}
		out.EndedAt = &now
		if _, err := tx.Exec(ctx, `UPDATE sessions SET ended_at = $2 WHERE id = $1`, sessionID, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry(actSignOut, "session:"+sessionID.String(), audit.Change{Before: emailShown{out.Email}}).Of(t.ID))
	})
	return out, err
}
