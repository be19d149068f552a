package fakebank

import (
	"fmt"
	"slices"

	"ajo/internal/money"
)

// Account finds a virtual account by its reference or its number.
func (b *Bank) Account(refOrNumber string) (Account, bool) {
	b.due.run()
	b.books.mu.RLock()
	defer b.books.mu.RUnlock()
	a := b.books.accounts[refOrNumber]
	if a == nil {
		a = b.books.numbers[refOrNumber]
	}
	if a == nil {
		return Account{}, false
	}
	return a.Account, true
}

// Accounts lists the virtual accounts, oldest first.
func (b *Bank) Accounts() []Account {
	b.due.run()
	b.books.mu.RLock()
	defer b.books.mu.RUnlock()
	list := make([]Account, len(b.books.opened))
	for i, a := range b.books.opened {
		list[i] = a.Account
	}
	return list
}

// Transaction finds an inbound transfer by its id, hidden or not.
func (b *Bank) Transaction(id string) (Transaction, bool) {
	b.due.run()
	b.books.mu.RLock()
	defer b.books.mu.RUnlock()
	t := b.books.txs[id]
	if t == nil {
		return Transaction{}, false
	}
	return *t, true
}

// Transactions lists the inbound transfers by time.
func (b *Bank) Transactions() []Transaction {
	b.due.run()
	b.books.mu.RLock()
	defer b.books.mu.RUnlock()
	list := make([]Transaction, 0, len(b.books.txs))
	for _, r := range b.books.lines {
		if r.tx != nil {
			list = append(list, *r.tx)
		}
	}
	return list
}

// Payout finds a payout by its merchantTxRef.
func (b *Bank) Payout(ref string) (Payout, bool) {
	b.due.run()
	b.books.mu.RLock()
	defer b.books.mu.RUnlock()
	p := b.books.payouts[ref]
	if p == nil {
		return Payout{}, false
	}
	return *p, true
}

// Payouts lists the payouts that were accepted, by time, whatever has become of them.
func (b *Bank) Payouts() []Payout {
	b.due.run()
	b.books.mu.RLock()
	defer b.books.mu.RUnlock()
	list := make([]Payout, 0, len(b.books.payouts))
	for _, r := range b.books.lines {
		if r.out != nil {
			list = append(list, *r.out)
		}
	}
	return list
}

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
