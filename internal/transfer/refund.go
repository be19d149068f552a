package transfer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/account"
	"ajo/internal/batch"
	"ajo/internal/errs"
	"ajo/internal/idempotency"
	"ajo/internal/identity"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/trace"
	"ajo/ledger"
)

// A refund is a transfer that pays a confirmed payment, or a part of it, back to the account that
// it came from by the bank's own record. It is handled like any settlement, with two more
// conditions. It is not submitted while the bank may have taken the payment back, and fails if the
// bank did (claimAll, submitSQL). And the bank must name the payer as the destination's holder
// (submitFirst). The refunds of a payment, apart from those whose money came back, never exceed its
// net: that is checked under the lock of the account's balance, here and again by the schema.

// Refusals of a refund.
var (
	ErrNotPayment   = errs.New(errs.Unprocessable, "the entry is not a payment that was received")
	ErrUnconfirmed  = errs.New(errs.Unprocessable, "the payment is not confirmed")
	ErrTakenBack    = errs.New(errs.Unprocessable, "the payment was reversed: there is nothing to refund")
	ErrRecalled     = errs.New(errs.Unprocessable, "the bank may have taken the payment back: it cannot be refunded until that is clear")
	ErrNoSender     = errs.New(errs.Unprocessable, "the bank's record does not say from which account the payment came")
	ErrNoRecord     = errs.New(errs.Unprocessable, "the payment was confirmed by hand, without the bank's record of its sender: support can have the bank's record read")
	ErrRefunded     = errs.New(errs.Unprocessable, "the payment is refunded in full")
	ErrRefundAmount = errs.New(errs.Unprocessable, "amount is more than what is left of the payment to refund")
)

// refund has what a refund needs in addition to a settlement.
type refund struct {
	of     uuid.UUID // the payment's entry
	name   string    // the payer, by the bank's record
	txnRef string    // the bank's id of the payment
	// the account's policy makes it, of what the payment's hold keeps, less the fee
	byPolicy bool
}

// RefundAccepted is the answer to a request to refund.
type RefundAccepted struct {
	Accepted
	RefundOf uuid.UUID `json:"refundOf"`
}

// refundable has what a refund needs to know about its payment.
type refundable struct {
	AccountID   uuid.UUID
	Direction   ledger.Direction
	Status      ledger.Status
	Kind        ledger.Kind
	ReversalOf  *uuid.UUID
	Net         money.Amount
	TxnRef      string // the bank's id of it
	Recorded    bool   // a record of the bank has named the payer
	Name        string // the payer's, by the bank's record, as are the next three
	Account     string
	BankCode    string
	BankName    string
	Recall      string       // the status of its last recall; empty: there was none
	RefundedSum money.Amount // by refunds whose money did not come back
	Available   money.Amount // what may leave the account
}

const notMoved = `status NOT IN ('failed', 'refunded')`

var refundableSQL = `
	SELECT e.account_id, e.direction, e.status, e.kind, e.reversal_of, e.amount, e.provider_txn_ref, e.record_account IS NOT NULL,
		coalesce(e.record_name, e.sender_name), coalesce(e.record_account, ''), coalesce(e.record_bank_code, ''), coalesce(e.record_bank, e.sender_bank),
		coalesce((SELECT r.status FROM recalls r WHERE r.event_id = e.transaction_group_id), ''),
		coalesce((SELECT sum(coalesce(t.paid_amount, t.amount)) FROM transfers t WHERE t.refund_of = ANY(payment_entries(e)) AND t.` + notMoved + `), 0),
		` + ledger.Available("$3", "$4") + `
	FROM ledger_entries e JOIN ledger_balances b ON b.account_id = e.account_id
	WHERE e.id = $1 AND e.tenant_id = $2`

func (s *Service) readRefundable(ctx context.Context, q pg.Querier, now time.Time, tenantID, entry uuid.UUID) (refundable, error) {
	return pg.One(ctx, q, pgx.RowToStructByPos[refundable], ledger.ErrEntryNotFound, refundableSQL, entry, tenantID, s.Provisional, now)
}

// left returns what may still be refunded, or why nothing may.
func (p *refundable) left() (money.Amount, error) {
	left := p.Net.Sub(p.RefundedSum)
	switch {
	case p.Direction != ledger.Credit || p.Kind != "" || p.ReversalOf != nil:
		return left, ErrNotPayment
	case p.Status == ledger.Reversed:
		return left, ErrTakenBack
	case p.Status != ledger.Confirmed:
		return left, ErrUnconfirmed
	case p.Recall == "open" || p.Recall == "watched":
		return left, ErrRecalled
	case !left.IsPositive():
		return left, ErrRefunded
	}
	return left, nil
}

// Refund accepts a refund of a payment to the account that the bank's own record says it came from:
// of the amount, or of all that is left of it where amount is empty. It takes available money only,
// and as with [Service.Settle], a key makes one refund. Refusals: [ErrAmount],
// ledger.ErrEntryNotFound, [ErrNotPayment], [ErrUnconfirmed], [ErrTakenBack], [ErrRecalled],
// [ErrNoRecord], [ErrNoSender], [ErrRefunded], [ErrRefundAmount], account.ErrFrozen,
// ledger.ErrInsufficientFunds, and those of package idempotency.
func (s *Service) Refund(ctx context.Context, tenantID, entry uuid.UUID, amount string, maker Maker, key idempotency.Request) (Settled, error) {
	var sum money.Amount
	if amount != "" {
		var err error
		if sum, err = money.Parse(amount); err != nil || !sum.IsPositive() {
			return Settled{}, ErrAmount
		}
	}
	ctx, span := trace.Step(ctx, "refund")
	defer span.End()
	if kept, err := idempotency.Find(ctx, s.Pool, s.Clock.Now(), key); err != nil || kept != nil {
		return Settled{Result: idempotency.Repeated(kept)}, err // whatever has happened to the payment since
	}
	p, err := s.readRefundable(ctx, s.Pool, s.Clock.Now(), tenantID, entry)
	if err != nil {
		return Settled{}, err
	}
	of := &refund{of: entry, name: p.Name, txnRef: p.TxnRef}
	// read after the payment, so that every refund counted there is seen here
	if was, err := s.madeBefore(ctx, s.Pool, s.Clock.Now(), &request{key: key, refund: of}, p.AccountID, sum); err != nil || was != nil {
		return Settled{Result: idempotency.Repeated(was)}, err
	}
	if _, err := p.left(); err != nil {
		return Settled{}, err
	}
	// The payer on record never changes, so it may be read before the transaction, in which the
	// bank cannot be asked for its list.
	to, err := s.backTo(ctx, &p)
	if err != nil {
		return Settled{}, err
	}
	to.key, to.trace, to.refund, to.order.Maker = key, trace.Parent(ctx), of, maker
	var settled Settled
	settled.Result, err = idempotency.Once(ctx, s.Pool, s.Clock, http.StatusAccepted, key, func(tx pg.Tx, now time.Time) (any, error) {
		if err := maker.Standing.Check(ctx, tx); err != nil {
			return nil, err
		}
		a, err := s.acceptRefund(ctx, tx, now, account.Ref{TenantID: tenantID, ID: p.AccountID}, sum, to)
		if err != nil {
			return nil, err
		}
		settled.TransferID = a.ID
		if err := maker.write(ctx, tx, now, "transfer.refund", a); err != nil {
			return nil, err
		}
		return RefundAccepted{a.accepted(), entry}, nil
	})
	return settled, err
}

// madeBefore rebuilds the first answer to a request whose answer is no longer stored: its key's
// reference has a transfer, either the first request's or one that was adopted since
// ([Service.Adopt]). nil: there is none, or it is so old that its key may be used again. An amount
// other than the first one is idempotency.ErrReused; zero matches any.
func (s *Service) madeBefore(ctx context.Context, q pg.Querier, now time.Time, r *request, from uuid.UUID, sum money.Amount) (*idempotency.Answer, error) {
	if !r.key.Given() {
		return nil, nil
	}
	a := RefundAccepted{Accepted{MerchantTxRef: r.newRef(from, r.key), Status: Pending, Currency: money.Currency}, r.refund.of}
	err := q.QueryRow(ctx, `
		SELECT t.amount, a.account_ref FROM transfers t JOIN accounts a ON a.id = t.account_id
		WHERE t.merchant_tx_ref = $1 AND t.refund_of = $2 AND t.created_at >= $3`, a.MerchantTxRef, a.RefundOf, now.Add(-idempotency.Keep)).
		Scan(&a.Amount, &a.AccountRef)
	switch {
	case err != nil:
		return nil, pg.OrNone(err, nil)
	case sum.IsPositive() && !sum.Equal(a.Amount):
		return nil, idempotency.ErrReused
	}
	answer, err := idempotency.NewAnswer(http.StatusAccepted, a)
	return &answer, err
}

// backTo returns the order that refunds a payment to its sender. [ErrNoRecord], [ErrNoSender],
// [errNoBanks].
func (s *Service) backTo(ctx context.Context, p *refundable) (*request, error) {
	if !p.Recorded {
		return nil, ErrNoRecord
	}
	if !accountForm.MatchString(p.Account) || len(identity.Words(p.Name)) == 0 {
		return nil, ErrNoSender
	}
	r := &request{order: Order{AccountNumber: p.Account, Narration: "Refund"}}
	var err error
	if r.order.BankCode, r.bank, err = s.Banks.find(ctx, p.BankCode, p.BankName); err != nil {
		return nil, err
	}
	if !bankCodeForm.MatchString(r.order.BankCode) {
		return nil, ErrNoSender
	}
	return r, nil
}

// acceptRefund posts the debit of a refund, and inserts its transfer. Everything that decides is
// read after the balance is locked, since all refunds of the payment are accepted, and its recalls
// opened, under that lock.
func (s *Service) acceptRefund(ctx context.Context, tx pg.Tx, now time.Time, of account.Ref, sum money.Amount, to *request) (*acceptance, error) {
	from, err := account.FindPayers(ctx, tx, now, []account.Ref{of})
	switch {
	case err != nil:
		return nil, err
	case from[0].Account == nil:
		return nil, account.ErrNotFound
	case from[0].Frozen:
		return nil, account.ErrFrozen
	}
	if err := ledger.LockAvailable(ctx, tx, now, of.ID); err != nil {
		return nil, err
	}
	switch was, err := s.madeBefore(ctx, tx, now, to, of.ID, money.Zero); {
	case err != nil:
		return nil, err
	case was != nil && !to.refund.byPolicy:
		return nil, idempotency.ErrRunning // it was adopted a moment ago; a repeat of the request will find it
	}
	held, err := ledger.FindPolicyHold(ctx, tx, to.refund.of)
	if err != nil {
		return nil, err
	}
	p, err := s.readRefundable(ctx, tx, now, of.TenantID, to.refund.of)
	if err != nil {
		return nil, err
	}
	left, err := p.left()
	if err != nil {
		return nil, err
	}
	if held != nil {
		p.Available = p.Available.Add(held.Amount)
	}
	if !sum.IsPositive() {
		sum = left
	}
	// limits do not count it, as it goes back to the payer; and their sums would have to be locked
	// before balances
	a := to.accept(account.Payer{Account: from[0].Account})
	if to.refund.byPolicy {
		if sum, err = s.byPolicy(ctx, tx, a, held, left, from[0].BearsFee); err != nil {
			return nil, err
		}
	}
	if sum.Cmp(left) > 0 {
		return nil, ErrRefundAmount
	}
	if to.amount = sum; !to.refund.byPolicy {
		s.reserve(a, from[0].BearsFee)
	}
	if sum.Add(a.reserved).Cmp(p.Available) > 0 {
		return nil, ledger.ErrInsufficientFunds
	}
	if held != nil { // what the hold keeps is refunded first
		if held.Amount = held.Amount.Left(sum.Add(a.reserved)); to.refund.byPolicy {
			held.Amount = money.Zero
		}
		if err := ledger.SetPolicyHold(ctx, tx, now, *held); err != nil {
			return nil, err
		}
	}
	out := make([]batch.Outcome[Settled], 1)
	candidates, err := s.withoutRepeats(ctx, tx, now, []*acceptance{a}, out)
	switch {
	case err != nil:
	case len(candidates) > 0:
		_, err = s.debit(ctx, tx, now, candidates, out)
	case out[0].Err == nil: // nothing is accepted, so nothing may be answered or taken off the hold
		err = idempotency.ErrRunning
	}
	return a, errors.Join(err, out[0].Err)
}

// errPaymentRecalled is why a refund waits.
var errPaymentRecalled = errors.New("the bank may have taken back the payment that it refunds")

// paymentState says what has happened to the payment that a transfer refunds. The zero value: the
// payment stands, or the transfer is not a refund.
type paymentState string

const (
	paymentRecalled paymentState = "recalled" // the bank may have taken it back
	paymentGone     paymentState = "gone"     // the bank has taken it back
)

// paymentOf is, as SQL, the state of the payment that a transfer t refunds. A misdirected payment
// has no recall: it is gone once an event of the bank says so.
const paymentOf = `CASE WHEN t.refund_of IS NULL THEN '' ELSE (
			SELECT CASE WHEN e.status <> 'confirmed' THEN 'gone'
				WHEN e.kind = 'suspense' THEN CASE WHEN EXISTS (SELECT FROM event_keys k
					WHERE k.transaction = ANY(ARRAY[event_key(nullif(e.provider_txn_ref, ''))]) AND k.event_type = 'payment_reversal') THEN 'gone' ELSE '' END
				WHEN (SELECT r.status FROM recalls r WHERE r.event_id = ANY(ARRAY[e.transaction_group_id]))` + ledger.RecallStands + ` THEN 'recalled' ELSE '' END
			FROM ledger_entries e WHERE e.id = t.refund_of) END`

// goesBackSQL returns the bank's id of a payment, and the sum of its refunds whose money has not
// come back.
const goesBackSQL = `
	SELECT e.provider_txn_ref, (SELECT coalesce(sum(coalesce(t.paid_amount, t.amount)), 0) FROM transfers t WHERE t.refund_of = ANY(payment_entries(e)) AND t.` + notMoved + `)
	FROM ledger_entries e WHERE e.id = $1`

// atBank asks the bank, before each submission of a refund, what has happened to the payment,
// because an event may never come, and the bank's list for the payment's day may not be read again.
// Without a clear answer nothing is submitted, except if the bank does not know a tenant's payment,
// which a recall would not believe either, or can no longer be asked about it. Nor is it if the
// record is of less than what goes back: a part may have been taken back already.
func (s *Service) atBank(ctx context.Context, st *claimed) (paymentState, error) {
	if st.refundOf == nil {
		return "", nil
	}
	var ref string
	var back money.Amount
	if err := s.Pool.QueryRow(ctx, goesBackSQL, *st.refundOf).Scan(&ref, &back); err != nil {
		return "", err
	}
	misdirected := st.TenantID == suspense.TenantID
	t, err := provider.Record(ctx, s.Bank, ref)
	switch {
	case (errors.Is(err, provider.ErrUnknown) || errors.Is(err, provider.ErrOtherAccount)) && !misdirected:
		return "", nil
	case err != nil:
		return "", fmt.Errorf("ask the bank about the payment that it refunds: %w", err)
	case t.Status == provider.Success && t.Amount.Cmp(back) < 0:
		return "", fmt.Errorf("the bank's record of the payment that it refunds is of %s, and its refunds are of %s", t.Amount, back)
	case t.Status == provider.Success:
		return "", nil
	case t.Status == provider.Pending:
		return "", errors.New("the bank says that the payment that it refunds is under way")
	case misdirected: // it has no recall
		return paymentGone, nil
	case s.OpenRecall == nil:
		return paymentRecalled, nil
	}
	if stands, err := s.OpenRecall(ctx, t); err != nil || !stands {
		return paymentRecalled, err
	}
	return "", nil
}

// sameHolder reports whether the bank's name of a holder can be the payer's: all words of one name
// are in the other, in any order, and there are at least two. Accents, case and punctuation make no
// difference.
func sameHolder(payer, holder string) bool {
	a, b := identity.Words(strings.ToLower(payer)), identity.Words(strings.ToLower(holder))
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) == 0 || len(a) == 1 && len(b) > 1 {
		return false
	}
	for _, word := range a {
		if !slices.Contains(b, word) {
			return false
		}
	}
	return true
}
