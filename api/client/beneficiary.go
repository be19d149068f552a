package client

import (
	"context"
	"iter"
	"time"
)

// NewBeneficiary is a bank account to save. BankCode and AccountNumber are required.
type NewBeneficiary struct {
	BankCode      string `json:"bankCode"`      // from Banks
	AccountNumber string `json:"accountNumber"` // 10 digits
	Label         string `json:"label,omitempty"`
}

// Beneficiary is a bank account that you pay out to.
type Beneficiary struct {
	ID            string    `json:"id"`
	Label         string    `json:"label"` // your own name for it
	BankCode      string    `json:"bankCode"`
	BankName      string    `json:"bankName"`
	AccountNumber string    `json:"accountNumber"`
	AccountName   string    `json:"accountName"` // the holder, as the bank named it at saving
	Exempt        bool      `json:"exempt"`      // settlements to its account need no approval
	SavedBy       string    `json:"savedBy"`     // session:<e-mail> or key:<id>
	SavedAt       time.Time `json:"savedAt"`
}

// SaveBeneficiary saves an account, with the holder that its bank names. One that is saved already
// is returned as it is. 404 when there is no such bank or account, 502 when the bank does not
// answer; nothing is saved then.
func (c *Client) SaveBeneficiary(ctx context.Context, b NewBeneficiary) (Beneficiary, error) {
	return call[Beneficiary](ctx, c, "POST", "/v1/beneficiaries", b)
}

// BeneficiaryPage is a page of beneficiaries.
type BeneficiaryPage struct {
	Beneficiaries []Beneficiary `json:"beneficiaries"`
	Pagination    Pagination    `json:"pagination"`
}

// ListBeneficiaries reads a page of the beneficiaries.
func (c *Client) ListBeneficiaries(ctx context.Context, p Page) (BeneficiaryPage, error) {
	return get[BeneficiaryPage](ctx, c, p.query("/v1/beneficiaries"))
}

// Beneficiaries goes through the beneficiaries, newest first, beginning with the page p.
func (c *Client) Beneficiaries(ctx context.Context, p Page) iter.Seq2[Beneficiary, error] {
	return each(p, func(p Page) ([]Beneficiary, Pagination, error) {
		list, err := c.ListBeneficiaries(ctx, p)
		return list.Beneficiaries, list.Pagination, err
	})
}

// Beneficiary reads a beneficiary. 404 when there is none, or it is removed.
func (c *Client) Beneficiary(ctx context.Context, id string) (Beneficiary, error) {
	return get[Beneficiary](ctx, c, path("/v1/beneficiaries/", id))
}

// RenameBeneficiary changes the label.
func (c *Client) RenameBeneficiary(ctx context.Context, id, label string) (Beneficiary, error) {
	return call[Beneficiary](ctx, c, "PATCH", path("/v1/beneficiaries/", id), map[string]string{"label": label})
}

// RemoveBeneficiary removes a beneficiary, and returns it as it was. 409 when it is removed, but
// payouts under way may still be accepted as before.
func (c *Client) RemoveBeneficiary(ctx context.Context, id string) (Beneficiary, error) {
	return call[Beneficiary](ctx, c, "DELETE", path("/v1/beneficiaries/", id), nil)
}
