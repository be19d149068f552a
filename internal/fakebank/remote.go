package fakebank

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"ajo/api/client"
	"ajo/internal/money"
)

// Remote is a fake bank that another process runs, seen through its control endpoints.
type Remote struct {
	URL string
}

// remoteTimeout is of one call, above the 5 s for which a payment waits for its event.
const remoteTimeout = 10 * time.Second

// Pay makes a payment and waits for the first attempt to send its event. Of the payment,
// the account, the amount, SenderName and Narration count. The event is nil when the bank sent
// none.
func (r Remote) Pay(ctx context.Context, p Payment) (Transaction, *Webhook, error) {
	var t Transaction
	fields := map[string]string{
		"accountRef": p.AccountRef, "nuban": p.NUBAN, "amount": p.Amount.String(), "sender": p.SenderName, "narration": p.Narration, "wait": "true",
	}
	if err := r.call(ctx, http.MethodPost, "/control/pay", fields, &t); err != nil {
		return t, nil, err
	}
	state, err := r.state(ctx)
	if err != nil {
		return t, nil, fmt.Errorf("the payment %s is made; asking for its event: %w", t.ID, err)
	}
	for _, w := range slices.Backward(state.Webhooks) {
		if slices.Contains(w.Refs, t.ID) {
			return t, &w, nil
		}
	}
	return t, nil, nil
}

// OpenAccounts are the virtual accounts that take payments, the newest first, of the 100 newest at
// most.
func (r Remote) OpenAccounts(ctx context.Context) ([]Account, error) {
	state, err := r.state(ctx)
	if err != nil {
		return nil, err
	}
	var open []Account
	for _, a := range slices.Backward(state.Accounts) {
		if !a.Expired(time.Now()) {
			open = append(open, a)
		}
	}
	return open, nil
}

// Wallet is the wallet's balance.
func (r Remote) Wallet(ctx context.Context) (money.Amount, error) {
	state, err := r.state(ctx)
	return state.Wallet, err
}

// remoteState is what is read of a stateView.
type remoteState struct {
	Wallet   money.Amount
	Accounts []Account `json:"accounts"`
	Webhooks []Webhook `json:"webhooks"`
}

func (r Remote) state(ctx context.Context) (remoteState, error) {
	var s remoteState
	return s, r.call(ctx, http.MethodGet, "/control/state?limit=100", nil, &s)
}

func (r Remote) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	c, err := client.New(client.Options{URL: r.URL})
	if err != nil {
		return err
	}
	err = c.Do(ctx, method, path, in, out)
	var refused *client.Error
	if errors.As(err, &refused) {
		return fmt.Errorf("the fake bank: %s", refused.Message)
	}
	return err
}
