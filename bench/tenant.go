package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"

	"ajo/api/client"
	"ajo/internal/app"
	"ajo/internal/money"
)

// account is a virtual account of one of the bench's tenants.
type account struct {
	ref     string // the tenant's
	id      string
	key     string // its tenant's API key
	bankRef string // the account's reference at the bank
	number  string

	filled    int // entries that it had before the run, and their sum
	filledSum money.Amount
}

// tenants is how many tenants the accounts of a row belong to, in turn.
const tenants = 4

// signUp makes the tenants, as developers would through the API, and n accounts.
func (w *world) signUp(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	keys := make([]string, min(n, tenants))
	for i := range keys {
		var err error
		email := fmt.Sprintf("%s-%d@tenant.example", w.name, i) // a filled book has tenants of its own
		if keys[i], err = app.SignUp(ctx, "http://"+w.apiAddr, filepath.Join(w.dir, "mail"), "Bench", email, "bench-password-of-a-tenant"); err != nil {
			return err
		}
		if w.endpoint == nil {
			continue
		}
		if err := w.call(ctx, keys[i], http.MethodPost, "/auth/webhook-url", map[string]string{"url": w.endpoint.url}, nil); err != nil {
			return err
		}
		if err := w.call(ctx, keys[i], http.MethodPost, "/auth/webhook-secret", nil, nil); err != nil {
			return err
		}
	}
	return w.openAccounts(ctx, n, keys)
}

// openAccounts provisions accounts at the bank, sixteen at a time.
func (w *world) openAccounts(ctx context.Context, n int, keys []string) error {
	w.accounts = make([]*account, n)
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(16)
	for i := range n {
		all.Go(func() error {
			a := &account{ref: "bench-" + strconv.Itoa(i), key: keys[i%len(keys)]}
			var made struct{ ID, BankAccountNumber string }
			if err := w.call(ctx, a.key, http.MethodPost, "/v1/accounts", map[string]string{"externalRef": a.ref, "name": "Ada Obi"}, &made); err != nil {
				return err
			}
			a.id, a.bankRef, a.number = made.ID, made.ID, made.BankAccountNumber
			w.accounts[i] = a
			return nil
		})
	}
	return all.Wait()
}

// call makes a request to the API with a tenant's key, for what is not measured.
func (w *world) call(ctx context.Context, key, method, path string, body, into any) error {
	c, err := client.New(client.Options{URL: "http://" + w.apiAddr, Key: key})
	if err != nil {
		return err
	}
	return c.Do(ctx, method, path, body, into)
}
