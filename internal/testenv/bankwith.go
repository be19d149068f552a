package testenv

import (
	"context"
	"time"

	"ajo/internal/provider"
)

// BankWith is a bank with functions around its calls; those that are nil do nothing. An error of
// Before… is the call's answer, and the bank is not asked. After… may change what the bank
// answered, which is empty beside an error.
type BankWith struct {
	provider.Bank
	AfterCreateAccount func(*provider.Account)
	BeforeTransaction  func(id string) error
	AfterTransaction   func(*provider.Transaction)
	BeforeTransactions func(from, to time.Time) error
	AfterTransactions  func(*provider.Page)
	BeforeLookup       func(accountNumber string) error
	AfterLookup        func(*provider.Holder)
	AfterPay           func(*provider.Payout)
	BeforePayout       func(ref string) error
	AfterPayout        func(*provider.Payout)
}

// CreateAccount calls AfterCreateAccount.
func (b BankWith) CreateAccount(ctx context.Context, a provider.NewAccount) (provider.Account, error) {
	got, err := b.Bank.CreateAccount(ctx, a)
	return after(b.AfterCreateAccount, got), err
}

// Transaction calls BeforeTransaction and AfterTransaction.
func (b BankWith) Transaction(ctx context.Context, id string) (t provider.Transaction, err error) {
	if err = before(b.BeforeTransaction, id); err == nil {
		t, err = b.Bank.Transaction(ctx, id)
		t = after(b.AfterTransaction, t)
	}
	return t, err
}

// Transactions calls BeforeTransactions and AfterTransactions.
func (b BankWith) Transactions(ctx context.Context, from, to time.Time, cursor string) (p provider.Page, err error) {
	if b.BeforeTransactions != nil {
		err = b.BeforeTransactions(from, to)
	}
	if err == nil {
		p, err = b.Bank.Transactions(ctx, from, to, cursor)
		p = after(b.AfterTransactions, p)
	}
	return p, err
}

// Lookup calls BeforeLookup and AfterLookup.
func (b BankWith) Lookup(ctx context.Context, bankCode, accountNumber string) (h provider.Holder, err error) {
	if err = before(b.BeforeLookup, accountNumber); err == nil {
		h, err = b.Bank.Lookup(ctx, bankCode, accountNumber)
		h = after(b.AfterLookup, h)
	}
	return h, err
}

// Pay calls AfterPay.
func (b BankWith) Pay(ctx context.Context, n provider.NewPayout) (provider.Payout, error) {
	p, err := b.Bank.Pay(ctx, n)
	return after(b.AfterPay, p), err
}

// Payout calls BeforePayout and AfterPayout.
func (b BankWith) Payout(ctx context.Context, ref string) (p provider.Payout, err error) {
	if err = before(b.BeforePayout, ref); err == nil {
		p, err = b.Bank.Payout(ctx, ref)
		p = after(b.AfterPayout, p)
	}
	return p, err
}

func before(f func(string) error, arg string) error {
	if f == nil {
		return nil
	}
	return f(arg)
}

func after[T any](f func(*T), answer T) T {
	if f != nil {
		f(&answer)
	}
	return answer
}
