package transfer

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/batch"
	"ajo/internal/failpoint"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/trace"
	"ajo/ledger"
)

// request is an order whose form is good.
type request struct {
	account account.Ref
	amount  money.Amount
	order   Order
	key     idempotency.Request
	trace   string // the traceparent that the transfer keeps
	bank    string // the name of the destination's bank, as far as it is known
}

// acceptance is a request that has taken its key and found its account.
type acceptance struct {
	*request
	from *account.Account
	id   uuid.UUID
	ref  string
	at   int // its place in the batch
}

// answer is what the request is told.
func (a *acceptance) answer() (idempotency.Answer, error) {
	return idempotency.NewAnswer(http.StatusAccepted, Accepted{
		MerchantTxRef: a.ref, Status: Pending, Amount: a.amount, Currency: a.from.Currency, AccountRef: a.from.AccountRef,
	})
}

// acceptBatch accepts many settlements in one transaction, as if one after the other. A refusal is
// its request's alone.
func (s *Service) acceptBatch(ctx context.Context, requests []*request) []batch.Outcome[Settled] {
	return pg.Isolate(requests, func(requests []*request) (out []batch.Outcome[Settled], err error) {
		err = pg.InBatch(ctx, s.Pool, func(tx pg.Tx) error {
			out = make([]batch.Outcome[Settled], len(requests))
			err := s.acceptAll(ctx, tx, requests, out)
			failpoint.At("transfer/before-accept-commit")
			return err
		})
		if err == nil {
			failpoint.At("transfer/after-accept-commit")
		}
		return out, err
	})
}

// acceptAll takes the keys first, and the balances' locks last.
func (s *Service) acceptAll(ctx context.Context, tx pg.Tx, requests []*request, out []batch.Outcome[Settled]) error {
	now := s.Clock.Now()
	of, refs := make([]idempotency.Request, len(requests)), make([]account.Ref, len(requests))
	for i, r := range requests {
		of[i], refs[i] = r.key, r.account
	}
	keys, err := idempotency.BeginAll(ctx, tx, now, of)
	if err != nil {
		return err
	}
	from, err := account.FindAll(ctx, tx, refs)
	if err != nil {
		return err
	}
	take := func(i int) bool {
		kept, err := keys.Take(i)
		out[i] = batch.Outcome[Settled]{Value: repeated(kept), Err: err}
		return err == nil && kept == nil
	}
	var candidates []*acceptance
	for i, r := range requests {
		switch {
		case !take(i):
		case from[i] == nil:
			out[i].Err = account.ErrNotFound
		default:
			id := uuid.Must(uuid.NewV7())
			candidates = append(candidates, &acceptance{request: r, from: from[i], id: id, ref: newRef(from[i].ID, r.key), at: i})
		}
	}
	if candidates, err = s.withoutRepeats(ctx, tx, now, candidates, out); err != nil {
		return err
	}
	accepted, err := s.debit(ctx, tx, now, candidates, out)
	if err != nil || len(accepted) == 0 {
		return err
	}
	for _, a := range accepted {
		answer, err := a.answer()
		if err != nil {
			return err
		}
		out[a.at].Value = Settled{TransferID: a.id, Answer: answer}
		keys.Keep(a.at, answer)
	}
	for i := range requests {
		// perhaps by a neighbour, which has its answer now
		if errors.Is(out[i].Err, idempotency.ErrRunning) {
			take(i)
		}
	}
	return keys.Save(ctx, tx)
}

// debit posts the debits of the requests that their accounts' balances cover, and inserts their
// transfers, due at once. It returns these; the others are refused.
func (s *Service) debit(ctx context.Context, tx pg.Tx, now time.Time, candidates []*acceptance, out []batch.Outcome[Settled]) ([]*acceptance, error) {
	if len(candidates) == 0 {
		return nil, nil
	}
	postings := make([]ledger.Posting, len(candidates))
	for i, c := range candidates {
		postings[i] = ledger.Posting{AccountID: c.from.ID, Amount: c.amount, Narration: c.order.Narration, TransactionGroupID: c.id, TransferRef: &c.ref}
	}
	posted, err := ledger.PostDebits(ctx, tx, now, postings)
	if err != nil {
		return nil, err
	}
	var accepted []*acceptance
	for i, c := range candidates {
		if out[c.at].Err = posted[i].Err; posted[i].Err == nil {
			accepted = append(accepted, c)
		}
	}
	return accepted, insert(ctx, tx, now, accepted)
}

func insert(ctx context.Context, tx pg.Tx, now time.Time, accepted []*acceptance) error {
	if len(accepted) == 0 {
		return nil
	}
	var c struct {
		id, tenant, account                  []uuid.UUID
		ref, amount, bank, number, narration []string
		trace, bankName                      []string
	}
	for _, a := range accepted {
		c.trace = trace.Put(c.trace, len(c.id), a.trace)
		c.id, c.tenant, c.account = append(c.id, a.id), append(c.tenant, a.from.TenantID), append(c.account, a.from.ID)
		c.ref, c.amount, c.bank = append(c.ref, a.ref), append(c.amount, a.amount.String()), append(c.bank, a.order.BankCode)
		c.number, c.narration = append(c.number, a.order.AccountNumber), append(c.narration, a.order.Narration)
		c.bankName = append(c.bankName, a.bank)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, narration, next_attempt_at, created_at, updated_at, traceparent,
			bank_name)
		SELECT id, tenant, account, ref, 'pending', amount::numeric, bank, number, narration, $9, $9, $9, coalesce(trace, ''), bank_name
		FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $10::text[], $11::text[])
			AS a (id, tenant, account, ref, amount, bank, number, narration, trace, bank_name)`,
		c.id, c.tenant, c.account, c.ref, c.amount, c.bank, c.number, c.narration, now, c.trace, c.bankName)
	return err
}
