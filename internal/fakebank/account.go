package fakebank

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"time"

	"ajo/internal/money"
)

// expiryForm is how the wire writes an account's expiry; it is read as UTC.
const expiryForm = "2006-01-02 15:04:05"

// nameForm is the live rule for account names, which the documentation does not state.
var nameForm = regexp.MustCompile(`^[A-Za-z ]{8,64}$`)

// wireAccount is an account as the wire shows it.
type wireAccount struct {
	CreatedAt       string          `json:"createdAt"`
	AccountHolderID string          `json:"accountHolderId"`
	AccountRef      string          `json:"accountRef"`
	AccountName     string          `json:"accountName"`
	BVN             string          `json:"bvn,omitempty"`
	Currency        string          `json:"currency"`
	BankName        string          `json:"bankName"`
	BankNumber      string          `json:"bankAccountNumber,omitempty"`
	BankAccountName string          `json:"bankAccountName"`
	ExpectedAmount  json.RawMessage `json:"expectedAmount,omitempty"`
	ExpiryDate      string          `json:"expiryDate,omitempty"`
	Expired         bool            `json:"expired"`
}

func (b *Bank) wireAccount(a Account) wireAccount {
	w := wireAccount{
		CreatedAt: wireTime(a.CreatedAt), AccountHolderID: b.opt.AccountID, AccountRef: a.Ref, AccountName: a.Name, BVN: a.BVN,
		Currency: money.Currency, BankName: BankName, BankNumber: a.NUBAN, BankAccountName: "Nomba/" + a.Name,
		Expired: a.Expired(b.clock.Now()),
	}
	if a.ExpectedAmount != nil {
		w.ExpectedAmount = asNumber(*a.ExpectedAmount)
	}
	if a.ExpiresAt != nil {
		w.ExpiryDate = a.ExpiresAt.UTC().Format(expiryForm)
	}
	return w
}

// accountAnswer shows an account, as the rules want it.
func (b *Bank) accountAnswer(c *call, a Account) answer {
	w := b.wireAccount(a)
	switch {
	case c.does(Empty):
		return good(nil)
	case c.does(NoNumber):
		w.BankNumber = ""
	}
	return good(w)
}

// createAccount serves POST /v1/accounts/virtual.
func (b *Bank) createAccount(c *call) answer {
	var in struct {
		AccountRef     string          `json:"accountRef"`
		AccountName    string          `json:"accountName"`
		BVN            string          `json:"bvn"`
		ExpectedAmount json.RawMessage `json:"expectedAmount"`
		ExpiryDate     string          `json:"expiryDate"`
	}
	if a, ok := c.decode(&in); !ok {
		return a
	}
	if len(in.AccountRef) < 16 || len(in.AccountRef) > 64 {
		return refused("02", "accountRef must be 16 to 64 characters")
	}
	if !nameForm.MatchString(in.AccountName) {
		return refused("400", "Invalid account name") // live: HTTP 200, this code, and no data
	}
	if in.BVN != "" && (len(in.BVN) != 11 || !allDigits(in.BVN)) {
		return refused("02", "bvn must be 11 digits")
	}
	a := Account{Ref: in.AccountRef, Name: in.AccountName, BVN: in.BVN, CreatedAt: b.clock.Now()}
	var ok bool
	if a.ExpectedAmount, ok = optionalAmount(in.ExpectedAmount); !ok {
		return refused("02", "expectedAmount must be a number above zero with at most two decimals")
	}
	if in.ExpiryDate != "" {
		t, err := time.Parse(expiryForm, in.ExpiryDate)
		if err != nil || !t.After(a.CreatedAt) {
			return refused("02", "expiryDate must be a time to come, as 2026-01-30 12:15:00")
		}
		a.ExpiresAt = &t
	}
	b.books.mu.Lock()
	if b.books.accounts[a.Ref] != nil {
		b.books.mu.Unlock()
		return refused("02", "An account with this accountRef already exists")
	}
	if a.NUBAN = b.books.number(); c.does(Reissue) {
		a.NUBAN = cmp.Or(c.plan.rule.Value, b.books.closedNumber(a.CreatedAt), a.NUBAN)
	}
	kept := a
	b.books.open(&kept)
	b.books.mu.Unlock()
	return b.accountAnswer(c, a)
}

// getAccount serves GET /v1/accounts/virtual/{accountRef}; an account number is understood as well.
func (b *Bank) getAccount(c *call) answer {
	a, ok := b.Account(c.PathValue("accountRef"))
	if !ok || c.does(NotFound) {
		return noSuchAccount
	}
	return b.accountAnswer(c, a)
}

// closeAccount serves DELETE /v1/accounts/virtual/{accountRef}. Closing a closed one succeeds
// again.
func (b *Bank) closeAccount(c *call) answer {
	b.books.mu.Lock()
	defer b.books.mu.Unlock()
	a := b.books.accounts[c.PathValue("accountRef")]
	if a == nil || c.does(NotFound) {
		return noSuchAccount
	}
	a.Closed = true
	b.books.changes.Add(1)
	return good(map[string]bool{"expired": true})
}

var noSuchAccount = failed(http.StatusNotFound, "404", "Virtual account not found")

// optionalAmount reads a JSON number above zero; absent and null are nil.
func optionalAmount(raw json.RawMessage) (*money.Amount, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, true
	}
	a, err := money.ParseNumber(json.Number(raw))
	if err != nil || !a.IsPositive() {
		return nil, false
	}
	return &a, true
}

// asNumber is an amount as the wire writes numbers: at least one decimal, no zero after that.
// 5000.0, 4989.99.
func asNumber(a money.Amount) json.RawMessage {
	s := a.String()
	if s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	return json.RawMessage(s)
}

// asText is the same in quotes, as other endpoints write it.
func asText(a money.Amount) json.RawMessage {
	return json.RawMessage(`"` + string(asNumber(a)) + `"`)
}
