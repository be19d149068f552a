package client

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Account is a virtual account.
type Account struct {
	ID                string
	TenantID          string
	CustomerID        string
	AccountRef        string // your externalRef
	Provider          string
	BankAccountNumber string // the NUBAN to pay to
	BankAccountName   string
	BankName          string
	Currency          string
	Status            string // active, expired
	Type              string // dedicated, onetime
	CallbackURL       *string
	ExpectedAmount    *json.Number // naira
	ExpiresAt         *time.Time
	Policy            *Policy `json:",omitempty"` // nil: none
	Split             *Split  `json:",omitempty"` // nil: payments are not shared out
	CreatedAt         time.Time
	UpdatedAt         time.Time
	Balance           string `json:",omitempty"` // in lists only
}

// Policy is what becomes of payments that are not as expected: accept, hold or refund. Empty is
// accept; late payments are then misdirected.
type Policy struct {
	Exact string `json:"exact,omitempty"` // of exactly the expected amount
	Under string `json:"under,omitempty"`
	Over  string `json:"over,omitempty"`
	Late  string `json:"late,omitempty"` // made after the account's end
}

// Split is how confirmed payments to an account are shared out among your accounts.
type Split struct {
	Shares []Share `json:"shares"`
}

// Share is what another account gets: exactly one of Percent, Amount and Remainder.
type Share struct {
	AccountID  string `json:"accountId,omitempty"` // in answers
	AccountRef string `json:"accountRef"`
	Percent    string `json:"percent,omitempty"` // of what the payment brings, such as 2.5
	Amount     string `json:"amount,omitempty"`
	Remainder  bool   `json:"remainder,omitempty"` // all that the others leave
}

// NewAccount is an account to be. ExternalRef and Name are required.
type NewAccount struct {
	ExternalRef string `json:"externalRef"` // your own name of the entity; without slashes, and spaces at its ends
	Name        string `json:"name"`        // of the holder
	BVN         string `json:"bvn,omitempty"`
	// deliveries of this account go there instead
	CallbackURL string `json:"callbackUrl,omitempty"`
	// naira; a one-time account ends when exactly that arrives
	ExpectedAmount json.Number `json:"expectedAmount,omitempty"`
	ExpiresAt      *time.Time  `json:"expiresAt,omitempty"` // of a one-time account
	// dedicated (also when empty), onetime
	Mode   string  `json:"mode,omitempty"`
	Policy *Policy `json:"policy,omitempty"`
}

// OpenAccount provisions a virtual account. A dedicated one that exists already is answered as it
// is. 409 when it has expired, 502 when the bank does not answer (call again).
func (c *Client) OpenAccount(ctx context.Context, a NewAccount, options ...Option) (Account, error) {
	return call[Account](ctx, c, "POST", "/v1/accounts", a, options...)
}

// Account finds an account by its reference, or by its ID. 404 when there is none.
func (c *Client) Account(ctx context.Context, ref string) (Account, error) {
	return get[Account](ctx, c, path("/v1/accounts/", ref))
}

// AccountChanges are what is to change of an account; nil stays as it is.
type AccountChanges struct {
	Name           *string      `json:"name,omitempty"`
	CallbackURL    *string      `json:"callbackUrl,omitempty"` // empty removes it
	ExpectedAmount *json.Number `json:"expectedAmount,omitempty"`
	Policy         *Policy      `json:"policy,omitempty"` // in place of the whole; an empty one removes it
	Split          *Split       `json:"split,omitempty"`  // in place of the whole; without shares it is removed
}

// UpdateAccount changes an account. 422 when it has expired.
func (c *Client) UpdateAccount(ctx context.Context, ref string, ch AccountChanges) (Account, error) {
	return call[Account](ctx, c, "PATCH", path("/v1/accounts/", ref), ch)
}

// ExpireAccount closes an account, for good. 422 when it has expired already. A repeat by a
// reference may close the next account of it: use an [IdempotencyKey], or the account's ID.
func (c *Client) ExpireAccount(ctx context.Context, ref string, options ...Option) (Account, error) {
	return call[Account](ctx, c, "POST", path("/v1/accounts/", ref, "/expire"), nil, options...)
}

// AccountFilter says which accounts are listed; the zero value: all.
type AccountFilter struct {
	Search string // a part of the reference, the holder's name or the number
	Status string // active, expired; needs_review: with a payment under review
	Sort   string // created, name or balance; empty: created
	Order  string // asc or desc; empty: desc, the newest first
}

// AccountPage is a page of accounts.
type AccountPage struct {
	Accounts   []Account  `json:"accounts"`
	Pagination Pagination `json:"pagination"`
}

// ListAccounts reads a page of the accounts.
func (c *Client) ListAccounts(ctx context.Context, f AccountFilter, p Page) (AccountPage, error) {
	return get[AccountPage](ctx, c, p.query("/v1/accounts", "search", f.Search, "status", f.Status, "sort", f.Sort, "order", f.Order))
}

// Accounts goes through the accounts, in the order of the filter, beginning with the page p.
func (c *Client) Accounts(ctx context.Context, f AccountFilter, p Page) iter.Seq2[Account, error] {
	return each(p, func(p Page) ([]Account, Pagination, error) {
		list, err := c.ListAccounts(ctx, f, p)
		return list.Accounts, list.Pagination, err
	})
}

// HistoryEntry is one change of an account's status.
type HistoryEntry struct {
	ID               string
	VirtualAccountID string
	FromStatus       *string // nil in the first entry
	ToStatus         string
	Reason           string
	CreatedAt        time.Time
}

// History reads the changes of an account's status, oldest first.
func (c *Client) History(ctx context.Context, ref string) ([]HistoryEntry, error) {
	out, err := get[struct {
		History []HistoryEntry `json:"history"`
	}](ctx, c, path("/v1/accounts/", ref, "/history"))
	return out.History, err
}

// Balance is what an account holds: confirmed and provisional credits less such debits.
type Balance struct {
	AccountRef string `json:"accountRef"`
	Funds
}

// Funds are the parts of a balance, in naira. They are no sum: see GET /docs.
type Funds struct {
	Balance     string `json:"balance"`
	Available   string `json:"available"`   // what a settlement may take at once
	Provisional string `json:"provisional"` // posted, and not confirmed by the bank
	// what holds, limits and policies keep, what is recalled, and what is under review, which
	// Balance does not have
	Held     string `json:"held"`
	Currency string `json:"currency"`
}

// Balance reads an account's balance.
func (c *Client) Balance(ctx context.Context, ref string) (Balance, error) {
	return get[Balance](ctx, c, path("/v1/accounts/", ref, "/balance"))
}

// TenantBalance reads what all accounts have together.
func (c *Client) TenantBalance(ctx context.Context) (Funds, error) {
	return get[Funds](ctx, c, "/v1/balance")
}

// Entry is one movement of an account. Amounts are naira.
type Entry struct {
	ID                 string
	Direction          string // credit, debit
	Amount             string // of a payment: what is left after the fee
	Fee                string
	Currency           string
	Status             string // provisional, confirmed, reversed, needs_review
	Narration          string
	ProviderTxnRef     string
	TransactionGroupID string  // the same as in the webhook
	TransferRef        *string // the merchantTxRef of a settlement
	ReversalOf         *string
	CreatedAt          time.Time
	SenderName         string // who paid; empty for a settlement
	SenderBank         string // by its name, where the bank says it
	// by the bank's own record: empty until that has confirmed the payment
	SenderAccount  string // account number
	SenderBankCode string
	SessionID      string // the interbank switch's id of the payment
	// of a refund: the payment's entry
	RefundOf *string
	// empty: a payment or a settlement; fee: what the bank takes for a settlement, where you bear
	// it; platform_fee: what the service takes of a payment or a settlement, and the VAT on it;
	// book_transfer: between accounts of yours; split: a part of a payment, between such accounts;
	// move, suspense: made by an operator
	Kind string `json:",omitempty"`
}

// Line is an entry and the balance right after it was posted.
type Line struct {
	Entry          Entry  `json:"entry"`
	RunningBalance string `json:"runningBalance"`
}

// Statement is a page of an account's entries, oldest first. The totals are those of the whole
// history.
type Statement struct {
	VirtualAccount Account `json:"virtualAccount"`
	Lines          []Line  `json:"lines"`
	OpeningBalance string  `json:"openingBalance"`
	TotalCredits   string  `json:"totalCredits"`
	TotalDebits    string  `json:"totalDebits"`
	ClosingBalance string  `json:"closingBalance"`
	// the hash of the newest entry, which covers all before it
	ChainHead  string     `json:"chainHead"`
	Pagination Pagination `json:"pagination"`
}

// Statement reads a page of an account's statement.
func (c *Client) Statement(ctx context.Context, ref string, p Page) (Statement, error) {
	return get[Statement](ctx, c, p.query(path("/v1/accounts/", ref, "/statement")))
}

// Lines goes through an account's statement, oldest first, beginning with the page p.
func (c *Client) Lines(ctx context.Context, ref string, p Page) iter.Seq2[Line, error] {
	return each(p, func(p Page) ([]Line, Pagination, error) {
		s, err := c.Statement(ctx, ref, p)
		return s.Lines, s.Pagination, err
	})
}
