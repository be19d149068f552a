package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/failpoint"
	"ajo/internal/metrics"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/retry"
	"ajo/internal/trace"
	"ajo/internal/work"
	"ajo/ledger"
)

// The answers that leave a payment unconfirmed for now; the dashboard and last_error show them.
var (
	errNotYetKnown = errors.New("the bank does not know this transaction yet")
	errUnderWay    = errors.New("the bank says that this transaction is under way")
	errInList      = errors.New("the bank's list of its second is being read")
)

// booked holds what is compared with the bank's record of a posted payment.
type booked struct {
	ID            uuid.UUID `pg:"id"` // the event's
	TxnRef        string
	Amount        money.Amount // gross
	Fee           money.Amount
	Currency      string
	AccountNumber string
	AccountID     uuid.UUID
	// an operator assigned it, to an account other than the one that was paid
	Assigned    bool
	AliasNumber string // the number that the event says was paid, where it carries one
	AliasRef    string // the reference that the event says was paid
	PostedAt    time.Time
	OccurredAt  *time.Time // the bank's time of the payment, by the event
}

// check is a posted payment that is due to be confirmed with the bank. Several workers may ask the
// bank at once, which is harmless: the one whose claim still stands records the answer.
type check struct {
	booked
	Attempt     int
	Misses      int
	Traceparent string
	GoesBack    bool // its account's policy refunds it
	Split       bool // it is shared out
	recallState
	claim work.Claim
	// this is not a payment but the bank's event that it took back the payment of TxnRef, which has
	// to be found ([Service.openLate])
	reversal bool
}

func (c *check) id() uuid.UUID { return c.ID }

// finding is the result of a check: a move of the entry, or the time of the next check.
type finding struct {
	*check
	Missed  int          `pg:"missed"` // 1: the bank does not know it
	Why     string       `pg:"why"`
	event   ledger.Event // empty: ask again at next
	next    time.Time
	success bool           // of a recall: the record says success
	watched bool           // a recall that the bank's record contradicts: the hold ends
	again   bool           // a watched recall whose record is no longer that of a payment that stands
	kept    bool           // a recall that it has contradicted for two weeks, or that has ended
	counts  bool           // it was confirmed while the recall was open: payment.confirmed comes now
	open    bool           // the bank is still asked about a recall, although the entry was moved
	unasked bool           // the question had no turn: it counts for nothing
	publish bool           // the tenant chose more events than received payments, or listens
	sender  *ledger.Sender // of a confirmation: the payer, by the bank's record
}

// Confirm asks the bank about a posted payment, and moves its entry: confirmed when the bank's own
// record echoes our transaction id and agrees on amount, fee, currency and account; reversed when
// the bank says it failed, or does not know it in ConfirmMisses checks over at least ConfirmMinAge
// and is proven right (proveUnknown); needs_review when the record differs, or when no clear answer
// came by ConfirmDeadline, to as many questions as ConfirmDelays has gaps. A bank that is down is
// not an answer. It returns nil when nothing is left to do, and a [retry] error with the time of
// the next check otherwise. [Service.judge] decides.
func (s *Service) Confirm(ctx context.Context, id uuid.UUID) error {
	begun := time.Now()
	c, err := s.checks.Do(ctx, id)
	if err != nil || c == nil {
		return err
	}
	if c.reversal {
		return s.openLate(ctx, c)
	}
	if c.decided() {
		return s.sendBack(ctx, c)
	}
	failpoint.At("payment/before-ask")
	var listed *provider.Transaction
	if !c.recalled() { // a recalled payment needs the record itself, not the list
		// like the question below, this only reads; if there is no answer, it is asked again
		l, lookErr := s.listed.Do(ctx, c)
		if err = lookErr; err == nil && l.list != nil {
			listed, l.later, err = l.list.answer(ctx, c)
		}
		if err == nil && l.later {
			return retry.At(s.Clock.Now().Add(listAgain), errInList)
		}
	}
	if err != nil || listed == nil {
		// The bank limits questions by id, so the payment is leased first.
		leased, err := s.leases.Do(ctx, c)
		if err != nil || leased == nil {
			return err
		}
		c.claim = *leased
		defer work.KeepLease(ctx, s.Pool, s.Clock, work.Confirm, c.claim, work.Term).Release()
	}
	ctx, span := trace.Resume(ctx, "confirm", c.Traceparent, begun)
	defer span.End()
	t, err := s.ask(ctx, c, listed, begun)
	failpoint.At("payment/after-ask")
	f := s.judge(c, t, err)
	if span.Traced() {
		span.Text("event", id.String())
		span.Text("outcome", f.outcome())
		span.Number("attempt", c.Attempt+1)
	}
	if _, err := s.record.Do(ctx, f); err != nil {
		return err // when the lease ends, the sweep enqueues it again
	}
	metrics.Confirmations.Inc(f.outcome())
	switch {
	case f.asksOn():
		return retry.At(f.next, errors.New(f.Why))
	case f.goesBack():
		return retry.At(s.Clock.Now(), errGoesBack)
	}
	return nil
}

// asksOn reports whether the bank will be asked again.
func (f *finding) asksOn() bool { return f.open || f.event == "" && !f.kept }

// outcome names the result of a question, for the metrics.
func (f *finding) outcome() string {
	if f.kept || f.watched {
		return "kept"
	}
	return confirmedAs[f.event]
}

// ask returns the bank's own record of the payment: from its list, where many wait, or else by its
// id.
func (s *Service) ask(ctx context.Context, c *check, listed *provider.Transaction, begun time.Time) (provider.Transaction, error) {
	ctx, span := trace.Resume(ctx, "ask the bank", trace.Parent(ctx), begun)
	defer span.End()
	if listed != nil {
		return *listed, nil
	}
	t, err := s.BankRecord(ctx, c.TxnRef)
	if errors.Is(err, provider.ErrUnknown) && !c.recalled() && s.missedEnough(c, s.Clock.Now()) {
		return s.proveUnknown(ctx, c)
	}
	return t, err
}

// BankRecord asks for the bank's record of a payment by its id ([provider.Record]).
func (s *Service) BankRecord(ctx context.Context, id string) (provider.Transaction, error) {
	return provider.Record(ctx, s.Bank, id)
}

// missedEnough reports whether one more "not found" is enough to reverse the payment, if it is
// proven.
func (s *Service) missedEnough(c *check, now time.Time) bool {
	return c.Misses+1 >= s.ConfirmMisses && now.Sub(c.PostedAt) >= s.ConfirmMinAge
}

// confirmedAs names the results of questions, for the metrics.
var confirmedAs = map[ledger.Event]string{
	"": "later", ledger.EventConfirm: "confirmed", ledger.EventReverse: "reversed", ledger.EventHold: "needs_review", ledger.EventRecall: "recalled",
}

// judge turns the bank's answer into a finding.
func (s *Service) judge(c *check, t provider.Transaction, err error) *finding {
	now := s.Clock.Now()
	age := now.Sub(c.PostedAt)
	f := &finding{check: c, next: now.Add(s.confirmDelay(c.Attempt + 1))}
	if errors.Is(err, provider.ErrBusy) {
		f.unasked, f.next, f.Why = true, now.Add(unaskedAgain), err.Error()
		return f
	}
	if c.recalled() && c.EntryStatus != ledger.Provisional {
		return s.judgeRecall(f, t, err)
	}
	switch {
	case errors.Is(err, provider.ErrUnknown):
		f.Missed, f.Why = 1, errNotYetKnown.Error()
		if errors.Is(err, errProvenUnknown) {
			f.event = ledger.EventReverse
		}
	case err != nil:
		f.Why = err.Error()
	case t.Status == provider.Refunded && !t.Amount.Equal(c.Amount): // the wallet may have the rest
		f.event, f.Why = ledger.EventHold, fmt.Sprintf("the bank says %s, but its record differs: %s", t.Status, c.Differs(t))
	case t.Status == provider.Failed || t.Status == provider.Refunded:
		f.event, f.Why = ledger.EventReverse, fmt.Sprintf("the bank says %s", t.Status)
	case t.Status != provider.Success:
		f.Why = errUnderWay.Error()
	default:
		f.event, f.Why, f.sender = ledger.EventConfirm, "", senderOf(t)
		if d := c.Differs(t); d != "" {
			f.event, f.Why = ledger.EventHold, "the bank's record differs: "+d
		}
	}
	// nobody may have asked since: a bank that does not answer at first is asked on
	asked := err == nil || c.Attempt+1 >= len(s.ConfirmDelays)
	if f.event == "" && age >= s.ConfirmDeadline && asked {
		f.event, f.Why = ledger.EventHold, "no clear answer in time: "+f.Why
	}
	switch {
	case !c.recalled():
	case f.event == ledger.EventConfirm && c.Successes+1 < keptAfter: // payment.confirmed is not published yet
		f.event, f.sender, f.success, f.next, f.Why = "", nil, true, now.Add(s.confirmDelay(0)), whyStillThere
	case f.event == ledger.EventConfirm:
		f.open, f.watched, f.next, f.Why = true, true, watch(now, now), whyWatched
	case f.event == ledger.EventHold:
		f.open = true
	}
	return f
}

// unaskedAgain is when a payment is due again whose question had no turn.
const unaskedAgain = 5 * time.Second

// Differs names the first field in which the bank's record disagrees with what was posted.
func (b *booked) Differs(t provider.Transaction) string {
	field := func(name string, ours, theirs any) string { return fmt.Sprintf("%s is %v, not %v", name, theirs, ours) }
	switch {
	case t.ID != b.TxnRef:
		return field("transaction id", b.TxnRef, t.ID)
	case !t.Amount.Equal(b.Amount):
		return field("amount", b.Amount, t.Amount)
	case !t.Fee.Equal(b.Fee):
		return field("fee", b.Fee, t.Fee)
	case t.Currency != b.Currency:
		return field("currency", b.Currency, t.Currency)
	case !b.sameAccount(t):
		return field("account number", cmp.Or(b.paidNumber(), "known from the event"), cmp.Or(t.AccountNumber, "missing"))
	}
	return ""
}

// sameAccount reports whether the bank's record is of the account that was paid.
//
// If posting found the account by itself, the record must name the account's own number. The event
// proves nothing here: its signature covers neither reference nor number, so a forger could change
// the reference to a thief's account and keep the number that the payer used. If an operator
// assigned the payment, it did go elsewhere; then the record must agree with the destination in the
// event (the number, or the reference if there is none), so that a payment to one customer cannot
// be presented to the operator as one to an unknown number.
func (b *booked) sameAccount(t provider.Transaction) bool {
	switch {
	case t.AccountNumber == b.AccountNumber:
		// the number may have belonged to another account before, which the record then names
		ref, err := uuid.Parse(t.AccountRef)
		return b.Assigned || err != nil || ref == b.AccountID
	case !b.Assigned:
		return false
	case b.AliasNumber != "":
		return t.AccountNumber == b.AliasNumber
	}
	return b.AliasRef != "" && t.AccountRef == b.AliasRef
}

// paidNumber is the number that the record should have; empty when the event carries none.
func (b *booked) paidNumber() string {
	if b.Assigned {
		return b.AliasNumber
	}
	return b.AccountNumber
}

const checkSQL = `
		SELECT e.id, e.provider_txn_ref, e.amount, e.fee, e.currency, a.bank_account_number, a.id, e.error_message <> '', e.alias_number, e.alias,
			e.processed_at, e.occurred_at, e.attempt_count, e.misses, e.traceparent, coalesce(e.policy = 'refund', false), coalesce(e.split, false),
			coalesce(r.status, ''), r.closed_at, coalesce(r.held, 0), coalesce(r.successes, 0), CASE WHEN r.opened_at IS NULL AND e.policy IS DISTINCT FROM 'refund' THEN '' ELSE (
				SELECT l.status FROM ledger_entries l WHERE l.transaction_group_id = e.id AND l.direction = 'credit') END
		FROM ` + eventsNamed + ` JOIN accounts a ON a.id = e.account_id LEFT JOIN recalls r ON r.event_id = ANY(ARRAY[e.id]) AND CASE r.status WHEN 'open' THEN true WHEN 'watched' THEN true ELSE false END
		WHERE e.status = 'processed'`

// readChecks reads the checks that are due by then. A payment that is not due, or leased by another
// worker, is nil.
func (s *Service) readChecks(ctx context.Context, q pg.Querier, ids []uuid.UUID, by time.Time) ([]*check, error) {
	claims, err := work.Due(ctx, q, work.Confirm, by, ids)
	if err != nil || len(claims) == 0 {
		return make([]*check, len(ids)), err
	}
	found, err := pg.Collect(ctx, q, pgx.RowToAddrOfStructByPos[check], checkSQL, slices.Collect(maps.Keys(claims)))
	if err == nil && len(found) < len(claims) {
		found, err = addReversals(ctx, q, found, claims)
	}
	for _, c := range found {
		c.claim = claims[c.ID]
	}
	return pg.Match(ids, found, (*check).id), err
}

// leaseBatch leases the payments of checks, and returns the new claims; nil: another worker has
// claimed the payment meanwhile.
func (s *Service) leaseBatch(ctx context.Context, tx pg.Tx, checks []*check) ([]*work.Claim, error) {
	claims := make([]work.Claim, len(checks))
	for i, c := range checks {
		claims[i] = c.claim
	}
	return work.Lease(ctx, tx, work.Confirm, s.Clock.Now().Add(work.Term), claims)
}

// recordBatch stores many findings, moves their entries, and publishes what tenants are subscribed
// to, in one transaction. A finding whose claim is no longer valid is dropped: another worker has
// the payment.
func (s *Service) recordBatch(ctx context.Context, tx pg.Tx, findings []*finding) ([]struct{}, error) {
	held, err := s.recordFindings(ctx, tx, findings)
	if err != nil {
		return nil, err
	}
	// from here on others wait for these accounts
	if err := lockBalances(ctx, tx, held); err != nil {
		return nil, err
	}
	moved, err := s.moveEntries(ctx, tx, held)
	if err != nil {
		return nil, err
	}
	if err := s.closeRecalls(ctx, tx, held, moved); err != nil {
		return nil, err
	}
	if err := s.publishFindings(ctx, tx, held, moved); err != nil {
		return nil, err
	}
	tx.AfterCommit(func(ctx context.Context) { s.alert(ctx, held, moved) })
	return make([]struct{}, len(findings)), nil
}

// lockBalances locks all balances of a batch at once if its steps would otherwise lock them one
// after the other: if one of its payments is split or recalled.
func lockBalances(ctx context.Context, tx pg.Tx, findings []*finding) error {
	if !slices.ContainsFunc(findings, func(f *finding) bool { return f.Split || f.recalled() }) {
		return nil
	}
	ids := make([]uuid.UUID, len(findings))
	for i, f := range findings {
		ids[i] = f.ID
	}
	return ledger.LockSplits(ctx, tx, ids)
}

func (s *Service) moveEntries(ctx context.Context, tx pg.Tx, findings []*finding) ([]ledger.Moved, error) {
	var moves []ledger.Move
	for _, f := range findings {
		if f.event != "" {
			moves = append(moves, ledger.Move{TransactionGroupID: f.ID, Direction: ledger.Credit, Event: f.event, Sender: f.sender})
		}
	}
	if len(moves) == 0 {
		return nil, nil
	}
	return ledger.MoveEntries(ctx, tx, s.Clock.Now(), moves)
}

// findingSQL returns for each finding whether its tenant is subscribed to more than received
// payments.
var findingSQL = `
		UPDATE inbound_events e SET attempt_count = attempt_count + 1, misses = misses + c.missed, last_error = c.why
		FROM ` + pg.Unnest[finding](2, "c") + `
		WHERE e.id = ANY(ARRAY[c.id])
		RETURNING c.n, (SELECT cardinality(t.webhook_events) > 0 OR t.webhook_endpoints > 0 OR t.event_log OR coalesce(t.listening_until > $1, false) FROM tenants t WHERE t.id = e.tenant_id)`

// recordFindings stores the findings whose claims still stand, and returns them, but for those
// without a question.
func (s *Service) recordFindings(ctx context.Context, tx pg.Tx, findings []*finding) ([]*finding, error) {
	outcomes := make([]work.Outcome, len(findings))
	now := s.Clock.Now()
	for i, f := range findings {
		outcomes[i] = work.Outcome{Claim: f.claim}
		switch {
		case f.asksOn():
			outcomes[i].Next = &f.next
		case f.goesBack():
			outcomes[i].Next = &now
		}
	}
	held, err := work.Finish(ctx, tx, work.Confirm, outcomes)
	if err != nil {
		return nil, err
	}
	var ours []*finding
	for i, f := range findings {
		if held[i] && !f.unasked {
			ours = append(ours, f)
		}
	}
	if len(ours) == 0 {
		return nil, nil
	}
	return pg.Collect(ctx, tx, func(r pgx.CollectableRow) (*finding, error) {
		var n int
		var publish bool
		err := r.Scan(&n, &publish)
		f := ours[n-1]
		f.publish = publish
		return f, err
	}, findingSQL, pg.Columns(ours, s.Clock.Now())...)
}
