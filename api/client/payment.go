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
}

// PaymentPage is a page of payments, newest first.
type PaymentPage struct {
	Payments   []Payment  `json:"payments"`
	Pagination Pagination `json:"pagination"`
}

// ListPayments reads a page of the payments.
func (c *Client) ListPayments(ctx context.Context, f PaymentFilter, p Page) (PaymentPage, error) {
	return get[PaymentPage](ctx, c, p.query("/v1/payments", "search", f.Search, "accountRef", f.AccountRef, "amount", f.Amount, "status", f.Status, "from", f.From, "to", f.To))
}

// Payments goes through the payments, newest first, beginning with the page p.
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
}

// Payment finds a payment by its ID or its TransactionGroupID. 404 when there is none.
func (c *Client) Payment(ctx context.Context, id string) (PaymentTimeline, error) {
	return get[PaymentTimeline](ctx, c, path("/v1/payments/", id))
}
