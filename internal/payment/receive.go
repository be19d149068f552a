package payment

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/batch"
	"ajo/internal/errs"
	"ajo/internal/failpoint"
	"ajo/internal/metrics"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/trace"
)

// ErrNotStored says that the event could be stored nowhere: the bank must send it again.
var ErrNotStored = errs.New(errs.Unavailable, "the event could not be stored; send it again")

// maxForgedBody is how much of a body without a valid signature is kept: enough to see what it was.
const maxForgedBody = 4096

// Delivery is one call of the bank: the body's raw bytes and the two headers. The bytes are kept,
// so they must be the caller's to give.
type Delivery struct {
	Body      []byte
	Signature string
	Timestamp string
}

// Receipt says what became of a delivery.
type Receipt struct {
	ID        uuid.UUID // of the stored event; of the first one, for a duplicate
	Category  Category  // empty while a payment waits to be posted
	Duplicate bool
	Spooled   bool // on disk, but not in Postgres yet; there is nothing to ring
	// the payment that the event says was taken back: its confirmation is to be enqueued
	Recalled uuid.UUID
	// merchantTxRef of a payout that the event is about: its outcome may be asked for
	Transfer string
}

// ToPost tells whether the event is new and waits to be posted.
func (r Receipt) ToPost() bool {
	return !r.Duplicate && !r.Spooled && r.Category == "" && r.ID != uuid.Nil
}

// Where events come from.
const (
	sourceWebhook = "webhook"
	// the bank's transaction list, when the webhook did not come
	sourceReconciliation = "reconciliation"
)

// inbound is an event on its way into the table.
type inbound struct {
	id             uuid.UUID
	source         string
	signatureValid bool
	authentic      bool
	requestID      string
	txnRef         string
	eventType      string
	status         Status
	category       Category
	problem        string
	amount, fee    *money.Amount
	currency       string
	alias, number  string
	sender         string
	senderBank     string
	narration      string
	occurredAt     *time.Time
	digest         [sha256.Size]byte
	body           []byte
	nextAttemptAt  *time.Time
	receivedAt     time.Time
	transfer       string
	recalled       uuid.UUID // the payment of which this opened a recall
	traceparent    string
	session        string     // the interbank switch's id of the transfer
	lookAlikeOf    *uuid.UUID // an event that this one may be a repeat of
}

// Receive verifies and stores an event, in one commit with all that arrive meanwhile. Whatever the
// event is, it is stored and answered 200; with Postgres away an authentic one goes to the spool.
// [ErrNotStored] alone means that it is on no disk. Of a flood of forged events only some are kept.
func (s *Service) Receive(ctx context.Context, d Delivery) (Receipt, error) {
	e := s.read(d, s.Clock.Now(), s.verify)
	if !e.authentic {
		metrics.EventForged.Inc()
	}
	if !e.authentic && !s.keepsForged(ctx) {
		return Receipt{Category: CategorySigInvalid}, nil
	}
	if e.authentic { // nobody else gets into a trace, or makes one
		var span trace.Span
		ctx, span = trace.Step(ctx, "receive")
		defer span.End()
		span.Text("event", e.id.String())
		e.traceparent = trace.Parent(ctx)
	}
	r, err := s.storeSoon(ctx, e)
	if err != nil {
		return s.spool(ctx, e, d, err)
	}
	switch {
	case !e.authentic:
	case r.Duplicate:
		metrics.EventDuplicate.Inc()
	default:
		metrics.EventStored.Inc()
	}
	r.Transfer, r.Recalled = e.transfer, e.recalled
	return r, nil
}

// verifier tells whether an event that was received at the time now is the bank's.
type verifier func(v *values, d Delivery, now time.Time) error

// verify checks an event's signature by the bank's secret, and by the one before it until that
// ends.
func (s *Service) verify(v *values, d Delivery, now time.Time) error {
	err := v.verify([]byte(s.WebhookSecret.Reveal()), d.Signature, d.Timestamp)
	if !errors.Is(err, errSignature) || s.PreviousSecret.IsZero() || !now.Before(s.PreviousUntil) {
		return err
	}
	if err = v.verify([]byte(s.PreviousSecret.Reveal()), d.Signature, d.Timestamp); err == nil {
		metrics.EventPreviousSecret.Inc()
	}
	return err
}

// verified is the check of an event whose signature held before it was spooled.
func verified(*values, Delivery, time.Time) error { return nil }

// read makes the row of a delivery, received at the time now. It never fails: what is wrong with an
// event is part of its record.
func (s *Service) read(d Delivery, now time.Time, verify verifier) *inbound {
	e := &inbound{id: uuid.Must(uuid.NewV7()), source: sourceWebhook, body: d.Body, receivedAt: now}
	if e.body == nil { // a request without a body has an empty one; NULL is not stored
		e.body = []byte{}
	}
	v, err := parseValues(d.Body)
	if err == nil {
		err = verify(v, d, now)
	}
	if err != nil {
		e.forged(err)
		return e
	}
	e.signatureValid, e.authentic = true, true
	e.requestID, e.txnRef, e.eventType = v.text(requestID), v.text(transactionID), v.text(eventType)
	at, _ := time.Parse(time.RFC3339, v.text(transactionTime))
	e.fill(v, at.UTC())
	if e.eventType != typePayment {
		e.status, e.category = Ignored, CategoryNonPayment
		if strings.HasPrefix(e.eventType, "payout_") {
			e.transfer = v.free(merchantTxRef)
		}
		return e
	}
	e.status, e.nextAttemptAt = Received, &now
	return e
}

// forged keeps a trace of a body whose signature does not hold. Nothing in it is believed, not even
// its ids.
func (e *inbound) forged(why error) {
	e.status, e.category, e.problem = Failed, CategorySigInvalid, why.Error()
	if len(e.body) > maxForgedBody {
		e.body = bytes.Clone(e.body[:maxForgedBody])
	}
	e.digest = sha256.Sum256(e.body)
}

// fill takes over the fields that the signature does not cover. A bad amount is recorded, and
// refused when it is posted.
func (e *inbound) fill(v *values, at time.Time) {
	e.occurredAt = &at
	e.currency, e.alias, e.number = v.free(transactionCurrency), v.free(aliasReference), v.free(aliasNumber)
	e.sender, e.senderBank, e.narration, e.session = v.free(senderName), v.free(senderBank), v.free(narration), v.free(sessionID)
	if a, err := v.amount(transactionAmount); err == nil {
		e.amount = &a
	} else {
		e.problem = err.Error()
	}
	if f, err := v.amount(transactionFee); err == nil {
		e.fee = &f
	} else if e.problem == "" {
		e.problem = err.Error()
	}
	number := func(f field) string {
		if n, ok := v.find(f, '0'); ok {
			return n
		}
		return ""
	}
	if e.amount != nil && e.fee != nil { // 5000 and 5000.00 are the same payment
		e.digest = digest(e.txnRef, e.eventType, e.amount.String(), e.fee.String(), e.currency, e.alias, e.number, at.Format(time.RFC3339Nano))
		return
	}
	e.digest = digest(e.txnRef, e.eventType, number(transactionAmount), number(transactionFee),
		e.currency, e.alias, e.number, at.Format(time.RFC3339Nano))
}

func digest(parts ...string) [sha256.Size]byte {
	b := make([]byte, 0, 256)
	for i, p := range parts {
		if i > 0 {
			b = append(b, 0)
		}
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}

// storeBatch writes many events in one transaction. An event that is there already is a duplicate;
// if its content differs from the stored one it is reported, and not posted.
func (s *Service) storeBatch(ctx context.Context, events []*inbound) []batch.Outcome[Receipt] {
	return pg.Isolate(events, func(events []*inbound) ([]batch.Outcome[Receipt], error) { return s.storeAll(ctx, events) })
}

func (s *Service) storeAll(ctx context.Context, events []*inbound) ([]batch.Outcome[Receipt], error) {
	inserted, err := s.insert(ctx, events)
	if err != nil {
		return nil, err
	}
	var known map[uuid.UUID]original
	if len(inserted) < len(events) {
		if known, err = s.originals(ctx, events, inserted); err != nil {
			return nil, err
		}
	}
	out := make([]batch.Outcome[Receipt], len(events))
	for i, e := range events {
		first, isDuplicate := known[e.id]
		switch {
		case inserted[e.id]:
			out[i].Value = Receipt{ID: e.id, Category: e.category}
		case !isDuplicate:
			out[i].Err = errors.New("payment: an event was neither stored nor found")
		default:
			out[i].Value = Receipt{ID: first.id, Category: e.category, Duplicate: true}
			if first.conflicts(e) {
				s.Log.Error("an event came again with another content; only the first is posted", slog.String("alert", "event_conflict"),
					slog.String("event", first.id.String()), slog.String("request", e.requestID), slog.String("transaction", e.txnRef))
			}
		}
	}
	return out, nil
}

// insert stores the events that are new, and returns their ids. Rows go in by request id, so that
// two writers with the same events wait for each other in one order.
func (s *Service) insert(ctx context.Context, events []*inbound) (map[uuid.UUID]bool, error) {
	rows := slices.Clone(events)
	slices.SortStableFunc(rows, func(a, b *inbound) int { return strings.Compare(a.requestID, b.requestID) })
	var c columns
	for _, e := range rows {
		c.add(e)
	}
	var stored []uuid.UUID
	err := pg.InBatch(ctx, s.Pool, func(tx pg.Tx) error {
		r, err := tx.Query(ctx, `
			INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, error_message,
				amount, fee, currency, alias, alias_number, sender_name, narration, occurred_at, digest, body, next_attempt_at, received_at, traceparent, sender_bank,
				session_id, look_alike_of)
			SELECT id, source, valid, authentic, request, txn, type, status, category, problem, amount::numeric, fee::numeric, currency, alias, number,
				sender, narration, occurred, digest, body, next, received, coalesce(trace, ''), bank, session, alike
			FROM unnest($1::uuid[], $2::text[], $3::bool[], $4::bool[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
				$11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::timestamptz[], $19::bytea[], $20::bytea[],
				$21::timestamptz[], $22::timestamptz[], $23::text[], $24::text[], $25::text[], $26::uuid[])
				AS e (id, source, valid, authentic, request, txn, type, status, category, problem, amount, fee, currency, alias, number, sender, narration,
					occurred, digest, body, next, received, trace, bank, session, alike)
			ON CONFLICT DO NOTHING RETURNING id`,
			c.id, c.source, c.valid, c.authentic, c.request, c.txn, c.eventType, c.status, c.category, c.problem, c.amount, c.fee, c.currency,
			c.alias, c.number, c.sender, c.narration, c.occurred, c.digest, c.body, c.next, c.received, c.trace, c.senderBank, c.session, c.alike)
		if err != nil {
			return err
		}
		if stored, err = pgx.CollectRows(r, pgx.RowTo[uuid.UUID]); err == nil {
			err = s.openStored(ctx, tx, rows, stored)
		}
		failpoint.At("payment/before-store-commit")
		return err
	})
	if err == nil {
		failpoint.At("payment/after-store-commit")
	}
	set := make(map[uuid.UUID]bool, len(stored))
	for _, id := range stored {
		set[id] = true
	}
	return set, err
}

// columns are the rows of an insert, column by column.
type columns struct {
	id                                                                                          []uuid.UUID
	source, request, txn, eventType, status, category, problem, currency, alias, number, sender []string
	senderBank, narration, trace, session                                                       []string
	alike                                                                                       []*uuid.UUID
	valid, authentic                                                                            []bool
	amount, fee                                                                                 []*string
	digest, body                                                                                [][]byte
	occurred, next                                                                              []*time.Time
	received                                                                                    []time.Time
}

func (c *columns) add(e *inbound) {
	text := func(a *money.Amount) *string {
		if a == nil {
			return nil
		}
		s := a.String()
		return &s
	}
	c.trace = trace.Put(c.trace, len(c.id), e.traceparent)
	c.id, c.source, c.valid, c.authentic = append(c.id, e.id), append(c.source, e.source), append(c.valid, e.signatureValid), append(c.authentic, e.authentic)
	c.request, c.txn, c.eventType = append(c.request, e.requestID), append(c.txn, e.txnRef), append(c.eventType, e.eventType)
	c.status, c.category, c.problem = append(c.status, string(e.status)), append(c.category, string(e.category)), append(c.problem, e.problem)
	c.amount, c.fee, c.currency = append(c.amount, text(e.amount)), append(c.fee, text(e.fee)), append(c.currency, e.currency)
	c.alias, c.number, c.sender = append(c.alias, e.alias), append(c.number, e.number), append(c.sender, e.sender)
	c.senderBank = append(c.senderBank, e.senderBank)
	c.narration, c.occurred = append(c.narration, e.narration), append(c.occurred, e.occurredAt)
	c.digest, c.body = append(c.digest, e.digest[:]), append(c.body, e.body)
	c.next, c.received = append(c.next, e.nextAttemptAt), append(c.received, e.receivedAt)
	c.session, c.alike = append(c.session, e.session), append(c.alike, e.lookAlikeOf)
}

// original is the stored event that a duplicate repeats.
type original struct {
	id          uuid.UUID
	source      string
	digest      []byte
	amount, fee *money.Amount
	currency    string
	number      string
}

// conflicts tells whether an event that repeats this one is about something else. The bank's list
// and its events write sender, reference and time each in its own way: between them, what counts is
// that they are about the same money.
func (o original) conflicts(e *inbound) bool {
	if bytes.Equal(o.digest, e.digest[:]) {
		return false
	}
	return o.source == e.source || !sameMoney(o, original{amount: e.amount, fee: e.fee, currency: e.currency, number: e.number})
}

// originalsSQL asks for a reference that is not empty of the event, and not of what is looked for:
// only so does the planner know that the unique index holds the row, and not read the whole table
// for each repeat.
const originalsSQL = `
		SELECT DISTINCT ON (d.id) d.id, e.id, e.source, e.digest, e.amount, e.fee, e.currency, e.alias_number
		FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS d (id, request, txn, type)
		JOIN LATERAL (
			SELECT id, source, digest, amount, fee, currency, alias_number FROM inbound_events WHERE authentic AND request_id = d.request
			UNION ALL
			SELECT id, source, digest, amount, fee, currency, alias_number FROM inbound_events WHERE authentic AND provider_txn_ref = d.txn AND event_type = d.type AND provider_txn_ref <> '') e ON true`

// originals finds, for each event that was not inserted, the stored one of the same request id, or
// of the same transaction and type (a repeat may bear another request id).
func (s *Service) originals(ctx context.Context, events []*inbound, inserted map[uuid.UUID]bool) (map[uuid.UUID]original, error) {
	var ids []uuid.UUID
	var requests, txns, types []string
	for _, e := range events {
		if !inserted[e.id] {
			ids, requests = append(ids, e.id), append(requests, e.requestID)
			txns, types = append(txns, e.txnRef), append(types, e.eventType)
		}
	}
	rows, err := s.Pool.Query(ctx, originalsSQL, ids, requests, txns, types)
	if err != nil {
		return nil, err
	}
	found := map[uuid.UUID]original{}
	var id uuid.UUID
	var o original
	_, err = pgx.ForEachRow(rows, []any{&id, &o.id, &o.source, &o.digest, &o.amount, &o.fee, &o.currency, &o.number}, func() error {
		o.digest = bytes.Clone(o.digest)
		found[id] = o
		o = original{}
		return nil
	})
	return found, err
}
