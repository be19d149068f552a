package client

import (
	"context"
	"iter"
	"time"
)

// Customer is the entity behind accounts.
type Customer struct {
	ID          string
	TenantID    string
	ExternalRef string
	Name        string
	BVNLast4    *string
	NINLast4    *string
	KYCTier     int
	KYCStatus   string // none, pending_review, approved, rejected
	Status      string // active, suspended
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// CustomerFilter says which customers are listed; the zero value: all.
type CustomerFilter struct {
	Search    string // a part of the reference or the name
	KYCStatus string
}

// CustomerPage is a page of customers, newest first.
type CustomerPage struct {
	Customers  []Customer `json:"customers"`
	Pagination Pagination `json:"pagination"`
}

// ListCustomers reads a page of the customers.
func (c *Client) ListCustomers(ctx context.Context, f CustomerFilter, p Page) (CustomerPage, error) {
	return get[CustomerPage](ctx, c, p.query("/v1/customers", "search", f.Search, "kycStatus", f.KYCStatus))
}

// Customers goes through the customers, newest first, beginning with the page p.
func (c *Client) Customers(ctx context.Context, f CustomerFilter, p Page) iter.Seq2[Customer, error] {
	return each(p, func(p Page) ([]Customer, Pagination, error) {
		list, err := c.ListCustomers(ctx, f, p)
		return list.Customers, list.Pagination, err
	})
}

// Customer finds a customer by its ID. 404 when there is none.
func (c *Client) Customer(ctx context.Context, id string) (Customer, error) {
	return get[Customer](ctx, c, path("/v1/customers/", id))
}

// RenameCustomer gives a customer another display name.
func (c *Client) RenameCustomer(ctx context.Context, id, name string) (Customer, error) {
	return call[Customer](ctx, c, "PATCH", path("/v1/customers/", id), map[string]string{"name": name})
}

// CustomerAccount finds the account of a customer. 404 when it has none.
func (c *Client) CustomerAccount(ctx context.Context, id string) (Account, error) {
	return get[Account](ctx, c, path("/v1/customers/", id, "/account"))
}

// KYC is what came of a submission.
type KYC struct {
	ID        string
	KYCTier   int
	KYCStatus string
	NINLast4  *string
}

// SubmitNIN has a customer's identity checked by its National Identification Number, 11 digits.
func (c *Client) SubmitNIN(ctx context.Context, id, nin string) (KYC, error) {
	return call[KYC](ctx, c, "POST", path("/v1/customers/", id, "/kyc"), map[string]string{"nin": nin})
}
