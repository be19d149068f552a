package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/batch"
	"ajo/internal/errs"
	"ajo/internal/failpoint"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/work"
)

// A transfer that its tenant's policy covers needs approvals of members. Their number is stored
// with it, so that a later change of the policy does not affect it. Until it has them it is pending
// and debited, and its item of work is due when the time for approval ends, or when the tenant's
// own system is asked (hook.go). The last approval makes it due at once; a rejection, or the end of
// that time, ends it as failed. Decisions about a transfer are made under its lock, which the claim
// that ends it takes too. The submitting statement counts the approvals once more (submitSQL), and
// so does the schema.

// AwaitingApproval is the value of "awaiting".
const AwaitingApproval = "approval"

// approvalTime is how long a transfer waits for its approvals.
const approvalTime = 24 * time.Hour

// Refusals of a decision, and of a list of what awaits something else.
var (
	ErrNotAwaiting = errs.New(errs.Unprocessable, "the transfer does not await approval")
	ErrDecided     = errs.New(errs.Unprocessable, "you have already made the other decision")
	ErrOwnTransfer = errs.New(errs.Forbidden, "you asked for this transfer: another member must approve it")
	ErrAwaiting    = errs.New(errs.Invalid, "awaiting must be approval")
)

// errAwaitsApproval is why a transfer waits.
var errAwaitsApproval = errors.New("it awaits the approval of its tenant's members")

const (
	// awaitsApproval is, as SQL, the condition on a transfer t that it lacks approvals.
	awaitsApproval = `(t.waiting AND t.approvals_needed > 0 AND t.approved_at IS NULL)`
	// approved is, as SQL, the condition on a transfer t that it has all approvals that it needs.
	approved = `CASE WHEN t.approvals_needed > 0 THEN t.approved_at IS NOT NULL
			AND (SELECT count(*) FROM transfer_approvals p WHERE p.transfer_id = t.id AND p.decision = 'approve') >= t.approvals_needed ELSE true END`
)

// policy says which payouts of a tenant need approvals.
type policy struct {
	needs           int
	above, dayAbove *money.Amount
	hook            *string
	wait            time.Duration // that a new beneficiary must wait before a payout above the threshold
	saved           map[[2]string]savedAccount
}

// savedAccount has what a policy needs to know about a beneficiary; the zero value: there is none.
type savedAccount struct {
	exempt bool
	at     time.Time
}

// readPolicies reads the tenants' policies, and which of the destination accounts are their
// beneficiaries.
func readPolicies(ctx context.Context, tx pg.Tx, candidates []*acceptance) (map[uuid.UUID]policy, error) {
	var tenants []uuid.UUID
	var banks, accounts []string
	for _, c := range candidates {
		if c.from.Approvals {
			tenants, banks, accounts = append(tenants, c.from.TenantID), append(banks, c.order.BankCode), append(accounts, c.order.AccountNumber)
		}
	}
	if len(tenants) == 0 {
		return nil, nil
	}
	rows := pg.Rows(ctx, tx, `
		SELECT id, payout_approvals, approve_above, approve_day_above, approval_hook, beneficiary_wait FROM tenants WHERE id = ANY($1) AND payout_approvals > 0`, tenants)
	policies := map[uuid.UUID]policy{}
	var id uuid.UUID
	var p policy
	var hours int
	if _, err := pgx.ForEachRow(rows, []any{&id, &p.needs, &p.above, &p.dayAbove, &p.hook, &hours}, func() error {
		p.wait, p.saved = time.Duration(hours)*time.Hour, map[[2]string]savedAccount{}
		policies[id] = p
		return nil
	}); err != nil {
		return nil, err
	}
	rows = pg.Rows(ctx, tx, `
		SELECT n.tenant_id, n.bank_code, n.account_number, n.exempt, n.saved_at FROM unnest($1::uuid[], $2::text[], $3::text[]) AS c (tenant, bank, number)
		JOIN beneficiaries n ON n.tenant_id = ANY(ARRAY[c.tenant]) AND n.bank_code = ANY(ARRAY[c.bank]) AND n.account_number = ANY(ARRAY[c.number]) AND n.removed_at IS NULL`,
		tenants, banks, accounts)
	var account [2]string
	var b savedAccount
	_, err := pgx.ForEachRow(rows, []any{&id, &account[0], &account[1], &b.exempt, &b.at}, func() error {
		if p, ok := policies[id]; ok {
			p.saved[account] = b
		}
		return nil
	})
	return policies, err
}

// applyPolicies gives each candidate its tenant's policy, and returns those that the policy does
// not refuse. A payout to an exempt beneficiary needs no approvals, but still counts towards the
// day's sum.
func applyPolicies(ctx context.Context, tx pg.Tx, now time.Time, candidates []*acceptance, out []batch.Outcome[Settled]) ([]*acceptance, error) {
	policies, err := readPolicies(ctx, tx, candidates)
	if len(policies) == 0 {
		return candidates, err
	}
	var kept []*acceptance
	for _, c := range candidates {
		p := policies[c.from.TenantID]
		to := p.saved[[2]string{c.order.BankCode, c.order.AccountNumber}]
		if err := p.waits(c.amount, to, now); err != nil {
			out[c.at].Err = err
			continue
		}
		if c.policy = p; to.exempt {
			c.policy.needs = 0
		}
		kept = append(kept, c)
	}
	return kept, nil
}

// waits refuses a large payout to an account that has not been saved for long enough.
func (p policy) waits(amount money.Amount, to savedAccount, now time.Time) error {
	if p.wait == 0 || p.above == nil || amount.Cmp(*p.above) <= 0 {
		return nil
	}
	hours, from := int(p.wait.Hours()), to.at.Add(p.wait)
	switch {
	case to.at.IsZero():
		return errs.New(errs.Unprocessable, fmt.Sprintf("amount is above NGN %s: such a payout may go only to a beneficiary that was saved at least %d hours ago", p.above, hours))
	case now.Before(from):
		return errs.New(errs.Unprocessable, fmt.Sprintf("amount is above NGN %s: the beneficiary is new, and such a payout to it is accepted from %s", p.above, from.UTC().Format(time.RFC3339)))
	}
	return nil
}

// of is how many approvals a payout needs. Today is the sum of the tenant's day with it.
func (p policy) of(amount, today money.Amount) int {
	if p.above != nil && amount.Cmp(*p.above) > 0 || p.dayAbove != nil && today.Cmp(*p.dayAbove) > 0 {
		return p.needs
	}
	return 0
}

// approvalEnd is when a transfer that awaits approvals fails without them.
func (st *claimed) approvalEnd() time.Time { return st.Since.Add(approvalTime) }

// Awaiting is how many transfers await approval.
type Awaiting struct {
	Count  int          `json:"count"`
	Amount money.Amount `json:"amount"`
}

// AwaitingApproval returns how many transfers of a tenant await approval.
func (s *Service) AwaitingApproval(ctx context.Context, tenantID uuid.UUID) (a Awaiting, err error) {
	err = pg.Reader(ctx, s.Pool).QueryRow(ctx, `SELECT count(*), coalesce(sum(t.amount), 0) FROM transfers t WHERE t.tenant_id = $1 AND `+awaitsApproval, tenantID).
		Scan(&a.Count, &a.Amount)
	return a, err
}

// Decision is what a member says about a transfer.
type Decision string

// The decisions.
const (
	Approve Decision = "approve"
	Reject  Decision = "reject"
)

// MemberDecision is a decision with who made it, and when.
type MemberDecision struct {
	MemberID  uuid.UUID `json:"memberId"`
	Email     string    `json:"email"`
	Decision  Decision  `json:"decision"`
	DecidedAt time.Time `json:"decidedAt"`
}

// Approval is the state of a transfer's approval.
type Approval struct {
	MerchantTxRef   string           `json:"merchantTxRef"`
	Status          Status           `json:"status"`
	Awaiting        *string          `json:"awaiting"` // "approval" until it is decided
	Amount          money.Amount     `json:"amount"`
	ApprovalsNeeded int              `json:"approvalsNeeded"` // 0: it needs none
	MadeBy          *uuid.UUID       `json:"madeBy"`          // the member who asked for it; nil: an API key
	MadeByEmail     *string          `json:"madeByEmail"`     // that member's
	ExpiresAt       *time.Time       `json:"expiresAt"`       // when it fails without approval; nil: it does not wait
	ApprovedAt      *time.Time       `json:"approvedAt"`      // when it had enough approvals; nil: it has not
	Decisions       []MemberDecision `json:"decisions"`       // the oldest first
}

// Approval returns the state of approval of a tenant's transfer. [ErrNotFound].
func (s *Service) Approval(ctx context.Context, tenantID uuid.UUID, merchantTxRef string) (Approval, error) {
	return readApproval(ctx, s.Pool, tenantID, merchantTxRef)
}

func readApproval(ctx context.Context, q pg.Querier, tenantID uuid.UUID, merchantTxRef string) (Approval, error) {
	var id uuid.UUID
	var created time.Time
	var a Approval
	err := q.QueryRow(ctx, `
		SELECT t.id, t.created_at, t.merchant_tx_ref, t.status, CASE WHEN `+awaitsApproval+` THEN 'approval' END, t.amount, t.approvals_needed, t.made_by, m.email, t.approved_at
		FROM transfers t LEFT JOIN members m ON m.tenant_id = t.tenant_id AND m.id = t.made_by WHERE t.merchant_tx_ref = $2 AND t.tenant_id = $1`, tenantID, merchantTxRef).
		Scan(&id, &created, &a.MerchantTxRef, &a.Status, &a.Awaiting, &a.Amount, &a.ApprovalsNeeded, &a.MadeBy, &a.MadeByEmail, &a.ApprovedAt)
	if err != nil {
		return a, pg.OrNone(err, ErrNotFound)
	}
	if a.Awaiting != nil {
		a.ExpiresAt = new(created.Add(approvalTime))
	}
	a.Decisions, err = pg.Collect(ctx, q, pgx.RowToStructByPos[MemberDecision], `
		SELECT p.member_id, coalesce(m.email, ''), p.decision, p.decided_at FROM transfer_approvals p LEFT JOIN members m ON m.tenant_id = p.tenant_id AND m.id = p.member_id
		WHERE p.transfer_id = $1 ORDER BY p.decided_at, p.member_id`, id)
	return a, err
}

// idsOf are all ids under which the person behind a member has belonged to the tenant: a person who
// is removed and invited again gets another one.
func idsOf(ctx context.Context, tx pg.Tx, tenantID, member uuid.UUID) ([]uuid.UUID, error) {
	return pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `
		SELECT $2::uuid UNION SELECT same.id FROM members m JOIN members same ON same.tenant_id = m.tenant_id AND same.email = m.email
		WHERE m.tenant_id = $1 AND m.id = $2`, tenantID, member)
}

// decided returns what the person with these ids has decided already; empty: nothing.
func (a *Approval) decided(ids []uuid.UUID) Decision {
	for _, d := range a.Decisions {
		if slices.Contains(ids, d.MemberID) {
			return d.Decision
		}
	}
	return ""
}

// Decide records what a member decides about a transfer that awaits approval. The last approval
// that it needs makes it due; a rejection ends it, and gives the money back. A repeated decision
// gets the same answer. Needs a session of a member who may approve. [ErrNotFound];
// [ErrNotAwaiting] when it is decided, or its time has passed; [ErrDecided]; [ErrOwnTransfer].
func (s *Service) Decide(ctx context.Context, tenantID uuid.UUID, merchantTxRef string, who Maker, d Decision) (a Approval, err error) {
	failpoint.At("approval/before-commit")
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		if _, err := readApproval(ctx, tx, tenantID, merchantTxRef); err != nil {
			return err // so that no other tenant's transfer is locked
		}
		st, err := s.lockTransfer(ctx, tx, now, merchantTxRef)
		if err != nil {
			return err
		}
		if a, err = readApproval(ctx, tx, tenantID, merchantTxRef); err != nil {
			return err
		}
		if err := who.Standing.Check(ctx, tx); err != nil {
			return err // while the lock was waited for
		}
		ids, err := idsOf(ctx, tx, tenantID, who.Member)
		if err != nil {
			return err
		}
		switch a.decided(ids) {
		case d:
			return st.unlock(ctx, tx)
		case "":
		default:
			return ErrDecided
		}
		switch {
		case !st.awaiting || !now.Before(st.approvalEnd()):
			return ErrNotAwaiting
		case a.MadeBy != nil && slices.Contains(ids, *a.MadeBy):
			return ErrOwnTransfer
		}
		if err := s.applyDecision(ctx, tx, now, st, a, who.Member, d); err != nil {
			return err
		}
		if a, err = readApproval(ctx, tx, tenantID, merchantTxRef); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, who.By.Entry("transfer."+string(d), "transfer:"+merchantTxRef, audit.Change{After: struct {
			Amount string `json:"amount"`
			Status Status `json:"status"`
		}{st.Amount.String(), a.Status}}).Of(tenantID))
	})
	failpoint.At("approval/after-commit")
	return a, err
}

// applyDecision records a decision about a locked transfer that awaits it, and carries out its
// consequences.
func (s *Service) applyDecision(ctx context.Context, tx pg.Tx, now time.Time, st *claimed, a Approval, member uuid.UUID, d Decision) error {
	_, err := tx.Exec(ctx, `INSERT INTO transfer_approvals (transfer_id, member_id, tenant_id, decision, decided_at) VALUES ($1, $2, $3, $4, $5)`,
		st.ID, member, st.TenantID, string(d), now)
	switch {
	case err != nil:
		return err
	case d == Reject:
		_, err = s.endOne(ctx, tx, s.ending(st, now, outcome{EventReject, byTenant, "rejected by member " + member.String(), reasonRejected}), now)
		return err
	case len(a.Decisions)+1 < a.ApprovalsNeeded: // as a rejection ends it, all decisions are approvals
		if member == byHook { // the hook has answered, so nothing is due before the end
			err = work.Schedule(ctx, tx, st.item(st.approvalEnd()))
		}
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE transfers SET approved_at = $2, ask_count = 0, last_error = '', updated_at = $2 WHERE id = $1`, st.ID, now); err != nil {
		return err
	}
	return work.Schedule(ctx, tx, st.item(now))
}
