// Package ledger owns the entries, the running totals and the statements, and all their SQL.
//
// What always holds: of an entry only the status changes, along [Transitions], and with it the time
// of its confirmation, its review, and the payer by the bank's record (also [RecordSender]);
// balance = total credits − total debits; the balance, the statement's totals and the sum over the
// entries agree at every commit; each entry has two sides, its account and a [SystemAccount]
// (nearly always the provider float), so the book sums to zero; each entry's hash covers the one
// before. The schema enforces what it can see. (Specification, "Ledger entry", "Statement line";
// decisions, "Ledger".)
//
// Every change to an account's entries that affects its balance is made under the lock of its row
// in ledger_balances. (Confirming a debit affects no balance: [ConfirmDebits].) For its place among
// other locks see docs/architecture.md, Lock order.
//
// Which struct is which row of ledger_entries:
//
//	[Entry]      for people, in the [Line] of a statement; [Payment] with its account and
//	             customer, [SystemLine] from a system account's side
//	stored       to be moved
//	row          to be inserted (markedRow, pricedRow: with the columns that few entries have)
//	storedEntry  to be verified: a row with its review
package ledger

import (
	"time"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/fsm"
	"ajo/internal/money"
)

// Direction says which way money moves on the customer's side of an entry.
type Direction string

// The directions of the specification.
const (
	Credit Direction = "credit" // funds received
	Debit  Direction = "debit"  // settlement movement
)

func (d Direction) opposite() Direction {
	if d == Credit {
		return Debit
	}
	return Credit
}

// Status is an entry's status, as on the wire.
type Status string

// The statuses of the specification.
const (
	Provisional Status = "provisional"
	Confirmed   Status = "confirmed"
	Reversed    Status = "reversed"
	NeedsReview Status = "needs_review"
)

// Event is what moves an entry.
type Event string

// The events: posting, and what the bank or an operator found.
const (
	EventPost    Event = "post"
	EventConfirm Event = "confirm" // the bank's record agrees, or an operator says so
	EventReverse Event = "reverse" // the bank knows no such payment, or gave it back
	// the bank's record differs, or no clear answer came: a person must look; credits only
	EventHold Event = "hold"
	// the bank gave a payout back after it had said success; debits only
	EventRefund Event = "refund"
	// the bank took a payment back after it had confirmed it; credits only
	EventRecall Event = "recall"
)

// Transitions is the entry's state machine. A debit is never held: that would free money that may
// be on its way out. A confirmed credit is reversed only by a recall, a row of the table recalls.
var Transitions = fsm.New("Ledger entry",
	fsm.Row[Status, Event]{From: fsm.Start, Event: EventPost, To: Provisional},
	fsm.Row[Status, Event]{From: Provisional, Event: EventConfirm, To: Confirmed},
	fsm.Row[Status, Event]{From: Provisional, Event: EventReverse, To: Reversed},
	fsm.Row[Status, Event]{From: Provisional, Event: EventHold, To: NeedsReview},
	fsm.Row[Status, Event]{From: NeedsReview, Event: EventConfirm, To: Confirmed},
	fsm.Row[Status, Event]{From: NeedsReview, Event: EventReverse, To: Reversed},
	fsm.Row[Status, Event]{From: Confirmed, Event: EventRefund, To: Reversed},
	fsm.Row[Status, Event]{From: Confirmed, Event: EventRecall, To: Reversed},
)

// next is the status that event leads to for an entry of the given direction.
func next(d Direction, from Status, event Event) (Status, bool) {
	if ((event == EventHold || event == EventRecall) && d == Debit) || (event == EventRefund && d == Credit) {
		return "", false
	}
	return Transitions.Next(from, event)
}

// Refusals.
var (
	ErrInsufficientFunds = errs.New(errs.Invalid, "insufficient funds")
	ErrEntryNotFound     = errs.New(errs.NotFound, "ledger entry not found")
	ErrMove              = errs.New(errs.Unprocessable, "ledger entry does not allow this")
)

// Entry is one movement on an account. Field names and casing are the wire's; TransactionGroupID,
// TransferRef, ReversalOf and what follows CreatedAt are additions to the specification's list.
type Entry struct {
	ID        uuid.UUID `pg:"id"`
	Direction Direction `pg:"direction"`
	// of a received payment: net, after the provider's fee
	Amount             money.Amount `pg:"amount,numeric"`
	Fee                money.Amount `pg:"fee,numeric"` // the provider's fee, outside the balance
	Currency           string
	Status             Status     `pg:"status"`
	Narration          string     `pg:"narration"`
	ProviderTxnRef     string     `pg:"provider_txn_ref"`
	TransactionGroupID uuid.UUID  `pg:"transaction_group_id"`
	TransferRef        *string    `pg:"transfer_ref"` // merchantTxRef of the settlement, or null
	ReversalOf         *uuid.UUID `pg:"reversal_of"`  // the entry that this one reverses, or null
	CreatedAt          time.Time  `pg:"created_at"`
	// who paid; of a payment's entries. Name and bank are the event's word until the bank's own
	// record has confirmed the payment, and the record's from then on. (The event may be archived,
	// an entry is not.)
	SenderName string `pg:"sender_name"`
	SenderBank string `pg:"sender_bank"` // by its name
	// the record's word alone: empty until it has confirmed the payment, and where it does not say
	SenderAccount  string // account number
	SenderBankCode string
	SessionID      string // the interbank switch's id of the payment
	// of a payout that pays a payment back: that payment's entry. In statements only.
	RefundOf *uuid.UUID
	// an addition; empty, and not shown: a payment or a payout
	Kind Kind `json:",omitempty"`
}

// Posting asks for a new entry.
type Posting struct {
	AccountID      uuid.UUID
	Amount         money.Amount // above zero
	Fee            money.Amount
	Narration      string
	ProviderTxnRef string
	// who paid, of a payment
	SenderName, SenderBank string
	// one payment or one settlement; a second posting of the same group and direction is refused by
	// the schema
	TransactionGroupID uuid.UUID
	TransferRef        *string
	// for a credit: its tenant has tier limits, so a part of it may be held (deposit.go)
	Tiered bool
	// for a debit: the money has left already, so the balance is not checked and may fall below 0
	AllowOverdraft bool
	// for a debit: called when the money is there, to decide whether it may leave; an error refuses
	// this posting only. nil: it may
	Allow func() error
	// the contra side; empty: [ProviderFloat]. Any other needs a Kind.
	Contra SystemAccount
	Kind   Kind
	// for a payment: the price that applies to it; nil: none
	Price *uuid.UUID
	// for a payment: how it is split once it is confirmed ([Split], as JSON); nil: it is not
	Split *string
	// for a payment: the account's policy holds it; nil: it does not
	Policy *Policy
	// for a payment that is posted again: what has left of it, or was released, when it was posted
	// before. Nothing holds that
	Gone money.Amount
	// debits of the same account that are posted right after it, or not at all
	With []Posting
}

// totals is a row of ledger_balances while its lock is held.
type totals struct {
	AccountID          uuid.UUID `pg:"account_id"`
	TenantID           uuid.UUID
	Credits            money.Amount `pg:"credits,numeric"`
	Debits             money.Amount `pg:"debits,numeric"`
	ProvisionalCredits money.Amount `pg:"provisional,numeric"`
	LastSeq            int64        `pg:"seq"`
	Head               []byte       `pg:"head"` // nil while the chain has no entry
	LastAt             *time.Time   `pg:"last_at"`
	changed            bool         // since it was locked
	recall             *recallChange
	Held               money.Amount // by open holds
	HeldUntil          *time.Time   // the first end among them
	HeldOver           money.Amount // part of Held: of payments, by limits and policies
}

func (t *totals) net() money.Amount { return t.Credits.Sub(t.Debits) }

func (t *totals) add(d Direction, a money.Amount) {
	t.changed = true
	if d == Credit {
		t.Credits = t.Credits.Add(a)
	} else {
		t.Debits = t.Debits.Add(a)
	}
}
