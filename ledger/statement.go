package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// Balance is an account's money. Cover is the part that the bank has confirmed and no settlement has claimed: what may leave.
type Balance struct {
	Balance money.Amount
	Cover   money.Amount
}

// ReadBalance reads an account's balance; its cost does not depend on the account's history.
func ReadBalance(ctx context.Context, q pg.Querier, account uuid.UUID) (Balance, error) {
	var b Balance
	err := q.QueryRow(ctx, `SELECT balance, balance - provisional_credits FROM ledger_balances WHERE account_id = $1`, account).
		Scan(&b.Balance, &b.Cover)
	return b, err
}

// Line is one line of a statement.
type Line struct {
	Entry          Entry        `json:"entry"`
	RunningBalance money.Amount `json:"runningBalance"` // right after the entry was posted
	seq            int64
}

// Statement is one page of an account's entries, oldest first, with the totals of its whole history.
type Statement struct {
	Lines          []Line       `json:"lines"`
	OpeningBalance money.Amount `json:"openingBalance"` // before the first entry: 0.00
	TotalCredits   money.Amount `json:"totalCredits"`   // a reversed entry and its reversal are in one total each; one under review is in none
	TotalDebits    money.Amount `json:"totalDebits"`
	ClosingBalance money.Amount `json:"closingBalance"` // opening + credits − debits: the balance
	ChainHead      string       `json:"chainHead"`      // the newest entry's hash in hex, which covers the whole history (chain.go); empty before the first
	Pagination     page.Info    `json:"pagination"`
}

// ReadStatement reads one page. Lines and totals come from one statement, and so from one moment. A bad cursor is [page.ErrCursor].
func ReadStatement(ctx context.Context, q pg.Querier, account uuid.UUID, r page.Request) (Statement, error) {
	after, err := page.ParseSeq(r.After)
	if err != nil {
		return Statement{}, err
	}
	rows, err := q.Query(ctx, `
		SELECT b.total_credits, b.total_debits, coalesce(encode(b.chain_head, 'hex'), ''), e.seq, e.running_balance, e.id, e.direction, e.amount, e.fee, e.currency, e.status,
			e.narration, e.provider_txn_ref, e.transaction_group_id, e.transfer_ref, e.reversal_of, e.created_at
		FROM ledger_balances b
		LEFT JOIN LATERAL (SELECT * FROM ledger_entries WHERE account_id = b.account_id AND seq > $2 ORDER BY seq LIMIT $3) e ON true
		WHERE b.account_id = $1 ORDER BY e.seq`, account, after, r.Limit+1)
	if err != nil {
		return Statement{}, err
	}
	var s Statement
	lines := []Line{}
	var n nullableLine
	into := []any{
		&s.TotalCredits, &s.TotalDebits, &s.ChainHead, &n.seq, &n.running, &n.id, &n.direction, &n.amount, &n.fee, &n.currency, &n.status,
		&n.narration, &n.providerRef, &n.group, &n.transfer, &n.reversal, &n.created,
	}
	_, err = pgx.ForEachRow(rows, into, func() error {
		if n.id != nil {
			lines = append(lines, n.line())
		}
		n = nullableLine{}
		return nil
	})
	if err != nil {
		return Statement{}, err
	}
	s.ClosingBalance = s.OpeningBalance.Add(s.TotalCredits).Sub(s.TotalDebits)
	s.Lines, s.Pagination = page.Cut(lines, r, func(l Line) string { return page.Seq(l.seq) })
	return s, nil
}

// nullableLine is a line of the outer join: an account without entries still has its totals.
type nullableLine struct {
	id, group, reversal                                 *uuid.UUID
	seq                                                 *int64
	running, amount, fee                                *money.Amount
	direction, currency, status, narration, providerRef *string
	transfer                                            *string
	created                                             *time.Time
}

func (n *nullableLine) line() Line {
	return Line{seq: *n.seq, RunningBalance: *n.running, Entry: Entry{
		ID: *n.id, Direction: Direction(*n.direction), Amount: *n.amount, Fee: *n.fee, Currency: *n.currency, Status: Status(*n.status),
		Narration: *n.narration, ProviderTxnRef: *n.providerRef, TransactionGroupID: *n.group, TransferRef: n.transfer,
		ReversalOf: n.reversal, CreatedAt: n.created.UTC(),
	}}
}
