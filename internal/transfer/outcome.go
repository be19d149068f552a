package transfer

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ajo/internal/limit"
	"ajo/internal/pg"
	"ajo/internal/webhook"
	"ajo/ledger"
)

// decider is who or what ended a transfer.
type decider string

const (
	byBank decider = "bank" // the bank's record, or its refusal of the first submission
	// the bank acknowledged nothing and knows nothing of it, after five submissions; or of a refund
	// whose payment is gone, after as many as it had
	bySilence  decider = "silence"
	byBooks    decider = "books"    // the money that it was to be paid from proved false
	byOperator decider = "operator" // resolved or cancelled
	byTenant   decider = "tenant"   // rejected, or not approved in time
)

// outcome is what ends a transfer, or moves it on from an end.
type outcome struct {
	event Event
	by    decider
	why   string // for operators; it may quote the bank
	// for the tenant: the API's failureReason. It never quotes the bank; empty for a success
	reason string
}

// The reasons that tenants see.
const (
	reasonNoAccount   = "the destination account does not exist"
	reasonRefused     = "the bank refused the transfer"
	reasonFailed      = "the bank could not complete the transfer"
	reasonNotMade     = "the bank did not carry out the transfer"
	reasonReturned    = "the bank returned the money"
	reasonNotCovered  = "the money that it was to be paid from was taken back"
	reasonCancelled   = "the transfer was cancelled before it was sent to the bank"
	reasonResolvedNot = "the bank did not pay the transfer"
	reasonOtherHolder = "the bank names another holder of the account that the payment came from"
	reasonOtherName   = "the bank names another holder of the destination account than was expected"
	reasonRejected    = "the transfer was rejected by a member"
	reasonNotApproved = "the transfer was not approved in 24 hours"
	reasonFeeBack     = "the bank gave its fee back"
	reasonTakenBack   = "the payment that it was to refund was taken back"
)

// The outcomes that the bank's record or the ledger states.
var (
	paid         = outcome{event: EventPaid, by: byBank}
	notPaid      = outcome{event: EventReject, by: byBank, why: "the bank says that it failed", reason: reasonFailed}
	givenBack    = outcome{event: EventRefund, by: byBank, why: "the bank gave it back", reason: reasonReturned}
	otherHolder  = outcome{event: EventReject, by: byBank, why: "the bank names another holder than its record of the payment", reason: reasonOtherHolder}
	otherName    = outcome{event: EventReject, by: byBank, why: "the bank names another holder than the settlement", reason: reasonOtherName}
	takenBack    = outcome{event: EventReject, by: byBooks, why: "the payment that it refunds was taken back", reason: reasonTakenBack}
	notApproved  = outcome{event: EventReject, by: byTenant, why: "it was not approved in time", reason: reasonNotApproved}
	neverCovered = outcome{event: EventReject, by: byBooks, why: "the money that it pays out proved false", reason: reasonNotCovered}
)

// book ends transfers whose items the caller has given back or locked. It confirms the debits of
// those that were paid, and reverses the others, which then no longer count towards limits. It
// writes the new status, books the bank's charges, and publishes the events that the tenants chose.
func book(ctx context.Context, tx pg.Tx, now time.Time, ends []ending) error {
	if len(ends) == 0 {
		return nil
	}
	var paid []uuid.UUID
	var moves []ledger.Move
	var unpaid []limit.Change
	changes := make([]change, len(ends))
	charged := make([]chargedStep, len(ends))
	for i, e := range ends {
		if e.to() == "" {
			return fmt.Errorf("transfer %s: %s on %s", e.Ref, e.event, e.Status)
		}
		if move := e.move(); move == ledger.EventConfirm {
			paid = append(paid, e.DebitGroup)
		} else {
			moves = append(moves, ledger.Move{TransactionGroupID: e.DebitGroup, Direction: ledger.Debit, Event: move})
			unpaid = append(unpaid, limit.Change{Transfer: e.ID, By: e.Paid.Neg()})
		}
		charged[i] = e.planCharges(e.to())
		charged[i].why = e.reason
	}
	if err := limit.Correct(ctx, tx, unpaid); err != nil {
		return err
	}
	if err := moveDebits(ctx, tx, now, charged, moves, paid); err != nil {
		return err
	}
	for i, e := range ends {
		changes[i] = e.change()
	}
	if err := writeAll(ctx, tx, now, changes); err != nil {
		return err
	}
	if err := bookCharges(ctx, tx, now, charged); err != nil {
		return err
	}
	return publish(ctx, tx, now, ends)
}

// move is the ledger event of an outcome for the debit.
func (e ending) move() ledger.Event {
	switch {
	case e.event == EventPaid:
		return ledger.EventConfirm
	case e.Status == Success:
		return ledger.EventRefund
	}
	return ledger.EventReverse
}

// eventTypes maps the ends to the events for tenants.
var eventTypes = map[Status]webhook.Type{Success: webhook.SettlementSucceeded, Failed: webhook.SettlementFailed, Refunded: webhook.SettlementRefunded}

// publish publishes the events of the ends. For tenants that have chosen nothing it does nothing.
// An event belongs to a debit: a transfer that a person has booked again has another debit, so its
// ends are published again, also where only the sum is another one.
func publish(ctx context.Context, tx pg.Tx, now time.Time, ends []ending) error {
	var events []webhook.NewDelivery
	for _, e := range ends {
		if !e.Listened {
			continue
		}
		s := webhook.Settlement{
			MerchantTxRef: e.Ref, Amount: e.Amount, BankCode: shown(e.BankCode, NoBankCode), AccountNumber: shown(e.AccountNumber, NoAccountNumber), RefundOf: e.refundOf,
		}
		if !e.Paid.Equal(e.Amount) {
			s.PaidAmount = &e.Paid
		}
		events = append(events, webhook.NewDelivery{
			Type: eventTypes[e.to()], AccountID: e.AccountID, TransactionGroupID: e.DebitGroup, CreatedAt: now, Traceparent: e.Traceparent, Payload: s,
		})
	}
	_, err := webhook.Publish(ctx, tx, now, events)
	return err
}
