package client

import (
	"context"
	"iter"
	"time"
)

// NewHold asks for a hold.
type NewHold struct {
	Amount string     `json:"amount"`
	Reason string     `json:"reason"`
	Until  *time.Time `json:"until,omitempty"` // nil: until it is released
}

// Hold is money of an account that no settlement takes.
type Hold struct {
	ID         string     `json:"id"`
	AccountRef string     `json:"accountRef"`
	AccountID  string     `json:"accountId"`
	Amount     string     `json:"amount"`
	Currency   string     `json:"currency"`
	Reason     string     `json:"reason"`
	Source     string     `json:"source"`  // tenant, limit, policy, refund, recall
	EntryID    *string    `json:"entryId"` // the credit that it holds, or a part of; nil: your own hold
	Status     string     `json:"status"`  // open, released, expired
	Until      *time.Time `json:"until"`
	CreatedAt  time.Time  `json:"createdAt"`
	EndedAt    *time.Time `json:"endedAt"`
}

// PlaceHold sets money of an account aside. Give an [IdempotencyKey], with which it can be
// repeated. 400 when the hold is wrong, or more than is available.
func (c *Client) PlaceHold(ctx context.Context, ref string, h NewHold, options ...Option) (Hold, error) {
	return call[Hold](ctx, c, "POST", path("/v1/accounts/", ref, "/holds"), h, options...)
}

// HoldPage is a page of holds.
type HoldPage struct {
	Holds      []Hold     `json:"holds"`
	Pagination Pagination `json:"pagination"`
}

// ListHolds reads a page of an account's holds, of one status or, if it is empty, of all.
func (c *Client) ListHolds(ctx context.Context, ref, status string, p Page) (HoldPage, error) {
	return get[HoldPage](ctx, c, p.query(path("/v1/accounts/", ref, "/holds"), "status", status))
}

// Holds goes through an account's holds, newest first, beginning with the page p.
func (c *Client) Holds(ctx context.Context, ref, status string, p Page) iter.Seq2[Hold, error] {
	return each(p, func(p Page) ([]Hold, Pagination, error) {
		list, err := c.ListHolds(ctx, ref, status, p)
		return list.Holds, list.Pagination, err
	})
}

// Hold reads a hold.
func (c *Client) Hold(ctx context.Context, id string) (Hold, error) {
	return get[Hold](ctx, c, path("/v1/holds/", id))
}

// ReleaseHold ends a hold. 422 when it has ended, or is a limit's.
func (c *Client) ReleaseHold(ctx context.Context, id string, options ...Option) (Hold, error) {
	return call[Hold](ctx, c, "POST", path("/v1/holds/", id, "/release"), nil, options...)
}
