package payment

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/account"
	"ajo/internal/clock"
	"ajo/internal/compact"
	"ajo/internal/errs"
	"ajo/internal/metrics"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/trace"
	"ajo/internal/work"
)

// ErrNotStored says that the event could not be stored anywhere: the bank must send it again.
var ErrNotStored = errs.New(errs.Unavailable, "the event could not be stored; send it again")

// maxForgedBody is how much of a body without a valid signature is kept: enough to tell what it
// was.
const maxForgedBody = 4096

// InboundRequest is one call of the bank: the body's raw bytes and the two headers. Receive keeps
// the bytes, so the caller must not reuse them.
type InboundRequest struct {
	Body      []byte
	Signature string
	Timestamp string
}

// Receipt is the result of receiving a request.
type Receipt struct {
	ID        uuid.UUID // of the stored event; for a duplicate, of the first one
	Category  Category  // empty while a payment waits to be posted
	Duplicate bool
	Spooled   bool // on disk, but not in Postgres yet
	// the payment that the event says was taken back; the bank is asked about it
	Recalled uuid.UUID
}

// ToPost reports whether the event is new and waits to be posted.
func (r Receipt) ToPost() bool {
	return !r.Duplicate && !r.Spooled && r.Category == "" && r.ID != uuid.Nil
}

// Where events come from.
const (
	sourceWebhook = "webhook"
	// the bank's transaction list, when the webhook did not come
	sourceReconciliation = "reconciliation"
)

// eventRow has the columns of an event that say how much was paid, by whom and to whom.
type eventRow struct {
	ID          uuid.UUID     `pg:"id"`
	Source      string        `pg:"source"`
	TxnRef      string        `pg:"provider_txn_ref"`
	Problem     string        `pg:"error_message"`
	Amount      *money.Amount `pg:"amount,numeric"`
	Fee         *money.Amount `pg:"fee,numeric"`
	Currency    string        `pg:"currency"`
	Alias       string        `pg:"alias"`
	Number      string        `pg:"alias_number"`
	Sender      string        `pg:"sender_name"`
	SenderBank  string        `pg:"sender_bank"`
	Narration   string        `pg:"narration"`
	Session     string        `pg:"session_id"`  // the interbank switch's id of the transfer
	OccurredAt  *time.Time    `pg:"occurred_at"` // nil: the event is not authentic
	ReceivedAt  time.Time     `pg:"received_at"`
	Traceparent string        `pg:"traceparent"`
}

// inbound is an event on its way into the table.
type inbound struct {
	eventRow
	SignatureValid bool     `pg:"signature_valid"`
	Authentic      bool     `pg:"authentic"`
	RequestID      string   `pg:"request_id"`
	Type           string   `pg:"event_type"`
	Status         Status   `pg:"status"`
	Category       Category `pg:"category"`
	Digest         []byte   `pg:"digest"`
	// an event that this one may be a repeat of
	LookAlikeOf *uuid.UUID `pg:"look_alike_of"`

	body     []byte // as it came
	transfer string
	recalled uuid.UUID // the payment whose recall this event opened
}

// Receive verifies and stores an event, in one commit with all that arrive meanwhile. Every event
// is stored and answered 200, whatever it is; while Postgres is away, an authentic one goes to the
// spool. Only [ErrNotStored] means that the event is on no disk. In a flood of forged events, only
// some are kept.
func (s *Service) Receive(ctx context.Context, in InboundRequest) (Receipt, error) {
	e := s.read(in, s.Clock.Now(), s.verify)
	if !e.Authentic {
		metrics.EventForged.Inc()
	}
	if !e.Authentic && !s.keepsForged(ctx) {
		return Receipt{Category: CategorySigInvalid}, nil
	}
	if e.Authentic { // a forged event must not join or start a trace
		var span trace.Span
		ctx, span = trace.Step(ctx, "receive")
		defer span.End()
		span.Text("event", e.ID.String())
		e.Traceparent = trace.Parent(ctx)
	}
	r, err := Receipt{}, errAway
	if !s.isAway() {
		// it may still be stored after we stop waiting; its copy in the spool is then a duplicate
		soon, cancel := s.soon(ctx)
		r, err = s.store.Do(soon, e)
		cancel()
		s.noteAway(err)
	}
	if err != nil {
		return s.spool(ctx, e, in, err)
	}
	switch {
	case !e.Authentic:
	case r.Duplicate:
		metrics.EventDuplicate.Inc()
	default:
		metrics.EventStored.Inc()
	}
	r.Recalled = e.recalled
	return r, nil
}

// verifier reports whether an event that was received at the time now comes from the bank.
type verifier func(v *values, in InboundRequest, now time.Time) error

// verify checks an event's signature with the bank's secret, and with the previous one until that
// ends.
func (s *Service) verify(v *values, in InboundRequest, now time.Time) error {
	err := v.verify([]byte(s.WebhookSecret.Reveal()), in.Signature, in.Timestamp)
	if !errors.Is(err, errSignature) || s.PreviousSecret.IsZero() || !now.Before(s.PreviousUntil) {
		return err
	}
	if err = v.verify([]byte(s.PreviousSecret.Reveal()), in.Signature, in.Timestamp); err == nil {
		metrics.EventPreviousSecret.Inc()
	}
	return err
}

// verified is the verifier of an event whose signature was checked before it was spooled.
func verified(*values, InboundRequest, time.Time) error { return nil }

// read makes the row of an event that was received at the time now. It never fails: whatever is
// wrong with the event becomes part of its row.
func (s *Service) read(in InboundRequest, now time.Time, verify verifier) *inbound {
	e := &inbound{eventRow: eventRow{ID: clock.NewID(), Source: sourceWebhook, ReceivedAt: now}, body: in.Body}
	if e.body == nil { // a request without a body has an empty one; NULL is not stored
		e.body = []byte{}
	}
	v, err := parseValues(in.Body)
	if err == nil {
		err = verify(v, in, now)
	}
	if err != nil {
		e.forged(err)
		return e
	}
	e.SignatureValid, e.Authentic = true, true
	e.RequestID, e.TxnRef, e.Type = v.text(requestID), v.text(transactionID), v.text(eventType)
	at, _ := time.Parse(time.RFC3339, v.text(transactionTime))
	e.fill(v, at.UTC())
	if e.Type != typePayment {
		e.Status, e.Category = Ignored, CategoryNonPayment
		if strings.HasPrefix(e.Type, "payout_") {
			e.transfer = v.free(merchantTxRef)
		}
		return e
	}
	e.Status = Received
	return e
}

// forged fills the row of a body with an invalid signature. Nothing in it is believed, not even its
// ids.
func (e *inbound) forged(why error) {
	e.Status, e.Category, e.Problem = Failed, CategorySigInvalid, why.Error()
	if len(e.body) > maxForgedBody {
		e.body = bytes.Clone(e.body[:maxForgedBody])
	}
	e.Digest = firstHalf(e.body)
}

// fill copies the fields that the signature does not cover. A bad amount is recorded here, and
// refused when the event is posted.
func (e *inbound) fill(v *values, at time.Time) {
	e.OccurredAt = &at
	e.Currency, e.Alias, e.Number = v.free(transactionCurrency), v.free(aliasReference), v.free(aliasNumber)
	e.Sender, e.SenderBank, e.Narration, e.Session = v.free(senderName), v.free(senderBank), v.free(narration), v.free(sessionID)
	if a, err := v.amount(transactionAmount); err == nil {
		e.Amount = &a
	} else {
		e.Problem = err.Error()
	}
	if f, err := v.amount(transactionFee); err == nil {
		e.Fee = &f
	} else if e.Problem == "" {
		e.Problem = err.Error()
	}
	number := func(f field) string {
		if n, ok := v.find(f, '0'); ok {
			return n
		}
		return ""
	}
	if e.Amount != nil && e.Fee != nil { // 5000 and 5000.00 are the same payment
		e.Digest = digest(e.TxnRef, e.Type, e.Amount.String(), e.Fee.String(), e.Currency, e.Alias, e.Number, at.Format(time.RFC3339Nano))
		return
	}
	e.Digest = digest(e.TxnRef, e.Type, number(transactionAmount), number(transactionFee),
		e.Currency, e.Alias, e.Number, at.Format(time.RFC3339Nano))
}

func digest(parts ...string) []byte {
	b := make([]byte, 0, 256)
	for i, p := range parts {
		if i > 0 {
			b = append(b, 0)
		}
		b = append(b, p...)
	}
	return firstHalf(b)
}

// firstHalf is the first half of the SHA-256.
func firstHalf(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:sha256.Size/2]
}

// keyed is an event with what other tables store of it: its body, and its keys as the SQL function
// event_key makes them, which is cheaper in Go.
type keyed struct {
	*inbound
	Body        []byte     `pg:"body"`
	Request     uuid.UUID  `pg:"request"`
	Transaction *uuid.UUID `pg:"transaction"` // nil: it names none
}

func withKeys(events []*inbound) []keyed {
	out := make([]keyed, len(events))
	for i, e := range events {
		if out[i].inbound, out[i].Body = e, compact.Event(e.body); e.Authentic {
			out[i].Request = eventKey(e.RequestID)
			if e.TxnRef != "" {
				out[i].Transaction = new(eventKey(e.TxnRef))
			}
		}
	}
	return out
}

func eventKey(id string) uuid.UUID { return uuid.UUID(firstHalf([]byte(id))) }

// storeSQL stores the keys of authentic events that are new, and then the events whose keys were
// stored, with their bodies. Events from the bank's list are marked for [heldBackSQL].
var storeSQL = `
		WITH r AS MATERIALIZED (SELECT ` + pg.Names[keyed]() + ` FROM ` + pg.Unnest[keyed](1, "r") + `),
		keys AS (
			INSERT INTO event_keys (request, transaction, event_id, event_type)
			SELECT request, transaction, id, event_type FROM r WHERE authentic
			ON CONFLICT DO NOTHING RETURNING event_id),
		listed AS (
			INSERT INTO listed_payments (event_id, alias_number, amount, occurred_at)
			SELECT id, alias_number, amount, occurred_at FROM r WHERE source = 'reconciliation' AND id IN (SELECT event_id FROM keys)),
		bodies AS (
			INSERT INTO event_bodies (event_id, body)
			SELECT id, body FROM r WHERE NOT authentic OR id IN (SELECT event_id FROM keys))
		INSERT INTO inbound_events (` + pg.Names[inbound]() + `) SELECT ` + pg.Names[inbound]() + ` FROM r
		WHERE NOT authentic OR id IN (SELECT event_id FROM keys) RETURNING id`

// byTransaction is the order in which events are stored, so that two writers with the same events
// wait for each other in one order. The bank's event and its list have the same transaction id, but
// not the same request id.
func byTransaction(a, b *inbound) int {
	return cmp.Or(strings.Compare(a.TxnRef, b.TxnRef), strings.Compare(a.Type, b.Type), strings.Compare(a.RequestID, b.RequestID))
}

// storeBatch stores the events that are new. An event that is stored already is a duplicate; if its
// content differs from the stored one, that is reported, and it is not posted.
func (s *Service) storeBatch(ctx context.Context, tx pg.Tx, events []*inbound) ([]Receipt, error) {
	stored, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], storeSQL, pg.Columns(withKeys(events))...)
	if err != nil {
		return nil, err
	}
	isNew := make(map[uuid.UUID]bool, len(stored))
	for _, id := range stored {
		isNew[id] = true
	}
	if err := s.schedulePosting(ctx, tx, events, isNew); err != nil {
		return nil, err
	}
	if err := s.expeditePayouts(ctx, tx, events); err != nil {
		return nil, err
	}
	if err := s.openStored(ctx, tx, events, isNew); err != nil {
		return nil, err
	}
	known, err := originals(ctx, tx, events, isNew)
	if err != nil {
		return nil, err
	}
	out := make([]Receipt, len(events))
	for i, e := range events {
		first, ok := known[e.ID]
		switch {
		case isNew[e.ID]:
			out[i] = Receipt{ID: e.ID, Category: e.Category}
		case !ok:
			return nil, errors.New("payment: an event was neither stored nor found")
		default:
			out[i] = Receipt{ID: first.ID, Category: e.Category, Duplicate: true}
			if first.conflicts(e) {
				tx.AfterCommit(func(ctx context.Context) {
					s.Log.ErrorContext(ctx, "an event came again with different content; only the first is posted", slog.String("alert", "event_conflict"),
						slog.String("event", first.ID.String()), slog.String("request", e.RequestID), slog.String("transaction", e.TxnRef))
				})
			}
		}
	}
	return out, nil
}

// expeditePayouts makes the payouts due that events report on, repeated events included, so that
// the bank is asked about them. It runs in the events' transaction, since the bank does not send a
// stored or spooled event again, and for a payout that ended long ago such an event is the only
// reason to ask.
func (s *Service) expeditePayouts(ctx context.Context, tx pg.Tx, events []*inbound) error {
	var refs []string
	for _, e := range events {
		if e.transfer != "" {
			refs = append(refs, e.transfer)
		}
	}
	if len(refs) == 0 || s.ExpeditePayouts == nil {
		return nil
	}
	return s.ExpeditePayouts(ctx, tx, refs)
}

// schedulePosting schedules the posting of new events that are payments. If the alias names the
// tenant, they wait for that tenant's turn; posting decides whose they are.
func (s *Service) schedulePosting(ctx context.Context, tx pg.Tx, events []*inbound, isNew map[uuid.UUID]bool) error {
	var items []work.Item
	var aliases []account.Alias
	for _, e := range events {
		if isNew[e.ID] && e.Status == Received {
			items = append(items, work.Item{Kind: work.Ingest, ID: e.ID, DueAt: e.dueAt(), Traceparent: e.Traceparent})
			aliases = append(aliases, account.Alias{Ref: e.Alias, Number: e.Number})
		}
	}
	tenants, err := account.TenantsOf(ctx, tx, aliases)
	if err != nil {
		return err
	}
	for i := range items {
		items[i].TenantID = tenants[i]
	}
	return work.Schedule(ctx, tx, items...)
}

// original is the stored event that a duplicate repeats.
type original struct {
	Repeat uuid.UUID // the duplicate
	eventRow
	Digest []byte
}

// conflicts reports whether an event that repeats this one is about something else. The bank's list
// and its events write sender, reference and time in different ways, so their digests differ;
// between them, only the money must be the same. The same applies when the bank says again, at
// another time, that it took a payment back, or how a payout ended.
func (o *original) conflicts(e *inbound) bool {
	if bytes.Equal(o.Digest, e.Digest) {
		return false
	}
	return o.Source == e.Source && e.Type == typePayment || !o.sameMoney(&e.eventRow)
}

func (e *eventRow) sameMoney(as *eventRow) bool {
	same := func(x, y *money.Amount) bool { return x == y || x != nil && y != nil && x.Equal(*y) }
	return same(e.Amount, as.Amount) && same(e.Fee, as.Fee) && e.Currency == as.Currency &&
		(e.Number == as.Number || e.Number == "" || as.Number == "")
}

var originalsSQL = `
		SELECT DISTINCT ON (d.id) d.id, e.*
		FROM ` + pg.Unnest[inbound](1, "d") + `
		JOIN LATERAL (
			SELECT event_id FROM event_keys WHERE request = ANY(ARRAY[event_key(d.request_id)])
			UNION ALL
			SELECT event_id FROM event_keys WHERE transaction = ANY(ARRAY[event_key(nullif(d.provider_txn_ref, ''))]) AND event_type = d.event_type) k ON true
		JOIN LATERAL (SELECT ` + pg.Names[eventRow]() + `, digest FROM inbound_events WHERE id = ANY(ARRAY[k.event_id])) e ON true`

// originals finds, for each event that is not new, the stored one with the same request id, or with
// the same transaction and type (a repeat may have another request id).
func originals(ctx context.Context, tx pg.Tx, events []*inbound, isNew map[uuid.UUID]bool) (map[uuid.UUID]original, error) {
	repeats := slices.DeleteFunc(slices.Clone(events), func(e *inbound) bool { return isNew[e.ID] })
	if len(repeats) == 0 {
		return nil, nil
	}
	found, err := pg.Collect(ctx, tx, pgx.RowToStructByPos[original], originalsSQL, pg.Columns(repeats)...)
	byRepeat := make(map[uuid.UUID]original, len(found))
	for _, o := range found {
		byRepeat[o.Repeat] = o
	}
	return byRepeat, err
}
