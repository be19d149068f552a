package reconcile

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/ledger"
)

// ExceptionKind says how bank and books disagree.
type ExceptionKind string

// The kinds of exceptions.
const (
	// MissingEvent: the bank's list has a successful payment whose event never came. It is stored
	// now, and posted like any other.
	MissingEvent ExceptionKind = "missing_event"
	// Healed: the event came and could not be posted; it has been posted from the bank's own
	// record.
	Healed ExceptionKind = "healed"
	// Unposted: the event came, but is not in the books (misdirected, or not fit to post).
	Unposted ExceptionKind = "unposted"
	// UnknownAtBank: posted and not reversed, or misdirected and in suspense, but the bank has no
	// such transaction.
	UnknownAtBank ExceptionKind = "unknown_at_bank"
	// Differs: amount, fee, currency or account are not the bank's.
	Differs ExceptionKind = "differs"
	// Contradicts: the bank says that it failed or was given back, but the entry counts, or the
	// suspense account has it; or the bank says success, but it is reversed.
	Contradicts ExceptionKind = "status_contradicts"
	// LookAlike: the bank's list has a payment that may be a known one under another id. It is not
	// posted before somebody has looked at it.
	LookAlike ExceptionKind = "look_alike"
	// StillPending: the bank has not reported the outcome of a payment for more than a day.
	StillPending ExceptionKind = "still_pending"
	// PayoutContradicts: the bank's status of a payout cannot stand beside the transfer's.
	PayoutContradicts ExceptionKind = "payout_contradicts"
	// PayoutDiffers: sum, fee or destination of a payout are not the bank's, or only a part of it
	// was given back.
	PayoutDiffers ExceptionKind = "payout_differs"
	// PayoutFeeUnknown: the bank's record of a payout does not name its fee, so none is booked.
	PayoutFeeUnknown ExceptionKind = "payout_fee_unknown"
	// PayoutFeeShort: the tenant bears the bank's charges, but its account could not pay all of
	// them.
	PayoutFeeShort ExceptionKind = "payout_fee_short"
	// PayoutUnknown: the transfer was paid, and the bank has no such payout.
	PayoutUnknown ExceptionKind = "payout_unknown_at_bank"
	// UnknownPayout: the bank paid under a reference that no transfer has. A restored database
	// lacks what came after its backup: `ajo transfers adopt` takes it in.
	UnknownPayout ExceptionKind = "unknown_payout"
	// Unreadable: a record of the bank's list that could not be read, or not be stored, or an
	// answer about a record that could not be used.
	Unreadable ExceptionKind = "unreadable"
	// NotRead: a time that no run has read and that is too long ago to be read automatically, or in
	// which the books were of another account at the bank.
	NotRead ExceptionKind = "not_read"
)

// Kinds lists the kinds of exceptions.
var Kinds = []ExceptionKind{
	MissingEvent, Healed, Unposted, UnknownAtBank, Differs, Contradicts, LookAlike, StillPending, PayoutContradicts, PayoutDiffers, PayoutFeeUnknown, PayoutFeeShort,
	PayoutUnknown, UnknownPayout, Unreadable, NotRead,
}

// Exception is one disagreement. Values that one side does not have are absent.
type Exception struct {
	Kind           ExceptionKind `json:"kind"`
	ProviderTxnRef string        `json:"providerTxnRef,omitempty"`
	MerchantTxRef  string        `json:"merchantTxRef,omitempty"` // of a payout
	EventID        *uuid.UUID    `json:"eventId,omitempty"`
	AccountID      *uuid.UUID    `json:"accountId,omitempty"`
	// the account that was paid, by the bank's record
	AccountNumber  string        `json:"accountNumber,omitempty"`
	At             *time.Time    `json:"at,omitempty"` // of the payment
	BankStatus     string        `json:"bankStatus,omitempty"`
	BankAmount     *money.Amount `json:"bankAmount,omitempty"` // gross
	BankFee        *money.Amount `json:"bankFee,omitempty"`
	EntryStatus    ledger.Status `json:"entryStatus,omitempty"`
	TransferStatus string        `json:"transferStatus,omitempty"`
	// gross: the entry's amount and fee; a transfer's amount
	BooksAmount *money.Amount `json:"booksAmount,omitempty"`
	BooksFee    *money.Amount `json:"booksFee,omitempty"`
	// the part of the bank's list that was not read, or that has a record without a usable id
	From   *time.Time `json:"from,omitempty"`
	To     *time.Time `json:"to,omitempty"`
	Detail string     `json:"detail"`
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

func (s Sum) plus(o Sum) Sum {
	return Sum{Count: s.Count + o.Count, Amount: s.Amount.Add(o.Amount), Fee: s.Fee.Add(o.Fee)}
}

// BankSide is the window as the bank lists it, by the status of its records.
type BankSide struct {
	Pages      int          `json:"pages"`
	Success    Sum          `json:"success"`
	Pending    Sum          `json:"pending"`
	Failed     Sum          `json:"failed"`
	Refunded   Sum          `json:"refunded"`
	Unreadable int          `json:"unreadable"`
	Payouts    SumsByStatus `json:"payouts"`
}

// SumsByStatus are sums of payouts by their status.
type SumsByStatus map[string]Sum

func (s *SumsByStatus) add(status string, amount, fee money.Amount) {
	if *s == nil {
		*s = SumsByStatus{}
	}
	sum := (*s)[status]
	sum.add(amount, fee)
	(*s)[status] = sum
}

func (s *SumsByStatus) addAll(o SumsByStatus) {
	if len(o) > 0 && *s == nil {
		*s = SumsByStatus{}
	}
	for status, sum := range o {
		(*s)[status] = (*s)[status].plus(sum)
	}
}

// BooksSide is the window as the ledger has it, by the status of the entries.
type BooksSide struct {
	Provisional Sum `json:"provisional"`
	Confirmed   Sum `json:"confirmed"`
	NeedsReview Sum `json:"needsReview"`
	Reversed    Sum `json:"reversed"`
	// Payouts are the transfers that were last submitted in the window.
	Payouts SumsByStatus `json:"payouts"`
}

// counted is the part of the window that is in the balances.
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

// Float compares the wallet's balance in the newest event with the books as of that moment.
type Float struct {
	Comparable bool   `json:"comparable"`
	Why        string `json:"why,omitempty"` // it is not
	// the event's time. The sums are as of then together; of the parts, Customers is without what
	// the platform has charged since, which is in Revenue and Taxes.
	At      *time.Time `json:"at,omitempty"`
	EventID *uuid.UUID `json:"eventId,omitempty"`
	// what the event says; its signature does not cover it
	Wallet    *Signed `json:"wallet,omitempty"`
	Customers *Signed `json:"customers,omitempty"` // the sum of all balances
	// the system accounts' balances, the parts of System: the platform's expenses are below zero
	Suspense *Signed `json:"suspense,omitempty"`
	Revenue  *Signed `json:"revenue,omitempty"`
	BankFees *Signed `json:"bankFees,omitempty"`
	Taxes    *Signed `json:"taxes,omitempty"`
	System   *Signed `json:"system,omitempty"`
	// received and in no balance: unfit, under review
	Outside *Signed `json:"outside,omitempty"`
	// payouts that the wallet may or may not have paid
	UnderWay   *Signed `json:"underWay,omitempty"`
	Difference *Signed `json:"difference,omitempty"` // wallet − customers − system − outside
	// Explained are the parts of the difference that are known; Unexplained is the rest: our own
	// money in the wallet, and what is wrong.
	Explained   []Explanation `json:"explained,omitempty"`
	Unexplained *Signed       `json:"unexplained,omitempty"`
}

// Explanation is a part of the difference between wallet and books.
type Explanation struct {
	What   string `json:"what"`
	Ref    string `json:"ref,omitempty"` // the bank's transaction id, or the merchantTxRef
	Amount Signed `json:"amount"`        // below zero: the wallet has less than the books
}

// Report is what one run found.
type Report struct {
	ID         uuid.UUID `json:"id"`
	Kind       string    `json:"kind"` // periodic, again, daily or manual
	From       time.Time `json:"from"` // inclusive
	To         time.Time `json:"to"`   // exclusive
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
	Bank       BankSide  `json:"bank"`
	Books      BooksSide `json:"books"`
	// Elsewhere counts entries that the list does not have but that the bank knows by their id: its
	// time differs from ours.
	Elsewhere int `json:"elsewhere"`
	// Young counts entries that the list does not have but that are too new for that to mean
	// anything.
	Young      int                   `json:"young"`
	Counts     map[ExceptionKind]int `json:"counts"`
	Exceptions []Exception           `json:"exceptions"` // at most 1,000; Counts has them all
	Float      Float                 `json:"float"`

	// ToPost are the events that were stored and wait to be posted, at most 1,000.
	ToPost []uuid.UUID `json:"-"`
}

// maxExceptions bounds what one report lists.
const maxExceptions = 1000

// clean returns the exception as it can be stored: jsonb takes no NUL.
func (e Exception) clean() Exception {
	e.ProviderTxnRef, e.AccountNumber, e.Detail, e.MerchantTxRef = payment.Clean(e.ProviderTxnRef), payment.Clean(e.AccountNumber), payment.Clean(e.Detail), payment.Clean(e.MerchantTxRef)
	return e
}

func (r *Report) except(e Exception) {
	r.Counts[e.Kind]++
	e = e.clean()
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

// quietKinds are the kinds that need nobody's attention: they healed themselves, or are in the
// lists of events. The gauge of the exceptions leaves the same ones out (package invariant).
var quietKinds = []ExceptionKind{MissingEvent, Healed, Unposted}

// newReport is a report of nothing yet.
func newReport() Report { return Report{Counts: map[ExceptionKind]int{}, Exceptions: []Exception{}} }

// add adds what was found in a part of the window.
func (r *Report) add(p Report) {
	b, of := &r.Bank, p.Bank
	b.Pages, b.Unreadable = b.Pages+of.Pages, b.Unreadable+of.Unreadable
	b.Success, b.Pending, b.Failed, b.Refunded = b.Success.plus(of.Success), b.Pending.plus(of.Pending), b.Failed.plus(of.Failed), b.Refunded.plus(of.Refunded)
	b.Payouts.addAll(of.Payouts)
	o, from := &r.Books, p.Books
	o.Provisional, o.Confirmed = o.Provisional.plus(from.Provisional), o.Confirmed.plus(from.Confirmed)
	o.NeedsReview, o.Reversed = o.NeedsReview.plus(from.NeedsReview), o.Reversed.plus(from.Reversed)
	o.Payouts.addAll(from.Payouts)
	r.Elsewhere, r.Young = r.Elsewhere+p.Elsewhere, r.Young+p.Young
	for k, n := range p.Counts {
		r.Counts[k] += n
	}
	r.Exceptions = atMost(append(r.Exceptions, p.Exceptions...))
	r.ToPost = atMost(append(r.ToPost, p.ToPost...))
}

// addDone adds what was written to the books in a part of the window that is read again.
func (r *Report) addDone(p Report) {
	done := newReport()
	for _, k := range []ExceptionKind{MissingEvent, Healed} {
		if n := p.Counts[k]; n > 0 {
			done.Counts[k] = n
		}
	}
	for _, x := range p.Exceptions {
		if x.Kind == MissingEvent || x.Kind == Healed {
			done.Exceptions = append(done.Exceptions, x)
		}
	}
	done.ToPost = p.ToPost
	r.add(done)
}

func atMost[T any](list []T) []T { return list[:min(len(list), maxExceptions)] }

// Suspicious counts what a person must look at: all exceptions except those that healed themselves
// and those in the lists of events.
func (r *Report) Suspicious() int {
	n := r.ExceptionCount()
	for _, k := range quietKinds {
		n -= r.Counts[k]
	}
	return n
}
