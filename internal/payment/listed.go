package payment

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/batch"
	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/work"
	"ajo/ledger"
)

// What package reconcile needs: the books' side of the bank's list, and the use cases by which a
// record of that list becomes a payment.

// Entry is a posted payment with the status of its entry.
type Entry struct {
	booked
	Status ledger.Status
	// of a replacement: the gross sum in the bank's own event; nil: it is none
	Before *money.Amount
	ByHand bool // a person has confirmed it, out of a review or with its true sum
}

// IsRest reports whether the entry counts what is left of the payment after the part that the
// bank's record says it gave back (as of a payout, a record of a part that came back has that
// part's sum): an operator has corrected the payment to that. A part as large as the rest is not
// told from all of a payment whose event had the double sum: that counts as given back.
func (e *Entry) IsRest(t provider.Transaction) bool {
	if e.Before == nil || t.Status != provider.Refunded || !t.Amount.IsPositive() || t.Amount.Equal(e.Amount) {
		return false
	}
	t.Amount = e.Before.Sub(t.Amount)
	return e.Differs(t) == ""
}

// Known is what the books have for a transaction of the list.
type Known struct {
	TxnRef   string
	EventID  uuid.UUID
	Status   Status
	Category Category
	Problem  string
	// as the event has them: zero where it cannot be read
	Amount, Fee money.Amount
	OccurredAt  *time.Time
	ReceivedAt  time.Time
	// of an event that could not be posted: what the float counts as received (package reconcile)
	Outside    money.Amount
	ReturnedBy string // for a misdirected one: the refund that has paid or will pay it back; empty: none
	// of one that is held back as a repeat: the transaction of the payment that it may repeat
	LookAlikeOf string
	// the entries of both; nil: it is not in the ledger
	Entry     *Entry `db:"-"`
	LookAlike *Entry `db:"-"`
}

// knownColumns are those of a [Known], of inbound_events e.
const knownColumns = `e.provider_txn_ref, e.id, e.status, e.category, e.error_message, coalesce(e.amount, 0), coalesce(e.fee, 0), e.occurred_at, e.received_at,
	CASE WHEN e.unposted AND NOT e.misdirected AND e.currency = 'NGN' AND e.look_alike_of IS NULL THEN coalesce(e.amount - e.fee, 0) ELSE 0 END, ` + returnedBy + `,
	coalesce((SELECT o.provider_txn_ref FROM inbound_events o WHERE o.id = ANY(ARRAY[e.look_alike_of])), '') FROM `

// returnedBy is, as SQL, the refund of a misdirected payment of an event e, whose entry's group is
// ledger.GroupOf of it.
const returnedBy = `coalesce(CASE WHEN e.misdirected THEN (SELECT max(t.merchant_tx_ref) ` + returns + `) END, '')`

// returns are, as SQL, the refunds t of a misdirected payment, whose credit to suspense is l, that
// have left or may leave.
const returns = `FROM ledger_entries l JOIN transfers t ON t.refund_of = ANY(ARRAY[l.id])
			WHERE l.transaction_group_id = ANY(ARRAY[event_key('suspense:suspense:' || e.id)]) AND l.direction = 'credit' AND t.status NOT IN ('failed', 'refunded')`

// entryColumns are an [Entry]'s, of inbound_events e, ledger_entries l and accounts a. Its sums are
// the ledger's, not the event's; only the one before the last is of an event, the bank's own of the
// transaction.
const entryColumns = `e.id, e.provider_txn_ref, l.amount + l.fee, l.fee, l.currency, a.bank_account_number, a.id, e.error_message <> '',
	e.alias_number, e.alias, l.created_at, e.occurred_at, l.status, CASE WHEN e.replaces IS NOT NULL THEN (
		SELECT o.amount FROM event_keys f JOIN inbound_events o ON o.id = ANY(ARRAY[f.event_id])
		WHERE f.transaction = ANY(ARRAY[event_key(nullif(e.provider_txn_ref, ''))]) AND f.event_type = '` + typePayment + `' LIMIT 1) END,
	l.status = 'confirmed' AND (l.review_to_seq IS NOT NULL OR e.event_type LIKE '` + typeCorrected + `:%')`

// eventsOf are the authentic events e of the transactions $1 (package pg, plans.go).
const eventsOf = `unnest($1::text[]) AS m (ref) JOIN event_keys k ON k.transaction = ANY(ARRAY[event_key(nullif(m.ref, ''))])
		JOIN inbound_events e ON e.id = ANY(ARRAY[k.event_id]) AND e.provider_txn_ref = m.ref`

// Known reads what is stored of transactions, by their ids: their payment events, and the entries
// of those that are posted.
func (s *Service) Known(ctx context.Context, ids []string) (map[string]Known, error) {
	out := map[string]Known{}
	if len(ids) == 0 {
		return out, nil
	}
	events, err := pg.Collect(ctx, s.Pool, pgx.RowToStructByPos[Known], `SELECT `+knownColumns+eventsOf+` WHERE e.event_type = $2`, ids, typePayment)
	if err != nil {
		return nil, err
	}
	for _, k := range events {
		if k.LookAlikeOf != "" {
			ids = append(slices.Clip(ids), k.LookAlikeOf)
		}
	}
	entries, err := s.entriesOf(ctx, ids)
	for _, k := range events {
		k.Entry, k.LookAlike = entries[k.TxnRef], entries[k.LookAlikeOf]
		out[k.TxnRef] = k
	}
	return out, err
}

// entriesOf reads the entries of transactions, by their ids.
func (s *Service) entriesOf(ctx context.Context, ids []string) (map[string]*Entry, error) {
	list, err := pg.Collect(ctx, s.Pool, pgx.RowToStructByPos[Entry], `
		SELECT `+entryColumns+` FROM `+eventsOf+`
		JOIN ledger_entries l ON l.transaction_group_id = e.id AND l.direction = 'credit'
		JOIN accounts a ON a.id = l.account_id
		WHERE e.status = 'processed'
		ORDER BY l.status <> 'reversed', e.id`, ids) // the last row of each wins: the one that counts, else the newest
	out := make(map[string]*Entry, len(list))
	for _, e := range list {
		out[e.TxnRef] = &e
	}
	return out, err
}

// EntriesBetween calls note for each entry of a payment that was made from (inclusive) to
// (exclusive), by the event's own time.
func (s *Service) EntriesBetween(ctx context.Context, from, to time.Time, note func(Entry)) error {
	rows := pg.Rows(ctx, s.Pool, `
		SELECT `+entryColumns+` FROM inbound_events e
		JOIN ledger_entries l ON l.transaction_group_id = e.id AND l.direction = 'credit'
		JOIN accounts a ON a.id = l.account_id
		WHERE e.occurred_at >= $1 AND e.occurred_at < $2 AND e.status = 'processed'`, from, to)
	defer rows.Close()
	for rows.Next() {
		e, err := pgx.RowToStructByPos[Entry](rows)
		if err != nil {
			return err
		}
		note(e)
	}
	return rows.Err()
}

// MisdirectedBetween returns at most limit misdirected payments that were made from (inclusive) to
// (exclusive), by the events' own time: those whose events come after one, by their ids.
func (s *Service) MisdirectedBetween(ctx context.Context, from, to time.Time, after uuid.UUID, limit int) ([]Known, error) {
	return pg.Collect(ctx, s.Pool, pgx.RowToStructByPos[Known], `
		SELECT `+knownColumns+`inbound_events e WHERE misdirected AND occurred_at >= $1 AND occurred_at < $2 AND id > $3 ORDER BY id LIMIT $4`, from, to, after, limit)
}

// MisdirectedTakenBack returns the bank's ids of at most limit misdirected payments that the bank's
// events since a time report as taken back, or as failed. It begins with these events, by an index
// of their own: misdirected payments become more each day.
func (s *Service) MisdirectedTakenBack(ctx context.Context, since time.Time, limit int) ([]string, error) {
	return pg.Collect(ctx, s.Pool, pgx.RowTo[string], `
		SELECT e.provider_txn_ref FROM inbound_events r
		JOIN event_keys k ON k.transaction = ANY(ARRAY[event_key(nullif(r.provider_txn_ref, ''))])
		JOIN inbound_events e ON e.id = ANY(ARRAY[k.event_id]) AND e.misdirected
		WHERE r.event_type IN ('`+typeReversal+`', '`+typeFailed+`') AND r.authentic AND r.received_at >= $1
		ORDER BY r.received_at LIMIT $2`, since, limit)
}

// TakenBack returns the bank's ids of at most limit payments that recalls have reversed since a
// time, or would have reversed if they were not under review.
func (s *Service) TakenBack(ctx context.Context, since time.Time, limit int) ([]string, error) {
	return pg.Collect(ctx, s.Pool, pgx.RowTo[string], `
		SELECT e.provider_txn_ref FROM recalls r JOIN inbound_events e ON e.id = r.event_id
		WHERE r.status = 'reversed' AND r.closed_at >= $1
			OR r.status = 'open' AND EXISTS (SELECT FROM ledger_entries l WHERE l.transaction_group_id = ANY(ARRAY[r.event_id]) AND l.direction = 'credit' AND l.status = 'needs_review')
		ORDER BY r.event_id DESC LIMIT $2`, since, limit)
}

// Unfit says why a record of the list cannot be posted as a payment. Such a record is not stored:
// the genuine event has the same id and may be fit to post, but would then be taken for a repeat.
func Unfit(t provider.Transaction) string {
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

// Listed is a payment of the bank's list whose event never came.
type Listed struct {
	Record provider.Transaction
	// the payment that it may repeat: then it is stored and not posted; nil: there is none
	LookAlike *LookAlike
}

// LookAlike is a payment in the books that another one may repeat.
type LookAlike struct {
	EventID uuid.UUID
	TxnRef  string
}

// Why returns the text that a payment may be a repeat of this one.
func (l LookAlike) Why() string {
	return fmt.Sprintf("it looks like the payment %s, which is in the books as event %s", l.TxnRef, l.EventID)
}

// listedWait is how long a payment from the bank's list waits at most for [Service.PostListed]. A
// second look for look-alikes takes milliseconds, or as long as the bank takes to list some
// minutes.
const listedWait = 10 * time.Second

// StoreListed stores payments from the bank's own records. They are posted like any other, but not
// before [Service.PostListed], or, if whoever stored them died, seconds later. If the event came
// before, or comes at this moment, the stored payment is a duplicate.
func (s *Service) StoreListed(ctx context.Context, list []Listed) []batch.Outcome[Receipt] {
	events := make([]*inbound, len(list))
	for i, l := range list {
		events[i] = fromBank(l.Record, s.Clock.Now())
		if like := l.LookAlike; like != nil {
			e := events[i]
			e.Status, e.Category, e.Problem, e.LookAlikeOf = Failed, CategoryProcessingError, like.Why(), &like.EventID
		}
	}
	return s.store.DoAll(ctx, events)
}

// dueAt is when a new event is to be posted.
func (e *inbound) dueAt() time.Time {
	if e.Source == sourceReconciliation {
		return e.ReceivedAt.Add(listedWait)
	}
	return e.ReceivedAt
}

// PostListed makes the posting of payments due that [Service.StoreListed] has stored: no event that
// came before that may be the same payment.
func (s *Service) PostListed(ctx context.Context, events []uuid.UUID) error {
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		_, err := work.Expedite(ctx, tx, work.Ingest, s.Clock.Now(), events...)
		return err
	})
}

// HoldBack keeps a stored payment from being posted, because it may be a repeat, and reports
// whether it did: one that has been posted meanwhile stays posted.
func (s *Service) HoldBack(ctx context.Context, eventID uuid.UUID, like LookAlike) (held bool, err error) {
	return s.refuseReceived(ctx, eventID, like.Why(), &like.EventID)
}

// RepostListed is [Service.Repost] without an operator: the bank's list has shown that it is a
// payment, and record is the bank's own. [ErrNotUnposted] if somebody else has posted it.
func (s *Service) RepostListed(ctx context.Context, eventID uuid.UUID, record provider.Transaction) (Posted, error) {
	return s.postRecord(ctx, eventID, record, nil)
}

// ParseWalletBalance reads the balance of our wallet that an event carries. Its signature does not
// cover it.
func ParseWalletBalance(body []byte) (money.Amount, error) {
	v, err := parseValues(body)
	if err != nil {
		return money.Zero, err
	}
	return v.amount(walletBalance)
}

// fromBank makes the event of a payment from the bank's own record. No event's requestId has a
// colon.
func fromBank(t provider.Transaction, now time.Time) *inbound {
	body, _ := json.Marshal(t)
	return &inbound{
		eventRow: eventRow{
			ID: clock.NewID(), Source: sourceReconciliation, TxnRef: t.ID, Amount: &t.Amount, Fee: &t.Fee, Currency: t.Currency,
			Alias: t.AccountRef, Number: t.AccountNumber, Sender: Clean(t.SenderName), SenderBank: Clean(t.SenderBank), Narration: Clean(t.Narration), Session: Clean(t.SessionID),
			OccurredAt: &t.Time, ReceivedAt: now,
		},
		Authentic: true, RequestID: "reconciliation:" + t.ID, Type: typePayment, Status: Received, body: body,
		Digest: digest(t.ID, typePayment, t.Amount.String(), t.Fee.String(), t.Currency, t.AccountRef, t.AccountNumber, t.Time.Format(time.RFC3339Nano)),
	}
}
