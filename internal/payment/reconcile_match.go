package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/failpoint"
	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/ledger"
)

// entry is a posted payment as the comparison reads it: its amounts are the ledger's, not the
// event's.
type entry struct {
	check
	Status ledger.Status
}

func (e *entry) exception(k ExceptionKind, detail string) Exception {
	gross := e.Amount
	return Exception{
		Kind: k, ProviderTxnRef: e.TxnRef, EventID: &e.ID, AccountID: &e.AccountID, EntryStatus: e.Status,
		BooksAmount: &gross, BooksFee: &e.Fee, Detail: detail,
	}
}

// withBank adds the bank's side to an exception.
func (x Exception) withBank(t provider.Transaction) Exception {
	x.ProviderTxnRef, x.AccountNumber, x.BankStatus, x.BankAmount, x.BankFee, x.At = t.ID, t.AccountNumber, string(t.Status), &t.Amount, &t.Fee, &t.Time
	return x
}

// known is what our side has of a transaction of the list.
type known struct {
	entry    *entry // nil: it is not in the ledger
	eventID  uuid.UUID
	status   Status
	category Category
	problem  string
}

// matchPage compares one page of the list with what is stored, and stores the successful payments
// that are missing.
func (r *run) matchPage(ctx context.Context, page provider.Page) error {
	for _, u := range page.Unreadable {
		r.unreadable(u.ID, Exception{Detail: "the record in the bank's list cannot be read: " + u.Why})
	}
	var fresh []provider.Transaction
	var ids []string
	for _, t := range page.Transactions {
		// a list that moves while it is read may show a record twice
		if _, again := r.seen[t.ID]; again {
			continue
		}
		r.seen[t.ID] = struct{}{}
		if len(t.ID) > maxID || strings.ContainsFunc(t.ID, unicode.IsControl) {
			r.unreadable("", Exception{Detail: "the record's id is none"}.withBank(t))
			continue
		}
		fresh, ids = append(fresh, t), append(ids, t.ID)
		r.report.Bank.of(t.Status).add(t.Amount, t.Fee)
	}
	ours, err := r.find(ctx, ids)
	if err != nil {
		return err
	}
	var missing []posting
	for _, t := range fresh {
		if p, ok := r.judge(t, ours[t.ID]); ok {
			missing = append(missing, p)
		}
	}
	return r.postMissing(ctx, missing)
}

// unreadable flags a record that nothing can be done with. Where it has an id, the bank is asked
// for it by that id later.
func (r *run) unreadable(id string, x Exception) {
	x.Kind = Unreadable
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, unicode.IsControl) {
		r.report.Bank.Unreadable++
		r.report.except(x)
		return
	}
	r.seen[id] = struct{}{}
	if s := (subject{aboutPayment, id}); !r.judged(s) {
		r.report.Bank.Unreadable++
		x.ProviderTxnRef = id
		r.hold(item{subject: s, exception: &x})
	}
}

// judge compares the bank's record of a payment with what is stored of it. It returns what is to be
// posted for it: a payment that is missing, or one whose event could not be posted.
func (r *run) judge(t provider.Transaction, k known) (posting, bool) {
	s := subject{aboutPayment, t.ID}
	unposted := k.status == "" || k.status == Failed
	switch {
	case k.entry != nil:
		r.compareEntry(t, k.entry)
	case unposted && t.Status == provider.Pending: // remembered until it is final, as its event may never come
		r.wait(t)
	case !unposted || t.Status != provider.Success: // it is about to be posted, or moved no money
		r.settle(aboutPayment, t.ID)
	case k.category == CategoryMisdirected: // on the events' own list, until an operator assigns it
		r.report.except(Exception{Kind: Unposted, EventID: &k.eventID, Detail: fmt.Sprintf("%s: %s", k.category, k.problem)}.withBank(t))
		r.settle(aboutPayment, t.ID)
	case unfit(t) != "" && k.status == "":
		r.unreadable(t.ID, Exception{Detail: "the record in the bank's list is not stored: " + unfit(t)}.withBank(t))
	case unfit(t) != "":
		x := Exception{Kind: Unposted, EventID: &k.eventID, Detail: fmt.Sprintf("%s: %s; the bank's own record does not help: %s", k.category, k.problem, unfit(t))}.withBank(t)
		r.hold(item{subject: s, exception: &x})
	default:
		return posting{t: t, event: k.eventID, problem: k.problem}, true
	}
	return posting{}, false
}

// wait remembers a payment whose record is not final. It is named when that takes more than a day.
func (r *run) wait(t provider.Transaction) {
	it := item{subject: subject{aboutPayment, t.ID}}
	if r.report.StartedAt.Sub(t.Time) >= stillPending {
		x := Exception{Kind: StillPending, Detail: "the bank has not said for more than a day what became of it"}.withBank(t)
		it.exception = &x
	}
	r.hold(it)
}

// unfit says why a record of the list cannot be the payment that it stands for. It is not stored:
// under its id it would stand in the way of the genuine event for ever, and that event may be well.
func unfit(t provider.Transaction) string {
	switch {
	case t.Currency != money.Currency:
		return fmt.Sprintf("the currency is %q, not %s", t.Currency, money.Currency)
	case t.Amount.Cmp(t.Fee) <= 0:
		return reasonAmount
	case t.AccountNumber == "" && t.AccountRef == "":
		return "it names no account"
	case strings.TrimSpace(t.ID) != t.ID:
		return "its id begins or ends with white space"
	}
	return ""
}

func (b *BankSide) of(s provider.Status) *Sum {
	switch s {
	case provider.Success:
		return &b.Success
	case provider.Failed:
		return &b.Failed
	case provider.Refunded:
		return &b.Refunded
	}
	return &b.Pending
}

// compareEntry flags an entry that does not agree with the bank's record of it. An entry that is
// reversed or under review, and which the bank does not say succeeded, is as it should be.
func (r *run) compareEntry(t provider.Transaction, e *entry) {
	if t.Status == provider.Pending { // the confirmation asks
		r.settle(aboutPayment, t.ID)
		return
	}
	it := item{subject: subject{aboutPayment, t.ID}, effect: e.held().Neg(), since: &t.Time}
	if t.Status == provider.Success {
		it.effect = it.effect.Add(t.Amount).Sub(t.Fee)
	} else if !t.UpdatedAt.IsZero() {
		it.since = &t.UpdatedAt
	}
	counts := e.Status == ledger.Provisional || e.Status == ledger.Confirmed
	var x Exception
	switch d := e.differs(t); {
	case t.Status != provider.Success && counts:
		x = e.exception(Contradicts, fmt.Sprintf("the bank says %s, the entry is %s", t.Status, e.Status)).withBank(t)
	case t.Status == provider.Success && e.Status == ledger.Reversed:
		x = e.exception(Contradicts, "the bank says success, the entry is reversed: see ajo review restore").withBank(t)
	case t.Status == provider.Success && d != "":
		x = e.exception(Differs, d).withBank(t)
	case it.effect.Sign() == 0:
		r.settle(aboutPayment, t.ID)
		return
	}
	if x.Kind != "" {
		it.exception = &x
	}
	r.hold(it)
}

// held is what the books say that the wallet has of the payment: it is in the balance, or under
// review beside it.
func (e *entry) held() money.Amount {
	if e.Status == ledger.Reversed {
		return money.Zero
	}
	return e.Amount.Sub(e.Fee)
}

// askPayment asks about a payment that an earlier run has left open.
func (r *run) askPayment(ctx context.Context, it *item) error {
	ours, err := r.find(ctx, []string{it.ref})
	if err != nil {
		return err
	}
	k := ours[it.ref]
	t, err := r.askTransaction(ctx, it.ref)
	switch {
	case errors.Is(err, provider.ErrUnknown) && k.entry != nil:
		r.lostPayment(k.entry, unknownByID)
	case err != nil:
		return r.unanswered(ctx, it)
	default:
		if p, ok := r.judge(t, k); ok {
			return r.postMissing(ctx, []posting{p})
		}
	}
	return nil
}

func (r *run) askTransaction(ctx context.Context, id string) (provider.Transaction, error) {
	failpoint.At("payment/before-ask-absent")
	t, err := r.bankRecord(ctx, id)
	failpoint.At("payment/after-ask-absent")
	return t, err
}

const unknownByID = "the bank neither lists it nor knows its id"

// lostPayment flags an entry that the bank does not know.
func (r *run) lostPayment(e *entry, why string) {
	if e.Status == ledger.Reversed {
		r.settle(aboutPayment, e.TxnRef)
		return
	}
	x := e.exception(UnknownAtBank, why)
	r.hold(item{subject: subject{aboutPayment, e.TxnRef}, exception: &x, effect: e.held().Neg(), since: e.OccurredAt})
}

// fromBank makes the event of a payment from the bank's own record. No event's requestId has a
// colon.
func fromBank(t provider.Transaction, now time.Time) *inbound {
	body, _ := json.Marshal(t)
	return &inbound{
		id: uuid.Must(uuid.NewV7()), source: sourceReconciliation, authentic: true, requestID: "reconciliation:" + t.ID, txnRef: t.ID,
		eventType: typePayment, status: Received, amount: &t.Amount, fee: &t.Fee, currency: t.Currency, alias: t.AccountRef, number: t.AccountNumber,
		sender: clean(t.SenderName), senderBank: clean(t.SenderBank), narration: clean(t.Narration), occurredAt: &t.Time, body: body, nextAttemptAt: &now, receivedAt: now,
		session: clean(t.SessionID),
		digest:  digest(t.ID, typePayment, t.Amount.String(), t.Fee.String(), t.Currency, t.AccountRef, t.AccountNumber, t.Time.Format(time.RFC3339Nano)),
	}
}

// entryColumns are an entry's, in the order of fields. They need inbound_events e, ledger_entries l
// and accounts a.
const entryColumns = `e.id, e.provider_txn_ref, l.amount + l.fee, l.fee, l.currency, a.bank_account_number, a.id, e.error_message <> '',
	e.alias_number, e.alias, l.created_at, l.status, e.occurred_at`

func (e *entry) fields() []any {
	return []any{
		&e.ID, &e.TxnRef, &e.Amount, &e.Fee, &e.Currency, &e.AccountNumber, &e.AccountID, &e.Assigned, &e.AliasNumber, &e.AliasRef, &e.PostedAt, &e.Status, &e.OccurredAt,
	}
}

// find reads what is stored of the transactions: their payment events, and the entries of those
// that are posted.
func (r *run) find(ctx context.Context, ids []string) (map[string]known, error) {
	out := map[string]known{}
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := r.Pool.Query(ctx, `
		SELECT provider_txn_ref, id, status, category, error_message FROM inbound_events
		WHERE authentic AND provider_txn_ref <> '' AND provider_txn_ref = ANY($1) AND event_type = $2`, ids, typePayment)
	if err != nil {
		return nil, err
	}
	var k known
	var ref string
	if _, err := pgx.ForEachRow(rows, []any{&ref, &k.eventID, &k.status, &k.category, &k.problem}, func() error {
		out[ref] = k
		return nil
	}); err != nil {
		return nil, err
	}
	rows, err = r.Pool.Query(ctx, `
		SELECT `+entryColumns+` FROM inbound_events e
		JOIN ledger_entries l ON l.transaction_group_id = e.id AND l.direction = 'credit'
		JOIN accounts a ON a.id = l.account_id
		WHERE e.authentic AND e.provider_txn_ref <> '' AND e.provider_txn_ref = ANY($1) AND e.status = 'processed'
		ORDER BY l.status <> 'reversed', e.id`, ids) // the last one of each stands: that which counts, else the newest
	if err != nil {
		return nil, err
	}
	entries, err := collectEntries(rows)
	for _, e := range entries {
		k := out[e.TxnRef]
		k.entry = &e
		out[e.TxnRef] = k
	}
	return out, err
}

func collectEntries(rows pgx.Rows) ([]entry, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (entry, error) {
		var e entry
		return e, row.Scan(e.fields()...)
	})
}

// entrySlice is the time whose entries one query reads.
const entrySlice = time.Hour

// readEntries adds up the entries of the window, by the time of their payments, and notes those
// that the list lacks.
func (r *run) readEntries(ctx context.Context) error {
	for from := r.report.From; from.Before(r.report.To); from = from.Add(entrySlice) {
		to := from.Add(entrySlice)
		if to.After(r.report.To) {
			to = r.report.To
		}
		rows, err := r.Pool.Query(ctx, `
			SELECT `+entryColumns+` FROM inbound_events e
			JOIN ledger_entries l ON l.transaction_group_id = e.id AND l.direction = 'credit'
			JOIN accounts a ON a.id = l.account_id
			WHERE e.occurred_at >= $1 AND e.occurred_at < $2 AND e.status = 'processed'`, from, to)
		if err != nil {
			return err
		}
		var e entry
		if _, err := pgx.ForEachRow(rows, e.fields(), func() error {
			r.noteEntry(e)
			return nil
		}); err != nil {
			return err
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) noteEntry(e entry) {
	sums := map[ledger.Status]*Sum{
		ledger.Provisional: &r.report.Books.Provisional, ledger.Confirmed: &r.report.Books.Confirmed,
		ledger.NeedsReview: &r.report.Books.NeedsReview, ledger.Reversed: &r.report.Books.Reversed,
	}
	sums[e.Status].add(e.Amount, e.Fee)
	if _, listed := r.seen[e.TxnRef]; !listed && e.Status != ledger.Reversed {
		r.absent = append(r.absent, e)
	}
}

// sameMoney tells whether an event and the bank's record of it are about the same money. The two
// name sender, narration and time each in its own way, so their digests differ without being in
// conflict.
func sameMoney(a, b original) bool {
	same := func(x, y *money.Amount) bool { return x != nil && y != nil && x.Equal(*y) }
	return same(a.amount, b.amount) && same(a.fee, b.fee) && a.currency == b.currency && (a.number == b.number || a.number == "" || b.number == "")
}
