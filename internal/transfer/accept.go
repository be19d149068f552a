package transfer

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/batch"
	"ajo/internal/fee"
	"ajo/internal/idempotency"
	"ajo/internal/limit"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/work"
	"ajo/ledger"
)

// request is an order that passed validation.
type request struct {
	account account.Ref
	amount  money.Amount
	order   Order
	key     idempotency.Request
	trace   string  // the traceparent that the transfer keeps
	bank    string  // the name of the destination's bank, as far as it is known
	refund  *refund // nil: an ordinary settlement
	asked   time.Time
}

// waitedFor is for how long a request by an API key has waited when the key is checked once more,
// behind the locks. The query for each is not worth the milliseconds of one that waits for nobody.
const waitedFor = 100 * time.Millisecond

// acceptance is a request that has taken its key and found its account, with the transfer that it
// becomes.
type acceptance struct {
	*request
	newTransfer
	from account.Payer
	at   int // its place in the batch
	// what the bank's charges are expected to be, if the tenant bears them
	reserved money.Amount
	platform fee.Charge    // what the platform charges
	policy   policy        // its tenant's
	posted   ledger.Posted // its debit
}

// newTransfer is the row of a transfer that is accepted.
type newTransfer struct {
	ID            uuid.UUID     `pg:"id"`
	TenantID      uuid.UUID     `pg:"tenant_id"`
	AccountID     uuid.UUID     `pg:"account_id"`
	MerchantTxRef string        `pg:"merchant_tx_ref"`
	Status        Status        `pg:"status"`
	Amount        money.Amount  `pg:"amount,numeric"`
	BankCode      string        `pg:"bank_code"`
	BankName      string        `pg:"bank_name"`
	AccountNumber string        `pg:"account_number"`
	Narration     string        `pg:"narration"`
	ExpectedName  string        `pg:"expected_name"` // as of claimed
	CreatedAt     time.Time     `pg:"created_at"`
	UpdatedAt     time.Time     `pg:"updated_at"`
	Traceparent   string        `pg:"traceparent"`
	Counted       bool          `pg:"counted"` // in its tenant's daily sums (package limit)
	FeeByTenant   bool          `pg:"fee_by_tenant"`
	ReservedFee   *money.Amount `pg:"reserved_fee,numeric"`
	// the platform's charges, by the price at acceptance; nil: none
	PlatformFee *money.Amount `pg:"platform_fee,numeric"`
	PlatformVAT *money.Amount `pg:"platform_vat,numeric"`
	// the place of its debit among the account's, by which those that wait leave (cover.go)
	DebitSeq int64        `pg:"debit_seq"`
	DebitsTo money.Amount `pg:"debits_to,numeric"`
	// of a refund: the payment's entry, and the payer's name
	RefundOf        *uuid.UUID `pg:"refund_of"`
	RefundName      *string    `pg:"refund_name"`
	ByPolicy        bool       `pg:"by_policy"`
	ApprovalsNeeded int        `pg:"approvals_needed"` // by its tenant's policy
	MadeBy          *uuid.UUID `pg:"made_by"`          // the member who asked for it; nil: an API key
	ApprovalHook    *string    `pg:"approval_hook"`
}

// accept returns the acceptance of a request to pay out of an account.
func (r *request) accept(from account.Payer) *acceptance {
	return &acceptance{request: r, from: from, newTransfer: newTransfer{ID: uuid.Must(uuid.NewV7()), MerchantTxRef: r.newRef(from.ID, r.key)}}
}

func (a *acceptance) payer() limit.Payer {
	return limit.Payer{TenantID: a.from.TenantID, AccountID: a.from.ID}
}

// answer is the request's answer.
func (a *acceptance) answer() (idempotency.Answer, error) {
	return idempotency.NewAnswer(http.StatusAccepted, a.accepted())
}

func (a *acceptance) accepted() Accepted {
	out := Accepted{MerchantTxRef: a.MerchantTxRef, Status: Pending, Amount: a.amount, Currency: a.from.Currency, AccountRef: a.from.AccountRef}
	if a.ApprovalsNeeded > 0 {
		out.Awaiting = AwaitingApproval
	}
	return out
}

// acceptAll accepts many settlements in one transaction, with the result of accepting them one
// after the other. A refusal concerns its own request only. The keys are taken first and the
// balances locked last.
func (s *Service) acceptAll(ctx context.Context, tx pg.Tx, requests []*request) ([]batch.Outcome[Settled], error) {
	out := make([]batch.Outcome[Settled], len(requests))
	now := s.Clock.Now()
	of, refs := make([]idempotency.Request, len(requests)), make([]account.Ref, len(requests))
	for i, r := range requests {
		of[i], refs[i] = r.key, r.account
	}
	keys, err := idempotency.BeginAll(ctx, tx, now, of)
	if err != nil {
		return nil, err
	}
	from, err := account.FindPayers(ctx, tx, now, refs)
	if err != nil {
		return nil, err
	}
	take := func(i int) bool {
		kept, err := keys.Take(i)
		out[i] = batch.Outcome[Settled]{Value: Settled{Result: idempotency.Repeated(kept)}, Err: err}
		return err == nil && kept == nil
	}
	// For a request with a key, [Service.Settle] checks after it has asked the bank, and below if
	// it has waited: here it would cost each request a query.
	standing := func(i int) bool {
		out[i].Err = requests[i].order.Maker.Standing.Check(ctx, tx)
		return out[i].Err == nil
	}
	var candidates []*acceptance
	for i, r := range requests {
		switch {
		case !take(i):
		case from[i].Account == nil:
			out[i].Err = account.ErrNotFound
		case from[i].Frozen:
			out[i].Err = account.ErrFrozen
		case r.order.Maker.Member != uuid.Nil && !standing(i):
		default:
			a := r.accept(from[i])
			a.at = i
			s.reserve(a, from[i].BearsFee)
			candidates = append(candidates, a)
		}
	}
	if candidates, err = withBeneficiaries(ctx, tx, candidates, out); err != nil {
		return nil, err
	}
	if candidates, err = s.withoutRepeats(ctx, tx, now, candidates, out); err != nil {
		return nil, err
	}
	accepted, err := s.debit(ctx, tx, now, candidates, out)
	if err != nil || len(accepted) == 0 {
		return out, err
	}
	waited := s.Clock.Now().Add(-waitedFor)
	checked := map[string]bool{} // the keys, once each
	for _, a := range accepted {
		answer, err := a.answer()
		if err != nil {
			return nil, err
		}
		// Whoever is gone fails the batch, which is repeated one by one: only that request is
		// refused.
		if who := a.order.Maker; who.Member != uuid.Nil || !a.asked.After(waited) && !checked[who.By.Actor] {
			if err := who.write(ctx, tx, now, "transfer.settle", a); err != nil {
				return nil, err
			}
			checked[who.By.Actor] = true
		}
		out[a.at].Value = Settled{Result: idempotency.Result{Answer: answer}, TransferID: a.ID}
		keys.Keep(a.at, answer)
	}
	for i := range requests {
		// perhaps for another request of this batch, which has its answer now
		if errors.Is(out[i].Err, idempotency.ErrRunning) {
			take(i)
		}
	}
	return out, keys.Save(ctx, tx)
}

// reserve sets the fee that the bank is expected to charge, if the tenant bears it.
func (s *Service) reserve(a *acceptance, bears bool) {
	a.FeeByTenant, a.reserved = bears, s.expectedFee(a.amount, bears)
}

// expectedFee is what the bank is expected to charge for a payout whose fee the tenant bears.
func (s *Service) expectedFee(amount money.Amount, bears bool) money.Amount {
	if !bears || len(s.Fees) == 0 {
		return money.Zero
	}
	return s.Fees.Of(amount)
}

// debit posts the debits of the requests that their accounts' balances cover and their tenants'
// limits allow, with the debits of the fees that their tenants bear and of the platform's charges.
// It inserts their transfers, due at once or, if only members can approve them, when the time for
// approval ends. It returns these requests; the others are refused.
func (s *Service) debit(ctx context.Context, tx pg.Tx, now time.Time, candidates []*acceptance, out []batch.Outcome[Settled]) ([]*acceptance, error) {
	if len(candidates) == 0 {
		return nil, nil
	}
	candidates, err := applyPolicies(ctx, tx, now, candidates, out)
	if err != nil || len(candidates) == 0 {
		return nil, err
	}
	var limited []limit.Payer
	for _, c := range candidates {
		if c.from.Limited || c.policy.dayAbove != nil {
			limited = append(limited, c.payer())
		}
	}
	count, err := limit.Begin(ctx, tx, now, limited)
	if err != nil {
		return nil, err
	}
	if err := applyPrices(ctx, tx, now, candidates); err != nil {
		return nil, err
	}
	postings := make([]ledger.Posting, len(candidates))
	for i, c := range candidates {
		postings[i] = ledger.Posting{AccountID: c.from.ID, Amount: c.amount, Narration: c.order.Narration, TransactionGroupID: c.ID, TransferRef: &c.MerchantTxRef, Kind: kindOf(c.from.TenantID, c.from.ID)}
		c.ApprovalsNeeded = c.policy.of(c.amount, money.Zero)
		if c.Counted = count.Counts(c.payer()); c.Counted {
			postings[i].Allow = func() error {
				err := count.Take(c.payer(), c.amount)
				c.ApprovalsNeeded = c.policy.of(c.amount, count.Today(c.payer()))
				return err
			}
		}
		if c.reserved.IsPositive() {
			postings[i].With = []ledger.Posting{reservedFee(c.from.ID, c.ID, &c.MerchantTxRef, c.reserved)}
		}
		postings[i] = postings[i].WithCharges(c.platform.Fee, c.platform.VAT)
	}
	posted, err := ledger.PostDebits(ctx, tx, now, postings)
	if err != nil {
		return nil, err
	}
	var accepted []*acceptance
	for i, c := range candidates {
		if out[c.at].Err = posted[i].Err; posted[i].Err == nil {
			c.posted = posted[i]
			accepted = append(accepted, c)
		}
	}
	if err := count.Save(ctx, tx); err != nil {
		return nil, err
	}
	return accepted, insert(ctx, tx, now, accepted)
}

// applyPrices sets the platform's charges for settlements of tenants that have a price. A refund
// has no charge, and the charge on its payment stays.
func applyPrices(ctx context.Context, tx pg.Tx, now time.Time, candidates []*acceptance) error {
	var tenants []uuid.UUID
	for _, c := range candidates {
		if c.from.Priced {
			tenants = append(tenants, c.from.TenantID)
		}
	}
	prices, err := fee.Read(ctx, tx, now, fee.OnPayout, tenants)
	for _, c := range candidates {
		if p, ok := prices[c.from.TenantID]; ok && c.from.Priced {
			c.platform = p.Charge(c.amount)
		}
	}
	return err
}

var insertSQL = pg.Insert[acceptance]("transfers", 1)

func insert(ctx context.Context, tx pg.Tx, now time.Time, accepted []*acceptance) error {
	if len(accepted) == 0 {
		return nil
	}
	items := make([]work.Item, len(accepted))
	for i, a := range accepted {
		a.TenantID, a.AccountID, a.Status, a.Amount, a.Traceparent = a.from.TenantID, a.from.ID, Pending, a.amount, a.trace
		a.BankCode, a.BankName, a.AccountNumber, a.Narration = a.order.BankCode, a.bank, a.order.AccountNumber, a.order.Narration
		a.CreatedAt, a.UpdatedAt, a.ExpectedName, a.DebitSeq, a.DebitsTo = now, now, a.order.holder(), a.posted.Seq, a.posted.Debits
		if m := a.order.Maker.Member; m != uuid.Nil {
			a.MadeBy = &m
		}
		if a.reserved.IsPositive() {
			a.ReservedFee = &a.reserved
		}
		if a.platform.Fee.IsPositive() {
			a.PlatformFee, a.PlatformVAT = &a.platform.Fee, &a.platform.VAT
		}
		if r := a.refund; r != nil {
			a.RefundOf, a.RefundName, a.ByPolicy = &r.of, &r.name, r.byPolicy
		}
		items[i] = work.Item{Kind: work.Settle, ID: a.ID, TenantID: a.TenantID, DueAt: now, Traceparent: a.trace}
		if a.ApprovalsNeeded > 0 {
			if a.ApprovalHook = a.policy.hook; a.policy.hook == nil {
				items[i].DueAt = now.Add(approvalTime)
			}
		}
	}
	if _, err := tx.Exec(ctx, insertSQL, pg.Columns(accepted)...); err != nil {
		return err
	}
	return work.Schedule(ctx, tx, items...)
}
