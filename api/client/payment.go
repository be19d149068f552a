package client

import (
	"context"
	"iter"
	"time"
)

// Payment is a payment that was received and posted.
type Payment struct {
	ID                 string `json:"id"` // of its entry, as [Client.RefundEntry] takes it
	TransactionGroupID string `json:"transactionGroupId"`
	Status             string `json:"status"`      // provisional, confirmed, reversed or needs_review
	GrossAmount        string `json:"grossAmount"` // what the payer sent
	Fee                string `json:"fee"`         // the bank's, outside the balance
	Amount             string `json:"amount"`      // net: what is, or was, credited
	Currency           string `json:"currency"`
	// who paid: as the event says while the payment is provisional, as the bank's own record says
	// from then on
	SenderName string `json:"senderName"`
	SenderBank string `json:"senderBank"`
	// the record's word alone: empty until it has confirmed the payment, and where it does not say
	SenderAccount  string     `json:"senderAccount"`
	SenderBankCode string     `json:"senderBankCode"`
	SessionID      string     `json:"sessionId"` // the interbank switch's id of the payment
	Narration      string     `json:"narration"`
	ProviderTxnRef string     `json:"providerTxnRef"`
	CreatedAt      time.Time  `json:"createdAt"`   // when it was posted
	ConfirmedAt    *time.Time `json:"confirmedAt"` // nil: it has not been confirmed
	AccountRef     string     `json:"accountRef"`
	AccountID      string     `json:"accountId"` // a reference may have many one-time accounts
	AccountNumber  *string    `json:"accountNumber"`
	CustomerID     string     `json:"customerId"`
	CustomerRef    string     `json:"customerRef"`
	CustomerName   string     `json:"customerName"`
}

// PaymentFilter says which payments are listed; the zero value: all.
type PaymentFilter struct {
	// a part of the payer's name or account number, of the bank's transaction id or of the session
	// id
	Search     string
	AccountRef string
	Amount     string // gross or net
	Status     string
	// a day in Lagos (2026-01-30) or an RFC 3339 time: posted from From on, up to the end of the
	// day To or before the time To
	From, To string
	Sort     string // created or amount; empty: created
	Order    string // asc or desc; empty: desc, the newest first
	Sums     bool   // whether each page has the sums of all that the filter chooses
}

// PaymentPage is a page of payments.
type PaymentPage struct {
	Payments   []Payment    `json:"payments"`
	Sums       *PaymentSums `json:"sums,omitempty"` // nil: the filter does not ask for them
	Pagination Pagination   `json:"pagination"`
}

// PaymentSums are what all payments that a filter chooses come to.
type PaymentSums struct {
	Count int  `json:"count"`
	Exact bool `json:"exact"` // false: there are more, and no sums
	// nil: there are too many
	GrossAmount *string      `json:"grossAmount"`
	Fee         *string      `json:"fee"`
	Amount      *string      `json:"amount"`
	ByStatus    []StatusSums `json:"byStatus"`
}

// StatusSums are what the payments of one status come to. Those that are reversed or need a review
// are not in the balance.
type StatusSums struct {
	Status      string `json:"status"`
	Count       int    `json:"count"`
	GrossAmount string `json:"grossAmount"`
	Fee         string `json:"fee"`
	Amount      string `json:"amount"`
}

// ListPayments reads a page of the payments.
func (c *Client) ListPayments(ctx context.Context, f PaymentFilter, p Page) (PaymentPage, error) {
	sums := ""
	if f.Sums {
		sums = "true"
	}
	return get[PaymentPage](ctx, c, p.query("/v1/payments", "search", f.Search, "accountRef", f.AccountRef, "amount", f.Amount, "status", f.Status,
		"from", f.From, "to", f.To, "sort", f.Sort, "order", f.Order, "sums", sums))
}

// Payments goes through the payments, in the order of the filter, beginning with the page p.
func (c *Client) Payments(ctx context.Context, f PaymentFilter, p Page) iter.Seq2[Payment, error] {
	return each(p, func(p Page) ([]Payment, Pagination, error) {
		list, err := c.ListPayments(ctx, f, p)
		return list.Payments, list.Pagination, err
	})
}

// PaymentStep is what happened to a payment at one time.
type PaymentStep struct {
	At time.Time `json:"at"`
	// paid, received, posted, published, attempted, confirmed, recalled, recall_closed, reversed or
	// refunded
	Step      string  `json:"step"`
	Reference string  `json:"reference"` // what to name to whoever asks; empty: there is none
	Outcome   string  `json:"outcome"`
	Amount    *string `json:"amount"` // of a refund; else nil
}

// PaymentTimeline is a payment and what happened to it, the first first.
type PaymentTimeline struct {
	Payment
	RequestID string        `json:"requestId"` // the bank's, of its event; empty where none came or is kept
	Timeline  []PaymentStep `json:"timeline"`
	// what a limit or the account's policy holds of it; nil: nothing
	Held *Hold `json:"held"`
	// what was refunded of it, and what is being refunded, also by refunds beyond the newest 100,
	// which the timeline lacks
	Refunded      string `json:"refunded"`
	BeingRefunded string `json:"beingRefunded"`
	// what the account's split has passed on of it to other accounts, less what they have returned
	PassedOn string `json:"passedOn"`
	// older deliveries may be in the archive: the timeline lacks their steps; nil: it has all
	ArchivedBefore *time.Time `json:"archivedBefore"`
}

// Payment finds a payment by its ID or its TransactionGroupID. 404 when there is none.
func (c *Client) Payment(ctx context.Context, id string) (PaymentTimeline, error) {
	return get[PaymentTimeline](ctx, c, path("/v1/payments/", id))
}
