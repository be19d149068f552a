package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/money"
	"ajo/internal/tenant"
	"ajo/internal/transfer"
)

// payoutPolicy is GET /auth/payout-policy, an addition.
func (e *edge) payoutPolicy(c *fiber.Ctx) error {
	p, err := e.Tenants.PayoutPolicy(c.UserContext(), caller(c).ID)
	return answer(c, p, err)
}

// setPayoutPolicy is POST /auth/payout-policy, an addition. It replaces the whole policy. The owner
// shows again who is there: without a policy, a key pays alone.
func (e *edge) setPayoutPolicy(c *fiber.Ctx) error {
	in := readBody(c)
	if _, given := in.value("approvals"); !given && in.err() == nil {
		return tenant.ErrApprovals // an empty body must not remove the policy
	}
	p := tenant.PayoutPolicy{Approvals: in.whole("approvals", tenant.MaxApprovals), Threshold: in.sum("threshold"), DayThreshold: in.sum("dayThreshold"), Hook: in.optional("hook"), WaitHours: in.whole("beneficiaryWaitHours", tenant.MaxWaitHours)}
	if err := in.err(); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return err
	}
	if _, err := e.prove(c, in); err != nil {
		return err
	}
	set, err := e.Tenants.SetPayoutPolicy(c.UserContext(), caller(c).ID, p, e.acting(c))
	return answer(c, set, err)
}

// approval is GET /auth/transfers/:merchantTxRef/approval, an addition.
func (e *edge) approval(c *fiber.Ctx) error {
	a, err := e.Transfers.Approval(c.UserContext(), caller(c).ID, pathParam(c, "merchantTxRef"))
	return answer(c, a, err)
}

// approveTransfer is POST /auth/transfers/:merchantTxRef/approve, an addition. It reads no body.
func (e *edge) approveTransfer(c *fiber.Ctx) error { return e.decideTransfer(c, transfer.Approve) }

// rejectTransfer is POST /auth/transfers/:merchantTxRef/reject, an addition. It reads no body.
func (e *edge) rejectTransfer(c *fiber.Ctx) error { return e.decideTransfer(c, transfer.Reject) }

func (e *edge) decideTransfer(c *fiber.Ctx, d transfer.Decision) error {
	a, err := e.Transfers.Decide(c.UserContext(), caller(c).ID, pathParam(c, "merchantTxRef"), e.maker(c), d)
	return answer(c, a, err)
}

// sum returns a field that is a decimal string in naira, or nil when it is missing or null.
func (b *body) sum(name string) *money.Amount {
	text := b.optional(name)
	if text == nil {
		return nil
	}
	a, err := money.Parse(*text)
	if err != nil {
		if b.wrong == nil {
			b.wrong = tenant.ErrThreshold
		}
		return nil
	}
	return &a
}
