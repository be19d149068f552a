package fakebank

import (
	"cmp"
	"fmt"
	"slices"

	"ajo/internal/money"
)

// found is a copy of what of the books is looked for; false when it is not there.
func found[T any](b *Bank, look func(*books) *T) (v T, ok bool) {
	b.due.run()
	b.books.mu.RLock()
	defer b.books.mu.RUnlock()
	p := look(b.books)
	if p == nil {
		return v, false
	}
	return *p, true
}

// listed are copies of the lines of the book of one kind, by time.
func listed[T any](b *Bank, kind func(*record) *T) []T {
	b.due.run()
	b.books.mu.RLock()
	defer b.books.mu.RUnlock()
	list := []T{}
	for _, r := range b.books.lines {
		if p := kind(r); p != nil {
			list = append(list, *p)
		}
	}
	return list
}

// Account finds a virtual account by its reference or its number.
func (b *Bank) Account(refOrNumber string) (Account, bool) {
	return found(b, func(k *books) *Account { return cmp.Or(k.accounts[refOrNumber], k.numbers[refOrNumber]) })
}

// Accounts lists the virtual accounts, oldest first.
func (b *Bank) Accounts() []Account {
	b.due.run()
	b.books.mu.RLock()
	defer b.books.mu.RUnlock()
	list := make([]Account, len(b.books.opened))
	for i, a := range b.books.opened {
		list[i] = *a
	}
	return list
}

// Transaction finds an inbound transfer by its id, hidden or not.
func (b *Bank) Transaction(id string) (Transaction, bool) {
	return found(b, func(k *books) *Transaction { return k.txs[id] })
}

// Transactions lists the inbound transfers by time.
func (b *Bank) Transactions() []Transaction {
	return listed(b, func(r *record) *Transaction { return r.tx })
}

// Payout finds a payout by its merchantTxRef.
func (b *Bank) Payout(ref string) (Payout, bool) {
	return found(b, func(k *books) *Payout { return k.payouts[ref] })
}

// Payouts lists the payouts that were accepted, by time, whatever has become of them.
func (b *Bank) Payouts() []Payout { return listed(b, func(r *record) *Payout { return r.out }) }

// Paid lists the payouts whose money has left and has not come back: SUCCESS, and neither under
// way, failed nor refunded.
func (b *Bank) Paid() []Payout {
	return slices.DeleteFunc(b.Payouts(), func(p Payout) bool { return p.Status != StatusSuccess })
}

// Wallet is the wallet's balance. The money of a payout under way has left it already.
func (b *Bank) Wallet() money.Amount {
	b.due.run()
	return b.books.balance()
}

// Calls counts the calls of one endpoint, those that a rule struck included. The pattern is the
// wire's, as in "POST /v1/accounts/virtual" or "GET /v1/accounts/virtual/{accountRef}"; it panics
// when there is no such endpoint.
func (b *Bank) Calls(pattern string) int {
	n := b.calls[pattern]
	if n == nil {
		panic(fmt.Sprintf("fakebank: no endpoint %q", pattern))
	}
	return int(n.Load())
}

// AllCalls counts the calls of every endpoint that had any.
func (b *Bank) AllCalls() map[string]int {
	all := make(map[string]int, len(b.calls))
	for pattern, n := range b.calls {
		if n := int(n.Load()); n > 0 {
			all[pattern] = n
		}
	}
	return all
}
