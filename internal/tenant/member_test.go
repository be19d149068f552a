package tenant

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/mail"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// shop is a tenant with its owner's session.
type shop struct {
	*bundle
	id    uuid.UUID
	owner Session
}

func (b *bundle) shop(email string) *shop {
	b.T.Helper()
	id := b.register(email)
	_, err := b.VerifyEmail(context.Background(), id.String(), b.code(email, 1))
	require.NoError(b.T, err)
	return &shop{b, id, b.login(email, password)}
}

var tokenForm = regexp.MustCompile(`(?m)^ {4}[A-Za-z0-9_-]{43}$`)

func tokenIn(m mail.Message) secret.Redacted {
	return secret.Redact(strings.TrimSpace(tokenForm.FindString(m.Text)))
}

// invited invites an address, and returns the member with the code that the n-th mail to it has.
func (s *shop) invited(email string, r Role, n int) (MemberRecord, secret.Redacted) {
	s.T.Helper()
	m, err := s.Invite(context.Background(), s.id, email, string(r), bySession)
	require.NoError(s.T, err)
	return m, tokenIn(s.mail(m.Email, n))
}

// joined makes a member, and returns it with its session.
func (s *shop) joined(email string, r Role) (Member, Session) {
	s.T.Helper()
	_, code := s.invited(email, r, 1)
	in, err := s.AcceptInvitation(context.Background(), code, "Bayo Ade", password, netip.Addr{})
	require.NoError(s.T, err)
	return s.member(in), in
}

func (s *shop) owners() int {
	return testenv.Value[int](s.Env, `SELECT count(*) FROM members WHERE tenant_id = $1 AND role = 'owner'`, s.id)
}

func TestInvitationIsAcceptedOnce(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	require.Equal(t, Owner, b.member(s.owner).Role)
	_, first := s.invited(" Dev@Example.com ", Developer, 1)
	m, code := s.invited("dev@example.com", Viewer, 2)
	require.Equal(t, []any{"dev@example.com", Viewer, MemberInvited}, []any{m.Email, m.Role, m.Status})
	require.NotContains(t, testenv.Value[string](b.Env, `SELECT string_agg(m::text, '') FROM members m`), code.Reveal())
	accept := func(code secret.Redacted) error {
		_, err := b.AcceptInvitation(ctx, code, "Bayo Ade", secret.Redact("another horse"), netip.Addr{})
		return err
	}
	guessed := secret.NewToken()
	for what, c := range map[string]secret.Redacted{
		"replaced": first, "guessed": guessed, "cut": secret.Redact(code.Reveal()[1:]), "longer": secret.Redact(code.Reveal() + "x"), "a session's": s.owner.Token,
	} {
		require.ErrorIs(t, accept(c), errInvitation, what)
	}
	require.ErrorIs(t, accept(secret.Redacted{}), ErrResetCodeMissing)
	_, err := b.AcceptInvitation(ctx, code, " ", password, netip.Addr{})
	require.ErrorIs(t, err, ErrNameMissing)
	_, err = b.AcceptInvitation(ctx, code, "Bayo", secret.Redact("short"), netip.Addr{})
	require.ErrorIs(t, err, errPasswordShort)
	_, err = b.Login(ctx, "dev@example.com", password, secret.Redacted{}, netip.Addr{})
	require.ErrorIs(t, err, ErrCredentials, "who has not accepted cannot log in")

	var won int
	var all sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		all.Go(func() {
			err := accept(code)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !strings.Contains(err.Error(), errInvitation.Msg) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, won, "of four at once")
	require.ErrorIs(t, accept(code), errInvitation, "used")
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM sessions WHERE tenant_id = $1`, s.id))
	got := b.member(b.login("dev@example.com", secret.Redact("another horse")))
	require.Equal(t, Member{m.ID, "dev@example.com", "Bayo Ade", Viewer, false}, got)
	require.Contains(t, b.mail("ada@example.com", 2).Text, "dev@example.com")
	_, err = s.Invite(ctx, s.id, "dev@example.com", "viewer", bySession)
	require.ErrorIs(t, err, errMember)
	require.Equal(t, "session:dev@example.com", testenv.Value[string](b.Env, `SELECT actor FROM audit_log WHERE action = 'members.join' AND tenant_id = $1`, s.id))
}

func TestInvitationExpiresAndIsWithdrawn(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	m, code := s.invited("dev@example.com", Developer, 1)
	accept := func() error {
		_, err := b.AcceptInvitation(ctx, code, "Bayo Ade", password, netip.Addr{})
		return err
	}
	_, err := b.Suspend(ctx, s.id, byHand)
	require.NoError(t, err)
	require.ErrorIs(t, accept(), ErrSuspended)
	_, err = b.Activate(ctx, s.id, byHand)
	require.NoError(t, err)
	b.Env.Clock.Advance(invitationLife)
	require.ErrorIs(t, accept(), errInvitation)
	list, _, err := b.Members(ctx, s.id, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []MemberStatus{MemberExpired, MemberActive}, []MemberStatus{list[0].Status, list[1].Status})
	_, code = s.invited("dev@example.com", Developer, 2)
	removed, err := b.RemoveMember(ctx, s.id, m.ID, bySession)
	require.NoError(t, err)
	require.Equal(t, MemberRemoved, removed.Status)
	require.ErrorIs(t, accept(), errInvitation, "withdrawn")
	again, code2 := s.invited("dev@example.com", Finance, 3)
	require.NotEqual(t, m.ID, again.ID)
	code = code2
	require.NoError(t, accept())
}

// An address opens one tenant, whichever came first; and no answer says that it opens another.
func TestAnAddressOpensOneTenant(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	ada, bayo := b.shop("ada@example.com"), b.shop("bayo@example.com")
	m, err := ada.Invite(ctx, ada.id, "bayo@example.com", "viewer", bySession)
	require.NoError(t, err)
	require.Equal(t, MemberInvited, m.Status)
	mailed := b.mail("bayo@example.com", 2)
	require.Contains(t, mailed.Text, "already has an account")
	require.True(t, tokenIn(mailed).IsZero())

	// Invited by two, and registering as well: the first that is completed has the address.
	_, one := ada.invited("dev@example.com", Developer, 1)
	_, two := bayo.invited("dev@example.com", Developer, 2)
	registered := b.register("dev@example.com")
	otp := b.code("dev@example.com", 3)
	tries := []func() error{
		func() error {
			_, err := b.AcceptInvitation(ctx, one, "Dev", password, netip.Addr{})
			return err
		},
		func() error {
			_, err := b.AcceptInvitation(ctx, two, "Dev", password, netip.Addr{})
			return err
		},
		func() error {
			_, err := b.VerifyEmail(ctx, registered.String(), otp)
			return err
		},
	}
	fails := make([]error, len(tries))
	var all sync.WaitGroup
	for i, try := range tries {
		all.Go(func() { fails[i] = try() })
	}
	all.Wait()
	won := 0
	for i, err := range fails {
		switch {
		case err == nil:
			won++
		case i == 2:
			require.ErrorIs(t, err, errCode)
		default:
			require.ErrorIs(t, err, errEmailTaken)
		}
	}
	require.Equal(t, 1, won, "%v", fails)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM members WHERE email = 'dev@example.com' AND joined_at IS NOT NULL`))
	b.login("dev@example.com", password)

	// Who was removed may come again, anywhere.
	dev, in := ada.joined("later@example.com", Developer)
	_, err = b.RemoveMember(ctx, ada.id, dev.ID, bySession)
	require.NoError(t, err)
	require.ErrorIs(t, b.opens(in), ErrUnauthorized)
	_, code := bayo.invited("later@example.com", Viewer, 3)
	_, err = b.AcceptInvitation(ctx, code, "Later", password, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, bayo.id, b.login("later@example.com", password).TenantID)
}

func TestRemovedMemberIsOutAtOnce(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	dev, in := s.joined("dev@example.com", Developer)
	other := b.login("dev@example.com", password)
	_, kept := s.joined("fin@example.com", Finance)
	require.NoError(t, b.ForgotPassword(ctx, "dev@example.com"))
	reset := tokenIn(b.mail("dev@example.com", 2))
	_, err := b.RemoveMember(ctx, s.id, dev.ID, bySession)
	require.NoError(t, err)
	for _, x := range []Session{in, other} {
		require.ErrorIs(t, b.opens(x), ErrUnauthorized)
	}
	_, err = b.ResetPassword(ctx, reset, password, netip.Addr{})
	require.ErrorIs(t, err, errCode)
	_, err = b.Login(ctx, "dev@example.com", password, secret.Redacted{}, netip.Addr{})
	require.ErrorIs(t, err, ErrCredentials)
	require.ErrorIs(t, b.ChangePassword(ctx, s.id, dev, in.Token, password, secret.Redact("another horse"), bySession), errOldPassword)
	require.NoError(t, b.opens(kept), "others go on")
	require.NoError(t, b.opens(s.owner))
	again, err := b.RemoveMember(ctx, s.id, dev.ID, bySession)
	require.NoError(t, err)
	require.Equal(t, MemberRemoved, again.Status)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'members.remove'`))
	_, err = b.SetRole(ctx, s.id, dev.ID, "viewer", bySession)
	require.ErrorIs(t, err, errNotJoined)
	b.mail("dev@example.com", 3)
	// and not even by the table, should a session have been forgotten
	b.Exec(`UPDATE sessions SET ended_at = NULL WHERE member_id = $1`, dev.ID)
	require.ErrorIs(t, b.opens(in), ErrUnauthorized)
}

// A member is removed at the moment at which it logs in: either the session is ended, or there is
// none.
func TestRemovalAndLoginAtOnce(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	for i := range 6 {
		email := fmt.Sprintf("dev%d@example.com", i)
		dev, _ := s.joined(email, Developer)
		hash := testenv.Value[string](b.Env, `SELECT password_hash FROM members WHERE id = $1`, dev.ID)
		var in Session
		var failed error
		var all sync.WaitGroup
		all.Go(func() {
			in, failed = b.openSession(ctx, Tenant{ID: s.id, Member: dev}, hash, secret.Redacted{}, netip.Addr{})
		})
		all.Go(func() {
			if _, err := b.RemoveMember(ctx, s.id, dev.ID, bySession); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		if failed != nil {
			require.ErrorIs(t, failed, ErrCredentials)
			continue
		}
		require.ErrorIs(t, b.opens(in), ErrUnauthorized)
		require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM sessions WHERE member_id = $1 AND ended_at IS NULL`, dev.ID))
	}
}

func TestRoleCountsFromTheNextRequest(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	dev, in := s.joined("dev@example.com", Developer)
	require.NoError(t, b.member(in).Allows(Developer))
	require.EqualError(t, b.member(in).Allows(Finance), "this needs the role finance; yours is developer")
	for range 2 { // the second changes nothing
		m, err := b.SetRole(ctx, s.id, dev.ID, "viewer", bySession)
		require.NoError(t, err)
		require.Equal(t, Viewer, m.Role)
	}
	require.EqualError(t, b.member(in).Allows(Developer), "this needs the role developer; yours is viewer")
	require.NoError(t, b.member(in).Allows(Viewer))
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'members.role'`))
	owner := b.member(s.owner).ID
	for _, role := range []string{"owner", "", "OWNER", "admin"} {
		_, err := b.SetRole(ctx, s.id, dev.ID, role, bySession)
		require.ErrorIs(t, err, ErrRole, role)
		_, err = b.Invite(ctx, s.id, "x@example.com", role, bySession)
		require.ErrorIs(t, err, ErrRole, role)
	}
	_, err := b.SetRole(ctx, s.id, owner, "viewer", bySession)
	require.ErrorIs(t, err, errOwner)
	_, err = b.RemoveMember(ctx, s.id, owner, bySession)
	require.ErrorIs(t, err, errOwner)
	_, err = b.SetRole(ctx, b.shop("other@example.com").id, dev.ID, "viewer", bySession)
	require.ErrorIs(t, err, ErrMemberNotFound, "another tenant's")
}

// A key that moves money is made and rotated by the owner alone: a developer who could would pay
// out.
func TestDeveloperMakesNoKeyThatMovesMoney(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	dev, _ := s.joined("dev@example.com", Developer)
	make := func(m Member, scopes ...string) (KeyRecord, error) {
		_, k, err := b.CreateKey(ctx, s.id, m, NewKey{Name: "k", Scopes: scopes}, bySession)
		return k, err
	}
	_, err := make(dev, "accounts:read", "webhooks:write")
	require.NoError(t, err)
	for _, scope := range []string{"payouts:create", "accounts:transfer", "holds:write"} {
		_, err := make(dev, "accounts:read", scope)
		require.EqualError(t, err, "a key with the scope "+scope+" needs the role owner; yours is developer")
		k, err := make(b.member(s.owner), scope)
		require.NoError(t, err)
		_, _, err = b.RotateOne(ctx, s.id, dev, k.ID, time.Hour, bySession)
		require.EqualError(t, err, "a key with the scope "+scope+" needs the role owner; yours is developer")
	}
	main := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM api_keys WHERE tenant_id = $1 AND main`, s.id)
	_, _, err = b.RotateOne(ctx, s.id, dev, main, 0, bySession)
	require.ErrorContains(t, err, "needs the role owner", "it has all scopes")
	_, err = b.RevokeKey(ctx, s.id, main, bySession)
	require.NoError(t, err, "whoever sees that a key has leaked ends it")
}

// Of hand-overs at once one is done, and there is one owner at any time.
func TestHandOversAtOnce(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	link, _, err := b.LoginLink(ctx, s.id, byHand)
	require.NoError(t, err)
	owner := b.member(s.owner)
	by, right := Tenant{ID: s.id, Member: owner}, Proof{Password: password}
	var next []Member
	for i := range 4 {
		m, _ := s.joined(fmt.Sprintf("m%d@example.com", i), Roles[i%3+1])
		next = append(next, m)
	}
	_, err = b.HandOver(ctx, by, next[0].ID, Proof{Password: secret.Redact("wrong horse")}, bySession)
	require.ErrorIs(t, err, ErrPassword)
	_, err = b.HandOver(ctx, by, owner.ID, right, bySession)
	require.ErrorIs(t, err, errOwner)
	_, err = b.HandOver(ctx, by, uuid.New(), right, bySession)
	require.ErrorIs(t, err, ErrMemberNotFound)
	waiting, _ := s.invited("late@example.com", Finance, 1)
	_, err = b.HandOver(ctx, by, waiting.ID, right, bySession)
	require.ErrorIs(t, err, errNotJoined)
	require.Equal(t, 1, s.owners())

	fails := make([]error, len(next))
	var all sync.WaitGroup
	for i, m := range next {
		all.Go(func() { _, fails[i] = b.HandOver(ctx, by, m.ID, right, bySession) })
	}
	all.Wait()
	won := -1
	for i, err := range fails {
		if err == nil {
			require.Equal(t, -1, won, "two hand-overs")
			won = i
			continue
		}
		require.EqualError(t, err, "this needs the role owner; yours is finance")
	}
	require.NotEqual(t, -1, won)
	require.Equal(t, 1, s.owners())
	require.Equal(t, next[won].Email, testenv.Value[string](b.Env, `SELECT email FROM tenants WHERE id = $1`, s.id))
	require.Equal(t, Finance, b.member(s.owner).Role, "at once, in the session that there is")
	_, err = b.LoginByLink(ctx, link, netip.Addr{})
	require.ErrorIs(t, err, errLoginLink, "a link for the owner that was")
	again, _, err := b.LoginLink(ctx, s.id, byHand)
	require.NoError(t, err)
	in, err := b.LoginByLink(ctx, again, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, next[won].ID, b.member(in).ID)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'members.hand-over'`))
	_, err = b.RemoveMember(ctx, s.id, owner.ID, bySession)
	require.NoError(t, err, "who was the owner is a member as others")
}

// The schema has one owner for each tenant, whatever the code does.
func TestSchemaKeepsOneOwner(t *testing.T) {
	b := alone(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	dev, _ := s.joined("dev@example.com", Developer)
	gone, _ := s.joined("gone@example.com", Viewer)
	_, err := b.RemoveMember(ctx, s.id, gone.ID, bySession)
	require.NoError(t, err)
	for sql, code := range map[string]string{
		`UPDATE members SET role = 'owner' WHERE email = 'dev@example.com'`:                                                                        "23505",
		`UPDATE members SET role = 'finance' WHERE role = 'owner'`:                                                                                 "23514",
		`UPDATE members SET removed_at = now(), password_hash = NULL WHERE role = 'owner'`:                                                         "23514",
		`UPDATE tenants SET email = 'dev@example.com'`:                                                                                             "23514",
		`UPDATE members SET email = 'x@example.com' WHERE role = 'owner'`:                                                                          "23514",
		`UPDATE members SET removed_at = NULL, password_hash = 'x' WHERE removed_at IS NOT NULL`:                                                   "23514",
		`UPDATE members SET password_hash = NULL WHERE email = 'dev@example.com'`:                                                                  "23514",
		`INSERT INTO tenants (id, name, email, email_verified_at, created_at, updated_at) SELECT gen_random_uuid(), 'x', 'x', now(), now(), now()`: "23514",
		`UPDATE sessions SET member_id = gen_random_uuid()`:                                                                                        "23503",
	} {
		_, err := b.Env.Pool.Exec(ctx, sql)
		require.Equal(t, code, pg.Code(err), "%s: %v", sql, err)
	}
	require.Equal(t, 1, s.owners())
	require.Equal(t, Developer, dev.Role)
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	_, in := s.joined("dev@example.com", Developer)
	from := netip.MustParseAddr("2001:db8::7")
	second, err := b.Login(ctx, "dev@example.com", password, secret.Redacted{}, from)
	require.NoError(t, err)
	list := func(x Session) []SessionRecord {
		tn, err := b.Session(ctx, x.Token)
		require.NoError(t, err)
		out, _, err := b.Sessions(ctx, tn, x.Token, page.Request{Limit: 10})
		require.NoError(t, err)
		return out
	}
	own, all := list(in), list(s.owner)
	require.Len(t, own, 2)
	require.Len(t, all, 3, "the owner sees all")
	require.Equal(t, []bool{false, true}, []bool{own[0].Current, own[1].Current})
	require.Equal(t, from, *own[0].Address)
	require.Nil(t, own[1].Address)
	end := func(x Session, id uuid.UUID) error {
		tn, err := b.Session(ctx, x.Token)
		require.NoError(t, err)
		_, err = b.EndSession(ctx, tn, x.Token, id, bySession)
		return err
	}
	require.ErrorIs(t, end(in, all[2].ID), errSessionNotFound, "the owner's")
	require.ErrorIs(t, end(b.shop("other@example.com").owner, own[0].ID), errSessionNotFound, "another tenant's")
	require.NoError(t, end(in, own[0].ID))
	require.NoError(t, end(in, own[0].ID), "again")
	require.ErrorIs(t, b.opens(second), ErrUnauthorized)
	require.NoError(t, b.opens(in))
	require.NoError(t, end(s.owner, own[1].ID), "a member's, by the owner")
	require.ErrorIs(t, b.opens(in), ErrUnauthorized)
	require.Len(t, list(s.owner), 1)
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'session.end'`))

	// A change of a member's password ends that member's sessions, and a suspension everybody's.
	dev := b.login("dev@example.com", password)
	require.NoError(t, b.ChangePassword(ctx, s.id, b.member(s.owner), s.owner.Token, password, secret.Redact("another horse"), bySession))
	require.NoError(t, b.opens(dev))
	_, err = b.EndSessions(ctx, s.id, "nobody@example.com", byHand)
	require.ErrorIs(t, err, ErrMemberNotFound)
	n, err := b.EndSessions(ctx, s.id, " DEV@example.com", byHand)
	require.NoError(t, err)
	require.Equal(t, int64(1), n, "one member's alone")
	require.ErrorIs(t, b.opens(dev), ErrUnauthorized)
	require.NoError(t, b.opens(s.owner))
	dev = b.login("dev@example.com", password)
	n, err = b.EndSessions(ctx, s.id, "", byHand)
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
	require.ErrorIs(t, b.opens(dev), ErrUnauthorized)
}

// An expired session is none: it is not listed, and cannot be ended.
func TestExpiredSessionsAreNotListed(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	b.Env.Clock.Advance(SessionLife - time.Microsecond)
	second := b.login("ada@example.com", password)
	tn, err := b.Session(ctx, second.Token)
	require.NoError(t, err)
	open := func() []SessionRecord {
		list, _, err := b.Sessions(ctx, tn, second.Token, page.Request{Limit: 10})
		require.NoError(t, err)
		return list
	}
	both := open()
	require.Len(t, both, 2)
	b.Env.Clock.Advance(time.Microsecond)
	require.Equal(t, both[:1], open())
	_, err = b.EndSession(ctx, tn, second.Token, both[1].ID, bySession)
	require.ErrorIs(t, err, errSessionNotFound)
	require.ErrorIs(t, b.opens(s.owner), ErrUnauthorized)
}

// A page of sessions looks at the tenant's own, and ends where it has looked at its share of those
// that have ended: the next one goes on there.
func TestSessionsBehindManyOthers(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	tn, err := b.Session(ctx, s.owner.Token)
	require.NoError(t, err)
	own := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM sessions WHERE tenant_id = $1`, s.id)
	many := func(of uuid.UUID) {
		now := b.Env.Clock.Now()
		b.Exec(`INSERT INTO sessions (token_hash, id, tenant_id, member_id, created_at, expires_at, ended_at)
			SELECT sha256(gen_random_uuid()::text::bytea), `+testenv.IDsAfter(own)+`, tenant_id, id, $2, $3, $2
			FROM members, generate_series(1, $4::int) WHERE tenant_id = $1 AND role = 'owner'`, of, now, now.Add(time.Hour), pg.ScanLimit)
	}
	pages := func() (out [][]uuid.UUID) {
		for _, rows := range testenv.Pages(t, 10, func(r page.Request) ([]SessionRecord, page.Info, error) { return b.Sessions(ctx, tn, s.owner.Token, r) }) {
			var ids []uuid.UUID
			for _, r := range rows {
				ids = append(ids, r.ID)
			}
			out = append(out, ids)
		}
		return out
	}
	many(b.neighbour)
	require.Equal(t, [][]uuid.UUID{{own}}, pages())
	many(s.id)
	require.Equal(t, [][]uuid.UUID{nil, {own}}, pages())
}

// Who is invited hears of the role with the invitation, and of no other; and nobody hears of a role
// that stays as it is.
func TestRoleOfAnInvitationIsNotMailed(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	dev, _ := s.joined("dev@example.com", Developer)
	carol, _ := s.invited("carol@example.com", Viewer, 1)
	for _, id := range []uuid.UUID{dev.ID, carol.ID, dev.ID} {
		_, err := b.SetRole(ctx, s.id, id, string(Finance), bySession)
		require.NoError(t, err)
	}
	_, err := b.SetRole(ctx, s.id, b.member(s.owner).ID, string(Finance), bySession)
	require.ErrorIs(t, err, errOwner)
	require.NoError(t, b.Close(ctx)) // all mails are sent
	sent := map[string]int{}
	for _, m := range b.box.all() {
		sent[m.To]++
	}
	require.Equal(t, map[string]int{"ada@example.com": 2, "dev@example.com": 2, "carol@example.com": 1}, sent, "the owner has the code of the registration, and hears who joined")
}

// The first sign-in is that of the tenant: what somebody did as another's member does not count.
func TestFirstSignInIsTheTenants(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	dev, in := s.joined("dev@example.com", Developer)
	require.True(t, in.First)
	require.False(t, b.login("dev@example.com", password).First)
	_, err := b.RemoveMember(ctx, s.id, dev.ID, bySession)
	require.NoError(t, err)
	_, err = b.Invite(ctx, b.shop("bola@example.com").id, "dev@example.com", string(Developer), bySession)
	require.NoError(t, err)
	b.mail("dev@example.com", 3) // with that of the removal
	var code secret.Redacted
	for _, m := range b.box.all() {
		if found := tokenIn(m); m.To == "dev@example.com" && !found.IsZero() {
			code = found
		}
	}
	in, err = b.AcceptInvitation(ctx, code, "Bayo Ade", password, netip.Addr{})
	require.NoError(t, err)
	require.True(t, in.First)
}

func TestMembersAreBounded(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	b.Exec(`INSERT INTO members (id, tenant_id, email, name, role, invite_hash, invite_expires_at, invited_at)
		SELECT gen_random_uuid(), $1, 'm' || n || '@example.com', '', 'viewer', sha256(n::text::bytea), now(), now() FROM generate_series(1, $2) n`, s.id, maxMembers-1)
	_, err := b.Invite(ctx, s.id, "new@example.com", "viewer", bySession)
	require.ErrorIs(t, err, errManyMembers)
	_, err = b.Invite(ctx, s.id, "m1@example.com", "viewer", bySession)
	require.NoError(t, err, "another mail to one that is invited")
	for email, want := range map[string]error{"": errEmailMissing, "x": errEmail, strings.Repeat("a", 65) + "@example.com": errEmail, "a@" + strings.Repeat("a.", 126) + "com": errEmail} {
		_, err = b.Invite(ctx, s.id, email, "viewer", bySession)
		require.ErrorIs(t, err, want, email)
	}
}
