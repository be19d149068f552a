package transfer

import (
	"time"

	"github.com/google/uuid"
)

// token is what the row of a step's transfer must still say for anything to be recorded of it.
//
// With a lease of ours that is the lease alone: whoever takes over when it has run out puts his own
// in its place. Without one the transfer must be pending as it was seen, with the same appointment
// and nobody's lease. Whatever is recorded of a step (a lease, a submission, a postponement, an
// end) changes one of these, and only an operator's wish ([Service.Poll]) brings an appointment
// forward, which leaves one that is due as it is. So of all who have looked at one state of a row,
// one records.
type token struct {
	lease *time.Time // ours; with due, one that has run out, or nil for none
	due   *time.Time // the appointment that was seen; nil with a lease of ours
}

// heldSQL tells whether a row t is still as the token in m says. (For the CASE see plans.go in
// package pg.)
const heldSQL = `t.id = m.id AND CASE WHEN m.due IS NULL THEN t.leased_until = m.lease
	ELSE t.status = 'pending' AND t.next_attempt_at = m.due AND t.leased_until IS NOT DISTINCT FROM m.lease END`

// seen is a step's id and token in the row of a statement with heldSQL. One transfer can be in a
// batch twice, in the hands of two who looked at once: the statement then writes its row once, and
// returns the number of that one only.
type seen struct {
	ID    uuid.UUID  `pg:"id"`
	Lease *time.Time `pg:"lease"`
	Due   *time.Time `pg:"due"`
}

func (st *step) seen() seen { return seen{st.ID, st.lease, st.due} }
