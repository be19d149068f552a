package ledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// row is an entry on its way into the table.
type row struct {
	Entry
	tenantID  uuid.UUID
	accountID uuid.UUID
	seq       int64
	running   money.Amount
	hash      []byte
}

// OpenAccount gives a new account its empty balance; it runs in the transaction that inserts the
// account.
func OpenAccount(ctx context.Context, tx pg.Tx, tenantID, accountID uuid.UUID) error {
	_, err := tx.Exec(ctx, `INSERT INTO ledger_balances (account_id, tenant_id) VALUES ($1, $2)`, accountID, tenantID)
	return err
}

// PostCredits posts provisional credits, in the order given, and returns their entries in that
// order. It takes four statements however many there are, and updates each account once.
func PostCredits(ctx context.Context, tx pg.Tx, now time.Time, postings []Posting) ([]Entry, error) {
	book, err := lockPosted(ctx, tx, postings)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(postings))
	for i, p := range postings {
		t, err := book.of(p.AccountID)
		if err != nil {
			return nil, err
		}
		t.provisionalCredits = t.provisionalCredits.Add(p.Amount)
		rows[i] = t.append(p, Credit, now)
	}
	return write(ctx, tx, new(pgx.Batch), book, rows)
}

// Posted is what a posting of [PostDebits] came to.
type Posted struct {
	Entry Entry
	Err   error // [ErrInsufficientFunds]: this posting changed nothing, its neighbours stand
}

// PostDebits posts provisional debits as if one after the other, in the order given: each if the
// balance that those before it have left covers it (or the money is gone), else it is
// [ErrInsufficientFunds]. The accounts' locks make other callers' settlements wait, so together
// they cannot overdraw. It takes four statements however many there are, and updates each account
// once.
func PostDebits(ctx context.Context, tx pg.Tx, now time.Time, postings []Posting) ([]Posted, error) {
	book, err := lockPosted(ctx, tx, postings)
	if err != nil {
		return nil, err
	}
	out := make([]Posted, len(postings))
	var rows []row
	for i, p := range postings {
		t, err := book.of(p.AccountID)
		if err != nil {
			return nil, err
		}
		if !p.Gone && t.balance().Cmp(p.Amount) < 0 {
			out[i].Err = ErrInsufficientFunds
			continue
		}
		rows = append(rows, t.append(p, Debit, now))
		out[i].Entry = rows[len(rows)-1].Entry
	}
	_, err = write(ctx, tx, new(pgx.Batch), book, rows)
	return out, err
}

// append makes the provisional entry of p and moves the running totals on.
func (t *totals) append(p Posting, d Direction, now time.Time) row {
	t.add(d, p.Amount)
	return t.next(Entry{
		Direction: d, Amount: p.Amount, Fee: p.Fee, Status: Provisional, Narration: p.Narration,
		ProviderTxnRef: p.ProviderTxnRef, TransactionGroupID: p.TransactionGroupID, TransferRef: p.TransferRef, CreatedAt: now,
	})
}

func (t *totals) next(e Entry) row {
	e.ID, e.Currency = uuid.Must(uuid.NewV7()), money.Currency
	t.lastSeq++
	r := row{Entry: e, tenantID: t.tenantID, accountID: t.accountID, seq: t.lastSeq, running: t.balance()}
	t.chain(&r)
	return r
}

// book is what one call changes: the locked totals of its accounts, and the sums by day.
type book struct {
	totals map[uuid.UUID]*totals
	days   days
}

func (b book) of(account uuid.UUID) (*totals, error) {
	t, ok := b.totals[account]
	if !ok {
		return nil, fmt.Errorf("ledger: account %s has no balance", account)
	}
	return t, nil
}

// lockPosted locks the balances of the accounts that the postings name.
func lockPosted(ctx context.Context, tx pg.Tx, postings []Posting) (book, error) {
	ids := make([]uuid.UUID, len(postings))
	for i, p := range postings {
		ids[i] = p.AccountID
	}
	return lockTotals(ctx, tx, ids)
}

// lockTotals locks the balance rows of the accounts, in the order of their ids.
func lockTotals(ctx context.Context, tx pg.Tx, accounts []uuid.UUID) (book, error) {
	ids := slices.Clone(accounts)
	slices.SortFunc(ids, pg.CompareIDs)
	ids = slices.Compact(ids)
	rows, err := tx.Query(ctx, selectTotals+` WHERE account_id = ANY($1) ORDER BY account_id FOR NO KEY UPDATE`, ids)
	if err != nil {
		return book{}, err
	}
	return readTotals(rows)
}

const selectTotals = `
		SELECT account_id, tenant_id, total_credits, total_debits, provisional_credits, last_seq, chain_head FROM ledger_balances`

func readTotals(rows pgx.Rows) (book, error) {
	b := book{map[uuid.UUID]*totals{}, days{}}
	var t totals
	into := []any{&t.accountID, &t.tenantID, &t.credits, &t.debits, &t.provisionalCredits, &t.lastSeq, &t.head}
	_, err := pgx.ForEachRow(rows, into, func() error {
		locked := t
		locked.head = bytes.Clone(t.head)
		b.totals[t.accountID] = &locked
		return nil
	})
	return b, err
}

// write does what the batch has, inserts the rows and stores the totals and the days' sums that
// have moved, in one round trip. The rows of the days come last: other accounts' callers want them
// too.
func write(ctx context.Context, tx pg.Tx, batch *pgx.Batch, b book, rows []row) ([]Entry, error) {
	for i := range rows {
		b.days.post(&rows[i])
	}
	if len(rows) > 0 {
		queueEntries(batch, rows)
	}
	queueTotals(batch, b.totals)
	queueRecalls(batch, b.totals)
	queueDays(batch, b.days)
	if batch.Len() == 0 {
		return nil, nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	entries := make([]Entry, len(rows))
	for i, r := range rows {
		entries[i] = r.Entry
	}
	return entries, nil
}

func queueEntries(batch *pgx.Batch, rows []row) {
	var c struct {
		id, tenant, account, group                                        []uuid.UUID
		seq                                                               []int64
		direction, amount, fee, status, narration, providerRef, runningAt []string
		transfer                                                          []*string
		reversal                                                          []*uuid.UUID
		created                                                           []time.Time
		hash                                                              [][]byte
	}
	for _, r := range rows {
		c.id, c.tenant, c.account = append(c.id, r.ID), append(c.tenant, r.tenantID), append(c.account, r.accountID)
		c.group, c.seq = append(c.group, r.TransactionGroupID), append(c.seq, r.seq)
		c.direction, c.status = append(c.direction, string(r.Direction)), append(c.status, string(r.Status))
		c.amount, c.fee = append(c.amount, r.Amount.String()), append(c.fee, r.Fee.String())
		c.narration, c.providerRef = append(c.narration, r.Narration), append(c.providerRef, r.ProviderTxnRef)
		c.runningAt, c.transfer = append(c.runningAt, r.running.String()), append(c.transfer, r.TransferRef)
		c.reversal, c.created, c.hash = append(c.reversal, r.ReversalOf), append(c.created, r.CreatedAt), append(c.hash, r.hash)
	}
	batch.Queue(`
		INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, fee, status, narration, provider_txn_ref,
			transaction_group_id, transfer_ref, reversal_of, running_balance, created_at, hash)
		SELECT id, tenant, account, seq, direction, amount::numeric, fee::numeric, status, narration, provider_ref,
			grp, transfer, reversal, running::numeric, created, hash
		FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
			$11::uuid[], $12::text[], $13::uuid[], $14::text[], $15::timestamptz[], $16::bytea[])
			AS p (id, tenant, account, seq, direction, amount, fee, status, narration, provider_ref, grp, transfer, reversal, running, created, hash)`,
		c.id, c.tenant, c.account, c.seq, c.direction, c.amount, c.fee, c.status, c.narration, c.providerRef,
		c.group, c.transfer, c.reversal, c.runningAt, c.created, c.hash)
}

func queueTotals(batch *pgx.Batch, all map[uuid.UUID]*totals) {
	var id []uuid.UUID
	var credits, debits, provisional []string
	var seq []int64
	var head [][]byte
	for _, t := range all {
		if !t.changed { // all that was asked of it was refused, or its debits were confirmed
			continue
		}
		id, seq = append(id, t.accountID), append(seq, t.lastSeq)
		credits, debits = append(credits, t.credits.String()), append(debits, t.debits.String())
		provisional, head = append(provisional, t.provisionalCredits.String()), append(head, t.head)
	}
	if len(id) == 0 {
		return
	}
	batch.Queue(`
		UPDATE ledger_balances b
		SET total_credits = m.credits::numeric, total_debits = m.debits::numeric, provisional_credits = m.provisional::numeric, last_seq = m.seq,
			chain_head = m.head
		FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[]) AS m (id, credits, debits, provisional, seq, head)
		WHERE b.account_id = m.id`, id, credits, debits, provisional, seq, head)
}
