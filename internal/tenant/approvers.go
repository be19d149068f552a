package tenant

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"ajo/internal/mail"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// Who may approve payouts is mailed when some await it. An e-mail says how many there are, so a
// burst is one e-mail: a payout is mailed about once it has waited for approversMailAfter, and a
// member hears of new ones once in approversMailEvery. Members.mailed_until says of which payouts
// the member was mailed. It is set before the e-mail is sent, so no payout brings a member two
// e-mails; what a crash or the mail server loses is counted in the next one.
const (
	approversMailAfter = time.Minute
	approversMailEvery = time.Hour
	approversMailBatch = 100 // members; less than the mail queue holds
)

const (
	// approver is, as SQL, the condition on a member m that the member may decide about payouts: an
	// owner, or the role of their endpoints (api/routes.go). A shadow's owner is nobody.
	approver = `m.role IN ('owner', 'finance') AND m.email NOT LIKE '%` + shadowDomain + `' AND ` + joined
	// awaitsMember is, as SQL, the condition on a transfer t, accepted until $1, that it awaits the
	// member m's decision.
	awaitsMember = `t.tenant_id = m.tenant_id AND t.waiting AND t.approvals_needed > 0 AND t.approved_at IS NULL AND t.created_at <= $1
				AND t.made_by IS DISTINCT FROM m.id AND NOT EXISTS (SELECT FROM transfer_approvals p WHERE p.transfer_id = t.id AND p.member_id = m.id)`
	// mailedUntil is, as SQL, the member m's mailed_until, unless it is more than $4 after $1: then
	// a clock was ahead that set it.
	mailedUntil = `coalesce(CASE WHEN m.mailed_until <= $1::timestamptz + $4::interval THEN m.mailed_until END, '-infinity')`
)

// MailApprovers sends the e-mails about payouts that await approval, and returns to how many
// members; at most a hundred, so the rest is left to the next call. Processes that call it at once
// send each e-mail once.
func (s *Service) MailApprovers(ctx context.Context) (int, error) {
	type due struct {
		To, Tenant string
		Count      int
		Sum        money.Amount
	}
	until := s.Clock.Now().Add(-approversMailAfter)
	list, err := pg.Collect(ctx, s.Pool, pgx.RowToStructByPos[due], `
		WITH free AS MATERIALIZED (
			SELECT m.id FROM members m JOIN tenants n ON n.id = m.tenant_id AND n.status = 'active'
			WHERE m.tenant_id IN (SELECT t.tenant_id FROM transfers t WHERE t.waiting AND t.approvals_needed > 0 AND t.approved_at IS NULL)
				AND `+approver+` AND `+mailedUntil+` <= $1::timestamptz - $2::interval
				AND EXISTS (SELECT FROM transfers t WHERE `+awaitsMember+` AND t.created_at > `+mailedUntil+`)
			ORDER BY m.id LIMIT $3 FOR NO KEY UPDATE OF m SKIP LOCKED),
		told AS (UPDATE members m SET mailed_until = $1 FROM free WHERE m.id = free.id RETURNING m.id, m.tenant_id, m.email)
		SELECT m.email, n.name, w.count, w.sum FROM told m JOIN tenants n ON n.id = m.tenant_id
		CROSS JOIN LATERAL (SELECT count(*), sum(t.amount) FROM transfers t WHERE `+awaitsMember+`) w
		WHERE w.count > 0`, until, approversMailEvery, approversMailBatch, approversMailAfter)
	if err != nil {
		return 0, err
	}
	for _, d := range list {
		s.mails.send(approversEmail(d.To, d.Tenant, d.Count, d.Sum))
	}
	return len(list), nil
}

func approversEmail(to, tenant string, count int, sum money.Amount) mail.Message {
	what := fmt.Sprintf("%d payouts of %s await your approval: NGN %s in all.", count, tenant, sum)
	if count == 1 {
		what = fmt.Sprintf("A payout of %s awaits your approval: NGN %s.", tenant, sum)
	}
	return mail.Message{To: to, Subject: "Payouts await your approval", Text: what + `

Approve or reject in the dashboard, under Transfers. A payout that has not enough approvals within 24 hours fails, and its money is back in
the account. Until then nothing is paid. You get such an e-mail at most once an hour.
`}
}
