package transfer

import (
	"errors"
	"time"

	"ajo/internal/freeze"
)

// A payout of a frozen account or tenant, or of a suspended tenant, is not submitted: not for the
// first time, and not again where the bank does not know it. It is decided by submitSQL, in the
// transaction that counts the submission, so nothing can come in between. The claim looks too: it
// puts a pending payout off without a question to the bank, and its last error says why.

var errFrozen = errors.New("payouts of its account are frozen, or its tenant is suspended")

// frozenRecheck is how often a frozen payout looks whether it is still frozen: the end of a freeze
// or of a suspension makes it due at once, and this is for what that missed.
const frozenRecheck = 5 * time.Minute

// frozenUntil is, as SQL, when a transfer t of the tenant n is to look again: at the end of its
// freeze, and at $4 at the latest. NULL: it is not frozen at $2.
var frozenUntil = `greatest(CASE WHEN n.status <> 'active' THEN $4::timestamptz END,
			(SELECT max(least(coalesce(f.until, 'infinity'), $4)) FROM freezes f WHERE ` + freeze.On("t.account_id", "t.tenant_id", "$2") + `))`

// notStopped is, as SQL, the condition on a transfer t that no freeze stops it at $2, nor a
// suspension of its tenant. What else it must have is in submitSQL. The conditions are
// subqueries with one value each, since the planner would join the others.
var notStopped = `coalesce((SELECT n.status FROM tenants n WHERE n.id = t.tenant_id), 'active') = 'active'
		AND (SELECT count(*) FROM freezes f WHERE ` + freeze.On("t.account_id", "t.tenant_id", "$2") + `) = 0`

// frozenWait puts a frozen pending transfer off. It counts as no question.
func frozenWait(st *claimed) postponement {
	return postponement{claimed: st, next: st.frozen, asks: st.Asks, unknown: st.Unknown, why: errFrozen.Error()}
}
