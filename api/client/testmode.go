package client

import "context"

// NewTestPayment is a payment in test mode. Amount and one of AccountRef and AccountNumber are
// required.
type NewTestPayment struct {
	AccountRef    string     `json:"accountRef,omitempty"`
	AccountNumber string     `json:"accountNumber,omitempty"`
	Amount        string     `json:"amount"` // naira, "5000.00"
	Sender        TestSender `json:"sender"`
	Narration     string     `json:"narration,omitempty"`
	// what goes wrong: webhook_lost, webhook_late, webhook_duplicate, amount_differs,
	// failed_at_bank, pending_at_bank, recalled
	Fault string `json:"fault,omitempty"`
}

// TestSender is who pays; what is empty is made up.
type TestSender struct {
	Name    string `json:"name,omitempty"`
	Account string `json:"account,omitempty"`
	Bank    string `json:"bank,omitempty"`
}

// TestPayment is a payment at the simulated bank.
type TestPayment struct {
	TransactionID string `json:"transactionId"` // ProviderTxnRef of its entry
	RequestID     string `json:"requestId"`     // of the bank's event
	AccountNumber string `json:"accountNumber"`
	Amount        string `json:"amount"`
	Fee           string `json:"fee"`
	Fault         string `json:"fault"`
}

// ReceiveTestPayment has somebody pay into a test account. It takes a key of test mode
// (ajo_test_…); 404 with any other.
func (c *Client) ReceiveTestPayment(ctx context.Context, p NewTestPayment) (TestPayment, error) {
	return call[TestPayment](ctx, c, "POST", "/v1/test/payments", p)
}
