package api

import (
	"net/http"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"ajo/internal/page"
	"ajo/internal/tenant"
	"ajo/ratelimit"
)

// pathID returns the id in a path; uuid.Nil, which no row has, if it is not an id.
func pathID(c *fiber.Ctx) uuid.UUID {
	id, _ := uuid.Parse(pathParam(c, "id"))
	return id
}

// acceptInvitation is POST /auth/accept-invitation, an addition. It needs no limit of its own: a
// code is too long to guess.
func (e *edge) acceptInvitation(c *fiber.Ctx) error {
	in := readBody(c)
	code, name, password := in.secret("code"), in.text("name"), in.secret("password")
	if err := in.err(); err != nil {
		return err
	}
	s, err := e.Tenants.AcceptInvitation(c.UserContext(), code, name, password, e.address(c))
	if err != nil {
		return err
	}
	return e.loggedIn(c, s)
}

// listMembers is GET /auth/members, an addition.
func (e *edge) listMembers(c *fiber.Ctx) error {
	return answerPage(c, "members", func(r page.Request) ([]tenant.MemberRecord, page.Info, error) {
		return e.Tenants.Members(c.UserContext(), caller(c).ID, r)
	})
}

// limitMembers counts a change of members that is mailed: a tenant must neither fill the mail
// queue, in which the codes of others wait, nor mail any number of people in our name.
func (e *edge) limitMembers(c *fiber.Ctx) error {
	return e.limitQuietly(c, e.Limits.Tenant(c.UserContext(), ratelimit.Members, caller(c).ID))
}

// invite is POST /auth/members, an addition. Each call may send an e-mail: the limit of an address
// keeps a stranger's mailbox from filling up.
func (e *edge) invite(c *fiber.Ctx) error {
	in := readBody(c)
	email, role := in.text("email"), in.text("role")
	if err := in.err(); err != nil {
		return err
	}
	if err := e.limitMembers(c); err != nil {
		return err
	}
	if err := e.limitAccount(c, "invite", tenant.NormalizeEmail(email)); err != nil {
		return err
	}
	m, err := e.Tenants.Invite(c.UserContext(), caller(c).ID, email, role, e.acting(c))
	return answer(c.Status(http.StatusCreated), m, err)
}

// setRole is POST /auth/members/:id/role, an addition.
func (e *edge) setRole(c *fiber.Ctx) error {
	in := readBody(c)
	role := in.text("role")
	if err := in.err(); err != nil {
		return err
	}
	if err := e.limitMembers(c); err != nil {
		return err
	}
	m, err := e.Tenants.SetRole(c.UserContext(), caller(c).ID, pathID(c), role, e.acting(c))
	return answer(c, m, err)
}

// removeMember is POST /auth/members/:id/remove, an addition. It reads no body.
func (e *edge) removeMember(c *fiber.Ctx) error {
	m, err := e.Tenants.RemoveMember(c.UserContext(), caller(c).ID, pathID(c), e.acting(c))
	return answer(c, m, err)
}

// handOver is POST /auth/members/:id/hand-over, an addition.
func (e *edge) handOver(c *fiber.Ctx) error {
	p, err := e.readProof(c, readBody(c))
	if err != nil {
		return err
	}
	m, err := e.Tenants.HandOver(c.UserContext(), caller(c), pathID(c), p, e.changing(c))
	return answer(c, m, err)
}

// listSessions is GET /auth/sessions, an addition.
func (e *edge) listSessions(c *fiber.Ctx) error {
	return answerPage(c, "sessions", func(r page.Request) ([]tenant.SessionRecord, page.Info, error) {
		return e.Tenants.Sessions(c.UserContext(), caller(c), sessionToken(c), r)
	})
}

// endSession is POST /auth/sessions/:id/end, an addition. It reads no body.
func (e *edge) endSession(c *fiber.Ctx) error {
	s, err := e.Tenants.EndSession(c.UserContext(), caller(c), sessionToken(c), pathID(c), e.by(c))
	return answer(c, s, err)
}
