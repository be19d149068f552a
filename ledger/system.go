package ledger

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// SystemAccount is one of the service's own accounts, beside those of tenants. Like theirs, its
// balance is credits less debits, so the balance of an expense is below zero.
type SystemAccount string

// The system accounts, as the table system_accounts has them.
const (
	// ProviderFloat is the wallet at the bank. It is the contra side of nearly all entries, and the
	// account of none.
	ProviderFloat   SystemAccount = "provider_float"
	BankFees        SystemAccount = "bank_fees"        // what the bank takes for payouts
	Taxes           SystemAccount = "taxes"            // VAT and stamp duty
	PlatformRevenue SystemAccount = "platform_revenue" // what the platform earns
	Suspense        SystemAccount = "suspense"         // money whose owner is not known yet
)

// SystemAccounts are all of them, in the order in which they are shown.
var SystemAccounts = []SystemAccount{ProviderFloat, BankFees, Taxes, PlatformRevenue, Suspense}

// ErrSystemAccount is the refusal of a name that is none of [SystemAccounts].
var ErrSystemAccount = errs.New(errs.Invalid, "unknown system account")

// ID is the account's id, which is also its tenant's in the ledger's tables.
func (a SystemAccount) ID() uuid.UUID {
	id := uuid.UUID{0xff, 0xff, 0xff, 0xff, 4: 0, 6: 0x80, 8: 0x80}
	id[15] = byte(slices.Index(SystemAccounts, a) + 1)
	return id
}

// ParseSystemAccount reads a name, or [ErrSystemAccount].
func ParseSystemAccount(name string) (SystemAccount, error) {
	if a := SystemAccount(name); slices.Contains(SystemAccounts, a) {
		return a, nil
	}
	return "", ErrSystemAccount
}

// Kind says what an entry is if it is neither a payment nor a payout.
type Kind string

// The kinds.
const (
	KindFee      Kind = "fee"      // what the bank took for a payout, or is expected to
	KindSuspense Kind = "suspense" // money whose owner is not known
	KindMove     Kind = "move"     // made by an operator
	// one of the two sides of a transfer between accounts of a tenant
	KindBookTransfer Kind = "book_transfer"
	KindSplit        Kind = "split"        // one of the two sides of a part of a payment (split.go)
	KindPlatformFee  Kind = "platform_fee" // what the platform takes, and the VAT on it
)

// GroupOf returns the transaction group of an entry of the kind on an account (empty: the tenant's)
// that belongs to a payment or a payout. It is always the same, so that the entry is posted once.
// Package invariant has it in SQL.
func GroupOf(k Kind, on SystemAccount, with uuid.UUID) uuid.UUID {
	h := sha256.Sum256([]byte(string(k) + ":" + string(on) + ":" + with.String()))
	return uuid.UUID(h[:16])
}

// Movement is a movement of money on a system account.
type Movement struct {
	Account   SystemAccount // not [ProviderFloat]
	Contra    SystemAccount // on the other side; empty: [ProviderFloat]
	Direction Direction     // on Account's side
	Amount    money.Amount
	Kind      Kind
	Narration string
	// of the bank's transaction, and of the payout, where there is one
	ProviderTxnRef string
	TransferRef    *string
	// a second movement of the same group and direction is refused by the schema
	TransactionGroupID uuid.UUID
}

// PostMovements posts movements on system accounts. They are confirmed at once, because they come
// from the bank's own record or an operator. Call it after everything that the transaction does to
// tenants' balances (docs/architecture.md, Lock order).
func PostMovements(ctx context.Context, tx pg.Tx, now time.Time, movements []Movement) error {
	if len(movements) == 0 {
		return nil
	}
	var ids []uuid.UUID
	for _, m := range movements {
		ids = append(ids, m.Account.ID())
	}
	book, err := lockSystem(ctx, tx, ids)
	if err != nil {
		return err
	}
	rows := make([]row, len(movements))
	for i, m := range movements {
		t, err := book.of(m.Account.ID())
		if err != nil {
			return err
		}
		t.add(m.Direction, m.Amount)
		rows[i] = t.next(Entry{
			Direction: m.Direction, Amount: m.Amount, Status: Confirmed, Narration: m.Narration, ProviderTxnRef: m.ProviderTxnRef,
			TransactionGroupID: m.TransactionGroupID, TransferRef: m.TransferRef, CreatedAt: now, Kind: m.Kind,
		}, m.Contra)
	}
	_, err = write(ctx, tx, new(pgx.Batch), book, rows)
	return err
}

// lockSystem locks the balances of system accounts. One that was never used has no row yet.
func lockSystem(ctx context.Context, tx pg.Tx, ids []uuid.UUID) (book, error) {
	b, err := lockTotals(ctx, tx, ids)
	if err != nil || !slices.ContainsFunc(ids, func(id uuid.UUID) bool { return b.totals[id] == nil }) {
		return b, err
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO ledger_balances (account_id, tenant_id) SELECT DISTINCT id, id FROM unnest($1::uuid[]) AS u (id) ORDER BY 1
		ON CONFLICT DO NOTHING`, ids); err != nil {
		return b, err
	}
	return lockTotals(ctx, tx, ids)
}

// AccountBalance is a line of a [TrialBalance].
type AccountBalance struct {
	Account string       `json:"account"` // a system account's name, or tenants
	Debit   money.Amount `json:"debit"`   // one of the two is zero
	Credit  money.Amount `json:"credit"`
}

// tenantsLine is the account of a [TrialBalance] that stands for all tenants' accounts.
const tenantsLine = "tenants"

// TrialBalance is every account's balance at the end of a day in Lagos, or so far on one that has
// not ended.
type TrialBalance struct {
	Day      string           `json:"day"`   // 2026-01-30
	Ended    bool             `json:"ended"` // false: more may be posted on it yet
	Accounts []AccountBalance `json:"accounts"`
	Debits   money.Amount     `json:"debits"`
	Credits  money.Amount     `json:"credits"`
	// debits less credits: zero, or the sums by day are not what the balances say
	Total money.Amount `json:"total"`
}

// trialSQL: today's balances less what was posted later. The float is computed from the daily sums,
// and the tenants' balances are stored separately, so the total compares the two.
const trialSQL = `
		WITH days AS (
			SELECT s.name, sum(d.money_in - d.money_out) FILTER (WHERE d.day <= $1::date) AS until, sum(d.money_in - d.money_out) FILTER (WHERE d.day > $1::date) AS later
			FROM ledger_days d LEFT JOIN system_accounts s ON s.id = d.tenant_id GROUP BY s.name)
		SELECT 'tenants', (SELECT coalesce(sum(balance), 0) FROM ledger_balances WHERE tenant_id <> account_id)
			- coalesce((SELECT later FROM days WHERE name IS NULL), 0)
		UNION ALL
		SELECT s.name, CASE s.name WHEN 'provider_float' THEN -(SELECT coalesce(sum(until), 0) FROM days)
			ELSE coalesce((SELECT until FROM days d WHERE d.name = s.name), 0) END
		FROM system_accounts s`

// trialTimeout is how long [ReadTrialBalance] may read.
const trialTimeout = "10min"

// ReadTrialBalance reads the balances at the end of a day: of all tenants' accounts together, and
// of each system account. An entry counts on the day of its posting, unless it has left the balance
// since. It reads the balances and the sums by day, never the entries. All sums of all tenants'
// days are tens of millions of rows after years, so it may take minutes.
func ReadTrialBalance(ctx context.Context, pool *pg.Pool, day string) (TrialBalance, error) {
	b := TrialBalance{Day: day}
	sums := map[string]money.Amount{}
	if err := pg.Snapshot(ctx, pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '`+trialTimeout+`'`); err != nil {
			return err
		}
		var name string
		var sum money.Amount
		_, err := pgx.ForEachRow(pg.Rows(ctx, tx, trialSQL, day), []any{&name, &sum}, func() error { sums[name] = sum; return nil })
		return err
	}); err != nil {
		return b, err
	}
	line := func(name string) {
		l := AccountBalance{Account: name}
		if sum := sums[name]; sum.Sign() < 0 {
			l.Debit = sum.Neg()
		} else {
			l.Credit = sum
		}
		b.Accounts = append(b.Accounts, l)
		b.Debits, b.Credits = b.Debits.Add(l.Debit), b.Credits.Add(l.Credit)
	}
	line(string(ProviderFloat))
	line(tenantsLine)
	for _, a := range SystemAccounts[1:] {
		line(string(a))
	}
	b.Total = b.Debits.Sub(b.Credits)
	return b, nil
}

// SystemLine is a line of a system account's statement. For operators.
type SystemLine struct {
	ID                 uuid.UUID
	Direction          Direction // on this account's side
	Amount             money.Amount
	Status             Status
	Kind               Kind
	Other              string     // the account on the other side: a system account, or tenant
	AccountID          *uuid.UUID // of the tenant's account on the other side
	Narration          string
	ProviderTxnRef     string
	TransferRef        *string
	TransactionGroupID uuid.UUID
	CreatedAt          time.Time
}

// The lines of a system account: its own entries, and those of others that have it on the other
// side, which are its own in the opposite direction. Two index scans, merged by id.
const (
	lineColumns = `amount, status, kind, narration, provider_txn_ref, transfer_ref, transaction_group_id, created_at`
	ownLines    = `SELECT id, direction, contra AS other, NULL::uuid AS tenants, ` + lineColumns + `
			FROM ledger_entries WHERE account_id = @id AND tenant_id = account_id`
	contraLines = `SELECT id, CASE direction WHEN 'credit' THEN 'debit' ELSE 'credit' END AS direction,
				CASE WHEN tenant_id = account_id THEN (SELECT name FROM system_accounts s WHERE s.id = account_id) ELSE 'tenant' END AS other,
				CASE WHEN tenant_id <> account_id THEN account_id END AS tenants, ` + lineColumns + `
			FROM ledger_entries WHERE contra = @name`
	bothLines = `(` + ownLines + `
			UNION ALL ` + contraLines + ` AND contra <> 'provider_float') l WHERE true`
	floatLines = `(` + contraLines + `) l WHERE true`
	linesHead  = `SELECT id, direction, amount, status, kind, other, tenants, narration, provider_txn_ref, transfer_ref, transaction_group_id, created_at FROM `
	linesPage  = ` AND id < @before AND id >= @floor AND created_at >= @from AND created_at < @to ORDER BY id DESC LIMIT @limit`
)

// ReadSystemStatement reads a page of a system account's lines, newest first, posted at or after
// from and before to; zero: without that end. A bad cursor is [page.ErrCursor].
func ReadSystemStatement(ctx context.Context, q pg.Querier, a SystemAccount, from, to time.Time, r page.Request) ([]SystemLine, page.Info, error) {
	list := pg.List[SystemLine]{Name: page.SystemStatement, ID: func(l SystemLine) uuid.UUID { return l.ID }, Row: func(row pgx.CollectableRow) (l SystemLine, err error) {
		return l, row.Scan(&l.ID, &l.Direction, &l.Amount, &l.Status, &l.Kind, &l.Other, &l.AccountID, &l.Narration, &l.ProviderTxnRef, &l.TransferRef,
			&l.TransactionGroupID, &l.CreatedAt)
	}}
	f := Filter{From: from, To: to}
	args := pgx.NamedArgs{"id": a.ID(), "name": string(a), "from": f.from(), "to": f.to()}
	if a == ProviderFloat {
		return list.Filtered(ctx, q, r, floatLines, linesHead+floatLines+linesPage, args)
	}
	return list.Filtered(ctx, q, r, bothLines, linesHead+bothLines+linesPage, args)
}
