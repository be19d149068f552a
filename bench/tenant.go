package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

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
func (w *world) signUp(ctx context.Context, n int) error {
	const email, password = "bench@tenant.example", "bench-password-of-a-tenant"
	var registered struct {
		TenantID string `json:"tenantId"`
	}
	if err := w.call(ctx, http.MethodPost, "/register", map[string]string{"name": "Bench", "email": email, "password": password}, &registered); err != nil {
		return err
	}
	code, err := w.mailedCode(ctx)
	if err != nil {
		return err
	}
	var verified struct {
		APIKey string `json:"apiKey"`
	}
	if err := w.call(ctx, http.MethodPost, "/auth/verify-email", map[string]string{"tenantId": registered.TenantID, "otp": code}, &verified); err != nil {
		return err
	}
	w.key = verified.APIKey
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

var codeForm = regexp.MustCompile(`\b[0-9]{6}\b`)

// mailedCode waits for the mail with the one-time code.
func (w *world) mailedCode(ctx context.Context) (string, error) {
	const limit = 10 * time.Second
	for deadline := time.Now().Add(limit); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		files, err := filepath.Glob(filepath.Join(w.dir, "mail", "*.eml"))
		if err != nil || len(files) == 0 {
			continue
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			return "", err
		}
		_, text, _ := bytes.Cut(b, []byte("\r\n\r\n"))
		if code := codeForm.Find(text); code != nil {
			return string(code), nil
		}
	}
	return "", fmt.Errorf("no mail with a code came in %s", limit)
}

// call makes a request to the API with the tenant's key, for what is not measured.
func (w *world) call(ctx context.Context, method, path string, body, into any) error {
	return request(ctx, method, "http://"+w.apiAddr+path, w.key, body, into)
}

// bankCall makes a request to the bank's control page.
func (w *world) bankCall(ctx context.Context, method, path string, body, into any) error {
	return request(ctx, method, "http://"+w.bankAddr+path, "", body, into)
}

func request(ctx context.Context, method, url, key string, body, into any) error {
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, payload)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s %s", method, url, resp.Status, bytes.TrimSpace(answer))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
