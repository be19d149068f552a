package transfer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/batch"
	"ajo/internal/metrics"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/trace"
	"ajo/internal/webhook"
	"ajo/ledger"
)

// ending is the end of a claimed transfer, or its move on from success.
type ending struct {
	*step
	outcome
	to   Status
	next *time.Time // when the bank is asked again, where it is
	err  error      // this end changed nothing, its neighbours stand
}

// ended is what an ending came to: what is to be done next.
type ended struct {
	Next *time.Time
	Held bool // false: the claim had gone, and nothing was recorded
}

// conclude ends a claimed transfer, or moves it on from success, in one transaction with its debit.
// A claim that has gone is no error: the other worker records.
func (s *Service) conclude(ctx context.Context, st *step, o outcome) error {
	end, err := pg.Flat(s.ends.Do(ctx, ending{step: st, outcome: o}))
	if err == nil && !end.Held {
		err = s.keepAcknowledgement(ctx, st)
	}
	if err != nil {
		return err
	}
	trace.Of(ctx).Text("outcome", string(o.event))
	if end.Next == nil {
		return nil
	}
	return retry.At(*end.Next, errRecheck)
}

// concludeAll ends the transfers whose claim still stands.
func (s *Service) concludeAll(ctx context.Context, tx pg.Tx, items []ending) ([]batch.Outcome[ended], error) {
	ends := make([]*ending, len(items))
	for i := range items {
		ends[i] = new(items[i])
	}
	held, err := stillHeld(ctx, tx, ends)
	if err != nil {
		return nil, err
	}
	if err := s.endAll(ctx, tx, held); err != nil {
		return nil, err
	}
	tx.AfterCommit(func(context.Context) { count(held) })
	out := make([]batch.Outcome[ended], len(items))
	for i, e := range ends {
		out[i] = batch.Outcome[ended]{Value: ended{e.next, slices.Contains(held, e)}, Err: e.err}
	}
	return out, nil
}

// count counts the ends that are committed.
func count(ends []*ending) {
	for _, e := range ends {
		if e.err == nil {
			metrics.TransferEnded(string(e.to))
		}
	}
}

var stillHeldSQL = `SELECT m.n, t.acknowledged_at IS NOT NULL FROM transfers t
	JOIN ` + pg.Unnest[seen](1, "m") + ` ON ` + heldSQL + `
	ORDER BY t.id, m.n FOR NO KEY UPDATE OF t`

// stillHeld locks the transfers, in the order of their ids, and returns the ends whose claim still
// stands, one for each transfer. The bank's silence ends nothing that it has acknowledged, be it
// since the claim.
func stillHeld(ctx context.Context, tx pg.Tx, ends []*ending) ([]*ending, error) {
	claims := make([]seen, len(ends))
	for i, e := range ends {
		claims[i] = e.seen()
	}
	rows, err := tx.Query(ctx, stillHeldSQL, pg.Columns(claims)...)
	if err != nil {
		return nil, err
	}
	var held []*ending
	var n int
	var acknowledged bool
	_, err = pgx.ForEachRow(rows, []any{&n, &acknowledged}, func() error {
		if e := ends[n-1]; e.by != bySilence || !acknowledged {
			held = append(held, e)
		}
		return nil
	})
	return slices.CompactFunc(held, func(a, b *ending) bool { return a.ID == b.ID }), err
}

// endAll writes the new status of transfers whose rows are locked, and moves their debits:
// confirmed when it was paid, reversed in every other end. It queues what their tenants chose to be
// told of it. It fills in when the bank is asked again: about what it has paid, and about what it
// had been asked to pay.
func (s *Service) endAll(ctx context.Context, tx pg.Tx, ends []*ending) error {
	now := s.Clock.Now()
	var able []*ending
	var moves []ledger.Move
	for _, e := range ends {
		to, ok := Transitions.Next(e.Status, e.event)
		if !ok {
			e.err = fmt.Errorf("transfer %s: %s on %s", e.Ref, e.event, e.Status)
			continue
		}
		e.to = to
		able, moves = append(able, e), append(moves, ledger.Move{TransactionGroupID: e.DebitGroup, Direction: ledger.Debit, Event: e.move()})
	}
	if len(able) == 0 {
		return nil
	}
	moved, err := ledger.MoveEntries(ctx, tx, now, moves)
	if err != nil {
		return err
	}
	var done []*ending
	for i, e := range able {
		if moved[i].Err != nil {
			e.err = fmt.Errorf("transfer %s: its debit: %w", e.Ref, moved[i].Err)
			continue
		}
		if e.Attempts > 0 && len(s.Rechecks) > 0 {
			e.next = new(now.Add(s.Rechecks[0]))
		}
		done = append(done, e)
	}
	if err := writeEnds(ctx, tx, now, done); err != nil {
		return err
	}
	return tell(ctx, tx, now, done)
}

// toldAs are the ends that a tenant can be told of.
var toldAs = map[Status]webhook.Type{Success: webhook.SettlementSucceeded, Failed: webhook.SettlementFailed, Refunded: webhook.SettlementRefunded}

// tell queues the events of the ends. For tenants that have chosen nothing it does nothing.
func tell(ctx context.Context, tx pg.Tx, now time.Time, ends []*ending) error {
	var events []webhook.NewDelivery
	for _, e := range ends {
		if !e.Tells {
			continue
		}
		events = append(events, webhook.NewDelivery{
			Type: toldAs[e.to], AccountID: e.AccountID, TransactionGroupID: e.ID, CreatedAt: now, Traceparent: e.Traceparent,
			Payload: webhook.Settlement{MerchantTxRef: e.Ref, Amount: e.Amount, BankCode: e.BankCode, AccountNumber: e.AccountNumber},
		})
	}
	_, err := webhook.Tell(ctx, tx, now, events)
	return err
}

// move is what becomes of the debit.
func (e *ending) move() ledger.Event {
	switch {
	case e.event == EventPaid:
		return ledger.EventConfirm
	case e.Status == Success:
		return ledger.EventRefund
	}
	return ledger.EventReverse
}

// endedRow is the end of a transfer in endSQL.
type endedRow struct {
	ID     uuid.UUID  `pg:"id"`
	From   Status     `pg:"status_from"`
	To     Status     `pg:"status_to"`
	Next   *time.Time `pg:"next"`
	Why    string     `pg:"why"`
	By     string     `pg:"by"`
	Reason string     `pg:"reason"`
	learnedRow
}

var endSQL = `UPDATE transfers t
	SET status = m.status_to, next_attempt_at = m.next, ask_count = 0, unknown_count = 0, leased_until = NULL, last_error = m.why,
		ended_by = m.by, failure_reason = m.reason, ` + learnedSQL("$1") + `, updated_at = $1
	FROM ` + pg.Unnest[endedRow](2, "m") + `
	WHERE t.id = m.id AND t.status = m.status_from`

func writeEnds(ctx context.Context, tx pg.Tx, now time.Time, ends []*ending) error {
	rows := make([]endedRow, len(ends))
	for i, e := range ends {
		rows[i] = endedRow{e.ID, e.Status, e.to, e.next, e.why, string(e.by), e.reason, e.learned.row()}
	}
	tag, err := tx.Exec(ctx, endSQL, pg.Columns(rows, now)...)
	if err == nil && int(tag.RowsAffected()) != len(ends) {
		err = fmt.Errorf("transfer: %d of %d ended: a status changed under its lock", tag.RowsAffected(), len(ends))
	}
	return err
}
