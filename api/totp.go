package api

import (
	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"ajo/internal/secret"
	"ajo/internal/tenant"
	"ajo/ratelimit"
)

// withoutTOTP has the endpoints that a session may call while its member must first set up a second
// factor, and why.
var withoutTOTP = map[endpoint]string{
	{"GET", "/auth/me"}:                "the page says where one is",
	{"GET", "/auth/member"}:            "it says that the factor is missing",
	{"POST", "/auth/password"}:         "a password that leaked is changed at any time",
	{"GET", "/auth/sessions"}:          "a foreign session is seen at any time",
	{"POST", "/auth/sessions/:id/end"}: "and ended",
	{"POST", "/auth/totp"}:             "it is how one is set up",
	{"POST", "/auth/totp/confirm"}:     "it is how one is set up",
}

// setUpTOTP is POST /auth/totp, an addition.
func (e *edge) setUpTOTP(c *fiber.Ctx) error {
	t := caller(c)
	password, err := e.readPassword(c)
	if err != nil {
		return err
	}
	s, err := e.Tenants.SetUpTOTP(c.UserContext(), t.ID, t.Member, password, e.changing(c))
	return answer(c, struct {
		Secret string `json:"secret"`
		URL    string `json:"url"`
		QRCode string `json:"qrCode"`
	}{s.Secret.Reveal(), s.URL.Reveal(), s.QRCode.Reveal()}, err)
}

// confirmTOTP is POST /auth/totp/confirm, an addition.
func (e *edge) confirmTOTP(c *fiber.Ctx) error {
	t := caller(c)
	code, err := e.readCode(c)
	if err != nil {
		return err
	}
	codes, err := e.Tenants.ConfirmTOTP(c.UserContext(), t.ID, t.Member, code, e.changing(c))
	shown := make([]string, len(codes))
	for i, r := range codes {
		shown[i] = r.Reveal()
	}
	return answer(c, struct {
		RecoveryCodes []string `json:"recoveryCodes"`
	}{shown}, err)
}

// endTOTP is POST /auth/totp/off, an addition.
func (e *edge) endTOTP(c *fiber.Ctx) error {
	code, err := e.readCode(c)
	if err != nil {
		return err
	}
	return answer(c, struct{}{}, e.Tenants.EndTOTP(c.UserContext(), caller(c), code, e.changing(c)))
}

// requireTOTP is POST /auth/totp-required, an addition.
func (e *edge) requireTOTP(c *fiber.Ctx) error {
	in := readBody(c)
	required := in.flag("required")
	if err := in.err(); err != nil {
		return err
	}
	return answer(c, totpRequired{required}, e.Tenants.RequireTOTP(c.UserContext(), caller(c).ID, required, e.standing(c), e.by(c)))
}

type totpRequired struct {
	TOTPRequired bool `json:"totpRequired"`
}

// ownMember is GET /auth/member, an addition: whose session it is.
func (e *edge) ownMember(c *fiber.Ctx) error {
	t := caller(c)
	return c.JSON(struct {
		tenant.Member
		totpRequired
		TestMode   bool `json:"testMode"`   // a session may ask for it
		ReviewsKYC bool `json:"reviewsKYC"` // of live customers; in production operators do
	}{t.Member, totpRequired{t.TOTPRequired}, e.Test != nil, !e.Customers.Production || t.Operator})
}

// readCode reads a code of a second factor, and counts the try.
func (e *edge) readCode(c *fiber.Ctx) (secret.Redacted, error) {
	in := readBody(c)
	code := in.secret("code")
	if err := in.err(); err != nil {
		return code, err
	}
	if code.IsZero() {
		return code, tenant.ErrResetCodeMissing
	}
	return code, e.limitMember(c)
}

// readPassword reads the member's own password, and counts the try.
func (e *edge) readPassword(c *fiber.Ctx) (secret.Redacted, error) {
	in := readBody(c)
	password := in.secret("password")
	if err := in.err(); err != nil {
		return password, err
	}
	return password, e.limitMember(c)
}

// prove checks the password or code that the member of a session must give again before money
// leaves, and counts the try. It comes before everything else in the request. An API key gives
// neither, and the sandbox skips it, since it has no real money and no passwords. asked is what a
// repeat of the request must have again: the body without the proof.
func (e *edge) prove(c *fiber.Ctx, in *body) (asked []byte, err error) {
	if caller(c).Key.ID != uuid.Nil {
		return c.Request().Body(), nil
	}
	asked = in.without("password", "code")
	if e.Sandbox != nil {
		return asked, in.err()
	}
	p, err := e.readProof(c, in)
	if err != nil {
		return nil, err
	}
	return asked, e.Tenants.Prove(c.UserContext(), caller(c), p)
}

// readProof reads the member's own password or code, and counts the try.
func (e *edge) readProof(c *fiber.Ctx, in *body) (tenant.Proof, error) {
	p := tenant.Proof{Password: in.secret("password"), Code: in.secret("code"), From: e.address(c)}
	if err := in.err(); err != nil {
		return p, err
	}
	return p, e.limitMember(c)
}

// limitMember counts a try of the member's password or code.
func (e *edge) limitMember(c *fiber.Ctx) error {
	return e.limitQuietly(c, e.Limits.Tenant(c.UserContext(), ratelimit.Password, caller(c).Member.ID))
}
