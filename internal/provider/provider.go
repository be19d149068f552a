// Package provider is what Ajo needs of an upstream bank, as one interface.
//
// An adapter (provider/nomba) speaks a bank's wire and translates its answers into the three that
// matter when money is moving: a value, [ErrUnknown] (the bank does not know the reference, yet),
// or a [*Rejection] (the bank definitely refuses). Every other error means that the outcome is not
// known, and must never be taken for a failure.
//
// A Rejection comes only from calls that ask for something to be done, and from Lookup. A question
// that was refused (Transaction, Transactions, Payout, Banks) says nothing about what it asked for,
// and is an ordinary error.
package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ajo/internal/money"
)

// ErrNotSet says that there is no bank to ask.
var ErrNotSet = errors.New("AJO_PROVIDER_URL is not set")

// ErrUnknown says that the bank does not know the reference, or not yet. It never says that
// something failed.
var ErrUnknown = errors.New("provider: reference not known")

// ErrOtherAccount says that the bank does not know the reference, which is no answer: it was made
// when the books were of another account at the bank, and that cannot be asked any more.
var ErrOtherAccount = errors.New("the books were of another account at the bank then, which cannot be asked any more")

// ErrStranger says that the bank has answered with the record of something else. It says nothing
// about what was asked for.
var ErrStranger = errors.New("the bank answered with another's record")

// ErrDuplicate says that a payout's reference has been used before: the bank has it, from an
// earlier submission. [Bank.Payout] reports the outcome of that one, sooner or later.
var ErrDuplicate = errors.New("provider: reference used before")

// ErrUnreadable says that the bank has a payout's reference, and that what it says of it cannot be
// read. [Bank.Payout] reports the outcome, once that can be.
var ErrUnreadable = errors.New("provider: the bank has the reference, but its record cannot be read")

// Rejection is the bank's definite refusal: the call had no effect and the same call will not
// succeed.
type Rejection struct {
	Code string // the bank's own code
	Msg  string // the bank's own description
}

// Error returns the bank's code and description.
func (r *Rejection) Error() string { return "provider rejected: " + r.Code + " " + r.Msg }

// Status is the state of a transaction or payout at the bank.
type Status string

// The states. Anything the adapter does not recognise is Pending: not an answer.
const (
	Pending Status = "pending"
	Success Status = "success"
	Failed  Status = "failed"
	// accepted first, then given back; for an inbound transaction: reversed
	Refunded Status = "refunded"
)

// NewAccount asks for a virtual account.
type NewAccount struct {
	Ref string // ours, 16–64 characters, unique over the service
	// holder name as the tenant gave it; the adapter fits it to the bank's rule
	Name           string
	BVN            string        // optional, 11 digits
	ExpectedAmount *money.Amount // optional
	ExpiresAt      *time.Time    // optional
}

// Account is a virtual account at the bank.
type Account struct {
	Ref      string
	Number   string // NUBAN, 10 digits
	Name     string // holder name as payers see it
	BankName string
	Closed   bool
}

// Transaction is the bank's own record of an inbound transfer.
type Transaction struct {
	ID            string
	Status        Status
	Amount        money.Amount // gross, as the payer sent it
	Fee           money.Amount
	Currency      string
	AccountNumber string // the NUBAN that received it
	AccountRef    string // the reference of the virtual account, where the bank gives it
	// the payer, as far as the bank's record says
	SenderName     string
	SenderAccount  string // account number
	SenderBank     string // by its name
	SenderBankCode string
	Narration      string
	SessionID      string // the interbank switch's id of the transfer, where the bank gives it
	Time           time.Time
	UpdatedAt      time.Time // when the record last changed; zero where the bank does not say
}

// Page is one page of the bank's transaction list; Next is empty at the end.
type Page struct {
	Transactions []Transaction
	Payouts      []Payout // that bear a reference of whoever asked for them
	Next         string
	// EndsLater reports that the last record, in the bank's order, is later than the time asked
	// for. If that order is by time, oldest first, later pages have nothing of that time.
	EndsLater  bool
	Unreadable []Unreadable // records on the page that somebody must look at
}

// Unreadable is a record of the list of which something that matters is missing, or no value of its
// kind.
type Unreadable struct {
	ID     string // by which the bank can be asked for it as for a payment; or ""
	Record string // as the bank wrote it; not for logs
	Why    string
}

// BankInfo is a bank that payouts can go to.
type BankInfo struct {
	Code string // 3–6 digits
	Name string
}

// Holder is the answer to a lookup of a destination account.
type Holder struct {
	AccountNumber string
	AccountName   string
}

// NewPayout asks the bank to pay.
type NewPayout struct {
	Ref           string // merchantTxRef: the bank's idempotency key
	Amount        money.Amount
	BankCode      string
	AccountNumber string
	AccountName   string
	SenderName    string
	Narration     string
}

// Payout is the bank's record of a payout.
type Payout struct {
	ID     string
	Ref    string
	Status Status
	Amount money.Amount
	Fee    *money.Amount // what the bank takes for the payout; nil where its answer does not say
	// beside the fee, where the record names them
	VAT, StampDuty *money.Amount
	// the payout failed or came back, and the bank kept fee, VAT and duty
	FeeKept bool

	// Where the money went and when, as far as the bank's record says.
	BankCode      string
	AccountNumber string
	Narration     string
	Time          time.Time
	UpdatedAt     time.Time // when the record last changed; zero where the bank does not say
}

// Beside words what the record says where the books say otherwise. A transfer keeps the words that
// a person has dealt with, and reconciliation knows by them that the record has not changed since.
func (p Payout) Beside(status string, left money.Amount) string {
	return fmt.Sprintf("the bank says %s of %s, the books %s of %s", p.Status, p.Amount, status, left)
}

// Record asks a bank for its record of an inbound transaction by its id. One of another id is none,
// whichever bank is behind it: [ErrStranger]; without a bank it is [ErrNotSet].
func Record(ctx context.Context, b Bank, id string) (Transaction, error) {
	if b == nil {
		return Transaction{}, ErrNotSet
	}
	t, err := b.Transaction(ctx, id)
	if err == nil && t.ID != id {
		return Transaction{}, ErrStranger
	}
	return t, err
}

// Bank is an upstream bank. Each method makes bounded calls and ends with its context.
type Bank interface {
	// Name is the label kept as an account's Provider.
	Name() string
	// CreateAccount opens a virtual account, or returns the one that the reference has already.
	CreateAccount(ctx context.Context, a NewAccount) (Account, error)
	// CloseAccount closes a virtual account; closing a closed one succeeds. [ErrUnknown] says that
	// the bank has none of that reference: there is nothing to close.
	CloseAccount(ctx context.Context, ref string) error
	// FindAccount returns the virtual account of a reference, open or closed, or [ErrUnknown].
	FindAccount(ctx context.Context, ref string) (Account, error)
	// Transaction returns the record of an inbound transfer that echoes id, or [ErrUnknown].
	Transaction(ctx context.Context, id string) (Transaction, error)
	// Transactions lists inbound transfers and payouts from (inclusive) to (exclusive), a page at a
	// time, each page oldest first. The bounds are cut to the resolution of the bank's times, so
	// that adjoining ranges leave nothing out.
	Transactions(ctx context.Context, from, to time.Time, cursor string) (Page, error)
	// Banks lists the banks that payouts can go to.
	Banks(ctx context.Context) ([]BankInfo, error)
	// Lookup names the holder of a destination account; an unknown bank or account is a
	// [*Rejection] or [ErrUnknown].
	Lookup(ctx context.Context, bankCode, accountNumber string) (Holder, error)
	// Pay submits a payout. [*Rejection] is definite. A duplicate reference, a timeout, a 5xx and
	// "processing" are not failures: the last gives Status Pending, the first [ErrDuplicate], the
	// others an error that is neither; ask with [Bank.Payout]. A Payout, [ErrDuplicate] and
	// [ErrUnreadable] all say that the bank has the reference.
	Pay(ctx context.Context, p NewPayout) (Payout, error)
	// Payout returns the record of the payout that echoes ref, [ErrUnknown], or [ErrUnreadable].
	Payout(ctx context.Context, ref string) (Payout, error)
}
