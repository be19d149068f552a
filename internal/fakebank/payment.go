package fakebank

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/money"
)

// The refusals of paying in.
var (
	ErrNoAccount = errs.New(errs.NotFound, "no such virtual account")
	ErrClosed    = errs.New(errs.Unprocessable, "the virtual account takes no payments: it is closed or expired")
	ErrAmount    = errs.New(errs.Invalid, "the amount must be above zero")
	ErrNoRecord  = errs.New(errs.NotFound, "no such transaction or payout")
	ErrState     = errs.New(errs.Unprocessable, "the record's state does not allow that")
)

// Payment is a transfer that a payer makes to a virtual account.
type Payment struct {
	AccountRef string // or NUBAN
	NUBAN      string
	Amount     money.Amount // gross

	// All that follows may be left out.
	Fee           *money.Amount // instead of the tier's; it may exceed the amount
	Currency      string        // NGN
	Status        string        // of the record: SUCCESS; any other moves no money
	SenderName    string
	SenderAccount string
	SenderBank    string
	Forged        *Sender // whom the event names as the payer instead, as whoever has its signature may
	Narration     string
	Time          time.Time // now
	Force         bool      // pay a closed or expired account all the same, as a slow bank does
	Silent        bool      // send no event
	// the event goes out so much later
	Late time.Duration
	// Recorded changes the bank's record before anybody can ask for it; the event stays as it was.
	// It must not call the bank.
	Recorded func(*Transaction)
	// return after the first attempt to send the event, or when the context ends
	Wait bool
}

// Sender is a payer.
type Sender struct{ Name, Account, Bank string }

// Pay makes a payment: it is recorded, the wallet grows by what is left after the fee, and its
// event goes out on its own. Its errors are [ErrNoAccount], [ErrClosed] and [ErrAmount].
func (b *Bank) Pay(ctx context.Context, p Payment) (Transaction, error) {
	if !p.Amount.IsPositive() {
		return Transaction{}, ErrAmount
	}
	now := b.now()
	t, at := b.draft(p, now)

	b.books.mu.Lock()
	a := b.books.accounts[p.AccountRef]
	if p.AccountRef == "" {
		a = b.books.numbers[p.NUBAN]
	}
	if a == nil || p.NUBAN != "" && p.NUBAN != a.NUBAN {
		b.books.mu.Unlock()
		return Transaction{}, ErrNoAccount
	}
	if a.Expired(now) && !p.Force {
		b.books.mu.Unlock()
		return Transaction{}, ErrClosed
	}
	t.AccountRef, t.NUBAN = a.Ref, a.NUBAN
	t.Narration = cmp.Or(t.Narration, "Transfer from "+t.SenderName+" to "+a.Name)
	kept := t
	if p.Recorded != nil {
		p.Recorded(&kept)
	}
	b.books.enter(&kept, at)
	if kept.Status == StatusSuccess {
		b.books.wallet = b.books.wallet.Add(kept.Amount).Sub(kept.Fee)
	}
	b.books.mu.Unlock()

	if !p.Silent {
		b.announcePayment(ctx, p, t)
	}
	return t, nil
}

// announcePayment sends the event of a payment.
func (b *Bank) announcePayment(ctx context.Context, p Payment, t Transaction) {
	kind := PaymentSuccess
	if t.Status == StatusFailed {
		kind = PaymentFailed
	}
	event := b.Event(kind, t)
	if p.Forged != nil {
		event.Data.Customer = EventCustomer{SenderName: p.Forged.Name, AccountNumber: p.Forged.Account, BankName: p.Forged.Bank}
	}
	if p.Late > 0 {
		b.After(p.Late, func() { b.announce(b.ctx, event, false, t.ID) })
		return
	}
	b.announce(ctx, event, p.Wait, t.ID)
}

// draft is the transaction that a payment will be, without its account, and its place in the book.
func (b *Bank) draft(p Payment, now time.Time) (Transaction, time.Time) {
	at := now
	if !p.Time.IsZero() {
		at = p.Time.UTC().Truncate(time.Second)
	}
	t := Transaction{
		ID: newID("API-VACT_TRA"), RequestID: uuid.NewString(), SessionID: newSession(now),
		Status: cmp.Or(p.Status, StatusSuccess), Amount: p.Amount, Fee: b.Fee(p.Amount), Currency: cmp.Or(p.Currency, money.Currency),
		SenderName: cmp.Or(p.SenderName, "BOLA OJO"), SenderAccount: cmp.Or(p.SenderAccount, "0123456789"),
		SenderBank: cmp.Or(p.SenderBank, "Wema Bank"), Narration: p.Narration, Time: at.Truncate(time.Second),
	}
	t.SenderBankCode = codeOf(t.SenderBank)
	if p.Fee != nil {
		t.Fee = *p.Fee
	}
	return t, at
}

// Fee is the bank's charge for an inbound transfer of that gross amount: the tier's, and never more
// than the amount.
func (b *Bank) Fee(amount money.Amount) money.Amount {
	fee := money.Zero
	for _, tier := range feeTiers {
		if amount.Cmp(tier.from) >= 0 {
			fee = tier.fee
		}
	}
	if fee.Cmp(amount) > 0 {
		return amount
	}
	return fee
}

// Reverse takes a successful inbound transfer back: its record becomes REFUND, the wallet shrinks
// by its net, and a payment_reversal goes out. Its errors are [ErrNoRecord] and [ErrState].
func (b *Bank) Reverse(ctx context.Context, id string) (Transaction, error) {
	return b.takeBack(ctx, id, false)
}

// ReverseSilently is [Bank.Reverse] without the event: the record alone says it.
func (b *Bank) ReverseSilently(ctx context.Context, id string) (Transaction, error) {
	return b.takeBack(ctx, id, true)
}

func (b *Bank) takeBack(ctx context.Context, id string, silent bool) (Transaction, error) {
	now := b.now()
	b.books.mu.Lock()
	t := b.books.txs[id]
	if t == nil {
		b.books.mu.Unlock()
		return Transaction{}, ErrNoRecord
	}
	if t.Status != StatusSuccess {
		b.books.mu.Unlock()
		return Transaction{}, ErrState
	}
	t.Status, t.ReversedAt = StatusRefund, &now
	b.books.wallet = b.books.wallet.Sub(t.Amount).Add(t.Fee)
	b.books.changes.Add(1)
	reversed := *t
	b.books.mu.Unlock()

	if !silent {
		event := b.Event(PaymentReversal, reversed)
		event.RequestID = uuid.NewString()
		b.announce(ctx, event, false, reversed.ID)
	}
	return reversed, nil
}

// Arrive ends a pending inbound transfer: its record becomes SUCCESS, and the wallet grows by its
// net. No event goes out. Its errors are [ErrNoRecord] and [ErrState].
func (b *Bank) Arrive(id string) (Transaction, error) {
	b.books.mu.Lock()
	defer b.books.mu.Unlock()
	t := b.books.txs[id]
	switch {
	case t == nil:
		return Transaction{}, ErrNoRecord
	case t.Status != StatusPending:
		return Transaction{}, ErrState
	}
	t.Status = StatusSuccess
	b.books.wallet = b.books.wallet.Add(t.Amount).Sub(t.Fee)
	b.books.changes.Add(1)
	return *t, nil
}

// SetTransaction alters the bank's record of one inbound transfer, and so what it answers; the
// wallet and the events already built stay as they are. It panics when the id is unknown, and must
// not call the bank from change.
func (b *Bank) SetTransaction(id string, change func(*Transaction)) {
	if !b.alterTransaction(id, change) {
		panic(fmt.Sprintf("fakebank: no transaction %q", id))
	}
}

func (b *Bank) alterTransaction(id string, change func(*Transaction)) bool {
	b.books.mu.Lock()
	defer b.books.mu.Unlock()
	t := b.books.txs[id]
	if t == nil {
		return false
	}
	known := t.ID
	change(t)
	t.ID = known
	if t.ListedAs != "" {
		b.books.txs[t.ListedAs] = t
	}
	b.books.changes.Add(1)
	return true
}

// newID is an id in the manner of the live bank's.
func newID(prefix string) string {
	id := uuid.NewString()
	return prefix + "-" + strings.ToUpper(id[:5]) + "-" + id
}

// newSession is the thirty digits that the interbank switch gives a transfer.
func newSession(now time.Time) string {
	return BankCode + now.Format("060102150405") + fmt.Sprintf("%012d", rand.Int64N(1e12))
}
