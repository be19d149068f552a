package tenant

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/freeze"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
)

// MaxWaitHours is how long a policy can have new beneficiaries wait.
const MaxWaitHours = 30 * 24

// MaxApprovals is how many approvals a policy can ask for.
const MaxApprovals = 10

// Refusals of a policy.
var (
	ErrApprovals = errs.New(errs.Invalid, fmt.Sprintf("approvals must be a whole number from 0 to %d", MaxApprovals))
	ErrThreshold = errs.New(errs.Invalid, "threshold and dayThreshold must be amounts in naira, zero or more")
	errNoLine    = errs.New(errs.Invalid, "threshold or dayThreshold is required with approvals")
	errHookAlone = errs.New(errs.Invalid, "approvals must be 1 or more with hook")
	errWaitHours = errs.New(errs.Invalid, fmt.Sprintf("beneficiaryWaitHours must be a whole number from 0 to %d", MaxWaitHours))
	errWaitAlone = errs.New(errs.Invalid, "threshold is required with beneficiaryWaitHours")
	errNoOne     = errs.New(errs.Invalid, "approvals must be 1 or more with threshold or dayThreshold")
)

// PayoutPolicy says which payouts of a tenant its members must approve. It holds for those that
// are accepted from then on (package transfer).
type PayoutPolicy struct {
	Approvals int `json:"approvals"` // how many members; 0: no payout needs approval
	// of one payout, above which it needs approval; nil: none
	Threshold *money.Amount `json:"threshold"`
	// of all payouts of a day in Lagos, above which each further one needs approval; nil: none
	DayThreshold *money.Amount `json:"dayThreshold"`
	// URL of the tenant's own system, whose yes is one of the approvals; nil: only members decide
	Hook *string `json:"hook"`
	// a payout above Threshold goes only to a beneficiary that was saved so many hours before; 0:
	// to any account
	WaitHours int `json:"beneficiaryWaitHours"`
}

// StandingPolicy is the policy of a tenant beside who can approve by it.
type StandingPolicy struct {
	PayoutPolicy
	Approvers int     `json:"approvers"` // members who may approve
	Warning   *string `json:"warning"`   // nil: there are enough of them
}

// warn sets the warning.
func (p *StandingPolicy) warn() {
	votes, who := p.Approvers, "members who may approve"
	if p.Hook != nil {
		votes, who = votes+1, "members who may approve, beside the hook"
	}
	if p.Warning = nil; p.Approvals > votes {
		p.Warning = new(fmt.Sprintf("payouts that need approval will fail: approvals is %d, and %s: %d", p.Approvals, who, p.Approvers))
	}
}

// shown is what the audit log keeps of it.
func (p PayoutPolicy) shown() PayoutPolicy {
	if p.Hook != nil {
		p.Hook = new(safehttp.Shown(*p.Hook))
	}
	return p
}

// Check refuses a policy that makes no sense, with a text that names the field.
func (p PayoutPolicy) Check() error {
	for _, t := range []*money.Amount{p.Threshold, p.DayThreshold} {
		if t != nil && t.Sign() < 0 {
			return ErrThreshold
		}
	}
	line := p.Threshold != nil || p.DayThreshold != nil
	switch {
	case p.Approvals < 0 || p.Approvals > MaxApprovals:
		return ErrApprovals
	case p.Approvals > 0 && !line:
		return errNoLine
	case p.Approvals == 0 && line:
		return errNoOne
	case p.Approvals == 0 && p.Hook != nil:
		return errHookAlone
	case p.WaitHours < 0 || p.WaitHours > MaxWaitHours:
		return errWaitHours
	case p.WaitHours > 0 && p.Threshold == nil:
		return errWaitAlone
	}
	return nil
}

// PayoutPolicy returns the tenant's policy. Any session, or an operator. [ErrNotFound].
func (s *Service) PayoutPolicy(ctx context.Context, id uuid.UUID) (StandingPolicy, error) {
	return readPayoutPolicy(ctx, s.Pool, id)
}

func readPayoutPolicy(ctx context.Context, q pg.Querier, id uuid.UUID) (p StandingPolicy, err error) {
	err = q.QueryRow(ctx, `
		SELECT payout_approvals, approve_above, approve_day_above, approval_hook, beneficiary_wait,
			(SELECT count(*) FROM members m WHERE m.tenant_id = tenants.id AND `+approver+`)
		FROM tenants WHERE id = $1`, id).
		Scan(&p.Approvals, &p.Threshold, &p.DayThreshold, &p.Hook, &p.WaitHours, &p.Approvers)
	p.warn()
	return p, pg.OrNone(err, ErrNotFound)
}

// SetPayoutPolicy sets the tenant's policy for the payouts that are accepted from now on. The owner
// gets an e-mail when a session does it. One that asks for more approvals than there are members
// who may approve is set, with a warning. The owner's session, or an operator. [ErrNotFound], and
// refusals that name the field. freeze.ErrAccepting: it is set, but payouts that were under way may
// still be accepted by the one before.
func (s *Service) SetPayoutPolicy(ctx context.Context, id uuid.UUID, p PayoutPolicy, by audit.By) (out StandingPolicy, err error) {
	if err := p.Check(); err != nil {
		return out, err
	}
	if p.Hook != nil {
		p.Hook = new(strings.TrimSpace(*p.Hook))
		if err := safehttp.CheckURL("hook", *p.Hook, s.Callbacks); err != nil {
			return out, err
		}
	}
	var email string
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		was, err := readPayoutPolicy(ctx, tx, id)
		if err != nil {
			return err
		}
		email, out = t.Email, StandingPolicy{PayoutPolicy: p, Approvers: was.Approvers}
		out.warn()
		if p.Hook != nil { // or nothing that it answers could be believed
			if _, err := ensureSecret(ctx, tx, s.Box, now, t, &by); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `UPDATE tenants SET payout_approvals = $2, approve_above = $3, approve_day_above = $4, approval_hook = $5, beneficiary_wait = $6, updated_at = $7 WHERE id = $1`,
			id, p.Approvals, p.Threshold, p.DayThreshold, p.Hook, p.WaitHours, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("tenant.policy", target(id), audit.Change{Before: was.shown(), After: p.shown()}).Of(id))
	})
	if err != nil {
		return out, err
	}
	if by.Own() {
		s.mails.send(policyEmail(email, by))
	}
	return out, freeze.AwaitAcceptances(ctx, s.Pool)
}
