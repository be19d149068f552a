package payment

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/money"
	"ajo/ledger"
)

// ExceptionKind says in what bank and books disagree.
type ExceptionKind string

// The kinds of exceptions.
const (
	// MissingEvent: the bank's list has a successful payment whose event never came. It is stored now, and posted like any.
	MissingEvent ExceptionKind = "missing_event"
	// Unposted: the event came, but is not in the books (misdirected, or not fit to post).
	Unposted ExceptionKind = "unposted"
	// UnknownAtBank: posted and not reversed, but the bank has no such transaction.
	UnknownAtBank ExceptionKind = "unknown_at_bank"
	// Differs: amount, fee, currency or account are not the bank's.
	Differs ExceptionKind = "differs"
	// Contradicts: the bank says that it failed or was given back, and the entry counts; or success, and it is reversed.
	Contradicts ExceptionKind = "status_contradicts"
	// UnknownPayout: the bank paid under a reference that no transfer has. A restored database lacks what came after its
	// backup: `ajo transfers adopt` takes it in.
	UnknownPayout ExceptionKind = "unknown_payout"
	// Unreadable: a record of the bank's list that could not be read, or not be stored.
	Unreadable ExceptionKind = "unreadable"
	// NotRead: a time that no run has read and that is too long ago to be read by itself.
	NotRead ExceptionKind = "not_read"
)

// Kinds lists the kinds of exceptions.
var Kinds = []ExceptionKind{MissingEvent, Unposted, UnknownAtBank, Differs, Contradicts, UnknownPayout, Unreadable, NotRead}

// Exception is one disagreement. What one side does not have is absent.
type Exception struct {
	Kind           ExceptionKind `json:"kind"`
	ProviderTxnRef string        `json:"providerTxnRef,omitempty"`
	MerchantTxRef  string        `json:"merchantTxRef,omitempty"` // of a payout
	EventID        *uuid.UUID    `json:"eventId,omitempty"`
	AccountID      *uuid.UUID    `json:"accountId,omitempty"`
	AccountNumber  string        `json:"accountNumber,omitempty"` // that was paid, as the bank has it
	At             *time.Time    `json:"at,omitempty"`            // of the payment
	BankStatus     string        `json:"bankStatus,omitempty"`
	BankAmount     *money.Amount `json:"bankAmount,omitempty"` // gross
	BankFee        *money.Amount `json:"bankFee,omitempty"`
	EntryStatus    ledger.Status `json:"entryStatus,omitempty"`
	BooksAmount    *money.Amount `json:"booksAmount,omitempty"` // gross: the entry's amount and fee
	BooksFee       *money.Amount `json:"booksFee,omitempty"`
	Detail         string        `json:"detail"`
}

// Sum counts payments and adds them up.
type Sum struct {
	Count  int          `json:"count"`
	Amount money.Amount `json:"amount"` // gross
	Fee    money.Amount `json:"fee"`
}

func (s *Sum) add(amount, fee money.Amount) {
	s.Count, s.Amount, s.Fee = s.Count+1, s.Amount.Add(amount), s.Fee.Add(fee)
}

// BankSide is the window as the bank lists it, by the status of its records.
type BankSide struct {
	Pages      int `json:"pages"`
	Success    Sum `json:"success"`
	Pending    Sum `json:"pending"`
	Failed     Sum `json:"failed"`
	Refunded   Sum `json:"refunded"`
	Unreadable int `json:"unreadable"`
}

// BooksSide is the window as the ledger has it, by the status of the entries.
type BooksSide struct {
	Provisional Sum `json:"provisional"`
	Confirmed   Sum `json:"confirmed"`
	NeedsReview Sum `json:"needsReview"`
	Reversed    Sum `json:"reversed"`
}

// counted is what the balances have of the window.
func (b BooksSide) counted() Sum {
	return Sum{
		Count:  b.Provisional.Count + b.Confirmed.Count,
		Amount: b.Provisional.Amount.Add(b.Confirmed.Amount), Fee: b.Provisional.Fee.Add(b.Confirmed.Fee),
	}
}

// Signed is a sum that may be below zero, which [money.Amount] does not read from JSON.
type Signed struct{ money.Amount }

// UnmarshalJSON reads a decimal string, with a sign or without.
func (s *Signed) UnmarshalJSON(b []byte) error {
	text := string(b)
	unsigned := strings.Replace(text, `"-`, `"`, 1)
	if err := s.Amount.UnmarshalJSON([]byte(unsigned)); err != nil {
		return err
	}
	if unsigned != text {
		s.Amount = s.Neg()
	}
	return nil
}

// Float compares the wallet's balance, as the newest event carries it, with what the books say that it was at that moment.
type Float struct {
	Comparable bool       `json:"comparable"`
	Why        string     `json:"why,omitempty"` // it is not
	At         *time.Time `json:"at,omitempty"`  // the event's time; all sums are as of then
	EventID    *uuid.UUID `json:"eventId,omitempty"`
	Wallet     *Signed    `json:"wallet,omitempty"`     // what the event says; its signature does not cover it
	Customers  *Signed    `json:"customers,omitempty"`  // the sum of all balances
	Outside    *Signed    `json:"outside,omitempty"`    // received and in no balance: misdirected, unfit, under review
	UnderWay   *Signed    `json:"underWay,omitempty"`   // payouts that the wallet may have paid or not
	Difference *Signed    `json:"difference,omitempty"` // wallet − customers − outside: the bank's charges for payouts, our own money in the wallet, and what is wrong
}

// Report is what one run found.
type Report struct {
	ID         uuid.UUID `json:"id"`
	Kind       string    `json:"kind"` // periodic or manual
	From       time.Time `json:"from"` // inclusive
	To         time.Time `json:"to"`   // exclusive
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
	Bank       BankSide  `json:"bank"`
	Books      BooksSide `json:"books"`
	// Elsewhere counts entries that the list does not have but that the bank knows by their id: its time is another than ours.
	Elsewhere int `json:"elsewhere"`
	// Young counts entries that the list does not have and that are too young for that to mean something.
	Young      int                   `json:"young"`
	Counts     map[ExceptionKind]int `json:"counts"`
	Exceptions []Exception           `json:"exceptions"` // at most 1,000; Counts has them all
	Float      Float                 `json:"float"`

	// ToPost are the events that were stored and wait to be posted: the caller rings.
	ToPost []uuid.UUID `json:"-"`
}

// maxExceptions bounds what one report lists.
const maxExceptions = 1000

func (r *Report) except(e Exception) {
	r.Counts[e.Kind]++
	e.ProviderTxnRef, e.AccountNumber, e.Detail, e.MerchantTxRef = clean(e.ProviderTxnRef), clean(e.AccountNumber), clean(e.Detail), clean(e.MerchantTxRef) // jsonb takes no NUL
	if len(r.Exceptions) < maxExceptions {
		r.Exceptions = append(r.Exceptions, e)
	}
}

// ExceptionCount is how many exceptions there are of all kinds.
func (r *Report) ExceptionCount() (n int) {
	for _, k := range r.Counts {
		n += k
	}
	return n
}

// Suspicious counts what a person must look at: all exceptions but those that healed themselves and those that the events'
// own lists have.
func (r *Report) Suspicious() int {
	return r.ExceptionCount() - r.Counts[MissingEvent] - r.Counts[Unposted]
}
