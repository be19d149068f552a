package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/account"
	"ajo/internal/batch"
	"ajo/internal/fee"
	"ajo/internal/metrics"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/trace"
	"ajo/internal/webhook"
	"ajo/internal/work"
	"ajo/ledger"
)

// The reasons why an authentic payment is not posted; ErrorMessage shows them.
const (
	reasonNoAccount = "no account has this alias"
	reasonAmbiguous = "alias is ambiguous"
	reasonExpired   = "account is expired"
	reasonCurrency  = "the currency is not NGN"
	reasonAmount    = "the amount is not above the fee"
)

// Posted is the result of posting an event.
type Posted struct {
	Category  Category      // empty: there was nothing to do, because another worker has done it
	Waited    time.Duration // since the event was received
	ConfirmAt time.Time     // when the bank is first asked; zero unless Category is payment
}

// posting is an event that is being posted.
type posting struct {
	eventRow
	target   *account.Target
	assigned bool           // by an operator, who names the target
	reposted bool           // from the bank's own record, after it could not be posted
	action   account.Action // what the account's policy says about it
	why      string         // why the policy does not accept it
	result   result
	posted   Posted
	// a stored event of the bank says that it has taken the payment back
	takenBack bool
	// of a payment that is posted again: the event of before, what has left of it, and what its
	// tenant has released
	replaces       *uuid.UUID
	gone, released money.Amount
}

// result is what posting decides about an event, and what postedSQL stores.
type result struct {
	ID        uuid.UUID  `pg:"id"`
	Status    Status     `pg:"status"`
	Category  Category   `pg:"category"`
	Reason    string     `pg:"reason"`
	AccountID *uuid.UUID `pg:"account"`
	TenantID  *uuid.UUID `pg:"tenant"`
	LookAlike *uuid.UUID `pg:"alike"` // the event that it may repeat
	Policy    *string    `pg:"policy"`
	Split     *bool      `pg:"split"`
}

func (e *posting) decided(c Category, reason string) { e.result.Category, e.result.Reason = c, reason }

// Post posts a stored payment: ledger, delivery, category, and the end of a one-time account, in
// one transaction with the events that other callers post at the same moment. Posting an event
// again, late, or by two workers at once changes nothing. An event that the schema refuses becomes
// a processing_error; any other failure is a [retry] error with the time of the next try.
func (s *Service) Post(ctx context.Context, id uuid.UUID) (Posted, error) {
	o := s.PostAll(ctx, []uuid.UUID{id})[0]
	return o.Value, o.Err
}

// PostAll is [Service.Post] for many events; the results are in their order.
func (s *Service) PostAll(ctx context.Context, ids []uuid.UUID) []batch.Outcome[Posted] {
	out := s.post.DoAll(ctx, ids)
	for i, id := range ids {
		out[i].Value, out[i].Err = s.concluded(ctx, id, out[i].Value, out[i].Err)
	}
	return out
}

// concluded counts the result of an event, and records why it was not posted.
func (s *Service) concluded(ctx context.Context, id uuid.UUID, p Posted, err error) (Posted, error) {
	if err == nil {
		if p.Category != "" {
			metrics.Posted(string(p.Category), p.Waited)
		}
		return p, nil
	}
	if pg.IsData(err) {
		metrics.Posted(string(CategoryProcessingError), 0)
		return Posted{Category: CategoryProcessingError}, s.failPosting(ctx, id, err)
	}
	if ctx.Err() != nil { // it is handed back, and stays due
		return Posted{}, err
	}
	at, recErr := work.Postpone(ctx, s.Pool, work.Ingest, id, s.Clock.Now(), err)
	if recErr != nil || at.IsZero() {
		at = s.Clock.Now().Add(postRetry)
	}
	s.Log.WarnContext(ctx, "a payment was not posted; it is tried again", slog.String("event", id.String()), slog.Time("at", at), slog.Any("err", err))
	return Posted{}, retry.At(at, errors.Join(err, recErr))
}

// failPosting records that the ledger could not be written for an event, which an operator must
// look at.
func (s *Service) failPosting(ctx context.Context, id uuid.UUID, why error) error {
	s.Log.ErrorContext(ctx, "an authentic payment could not be posted", slog.String("alert", "processing_error"), slog.String("event", id.String()), slog.Any("err", why))
	_, err := s.refuseReceived(ctx, id, "the ledger write failed: "+why.Error(), nil)
	return err
}

// refuseReceived keeps an event that waits to be posted from being posted, and reports whether it
// did: one that has been posted meanwhile stays posted.
func (s *Service) refuseReceived(ctx context.Context, id uuid.UUID, why string, lookAlikeOf *uuid.UUID) (refused bool, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if err := work.Cancel(ctx, tx, work.Ingest, id); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE inbound_events SET status = 'failed', category = 'processing_error', error_message = $2, look_alike_of = coalesce($3, look_alike_of), processed_at = $4
			WHERE id = $1 AND status = 'received'`, id, why, lookAlikeOf, s.Clock.Now())
		refused = tag.RowsAffected() > 0
		return err
	})
	return refused, err
}

// postRetry is the gap before a posting whose failure could not be recorded is tried again.
const postRetry = 5 * time.Second

// postBatch posts the events that wait for it. An event that is named twice is posted once, and one
// caller gets the result.
func (s *Service) postBatch(ctx context.Context, tx pg.Tx, ids []uuid.UUID) ([]Posted, error) {
	begun := time.Now()
	out := make([]Posted, len(ids))
	ours, err := work.Take(ctx, tx, work.Ingest, s.Clock.Now(), ids)
	if err != nil || len(ours) == 0 {
		return out, err
	}
	events, err := readReceived(ctx, tx, ours)
	if err != nil || len(events) == 0 {
		return out, err
	}
	if err := s.postTaken(ctx, tx, events); err != nil {
		return nil, err
	}
	tx.AfterCommit(func(ctx context.Context) { tracePosted(ctx, events, begun) })
	for i, e := range pg.Match(ids, events, func(e *posting) uuid.UUID { return e.ID }) {
		if e != nil {
			out[i] = e.posted
		}
	}
	return out, nil
}

// tracePosted gives each traced event of a batch its own step, since each belongs to another trace.
func tracePosted(ctx context.Context, events []*posting, begun time.Time) {
	for _, e := range events {
		_, span := trace.Resume(ctx, "post", e.Traceparent, begun)
		if span.Traced() {
			span.Text("event", e.ID.String())
			span.Text("category", string(e.result.Category))
			span.Number("batch", len(events))
			span.End()
		}
	}
}

// eventsNamed selects the events e with the ids $1 (package pg, plans.go).
const eventsNamed = `unnest($1::uuid[]) AS m (event) JOIN inbound_events e ON e.id = ANY(ARRAY[m.event])`

var receivedSQL = `SELECT ` + pg.Names[eventRow]() + ` FROM ` + eventsNamed + ` WHERE status = 'received' ORDER BY id`

// readReceived reads the events that wait to be posted, in the order of their ids, which is the
// order of arrival. Nobody else changes them, since this transaction has taken their items.
func readReceived(ctx context.Context, tx pg.Tx, ids []uuid.UUID) ([]*posting, error) {
	return pg.Collect(ctx, tx, func(r pgx.CollectableRow) (*posting, error) {
		row, err := pgx.RowToStructByPos[eventRow](r)
		return &posting{eventRow: row}, err
	}, receivedSQL, ids)
}

// postTaken decides on each event and writes what follows. The balances are locked late: batches
// wait for each other there, so they are held for the entries and the commit only.
func (s *Service) postTaken(ctx context.Context, tx pg.Tx, events []*posting) error {
	now := s.Clock.Now()
	aliases := make([]account.Alias, len(events))
	for i, e := range events {
		aliases[i] = account.Alias{Ref: e.Alias, Number: e.Number, At: *e.OccurredAt}
	}
	targets, ambiguous, err := account.Match(ctx, tx, aliases)
	if err != nil {
		return err
	}
	for i, e := range events {
		e.target = targets[i]
		e.decide(ambiguous[i])
	}
	if err := s.holdRepeats(ctx, tx, events); err != nil {
		return err
	}
	var good []*posting
	for _, e := range events {
		// again: an earlier event of this batch may have ended its account
		if e.result.Category == CategoryPayment {
			e.decide(false)
		}
		if e.result.Category != CategoryPayment {
			continue
		}
		if err := e.endOneTime(ctx, tx, now); err != nil {
			return err
		}
		good = append(good, e)
	}
	if err := s.recordPosted(ctx, tx, now, events); err != nil {
		return err
	}
	return s.writeCredits(ctx, tx, now, good, suspended(ledger.Credit, events))
}

// decide gives the event its category, which holdRepeats and failPosting may still make an error.
// Events of one account are decided in the order of arrival.
func (e *posting) decide(ambiguous bool) {
	switch {
	case e.Amount == nil || e.Fee == nil:
		e.decided(CategoryProcessingError, e.Problem)
	case e.Currency != money.Currency:
		e.decided(CategoryProcessingError, reasonCurrency)
	case e.Amount.Cmp(*e.Fee) <= 0:
		e.decided(CategoryProcessingError, reasonAmount)
	case ambiguous:
		e.decided(CategoryMisdirected, reasonAmbiguous)
	case e.target == nil:
		e.decided(CategoryMisdirected, reasonNoAccount)
	case !e.target.Accepts(*e.OccurredAt) && (e.target.Policy == nil || e.target.Policy.Late == ""):
		e.decided(CategoryMisdirected, reasonExpired)
	default:
		e.decided(CategoryPayment, "")
		e.applyPolicy()
	}
}

// applyPolicy applies the account's policy to the payment. A payment that an operator assigns is
// exempt, because a person has decided.
func (e *posting) applyPolicy() {
	e.action, e.why = e.target.Decide(*e.Amount, !e.target.Accepts(*e.OccurredAt))
	e.result.Policy = nil
	if e.action == account.Hold || e.action == account.Refund {
		e.result.Policy = new(string(e.action))
	}
}

// policyAction is the policy's action for a payment that it does not accept; else empty.
func (e *posting) policyAction() string {
	if e.result.Policy == nil {
		return ""
	}
	return *e.result.Policy
}

// policyHold is the hold of a payment that its account's policy does not accept.
func (e *posting) policyHold() *ledger.Policy {
	switch e.action {
	case account.Hold:
		return &ledger.Policy{Source: ledger.HeldByPolicy, Reason: e.why}
	case account.Refund:
		return &ledger.Policy{Source: ledger.HeldForRefund, Reason: e.why}
	}
	return nil
}

// endOneTime expires a one-time account that has just received exactly its amount. The account
// expires at the payment's own time, so that a payment made earlier is still accepted if its event
// comes later, and one made afterwards is not. An assigned payment, also if its sum is corrected
// later, went to another number, so it ends the account as of now, and payments made to the
// account's own number until now stay accepted.
func (e *posting) endOneTime(ctx context.Context, tx pg.Tx, now time.Time) error {
	t := e.target
	if t.Type != account.OneTime || t.ExpectedAmount == nil || !t.ExpectedAmount.Equal(*e.Amount) {
		return nil
	}
	at := *e.OccurredAt
	if e.result.Reason != "" || at.After(now) { // why it had to be assigned
		at = now
	}
	moved, err := account.ExpireTx(ctx, tx, now, t.ID, account.EventPaid, at, "the expected amount was paid")
	if err != nil || !moved {
		return err
	}
	t.Status, t.ExpiredAt = account.Expired, &at
	return nil
}

// writeCredits posts the entries and the movements of suspense, and queues the deliveries. The
// event's id names the transaction group.
func (s *Service) writeCredits(ctx context.Context, tx pg.Tx, now time.Time, events []*posting, suspense []ledger.Movement) error {
	if len(events) == 0 {
		return ledger.PostMovements(ctx, tx, now, suspense)
	}
	prices, err := readPrices(ctx, tx, now, events)
	if err != nil {
		return err
	}
	postings := make([]ledger.Posting, len(events))
	var deliveries []webhook.NewDelivery
	var publish []*posting
	for i, e := range events {
		net := e.Amount.Sub(*e.Fee)
		postings[i] = ledger.Posting{
			AccountID: e.target.ID, Amount: net, Fee: *e.Fee, Narration: e.Narration, ProviderTxnRef: e.TxnRef, TransactionGroupID: e.ID,
			SenderName: e.Sender, SenderBank: e.SenderBank, Tiered: e.target.Tiered, Policy: e.policyHold(), Split: e.target.Split,
			Gone: e.gone.Add(e.released),
		}
		if p, ok := prices[e.target.TenantID]; ok {
			c := p.ChargeWithin(*e.Amount, net.Left(e.gone))
			postings[i].Price = &p.ID
			postings[i] = postings[i].WithCharges(c.Fee, c.VAT)
		}
		listening := webhook.Listens(e.target.ListeningUntil, now)
		if e.target.CallbackURL == "" && !e.target.FanOut && !listening {
			continue
		}
		publish = append(publish, e)
		deliveries = append(deliveries, webhook.NewDelivery{
			Type: webhook.PaymentReceived, TenantID: e.target.TenantID, AccountID: e.target.ID, AccountRef: e.target.AccountRef, TransactionGroupID: e.ID,
			CallbackURL: e.target.CallbackURL, FanOut: e.target.FanOut, Listening: listening, CreatedAt: e.ReceivedAt, Traceparent: e.Traceparent,
			Payload: webhook.Payment{Amount: net, GrossAmount: *e.Amount, ProviderFee: *e.Fee, SenderName: e.Sender, Narration: e.Narration, Policy: e.policyAction(), Replaces: e.replaces},
		})
	}
	if len(deliveries) > 0 {
		ids, err := webhook.Queue(ctx, tx, now, deliveries)
		if err != nil {
			return err
		}
		for i, e := range publish {
			if ids[i] == uuid.Nil && e.target.CallbackURL != "" {
				return fmt.Errorf("payment: no delivery of event %s was queued: one was there before the payment was posted", e.ID)
			}
		}
	}
	// from here on, others wait for these accounts
	if _, err := ledger.PostCredits(ctx, tx, now, postings); err != nil {
		return err
	}
	if err := s.openPosted(ctx, tx, events); err != nil {
		return err
	}
	if err := ledger.PostMovements(ctx, tx, now, suspense); err != nil {
		return err
	}
	return webhook.AppendFeed(ctx, tx, now, deliveries)
}

// readPrices reads the platform's prices for payments to tenants that have one.
func readPrices(ctx context.Context, tx pg.Tx, now time.Time, events []*posting) (map[uuid.UUID]fee.Standing, error) {
	var tenants []uuid.UUID
	for _, e := range events {
		if e.target.Priced {
			tenants = append(tenants, e.target.TenantID)
		}
	}
	return fee.Read(ctx, tx, now, fee.OnPayment, tenants)
}

var postedSQL = `
		UPDATE inbound_events e SET status = p.status, category = p.category, error_message = p.reason, account_id = p.account, tenant_id = p.tenant,
			attempt_count = 0, last_error = '', processed_at = $1, look_alike_of = p.alike, policy = p.policy, split = p.split
		FROM ` + pg.Unnest[result](2, "p") + `
		WHERE e.id = ANY(ARRAY[p.id])
		RETURNING e.id, ` + reversalStored

// recordPosted stores the results of the events, and schedules the confirmation of those that were
// posted; nothing is left to do for the others. A processed event has an error_message only if it
// was assigned (why it had to be); the confirmation relies on that.
func (s *Service) recordPosted(ctx context.Context, tx pg.Tx, now time.Time, events []*posting) error {
	results := make([]result, len(events))
	var confirm []work.Item
	for i, e := range events {
		from, event := Received, EventRefuse
		if e.result.Category == CategoryPayment {
			e.posted.ConfirmAt = now.Add(s.confirmDelay(0))
			event = EventPost
			confirm = append(confirm, work.Item{Kind: work.Confirm, ID: e.ID, TenantID: e.target.TenantID, DueAt: e.posted.ConfirmAt, Traceparent: e.Traceparent})
		}
		if e.assigned {
			from, event = Failed, EventAssign
		}
		to, ok := Transitions.Next(from, event)
		if e.reposted {
			if to, ok = Transitions.Next(Failed, EventRepost); e.result.Category != CategoryPayment {
				to, ok = Failed, true // for another reason
			}
		}
		if !ok {
			return fmt.Errorf("payment: event %s: %s on %s", e.ID, event, from)
		}
		e.result.ID, e.result.Status = e.ID, to
		e.posted.Category, e.posted.Waited = e.result.Category, now.Sub(e.ReceivedAt)
		if e.target != nil {
			e.result.AccountID, e.result.TenantID = &e.target.ID, &e.target.TenantID
			if e.target.Split != nil {
				e.result.Split = new(true)
			}
		}
		results[i] = e.result
	}
	stored, err := pg.Collect(ctx, tx, pgx.RowToStructByPos[struct {
		ID        uuid.UUID
		TakenBack bool
	}], postedSQL, pg.Columns(results, now)...)
	if err != nil {
		return err
	}
	for _, r := range stored {
		if r.TakenBack {
			events[slices.IndexFunc(events, func(e *posting) bool { return e.ID == r.ID })].takenBack = true
		}
	}
	return work.Schedule(ctx, tx, confirm...)
}
