package ledger

import (
	"bytes"
	"cmp"
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
	TenantID  uuid.UUID    `pg:"tenant_id"`
	AccountID uuid.UUID    `pg:"account_id"`
	Seq       int64        `pg:"seq"`
	Running   money.Amount `pg:"running_balance,numeric"`
	Hash      []byte       `pg:"hash"`
	Contra    SystemAccount
	Price     *uuid.UUID
	Split     *string
}

func (r *row) contra() SystemAccount { return cmp.Or(r.Contra, ProviderFloat) }

// OpenAccount gives a new account its empty balance; it runs in the transaction that inserts the
// account.
func OpenAccount(ctx context.Context, tx pg.Tx, tenantID, accountID uuid.UUID) error {
	_, err := tx.Exec(ctx, `INSERT INTO ledger_balances (account_id, tenant_id) VALUES ($1, $2)`, accountID, tenantID)
	return err
}

// PostCredits posts provisional credits, in the order given, each with what the platform takes of
// it, and returns the credits' entries in that order. It runs four statements, however many
// postings there are, and updates each account once.
func PostCredits(ctx context.Context, tx pg.Tx, now time.Time, postings []Posting) ([]Entry, error) {
	book, err := lockPosted(ctx, tx, postings)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(postings))
	var charges []row
	var tiered []arrival
	over := newOvers()
	for i, p := range postings {
		t, err := book.of(p.AccountID)
		if err != nil {
			return nil, err
		}
		rows[i] = t.append(p, Credit, now)
		kept := p.Amount
		for _, w := range p.With {
			kept = kept.Sub(w.Amount)
			charges = append(charges, t.append(w, Debit, now))
		}
		t.ProvisionalCredits = t.ProvisionalCredits.Add(kept)
		kept = kept.Left(p.Gone)
		switch {
		case p.Policy != nil && kept.IsPositive():
			over.place(t, &rows[i].Entry, kept, *p.Policy, now)
		case p.Tiered:
			tiered = append(tiered, arrival{p.AccountID, &rows[i].Entry, kept})
		}
	}
	var batch pgx.Batch
	if err := over.arrive(ctx, tx, book, now, tiered); err != nil {
		return nil, err
	}
	over.queue(&batch, now)
	entries, err := write(ctx, tx, &batch, book, append(rows, charges...))
	if err != nil {
		return nil, err
	}
	return entries[:len(postings)], nil
}

// Posted is the result of a posting of [PostDebits].
type Posted struct {
	Entry Entry
	// its position in the account, and the account's total of debits right after it
	Seq    int64
	Debits money.Amount
	// [ErrInsufficientFunds], or what the posting's Allow says: this posting changed nothing, its
	// neighbours stand
	Err error
}

// PostDebits posts provisional debits as if one after the other, in the order given. A debit is
// posted if it may overdraw, or if the balance that the debits before it leave, less the rows of
// holds, covers it; otherwise its result is [ErrInsufficientFunds]. Provisional and recalled money
// counts here, and is looked at when a payout leaves. The accounts' locks make other callers'
// settlements and holds wait, so together they cannot overdraw. It runs four statements, however
// many debits there are, plus one if a hold has passed its until, and updates each account once.
func PostDebits(ctx context.Context, tx pg.Tx, now time.Time, postings []Posting) ([]Posted, error) {
	book, err := lockPosted(ctx, tx, postings)
	if err != nil {
		return nil, err
	}
	if err := book.endHolds(ctx, tx, now); err != nil {
		return nil, err
	}
	out := make([]Posted, len(postings))
	var rows []row
	for i, p := range postings {
		t, err := book.of(p.AccountID)
		if err != nil {
			return nil, err
		}
		whole := p.Amount
		for _, w := range p.With {
			whole = whole.Add(w.Amount)
		}
		if !p.AllowOverdraft && t.net().Sub(t.Held).Cmp(whole) < 0 {
			out[i].Err = ErrInsufficientFunds
			continue
		}
		if p.Allow != nil {
			if out[i].Err = p.Allow(); out[i].Err != nil {
				continue
			}
		}
		rows = append(rows, t.append(p, Debit, now))
		out[i].Entry, out[i].Seq, out[i].Debits = rows[len(rows)-1].Entry, t.LastSeq, t.Debits
		for _, w := range p.With {
			rows = append(rows, t.append(w, Debit, now))
		}
	}
	_, err = write(ctx, tx, new(pgx.Batch), book, rows)
	return out, err
}

// append makes the provisional entry of p and updates the running totals.
func (t *totals) append(p Posting, d Direction, now time.Time) row {
	t.add(d, p.Amount)
	r := t.next(Entry{
		Direction: d, Amount: p.Amount, Fee: p.Fee, Status: Provisional, Narration: p.Narration,
		ProviderTxnRef: p.ProviderTxnRef, TransactionGroupID: p.TransactionGroupID, TransferRef: p.TransferRef, CreatedAt: now,
		SenderName: p.SenderName, SenderBank: p.SenderBank, Kind: p.Kind,
	}, p.Contra)
	r.Price, r.Split = p.Price, p.Split
	return r
}

func (t *totals) next(e Entry, contra SystemAccount) row {
	e.ID, e.Currency, e.CreatedAt = uuid.Must(uuid.NewV7()), money.Currency, t.dated(e.CreatedAt)
	t.LastSeq++
	t.LastAt = &e.CreatedAt
	r := row{Entry: e, TenantID: t.TenantID, AccountID: t.AccountID, Seq: t.LastSeq, Running: t.net(), Contra: contra}
	t.chain(&r)
	return r
}

// clockStep is by how much an entry may be older than the account's last one and still get that
// one's time. A larger difference means that a clock was corrected.
const clockStep = time.Hour

// dated is the time of the account's next entry, which is posted now. A caller reads its clock
// before it waits for the lock, and clocks differ a little: without this, an entry could belong to
// the day before the last one's, and neither day's lines would lead to its closing balance.
func (t *totals) dated(now time.Time) time.Time {
	if t.LastAt != nil && t.LastAt.After(now) && t.LastAt.Sub(now) <= clockStep {
		return *t.LastAt
	}
	return now
}

// dated returns one time for entries that are posted now to several accounts and belong to one day.
func (b book) dated(now time.Time, accounts ...uuid.UUID) time.Time {
	for _, id := range accounts {
		if t := b.totals[id]; t != nil {
			now = t.dated(now)
		}
	}
	return now
}

// book collects what one call changes: the locked totals of its accounts, and the sums by day.
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

const selectTotals = `
		SELECT account_id, tenant_id, total_credits, total_debits, provisional_credits, last_seq, chain_head, last_at, coalesce(held, 0), held_until, coalesce(held_over, 0)
		FROM ledger_balances`

func readTotals(rows pgx.Rows) (book, error) {
	b := book{map[uuid.UUID]*totals{}, days{}}
	var t totals
	into := []any{&t.AccountID, &t.TenantID, &t.Credits, &t.Debits, &t.ProvisionalCredits, &t.LastSeq, &t.Head, &t.LastAt, &t.Held, &t.HeldUntil, &t.HeldOver}
	_, err := pgx.ForEachRow(rows, into, func() error {
		locked := t
		locked.Head = bytes.Clone(t.Head)
		b.totals[t.AccountID] = &locked
		return nil
	})
	return b, err
}

// write runs the queued statements, inserts the rows, and stores the changed totals and daily sums,
// in one round trip.
func write(ctx context.Context, tx pg.Tx, batch *pgx.Batch, b book, rows []row) ([]Entry, error) {
	for i := range rows {
		b.days.post(&rows[i])
	}
	queueEntries(batch, rows)
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

var (
	insertEntries = pg.Insert[row]("ledger_entries", 1)
	insertMarked  = pg.Insert[markedRow]("ledger_entries", 1)
	insertPriced  = pg.Insert[pricedRow]("ledger_entries", 1)
	updateTotals  = `
		UPDATE ledger_balances b
		SET total_credits = m.credits, total_debits = m.debits, provisional_credits = m.provisional, last_seq = m.seq, chain_head = m.head, last_at = m.last_at
		FROM ` + pg.Unnest[totals](1, "m") + `
		WHERE b.account_id = m.account_id`
)

// queueEntries inserts the rows. Most are payments and payouts. Entries with a kind, and payments
// with a price or a split, have more columns, which the statement for the others leaves out.
func queueEntries(batch *pgx.Batch, rows []row) {
	plain, marked, priced := rows, []markedRow(nil), []pricedRow(nil)
	if slices.ContainsFunc(rows, func(r row) bool { return r.Kind != "" || r.Price != nil || r.Split != nil }) {
		plain = nil
		for _, r := range rows {
			switch {
			case r.Kind != "":
				marked = append(marked, markedRow{r, r.contra(), r.Kind})
			case r.Price != nil || r.Split != nil:
				priced = append(priced, pricedRow{r, r.Price, (*jsonText)(r.Split)})
			default:
				plain = append(plain, r)
			}
		}
	}
	if len(plain) > 0 {
		batch.Queue(insertEntries, pg.Columns(plain)...)
	}
	if len(priced) > 0 {
		batch.Queue(insertPriced, pg.Columns(priced)...)
	}
	if len(marked) > 0 {
		batch.Queue(insertMarked, pg.Columns(marked)...)
	}
}

// markedRow is a row with a kind.
type markedRow struct {
	row
	ContraColumn SystemAccount `pg:"contra"`
	KindColumn   Kind          `pg:"kind"`
}

// jsonText is a JSON text on its way into a column.
type jsonText string

func (t *jsonText) String() string { return string(*t) }

// pricedRow is a payment's row with a price or a split.
type pricedRow struct {
	row
	PriceColumn *uuid.UUID `pg:"price_id"`
	SplitColumn *jsonText  `pg:"split,jsonb"`
}

func queueTotals(batch *pgx.Batch, all map[uuid.UUID]*totals) {
	var changed []*totals
	for _, t := range all {
		// unless everything was refused, or only debits were confirmed
		if t.changed {
			changed = append(changed, t)
		}
	}
	if len(changed) > 0 {
		batch.Queue(updateTotals, pg.Columns(changed)...)
	}
}
