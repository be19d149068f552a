package main

import (
	"context"
	"net/http"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"

	"ajo/api/client"
	"ajo/internal/app"
	"ajo/internal/money"
)

// account is a virtual account of the bench's tenant.
type account struct {
	ref     string // the tenant's
	id      string
	bankRef string // the account's reference at the bank
	number  string

	filled    int // entries that it had before the run, and their sum
	filledSum money.Amount
}

// signUp makes the tenant, as a developer would through the API, and n accounts.
func (w *world) signUp(ctx context.Context, n int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if w.key, err = app.SignUp(ctx, "http://"+w.apiAddr, filepath.Join(w.dir, "mail"), "Bench", "bench@tenant.example", "bench-password-of-a-tenant"); err != nil {
		return err
	}
	if w.endpoint != nil {
		if err := w.call(ctx, http.MethodPost, "/auth/webhook-url", map[string]string{"url": w.endpoint.url}, nil); err != nil {
			return err
		}
		if err := w.call(ctx, http.MethodPost, "/auth/webhook-secret", nil, nil); err != nil {
			return err
		}
	}
	return w.openAccounts(ctx, n)
}

// openAccounts provisions accounts at the bank, sixteen at a time.
func (w *world) openAccounts(ctx context.Context, n int) error {
	w.accounts = make([]*account, n)
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(16)
	for i := range n {
		all.Go(func() error {
			a := &account{ref: "bench-" + strconv.Itoa(i)}
			var made struct{ ID, BankAccountNumber string }
			if err := w.call(ctx, http.MethodPost, "/v1/accounts", map[string]string{"externalRef": a.ref, "name": "Ada Obi"}, &made); err != nil {
				return err
			}
			a.id, a.bankRef, a.number = made.ID, made.ID, made.BankAccountNumber
			w.accounts[i] = a
			return nil
		})
	}
	return all.Wait()
}

// call makes a request to the API with the tenant's key, for what is not measured.
func (w *world) call(ctx context.Context, method, path string, body, into any) error {
	c, err := client.New(client.Options{URL: "http://" + w.apiAddr, Key: w.key})
	if err != nil {
		return err
	}
	return c.Do(ctx, method, path, body, into)
}
