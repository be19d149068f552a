package ledger

import (
	"bytes"
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// Finding is one disagreement in the books, named by the row that is wrong.
type Finding struct {
	Check   string // what does not hold
	Subject string // the account or entry
	Detail  string // what is stored, and what the entries say
}

// MaxFindings bounds what one check reports.
const MaxFindings = 1000

// The checks of [Verify].
const (
	CheckTotals   = "totals equal the entries"
	CheckSequence = "entries are numbered without a gap"
	CheckRunning  = "running balances follow from the entries"
	CheckReviews  = "reviews are recorded"
	CheckReversed = "reversed entries have one reversal"
	CheckMirrors  = "reversals mirror their originals"
	CheckOwner    = "entries are their account's tenant's"
	CheckDays     = "the sums of days equal the entries"
	CheckChain    = "the hash chain holds"
	CheckBook     = "the book sums to zero"
)

// Verify recomputes the books from the entries and returns what does not agree, at most 1,000
// findings a check: totals, numbers, running balances, reviews, reversals, the sums of days, the
// hash chain, and the sum of the book. It reads all of it: for hand tools and tests, on a
// connection whose statement_timeout allows it, and in a transaction that sees one moment.
func Verify(ctx context.Context, q pg.Querier) ([]Finding, error) {
	var all []Finding
	for _, c := range checks {
		found, err := Query(ctx, q, c.name, c.sql)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	found, err := verifyChains(ctx, q)
	if err != nil {
		return nil, err
	}
	all = append(all, found...)
	sum, err := BookSum(ctx, q)
	if err == nil && sum.Sign() != 0 {
		all = append(all, Finding{Check: CheckBook, Subject: "book", Detail: "it sums to " + sum.String()})
	}
	return all, err
}

// Query runs one check: a query that returns (subject, detail) of each row that is wrong.
func Query(ctx context.Context, q pg.Querier, check, sql string, args ...any) ([]Finding, error) {
	rows, err := q.Query(ctx, sql+fmt.Sprintf(" LIMIT %d", MaxFindings), args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", check, err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (Finding, error) {
		f := Finding{Check: check}
		return f, r.Scan(&f.Subject, &f.Detail)
	})
}

// chainReader follows one account's chain after the other.
type chainReader struct {
	account  uuid.UUID
	head     []byte // by the entries so far; nil before the first
	stored   []byte // by ledger_balances
	broken   bool   // an entry of this account was named
	findings []Finding
}

// verifyChains recomputes every hash, and names for each account the first entry that does not fit.
// An account whose entries all fit, but whose last hash is not its head, has lost its newest
// entries.
func verifyChains(ctx context.Context, q pg.Querier) ([]Finding, error) {
	rows, err := q.Query(ctx, `
		SELECT b.account_id, b.chain_head, e.tenant_id, e.seq, e.running_balance, e.hash,
			e.id, e.direction, e.amount, e.fee, e.currency, e.status, e.narration, e.provider_txn_ref, e.transaction_group_id,
			e.transfer_ref, e.reversal_of, e.created_at
		FROM ledger_balances b JOIN ledger_entries e ON e.account_id = b.account_id
		ORDER BY b.account_id, e.seq`)
	if err != nil {
		return nil, err
	}
	var c chainReader
	var r row
	var stored []byte
	into := append([]any{&r.AccountID, &stored, &r.TenantID, &r.Seq, &r.Running, &r.Hash}, r.fields()...)
	_, err = pgx.ForEachRow(rows, into, func() error {
		if r.AccountID != c.account {
			c.end()
			c.account, c.head, c.stored, c.broken = r.AccountID, genesis(r.AccountID), bytes.Clone(stored), false
		}
		c.add(&r)
		r.TransferRef, r.ReversalOf = nil, nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.end()
	lost, err := Query(ctx, q, CheckChain, `
		SELECT account_id::text, 'it has a head, and no entry' FROM ledger_balances b
		WHERE chain_head IS NOT NULL AND NOT EXISTS (SELECT FROM ledger_entries e WHERE e.account_id = b.account_id)`)
	return append(c.findings, lost...), err
}

func (c *chainReader) add(r *row) {
	if c.broken {
		return
	}
	want := link(c.head, r)
	switch {
	case r.Hash == nil:
		c.name(r.ID, fmt.Sprintf("number %d of account %s has no hash", r.Seq, c.account))
	case !bytes.Equal(want, r.Hash):
		c.name(r.ID, fmt.Sprintf("number %d of account %s, or the one before it, is not what was posted", r.Seq, c.account))
	}
	c.head = want
}

func (c *chainReader) end() {
	if c.account != uuid.Nil && !c.broken && !bytes.Equal(c.head, c.stored) {
		c.name(c.account, "the newest entry's hash is not the account's head: the newest entries are gone, or the head was changed")
	}
}

func (c *chainReader) name(subject uuid.UUID, detail string) {
	c.broken = true
	if len(c.findings) < MaxFindings {
		c.findings = append(c.findings, Finding{Check: CheckChain, Subject: subject.String(), Detail: detail})
	}
}

// BookSum adds the customers' side (the stored balances) to the provider float's side (the contra
// side of every entry that counts): 0.00 when the books are right.
func BookSum(ctx context.Context, q pg.Querier) (money.Amount, error) {
	var sum money.Amount
	err := q.QueryRow(ctx, `
		SELECT (SELECT coalesce(sum(balance), 0) FROM ledger_balances)
			+ (SELECT coalesce(sum(CASE direction WHEN 'credit' THEN -amount ELSE amount END), 0)
				FROM ledger_entries WHERE contra = 'provider_float' AND status IN ('provisional', 'confirmed'))`).Scan(&sum)
	return sum, err
}
