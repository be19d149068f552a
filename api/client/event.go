package client

// Event is what a webhook says. Fields that an event of its type does not have are empty. Amounts
// are naira.
type Event struct {
	// EventType is payment.received, or what the tenant has chosen beside it: payment.confirmed,
	// payment.reversed, settlement.succeeded, settlement.failed, settlement.refunded. "test" is
	// sent by the dashboard, and nothing has happened.
	EventType string `json:"eventType"`
	// the payment or settlement; the statement has it too
	TransactionGroupID string `json:"transactionGroupId"`
	AccountRef         string `json:"accountRef"`
	Amount             string `json:"amount"` // of a payment: what is credited, gross less fee
	Currency           string `json:"currency"`
	Status             string `json:"status"` // of the payment's entry, or of the transfer

	// Of a payment.
	GrossAmount string `json:"gross_amount"`
	ProviderFee string `json:"provider_fee"`
	SenderName  string `json:"senderName"`
	Narration   string `json:"narration"`
	// hold or refund: its account's policy keeps it, so that nothing should be delivered on it
	Policy string `json:"policy"`
	// the TransactionGroupID of an earlier payment.received that does not count any more, and in
	// whose place the same payment was posted again: take back what you did for that one, and do
	// nothing for it if it comes later
	Replaces string `json:"replaces"`

	// Of a settlement.
	MerchantTxRef string `json:"merchantTxRef"`
	BankCode      string `json:"bankCode"`      // empty where it is not known
	AccountNumber string `json:"accountNumber"` // empty where it is not known
	PaidAmount    string `json:"paidAmount"`    // what left, where an operator found another sum
	RefundOf      string `json:"refundOf"`      // of a refund: the entry of the payment that it pays back

	// Of a test.
	ID        string `json:"id"`
	Message   string `json:"message"`
	CreatedAt string `json:"createdAt"`
}

// Key is the same in every repetition of an event, and in no other event: do once what an event
// with that key asks for. It is made of what is signed, which the webhook-id header is not.
func (e Event) Key() string { return e.EventType + " " + e.TransactionGroupID + e.ID }
