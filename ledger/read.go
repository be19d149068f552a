package ledger

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// Two cursors run side by side, both in the order of account ids: the accounts with their balances
// and checkpoints, and the entries.
const (
	accountsCursor = `DECLARE ajo_accounts NO SCROLL CURSOR FOR
		SELECT b.account_id, b.tenant_id, b.total_credits, b.total_debits, b.balance, b.provisional_credits, b.last_seq, b.chain_head, coalesce(r.n, 0),
			coalesce(c.seq, 0), c.hash, coalesce(c.credits, 0), coalesce(c.debits, 0), coalesce(c.settled_credits, 0), coalesce(c.settled_debits, 0),
			coalesce(c.settled_reversed, 0), coalesce(c.open_seqs, '{}'), coalesce(c.verified_at, 'epoch')
		FROM ledger_balances b LEFT JOIN ledger_checkpoints c ON c.account_id = b.account_id
		LEFT JOIN (SELECT account_id, count(*) AS n FROM ledger_entries WHERE reversed GROUP BY account_id) r ON r.account_id = b.account_id
		ORDER BY b.account_id`
	entryColumns = `e.account_id, e.contra, e.tenant_id, e.seq, e.running_balance, e.hash, e.review_from_seq, e.review_to_seq,
			e.id, e.direction, e.amount, e.fee, e.currency, e.status, e.narration, e.provider_txn_ref, e.transaction_group_id,
			e.transfer_ref, e.reversal_of, e.created_at, e.sender_name, e.sender_bank, coalesce(e.record_account, ''), coalesce(e.record_bank_code, ''), coalesce(e.record_session, ''), e.kind`
	allCursor = `DECLARE ajo_entries NO SCROLL CURSOR FOR SELECT ` + entryColumns + ` FROM ledger_entries e ORDER BY account_id, seq`
	// The entries from the one before the checkpoint's on, and those below that may have changed.
	// OFFSET 0 keeps the planner from joining whole tables: it cannot know that few entries are
	// new.
	newerCursor = `DECLARE ajo_entries NO SCROLL CURSOR FOR SELECT ` + entryColumns + `
		FROM ledger_balances b LEFT JOIN ledger_checkpoints c ON c.account_id = b.account_id
		CROSS JOIN LATERAL (
			SELECT * FROM ledger_entries WHERE account_id = b.account_id AND seq >= coalesce(c.seq, 1) - 1
			UNION ALL
			SELECT * FROM ledger_entries WHERE account_id = b.account_id AND seq = ANY(c.open_seqs) AND seq < c.seq - 1
			UNION ALL
			SELECT * FROM ledger_entries WHERE account_id = b.account_id AND (review_from_seq IS NOT NULL OR review_to_seq IS NOT NULL)
				AND seq < c.seq - 1 AND NOT seq = ANY(c.open_seqs)
			OFFSET 0) e
		ORDER BY e.account_id, e.seq`
	fetchAccounts = `FETCH 1000 FROM ajo_accounts`
	fetchEntries  = `FETCH 5000 FROM ajo_entries`
)

// storedEntry is an entry as it stands in the table.
type storedEntry struct {
	row
	reviewFrom, reviewTo *int64
}

func (e *storedEntry) reviewed() bool { return e.reviewFrom != nil || e.reviewTo != nil }

// readAccounts reads the entries, account by account.
func (r *Report) readAccounts(ctx context.Context, tx pg.Tx, progress func()) error {
	entriesCursor := newerCursor
	if r.All {
		entriesCursor = allCursor
	}
	for _, declare := range []string{accountsCursor, entriesCursor} {
		if _, err := tx.Exec(ctx, declare); err != nil {
			return err
		}
	}
	entries := &fetched[storedEntry]{sql: fetchEntries, scan: scanEntry}
	accounts := &fetched[accountReader]{sql: fetchAccounts, scan: scanAccount}
	entry, err := entries.next(ctx, tx)
	for err == nil {
		var a *accountReader
		if a, err = accounts.next(ctx, tx); a == nil || err != nil {
			return err
		}
		a.start(r)
		for err == nil && entry != nil && pg.CompareIDs(entry.AccountID, a.from.AccountID) <= 0 {
			if entry.AccountID == a.from.AccountID { // another has no balance: strayedSQL
				a.take(entry)
			}
			if r.Entries++; r.Entries%10_000 == 0 {
				progress()
			}
			entry, err = entries.next(ctx, tx)
		}
		a.end()
	}
	return err
}

// fetched reads a cursor in pages, so that two cursors can be read alternately.
type fetched[T any] struct {
	sql  string
	scan pgx.RowToFunc[*T]
	page []*T
	at   int
	done bool
}

// next returns the next row, or nil after the last one.
func (f *fetched[T]) next(ctx context.Context, tx pg.Tx) (*T, error) {
	if f.at == len(f.page) && !f.done {
		var err error
		// described each time: a cached statement would belong to an earlier cursor of the same
		// name
		if f.page, err = pg.Collect(ctx, tx, f.scan, f.sql, pgx.QueryExecModeDescribeExec); err != nil {
			return nil, err
		}
		f.at, f.done = 0, len(f.page) == 0
	}
	if f.done {
		return nil, nil
	}
	row := f.page[f.at]
	f.page[f.at] = nil
	f.at++
	return row, nil
}

func scanEntry(rows pgx.CollectableRow) (*storedEntry, error) {
	var e storedEntry
	return &e, rows.Scan(append([]any{&e.AccountID, &e.Contra, &e.TenantID, &e.Seq, &e.Running, &e.Hash, &e.reviewFrom, &e.reviewTo}, e.fields()...)...)
}

func scanAccount(rows pgx.CollectableRow) (*accountReader, error) {
	var a accountReader
	b, c := &a.balance, &a.was
	err := rows.Scan(&c.AccountID, &c.TenantID, &b.credits, &b.debits, &b.balance, &b.provisional, &b.seq, &b.head, &b.reversed,
		&c.Seq, &c.Hash, &c.Credits, &c.Debits, &c.SettledCredits, &c.SettledDebits, &c.SettledReversed, (*[]int64)(&c.Open), &c.VerifiedAt)
	return &a, err
}

// accountReader recomputes one account from its entries.
type accountReader struct {
	report  *Report
	balance struct { // as stored
		credits, debits, balance, provisional money.Amount
		seq, reversed                         int64
		head                                  []byte
	}
	was  checkpoint // as stored
	from checkpoint // where the reading begins: was, or the first entry
	// now is the checkpoint that the reading ends with. Its sums cover the entries read so far, on
	// top of those below from.
	now     checkpoint
	reached bool         // the checkpoint's entry was read
	before  []byte       // the hash of the entry before the checkpoint's
	running money.Amount // of the entry before
	entries int64

	provisional               money.Amount // credits
	inCredits, inDebits       money.Amount // in the balance, besides what is settled
	reviewCredits, reviewDebs money.Amount // under review
	reversed                  int64        // besides what is settled
	originals                 map[uuid.UUID]bool
	moves                     map[int64]money.Amount // by reviews, after the entry of that number
	broken                    bool                   // an entry of this account's chain was named
}

func (a *accountReader) start(r *Report) {
	a.report, a.originals, a.moves = r, map[uuid.UUID]bool{}, map[int64]money.Amount{}
	if a.from = a.was; r.All {
		a.from = checkpoint{AccountID: a.was.AccountID, TenantID: a.was.TenantID}
	}
	a.now = a.from
	a.now.Open, a.now.VerifiedAt = nil, r.At
	if a.before = genesis(a.was.AccountID); a.from.Seq == 0 {
		a.now.Hash = a.before
	}
	if a.was.VerifiedAt.After(r.clock) {
		a.wasNot("it says that it was verified at %s, which is yet to come", a.was.VerifiedAt.Format(time.RFC3339))
	}
}

func (a *accountReader) name(check string, subject uuid.UUID, format string, args ...any) {
	a.report.name(check, subject.String(), fmt.Sprintf(format, args...))
}

func (a *accountReader) wasNot(format string, args ...any) {
	a.name(CheckCheckpoint, a.was.AccountID, format, args...)
}

// breaks reports the first entry at which the chain is broken.
func (a *accountReader) breaks(subject uuid.UUID, format string, args ...any) {
	if !a.broken {
		a.name(CheckChain, subject, format, args...)
	}
	a.broken = true
}

func (a *accountReader) take(e *storedEntry) {
	if e.Seq > a.from.Seq {
		if a.from.Seq > 0 && !a.reached {
			a.resumeWithout()
		}
		a.follow(e)
		a.status(e)
		return
	}
	if e.Seq == a.from.Seq-1 {
		a.before = e.Hash
	}
	if e.Seq == a.from.Seq {
		a.resume(e)
	}
	if a.from.Open.has(e.Seq) || e.reviewed() {
		a.status(e)
	}
}

// resume compares the checkpoint with its entry.
func (a *accountReader) resume(e *storedEntry) {
	a.reached, a.running = true, e.Running
	if !bytes.Equal(link(a.before, &e.row), a.was.Hash) || !bytes.Equal(e.Hash, a.was.Hash) {
		a.changed()
	}
}

func (a *accountReader) resumeWithout() {
	a.reached = true
	a.wasNot("number %d, verified on %s, is gone", a.was.Seq, a.was.VerifiedAt.UTC().Format(time.RFC3339))
}

func (a *accountReader) changed() {
	a.wasNot("its entries up to number %d are not what was verified on %s", a.was.Seq, a.was.VerifiedAt.UTC().Format(time.RFC3339))
}

// follow checks an entry against the one before it, and adds it to the sums.
func (a *accountReader) follow(e *storedEntry) {
	n := &a.now
	signed := e.Amount
	if e.Direction == Debit {
		signed = signed.Neg()
	}
	if e.Seq != n.Seq+1 {
		a.name(CheckSequence, e.ID, "number %d follows %d", e.Seq, n.Seq)
	} else if want := a.running.Add(signed).Add(a.moves[n.Seq]); !e.Running.Equal(want) {
		a.name(CheckRunning, e.ID, "running balance %s, %s after number %d", e.Running, want, n.Seq)
	}
	if e.TenantID != n.TenantID {
		a.name(CheckOwner, e.ID, "tenant %s, its account has %s", e.TenantID, n.TenantID)
	}
	want := link(n.Hash, &e.row)
	switch {
	case e.Hash == nil:
		a.breaks(e.ID, "number %d of account %s has no hash", e.Seq, e.AccountID)
	case !bytes.Equal(want, e.Hash):
		a.breaks(e.ID, "number %d of account %s, or the one before it, is not what was posted", e.Seq, e.AccountID)
	}
	n.Seq, n.Hash, a.running = e.Seq, want, e.Running
	a.entries++
	if e.Direction == Credit {
		n.Credits = n.Credits.Add(e.Amount)
	} else {
		n.Debits = n.Debits.Add(e.Amount)
	}
	if n.Seq == a.was.Seq { // all entries are read
		a.reached = true
		if !bytes.Equal(n.Hash, a.was.Hash) || !n.Credits.Equal(a.was.Credits) || !n.Debits.Equal(a.was.Debits) {
			a.changed()
		}
	}
}

// status counts an entry by its status, which is as it is now.
func (a *accountReader) status(e *storedEntry) {
	r, n := a.report, &a.now
	if r.Groups != nil {
		r.Groups[e.TransactionGroupID] = struct{}{}
	}
	if e.reviewFrom != nil {
		a.moved(*e.reviewFrom, e, e.Amount.Neg())
	}
	if e.reviewTo != nil {
		a.moved(*e.reviewTo, e, e.Amount)
	}
	switch e.Status {
	case Provisional:
		n.Open = append(n.Open, e.Seq)
		switch {
		case e.Direction == Credit:
			a.provisional = a.provisional.Add(e.Amount)
		case e.Kind == KindPlatformFee && e.TransferRef == nil: // of a payment
			a.provisional = a.provisional.Sub(e.Amount)
		}
		sum(e, e.Amount, &a.inCredits, &a.inDebits)
	case Confirmed:
		if e.reviewed() {
			sum(e, e.Amount, &a.inCredits, &a.inDebits)
		} else {
			sum(e, e.Amount, &n.SettledCredits, &n.SettledDebits)
		}
	case NeedsReview:
		sum(e, e.Amount, &a.reviewCredits, &a.reviewDebs)
	case Reversed:
		a.reversal(e)
	}
}

func (a *accountReader) moved(after int64, e *storedEntry, by money.Amount) {
	if e.Direction == Debit {
		by = by.Neg()
	}
	a.moves[after] = a.moves[after].Add(by)
}

func sum(e *storedEntry, by money.Amount, credits, debits *money.Amount) {
	if e.Direction == Credit {
		*credits = credits.Add(by)
	} else {
		*debits = debits.Add(by)
	}
}

// reversal counts a reversed entry. If it reverses an entry that is not read again, it takes that
// one out of the settled sums.
func (a *accountReader) reversal(e *storedEntry) {
	if !a.report.All {
		a.report.pairs = append(a.report.pairs, e.ID)
	}
	if e.reviewed() {
		a.reversed++
	} else {
		a.now.SettledReversed++
	}
	switch {
	case e.ReversalOf == nil:
		a.originals[e.ID] = true
	case a.from.Seq > 0 && !a.originals[*e.ReversalOf]:
		sum(e, e.Amount.Neg(), &a.now.SettledDebits, &a.now.SettledCredits)
		a.now.SettledReversed++
	}
}

// end compares the account's sums with what its entries say.
func (a *accountReader) end() {
	r, n, b := a.report, &a.now, &a.balance
	if a.was.Seq > 0 && !a.reached {
		a.resumeWithout()
	}
	in, out := n.SettledCredits.Add(a.inCredits), n.SettledDebits.Add(a.inDebits)
	credits, debits, balance := n.Credits.Sub(a.reviewCredits), n.Debits.Sub(a.reviewDebs), in.Sub(out)
	r.book = r.book.Add(b.balance).Sub(balance)
	if !b.credits.Equal(credits) || !b.debits.Equal(debits) || !b.balance.Equal(balance) || !b.provisional.Equal(a.provisional) ||
		b.seq != n.Seq || n.Seq != a.from.Seq+a.entries {
		a.name(CheckTotals, n.AccountID, "stored %s/%s/%s/%s/%d, entries say %s/%s/%s/%s/%d (credits/debits/balance/provisional/seq)",
			b.credits, b.debits, b.balance, b.provisional, b.seq, credits, debits, balance, a.provisional, n.Seq)
	}
	if reversed := n.SettledReversed + a.reversed; reversed != b.reversed {
		a.name(CheckReversed, n.AccountID, "it has %d reversed entries, %d of which are known", b.reversed, reversed)
	}
	switch {
	case n.Seq == 0 && b.head != nil:
		a.breaks(n.AccountID, "it has a head, and no entry")
	case n.Seq > 0 && !bytes.Equal(n.Hash, b.head):
		a.breaks(n.AccountID, "the newest entry's hash is not the account's head: the newest entries are gone, or the head was changed")
	}
	t := r.days[n.TenantID]
	if t == nil {
		t = &tenantSum{Tenant: n.TenantID}
		r.days[n.TenantID] = t
	}
	t.In, t.Out = t.In.Add(in), t.Out.Add(out)
	if n.Seq > 0 && (n.Seq != a.was.Seq || len(n.Open) != len(a.was.Open)) {
		r.moved = append(r.moved, *n)
	}
}
