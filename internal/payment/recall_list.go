package payment

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// HeldRecall is an open recall as its tenant sees it.
type HeldRecall struct {
	TransactionGroupID uuid.UUID    `json:"transactionGroupId"` // the payment's
	EntryID            uuid.UUID    `json:"entryId"`
	Amount             money.Amount `json:"amount"` // of the payment, net, which covers no settlement
	SenderName         string       `json:"senderName"`
	ProviderTxnRef     string       `json:"providerTxnRef"`
	PostedAt           time.Time    `json:"postedAt"`
	OpenedAt           time.Time    `json:"openedAt"`
}

// HeldRecalls returns a page of the payments to an account whose money is held because the bank may
// have taken them back, newest first. A bad cursor is [page.ErrCursor].
func (s *Service) HeldRecalls(ctx context.Context, tenantID, accountID uuid.UUID, r page.Request) ([]HeldRecall, page.Info, error) {
	list := pg.List[HeldRecall]{Name: page.Recalls, ID: func(h HeldRecall) uuid.UUID { return h.TransactionGroupID }, Row: func(row pgx.CollectableRow) (HeldRecall, error) {
		h, err := pgx.RowToStructByPos[HeldRecall](row)
		h.PostedAt, h.OpenedAt = h.PostedAt.UTC(), h.OpenedAt.UTC()
		return h, err
	}}
	return list.Page(ctx, pg.Reader(ctx, s.Pool), r, `
		SELECT r.event_id, l.id, r.held, coalesce(l.record_name, l.sender_name), l.provider_txn_ref, l.created_at, r.opened_at
		FROM recalls r JOIN ledger_entries l ON l.transaction_group_id = r.event_id AND l.direction = 'credit'
		WHERE r.event_id < @before AND r.tenant_id = @tenant AND r.account_id = @account AND r.held > 0
		ORDER BY r.event_id DESC LIMIT @limit`, pgx.NamedArgs{"tenant": tenantID, "account": accountID})
}
