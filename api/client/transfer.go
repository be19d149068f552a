package client

import (
	"context"
	"iter"
	"time"
)

// Order is money to be paid out of an account. Amount is required, and either BankCode with
// AccountNumber or Beneficiary.
type Order struct {
	Amount        string `json:"amount"`                  // naira, as "1000.00"
	BankCode      string `json:"bankCode,omitempty"`      // from Banks
	AccountNumber string `json:"accountNumber,omitempty"` // 10 digits
	Beneficiary   string `json:"beneficiary,omitempty"`   // the ID of one
	// the holder that you expect; another one refuses the order. If it is empty, any holder is
	// accepted: make sure that it is not
	AccountName string `json:"accountName,omitempty"`
	Narration   string `json:"narration,omitempty"`
}

// Accepted is a transfer that is queued. It has not been paid: follow it by its reference.
type Accepted struct {
	MerchantTxRef string `json:"merchantTxRef"`
	Status        string `json:"status"` // pending
	Amount        string `json:"amount"`
	Currency      string `json:"currency"`
	AccountRef    string `json:"accountRef"`
	// "approval" where members of the tenant must approve it first; else empty
	Awaiting string `json:"awaiting,omitempty"`
}

// Settle pays out of an account. Give an [IdempotencyKey]: without one, a call whose answer was
// lost cannot be repeated without the danger of paying twice. 400 when the order is wrong or the
// balance does not cover it.
func (c *Client) Settle(ctx context.Context, ref string, o Order, options ...Option) (Accepted, error) {
	return call[Accepted](ctx, c, "POST", path("/v1/accounts/", ref, "/settle"), o, options...)
}

// BookOrder is money to be moved to another account of yours. ToAccountRef and Amount are required.
type BookOrder struct {
	ToAccountRef string `json:"toAccountRef"`
	Amount       string `json:"amount"` // naira, as "1000.00"
	Narration    string `json:"narration,omitempty"`
}

// BookTransfer is money that was moved between two accounts of yours.
type BookTransfer struct {
	ID             string    `json:"id"` // the TransactionGroupID of both entries
	FromAccountRef string    `json:"fromAccountRef"`
	ToAccountRef   string    `json:"toAccountRef"`
	Amount         string    `json:"amount"`
	Currency       string    `json:"currency"`
	Narration      string    `json:"narration"`
	DebitEntryID   string    `json:"debitEntryId"`
	CreditEntryID  string    `json:"creditEntryId"`
	CreatedAt      time.Time `json:"createdAt"`
}

// Move moves available money to another account of yours, at once. Give an [IdempotencyKey]:
// without one, a call that is repeated moves it twice. 400 when the order is wrong or the available
// balance does not cover it.
func (c *Client) Move(ctx context.Context, ref string, o BookOrder, options ...Option) (BookTransfer, error) {
	return call[BookTransfer](ctx, c, "POST", path("/v1/accounts/", ref, "/transfer"), o, options...)
}

// Refund is a refund that was accepted: a transfer.
type Refund struct {
	MerchantTxRef string `json:"merchantTxRef"`
	Status        string `json:"status"`
	Amount        string `json:"amount"`
	Currency      string `json:"currency"`
	AccountRef    string `json:"accountRef"`
	RefundOf      string `json:"refundOf"` // the payment's entry
}

// RefundEntry pays a confirmed payment, named by its entry's ID, back to where the bank's record
// says it came from: the amount, or all that is left of it where amount is empty. Give an
// [IdempotencyKey]: without one, a call that is repeated may pay a part twice. 404 when there is no
// such entry, 422 when it cannot be refunded, 400 when the available balance does not cover it.
func (c *Client) RefundEntry(ctx context.Context, entryID, amount string, options ...Option) (Refund, error) {
	var body struct {
		Amount *string `json:"amount"`
	}
	if amount != "" {
		body.Amount = &amount
	}
	return call[Refund](ctx, c, "POST", path("/v1/entries/", entryID, "/refund"), body, options...)
}

// Transfer is a settlement.
type Transfer struct {
	MerchantTxRef string    `json:"merchantTxRef"`
	Status        string    `json:"status"` // pending, processing, success, failed, refunded
	Amount        string    `json:"amount"`
	Currency      string    `json:"currency"`
	AccountRef    string    `json:"accountRef"`
	AccountID     string    `json:"accountId"`     // a reference may have many one-time accounts
	BankCode      string    `json:"bankCode"`      // empty where it is not known
	AccountNumber string    `json:"accountNumber"` // empty where it is not known
	AttemptCount  int       `json:"attemptCount"`
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
	// what the bank takes for the payout; nil while it has not said, and where the payout was not
	// made, unless the bank kept it
	ProviderFee *string `json:"providerFee"`
	// what it takes beside that fee; nil where it does not name it, and where ProviderFee is
	VAT       *string `json:"vat"`
	StampDuty *string `json:"stampDuty"`
	// why it failed or was refunded, in words; nil otherwise
	FailureReason *string `json:"failureReason"`
	// the destination's holder; nil while the bank has not named it
	AccountName *string `json:"accountName"`
	// the destination's bank; nil where it was not known
	BankName  *string `json:"bankName"`
	Narration string  `json:"narration"`
	// what left, where it was found to be another sum than Amount; nil otherwise
	PaidAmount *string `json:"paidAmount"`
	// the entry of the payment that it pays back; nil for a settlement
	RefundOf *string `json:"refundOf"`
	// "approval" while members of the tenant must approve it; nil otherwise
	Awaiting *string `json:"awaiting"`
	// the bank's record says otherwise, and an operator has yet to decide what is right
	Differs bool `json:"differs"`
}

// Ended reports whether the outcome is known: success, or the money is back on the account.
func (t Transfer) Ended() bool {
	return t.Status == "success" || t.Status == "failed" || t.Status == "refunded"
}

// Transfer finds a transfer by its reference. 404 when there is none.
func (c *Client) Transfer(ctx context.Context, merchantTxRef string) (Transfer, error) {
	return get[Transfer](ctx, c, path("/v1/transfers/", merchantTxRef))
}

// TransferFilter says which transfers are listed; the zero value: all.
type TransferFilter struct {
	Search     string // a part of its reference, of the account's, or of the number or name it goes to
	AccountRef string
	Status     string
	Awaiting   string // "approval": those that wait for it
	Amount     string
	Sort       string // created or amount; empty: created
	Order      string // asc or desc; empty: desc, the newest first
}

// TransferPage is a page of transfers.
type TransferPage struct {
	Transfers  []Transfer `json:"transfers"`
	Pagination Pagination `json:"pagination"`
}

// ListTransfers reads a page of the transfers.
func (c *Client) ListTransfers(ctx context.Context, f TransferFilter, p Page) (TransferPage, error) {
	return get[TransferPage](ctx, c, p.query("/v1/transfers", "search", f.Search, "accountRef", f.AccountRef, "status", f.Status, "awaiting", f.Awaiting, "amount", f.Amount, "sort", f.Sort, "order", f.Order))
}

// Transfers goes through the transfers, in the order of the filter, beginning with the page p.
func (c *Client) Transfers(ctx context.Context, f TransferFilter, p Page) iter.Seq2[Transfer, error] {
	return each(p, func(p Page) ([]Transfer, Pagination, error) {
		list, err := c.ListTransfers(ctx, f, p)
		return list.Transfers, list.Pagination, err
	})
}

// Bank is a bank that can be paid to.
type Bank struct {
	Code string
	Name string
}

// Banks lists the banks that can be paid to.
func (c *Client) Banks(ctx context.Context) ([]Bank, error) {
	out, err := get[struct {
		Banks []Bank `json:"banks"`
	}](ctx, c, "/v1/transfers/banks")
	return out.Banks, err
}

// Holder is who holds a bank account.
type Holder struct {
	AccountNumber string
	AccountName   string
}

// Lookup asks the destination's bank who holds an account. 404 when there is no such bank or
// account.
func (c *Client) Lookup(ctx context.Context, bankCode, accountNumber string) (Holder, error) {
	return call[Holder](ctx, c, "POST", "/v1/transfers/lookup", map[string]string{"bankCode": bankCode, "accountNumber": accountNumber})
}

// Quote is what a payer must send for the tenant to receive a sum.
type Quote struct {
	ReceiveAmount string `json:"receive_amount"`
	ProviderFee   string `json:"provider_fee"`
	SendAmount    string `json:"send_amount"`
	// what the service itself takes; nil: nothing
	PlatformFees *PlatformFees `json:"platform_fees,omitempty"`
}

// PlatformFees are what the service takes of a payment, and of a settlement of the sum; nil:
// nothing.
type PlatformFees struct {
	Payment *PlatformFee `json:"payment"`
	Payout  *PlatformFee `json:"payout"`
}

// PlatformFee is a price of the service, and what it makes of a sum: percent and flat together, at
// least the minimum and at most the cap.
type PlatformFee struct {
	Percent    string    `json:"percent"`
	Flat       string    `json:"flat"`
	Minimum    string    `json:"minimum"`
	Cap        *string   `json:"cap"` // nil: none
	ValidFrom  time.Time `json:"valid_from"`
	VATPercent string    `json:"vat_percent"`
	Fee        string    `json:"fee"` // before VAT
	VAT        string    `json:"vat"`
}

// Fee computes what a payer must send for amount, in naira, to be received.
func (c *Client) Fee(ctx context.Context, amount string) (Quote, error) {
	return get[Quote](ctx, c, Page{}.query("/v1/fees/calculate", "amount", amount))
}
