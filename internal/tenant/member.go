package tenant

import (
	"context"
	"fmt"
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

// invitationLife is how long an invitation can be accepted.
const invitationLife = 7 * 24 * time.Hour

// maxMembers is how many members a tenant has, those that are invited too.
const maxMembers = 100

// Refusals of a change of members.
var (
	errInvitation     = errs.New(errs.Invalid, "invalid or expired invitation")
	ErrMemberNotFound = errs.New(errs.NotFound, "member not found")
	errMember         = errs.New(errs.Conflict, "this e-mail address already belongs to a member")
	errEmailTaken     = errs.New(errs.Conflict, "this e-mail address already has an account")
	errManyMembers    = errs.New(errs.Unprocessable, fmt.Sprintf("a tenant has at most %d members", maxMembers))
	errOwner          = errs.New(errs.Unprocessable, "this is the owner: hand over the ownership first")
	errNotJoined      = errs.New(errs.Unprocessable, "member has not joined yet, or was removed")
	ErrPassword       = errs.New(errs.Invalid, "password is wrong")
)

// Member is who a session belongs to.
type Member struct {
	ID    uuid.UUID `json:"id"`
	Email string    `json:"email"`
	Name  string    `json:"name"`
	Role  Role      `json:"role"`
	TOTP  bool      `json:"totp"` // a login asks for a code
}

// memberColumns are those of a Member, in the order of fields; joined says that the member may log
// in, and is the predicate of the index by which an e-mail is found.
const (
	memberColumns = `m.id, m.email, m.name, m.role, m.totp_confirmed_at IS NOT NULL`
	joined        = `m.joined_at IS NOT NULL AND m.removed_at IS NULL`
)

func (m *Member) fields() []any { return []any{&m.ID, &m.Email, &m.Name, &m.Role, &m.TOTP} }

// MemberStatus says whether a member may log in.
type MemberStatus string

// The statuses of a member. They follow from its times and the present one; only the last lasts.
const (
	MemberInvited MemberStatus = "invited"
	MemberExpired MemberStatus = "expired" // the invitation is; another one can be sent
	MemberActive  MemberStatus = "active"
	MemberRemoved MemberStatus = "removed"
)

// MemberRecord is a member as the tenant sees it.
type MemberRecord struct {
	Member
	Status    MemberStatus `json:"status"`
	InvitedAt time.Time    `json:"invitedAt"`
	ExpiresAt *time.Time   `json:"expiresAt"` // the invitation; nil when it was accepted or withdrawn
	JoinedAt  *time.Time   `json:"joinedAt"`
	RemovedAt *time.Time   `json:"removedAt"`
}

// recordOf are the columns of a MemberRecord, in the order of its scan; %s is the present time.
const recordOf = memberColumns + `,
	CASE WHEN m.removed_at IS NOT NULL THEN 'removed' WHEN m.joined_at IS NOT NULL THEN 'active' WHEN m.invite_expires_at <= %s THEN 'expired' ELSE 'invited' END,
	m.invited_at, m.invite_expires_at, m.joined_at, m.removed_at`

func scanMember(row pgx.CollectableRow) (m MemberRecord, err error) {
	err = row.Scan(append(m.fields(), &m.Status, &m.InvitedAt, &m.ExpiresAt, &m.JoinedAt, &m.RemovedAt)...)
	return m, err
}

// memberShown is what the audit log keeps of a member.
type memberShown struct {
	Email string `json:"email"`
	Role  Role   `json:"role"`
}

func (m Member) shown() memberShown { return memberShown{m.Email, m.Role} }

func memberTarget(id uuid.UUID) string { return "member:" + id.String() }

// Members returns a page of the tenant's members, newest first, those that are removed too. Any
// session, or an operator. A bad cursor is [page.ErrCursor].
func (s *Service) Members(ctx context.Context, id uuid.UUID, r page.Request) ([]MemberRecord, page.Info, error) {
	list := pg.List[MemberRecord]{Name: page.Members, ID: func(m MemberRecord) uuid.UUID { return m.ID }, Row: scanMember}
	return list.Page(ctx, s.Pool, r, `
		SELECT `+fmt.Sprintf(recordOf, "@now")+` FROM members m
		WHERE m.tenant_id = @tenant AND m.id < @before ORDER BY m.id DESC LIMIT @limit`, pgx.NamedArgs{"now": s.Clock.Now(), "tenant": id})
}

// readMember returns a member of the tenant, whose row the caller has locked. [ErrMemberNotFound].
func readMember(ctx context.Context, tx pg.Tx, id, memberID uuid.UUID, now time.Time) (MemberRecord, error) {
	return pg.One(ctx, tx, scanMember, ErrMemberNotFound, `SELECT `+fmt.Sprintf(recordOf, "$3")+` FROM members m WHERE m.tenant_id = $1 AND m.id = $2`, id, memberID, now)
}

// readJoined returns the member with the e-mail who may log in. [ErrMemberNotFound].
func readJoined(ctx context.Context, tx pg.Tx, id uuid.UUID, email string) (m Member, err error) {
	err = tx.QueryRow(ctx, `SELECT `+memberColumns+` FROM members m WHERE m.tenant_id = $1 AND m.email = $2 AND `+joined, id, NormalizeEmail(email)).Scan(m.fields()...)
	return m, pg.OrNone(err, ErrMemberNotFound)
}

// Invite invites the owner of an e-mail address, by e-mail, to be a member with the role; whoever
// was invited before gets another code, and only that one counts. The owner's session only.
// [errEmail], [ErrRole]; [errMember] for an address of this tenant's member; [errManyMembers].
//
// An address opens one tenant. The answer does not reveal whether it opens another one: the e-mail
// says so, and has no code.
func (s *Service) Invite(ctx context.Context, id uuid.UUID, email, role string, by audit.By) (m MemberRecord, err error) {
	email = NormalizeEmail(email)
	if err := checkEmail(email); err != nil {
		return m, err
	}
	given, err := readRole(role)
	if err != nil {
		return m, err
	}
	token := secret.NewToken()
	hash := secret.Hash(token.Reveal())
	var name string
	var taken bool
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		name = t.Name
		fresh := uuid.Must(uuid.NewV7())
		if err := roomForMember(ctx, tx, id, email); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `
			INSERT INTO members (id, tenant_id, email, name, role, invite_hash, invite_expires_at, invited_at) VALUES ($1, $2, $3, '', $4, $5, $6, $7)
			ON CONFLICT (tenant_id, email) WHERE removed_at IS NULL
				DO UPDATE SET role = excluded.role, invite_hash = excluded.invite_hash, invite_expires_at = excluded.invite_expires_at
			RETURNING id, EXISTS (SELECT FROM members m WHERE m.email = $3 AND `+joined+`)`,
			fresh, id, email, given, hash[:], now.Add(invitationLife), now).Scan(&fresh, &taken)
		if err != nil {
			return err
		}
		if m, err = readMember(ctx, tx, id, fresh, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("members.invite", memberTarget(m.ID), audit.Change{After: m.shown()}).Of(id))
	})
	switch {
	case err != nil:
	case taken:
		s.mails.send(invitedElsewhereEmail(email, name))
	default:
		s.mails.send(invitationEmail(email, name, given, token))
	}
	return m, err
}

// roomForMember refuses to invite who is a member already, or one more than there may be.
func roomForMember(ctx context.Context, tx pg.Tx, id uuid.UUID, email string) error {
	var others int
	var member bool
	err := tx.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE email <> $2), coalesce(bool_or(email = $2 AND joined_at IS NOT NULL), false)
		FROM members WHERE tenant_id = $1 AND removed_at IS NULL`, id, email).Scan(&others, &member)
	switch {
	case err != nil:
		return err
	case member:
		return errMember
	case others >= maxMembers:
		return errManyMembers
	}
	return nil
}

// AcceptInvitation uses the code of an invitation: it makes the invited person a member, with a
// name and a password, and opens a session. Anyone may call it. [errInvitation] whatever is wrong
// with the code: unknown, used, replaced, expired or withdrawn; [ErrSuspended] and [errEmailTaken],
// after which the code stays valid; the refusals of a name and a password.
func (s *Service) AcceptInvitation(ctx context.Context, code secret.Redacted, name string, password secret.Redacted, from netip.Addr) (out Session, err error) {
	if code.IsZero() {
		return out, ErrResetCodeMissing
	}
	if name, err = checkName(name); err != nil {
		return out, err
	}
	if err := checkPassword(password, errPasswordMissing, errPasswordShort, errPasswordLong); err != nil {
		return out, err
	}
	if len(code.Reveal()) != tokenLength {
		return out, errInvitation
	}
	passwordHash, err := secret.HashPassword(ctx, password)
	if err != nil {
		return out, err
	}
	hash := secret.Hash(code.Reveal())
	var owner string
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		var id uuid.UUID
		err := tx.QueryRow(ctx, `SELECT tenant_id FROM members WHERE invite_hash = $1`, hash[:]).Scan(&id)
		if err != nil {
			return pg.OrNone(err, errInvitation)
		}
		t, err := lockTenant(ctx, tx, id, forChange)
		if err != nil {
			return err
		}
		if err := admit(t.Tenant); err != nil {
			return err
		}
		owner = t.Email
		err = tx.QueryRow(ctx, `
			UPDATE members m SET joined_at = $2, name = $3, password_hash = $4, invite_hash = NULL, invite_expires_at = NULL
			WHERE invite_hash = $1 AND invite_expires_at > $2 RETURNING `+memberColumns, hash[:], now, name, passwordHash).Scan(t.Member.fields()...)
		if err != nil {
			return pg.OrNone(err, errInvitation)
		}
		if err := audit.Write(ctx, tx, now, audit.Session(t.Member.Email, from).Entry("members.join", memberTarget(t.Member.ID), audit.Change{After: t.Member.shown()}).Of(id)); err != nil {
			return err
		}
		out, err = s.writeSession(ctx, tx, t.Tenant, "invitation", from)
		return err
	})
	if pg.IsUnique(err, "members_email") {
		return out, errEmailTaken
	}
	if err == nil {
		s.mails.send(joinedEmail(owner, out.Email, out.Name))
	}
	return out, err
}

// SetRole gives a member another role, which counts from the next request of each of its sessions
// on. The owner's session only. [ErrRole], [ErrMemberNotFound]; [errOwner]; [errNotJoined] for one
// that is removed.
func (s *Service) SetRole(ctx context.Context, id, memberID uuid.UUID, role string, by audit.By) (m MemberRecord, err error) {
	given, err := readRole(role)
	if err != nil {
		return m, err
	}
	var changed bool
	err = s.changeMember(ctx, id, memberID, func(tx pg.Tx, now time.Time, old MemberRecord) error {
		m = old
		switch changed = old.Role != given; {
		case old.Role == Owner:
			return errOwner
		case old.Status == MemberRemoved:
			return errNotJoined
		case !changed:
			return nil
		}
		if _, err := tx.Exec(ctx, `UPDATE members SET role = $2 WHERE id = $1`, memberID, given); err != nil {
			return err
		}
		m.Role = given
		return audit.Write(ctx, tx, now, by.Entry("members.role", memberTarget(memberID), audit.Change{Before: old.shown(), After: m.shown()}).Of(id))
	})
	if err == nil && changed && m.Status == MemberActive {
		s.mails.send(roleEmail(m.Email, given, by))
	}
	return m, err
}

// RemoveMember ends a membership or withdraws an invitation, and returns the member; one that is
// removed already stays as it is. Its sessions, and what opens one, end in the same transaction.
// The owner's session only. [ErrMemberNotFound]; [errOwner].
func (s *Service) RemoveMember(ctx context.Context, id, memberID uuid.UUID, by audit.By) (m MemberRecord, err error) {
	var was MemberStatus
	err = s.changeMember(ctx, id, memberID, func(tx pg.Tx, now time.Time, old MemberRecord) error {
		m, was = old, old.Status
		switch {
		case old.Role == Owner:
			return errOwner
		case old.Status == MemberRemoved:
			return nil
		}
		if _, err := deleteSessions(ctx, tx, now, id, memberID, secret.Redacted{}); err != nil {
			return err
		}
		if err := clearTOTP(ctx, tx, memberID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			UPDATE members SET removed_at = $2, password_hash = NULL, invite_hash = NULL, invite_expires_at = NULL WHERE id = $1`, memberID, now)
		if err != nil {
			return err
		}
		if m, err = readMember(ctx, tx, id, memberID, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("members.remove", memberTarget(memberID), audit.Change{Before: old.shown()}).Of(id))
	})
	if err == nil && was == MemberActive {
		s.mails.send(removedEmail(m.Email, by))
	}
	return m, err
}

// changeMember runs a change of a member as it is, with the tenant's row locked.
func (s *Service) changeMember(ctx context.Context, id, memberID uuid.UUID, do func(tx pg.Tx, now time.Time, m MemberRecord) error) error {
	return s.locking(ctx, id, func(tx pg.Tx, now time.Time, _ locked) error {
		m, err := readMember(ctx, tx, id, memberID, now)
		if err != nil {
			return err
		}
		return do(tx, now, m)
	})
}

// HandOver makes a member the owner, and who was it, finance. It takes the present owner's proof,
// as [Service.Prove] does, so that a session that was left open is not enough. The tenant's e-mail
// address becomes the new owner's; both get an e-mail. The owner's session only.
// [ErrMemberNotFound], [errNotJoined]; [errOwner] for the owner itself; a refusal that names the
// role when the ownership was handed over meanwhile, or the password that was given changed.
func (s *Service) HandOver(ctx context.Context, t Tenant, to uuid.UUID, p Proof, by audit.By) (m MemberRecord, err error) {
	id, from := t.ID, t.Member
	was, err := s.checkProof(ctx, t, p)
	if err != nil {
		return m, err
	}
	err = s.changeMember(ctx, id, to, func(tx pg.Tx, now time.Time, next MemberRecord) error {
		switch {
		case next.Role == Owner:
			return errOwner
		case next.Status != MemberActive:
			return errNotJoined
		}
		given, err := tx.Exec(ctx, `UPDATE members SET role = $3 WHERE id = $1 AND role = $4 AND ($2 = '' OR password_hash = $2)`, from.ID, was, Finance, Owner)
		switch {
		case err != nil:
			return err
		case given.RowsAffected() == 0:
			return Member{Role: Finance}.Allows(Owner)
		}
		if _, err := tx.Exec(ctx, `UPDATE members SET role = $2 WHERE id = $1`, to, Owner); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE tenants SET email = $2, updated_at = $3 WHERE id = $1`, id, next.Email, now); err != nil {
			return err
		}
		// they were made for the owner that was, and would open the new one's session
		if _, err := tx.Exec(ctx, `DELETE FROM login_links WHERE tenant_id = $1`, id); err != nil {
			return err
		}
		if m, err = readMember(ctx, tx, id, to, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("members.hand-over", memberTarget(to), audit.Change{Before: from.shown(), After: m.shown()}).Of(id))
	})
	if err == nil {
		s.mails.send(handOverEmail(from.Email, m.Email, by))
		s.mails.send(handOverEmail(m.Email, m.Email, by))
	}
	return m, err
}
