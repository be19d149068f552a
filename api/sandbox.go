package api

import (
	"net/http"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/sandbox"
	"ajo/internal/tenant"
	"ajo/ratelimit"
)

// Sandbox is what the API of test mode has in addition to the live one. It serves the endpoints of
// [Route.InTestMode], the health endpoints and the bank's. All but the last two require the live
// API's pass, since it has no logins and no cookies of its own.
type Sandbox struct {
	Passes *sandbox.Passes
	Bank   *sandbox.Bank

	mu      sync.Mutex
	answers map[uuid.UUID]int // requests that are being answered, by tenant
}

// A tenant has half of the slots that a live API has for forwarded requests, so that one tenant
// whose requests take long does not keep test mode from all others. The live API cannot share them
// out: it does not know whose a test key is.
const (
	answersPerTenant = forwardedAtOnce / 2
	answersRetry     = 1 // seconds after which a refused request may try again
)

// inShare answers a request, unless too many of its tenant's are being answered, or its tenant has
// written enough for a day.
func (e *edge) inShare(c *fiber.Ctx) error {
	s, tenant := e.Sandbox, caller(c).ID
	if c.Method() != http.MethodGet {
		if err := e.limitQuietly(c, e.Limits.Tenant(c.UserContext(), ratelimit.TestWrite, tenant)); err != nil {
			return err
		}
	}
	if !s.begin(tenant) {
		return e.limit(c, ratelimit.Result{Limit: answersPerTenant, Reset: answersRetry})
	}
	defer s.end(tenant)
	return c.Next()
}

func (s *Sandbox) begin(tenant uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers[tenant] >= answersPerTenant {
		return false
	}
	if s.answers == nil {
		s.answers = map[uuid.UUID]int{}
	}
	s.answers[tenant]++
	return true
}

func (s *Sandbox) end(tenant uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers[tenant]--; s.answers[tenant] == 0 {
		delete(s.answers, tenant)
	}
}

// has reports whether this API has the endpoint: the live one has all.
func (e *edge) has(r Route) bool {
	if e.Sandbox == nil || r.InTestMode() || r.Credential == Signature {
		return true
	}
	return r.Path == "/health" || r.Path == "/ready"
}

type passKey struct{}

// passOf returns the live API's pass of the request; the zero value if there is none.
func passOf(c *fiber.Ctx) sandbox.Pass {
	p, _ := c.Locals(passKey{}).(sandbox.Pass)
	return p
}

// readPass refuses a request that does not come through the live API.
func (e *edge) readPass(c *fiber.Ctx) error {
	p, err := e.Sandbox.Passes.Read(c.Get(sandbox.PassHeader), sandbox.Request{
		Method: c.Method(), URI: string(c.Request().Header.RequestURI()), Body: c.Request().Body(),
	})
	if err != nil {
		return err
	}
	c.Locals(passKey{}, p)
	return nil
}

// byPass finds the tenant of the member whom the live API has checked.
func (e *edge) byPass(c *fiber.Ctx) (tenant.Tenant, error) {
	p := passOf(c).Caller
	if p == nil {
		return tenant.Tenant{}, tenant.ErrUnauthorized
	}
	return e.Tenants.Shadow(c.UserContext(), tenant.Tenant{
		ID: p.TenantID, Name: p.TenantName, Email: p.TenantEmail,
		Member: tenant.Member{ID: p.MemberID, Name: p.Name, Email: p.Email, Role: tenant.Role(p.Role)},
	})
}

// testPayment is POST /v1/test/payments and POST /auth/test/payments, an addition: it simulates a
// payment to an account of the tenant.
func (e *edge) testPayment(c *fiber.Ctx) error {
	if e.Sandbox == nil {
		return errLiveOnly
	}
	in := readBody(c)
	ref, number, amount := strings.TrimSpace(in.text("accountRef")), in.text("accountNumber"), in.text("amount")
	p := sandbox.Payment{Narration: in.text("narration"), Fault: sandbox.Fault(in.text("fault"))}
	sender := in.object("sender")
	if sender == nil {
		sender = &body{}
	}
	p.Sender = sandbox.Sender(sender.text("name"), sender.text("account"), sender.text("bank"))
	if err := in.err(); err != nil {
		return err
	}
	if (ref == "") == (number == "") {
		return errOneAccount
	}
	var err error
	if p.Amount, err = money.Parse(amount); err != nil {
		return sandbox.ErrAmount
	}
	a, err := e.Accounts.Get(c.UserContext(), caller(c).ID, ref)
	if number != "" {
		a, err = e.Accounts.OfNumber(c.UserContext(), caller(c).ID, number)
	}
	if err != nil {
		return err
	}
	p.AccountNumber = a.BankAccountNumber
	paid, err := e.Sandbox.Bank.Pay(c.UserContext(), p)
	return answer(c.Status(http.StatusCreated), paid, err)
}

var errOneAccount = errs.New(errs.Invalid, "accountRef or accountNumber is required, and not both")
