package transfer

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"ajo/internal/pg"
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

// heldSQL tells whether a row t is still as the token in m says. (The CASE hides status and
// appointment from the planner.)
const heldSQL = `t.id = m.id AND CASE WHEN m.due IS NULL THEN t.leased_until = m.lease
	ELSE t.status = 'pending' AND t.next_attempt_at = m.due AND t.leased_until IS NOT DISTINCT FROM m.lease END`

// tokens are the ids and tokens of steps, column by column, in the order of the ids: a statement
// that joins them as they come locks the rows in that order. One transfer can be there twice, in
// the hands of two who looked at once; such a statement writes its row once, and returns the place
// of that one only.
type tokens struct {
	places []int // of each in the batch
	id     []uuid.UUID
	lease  []*time.Time
	due    []*time.Time
}

func tokensOf[T any](items []T, of func(T) *step) (t tokens) {
	for i := range items {
		t.places = append(t.places, i)
	}
	slices.SortStableFunc(t.places, func(a, b int) int { return pg.CompareIDs(of(items[a]).ID, of(items[b]).ID) })
	for _, i := range t.places {
		st := of(items[i])
		t.id, t.lease, t.due = append(t.id, st.ID), append(t.lease, st.lease), append(t.due, st.due)
	}
	return t
}
