package transfer

import (
	"errors"
	"time"

	"ajo/internal/freeze"
)

// A payout of a frozen account or tenant, or of a suspended tenant, is not submitted: neither for
// the first time, nor again if the bank does not know it. submitSQL decides that, in the
// transaction that counts the submission, so nothing can come in between. The claim checks it too:
// it puts off a pending payout without asking the bank, and stores the reason as its last error.

var errFrozen = errors.New("payouts of its account are frozen, or its tenant is suspended")

// frozenRecheck is how often a frozen payout is checked again. The end of a freeze or of a
// suspension makes it due at once; this is for payouts that were missed then.
const frozenRecheck = 5 * time.Minute

// frozenUntil is, as SQL, when a transfer t of the tenant n is checked again: at the end of its
// freeze, and at $4 at the latest. NULL: it is not frozen at $2.
var frozenUntil = `greatest(CASE WHEN n.status <> 'active' THEN $4::timestamptz END,
			(SELECT max(least(coalesce(f.until, 'infinity'), $4)) FROM freezes f WHERE ` + freeze.On("t.account_id", "t.tenant_id", "$2") + `))`

// notStopped is, as SQL, the condition on a transfer t that neither a freeze nor a suspension of
// its tenant stops it at $2. The other conditions are in submitSQL.
var notStopped = `NOT ` + freeze.Stops("t.account_id", "t.tenant_id", "$2")
