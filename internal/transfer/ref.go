package transfer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/batch"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// Every merchantTxRef of ours begins with one of these.
const (
	refPrefix    = "AJO"
	refundPrefix = "AJR" // for refunds
)

// newRef makes the merchantTxRef of a transfer from letters and digits, which every bank accepts:
// 16 for the account that pays and 16 for the transfer. By the first 16, a payout can be assigned
// to its account after the database was restored from an older backup ([Service.Adopt]). The second
// 16 are derived from the Idempotency-Key if there is one: a tenant that repeats its request to the
// restored service gets the same reference, and the bank does not pay again. Without a key they are
// random ([request.suspenseRef] makes one). In a refund, the first 8 of them name the payment, so
// that an adopted payout still counts as its refund.
func (r *request) newRef(account uuid.UUID, key idempotency.Request) string {
	own, ok := key.Name()
	if !ok {
		_, _ = rand.Read(own[:]) // it never fails
	}
	if r.refund != nil {
		return refundPrefix + accountTag(account) + paymentTag(r.refund.txnRef) + hex.EncodeToString(own[:4])
	}
	return refPrefix + accountTag(account) + hex.EncodeToString(own[:])
}

// accountTag is the random half of an account's id.
func accountTag(account uuid.UUID) string { return hex.EncodeToString(account[8:]) }

// paymentTag names a payment by the bank's transaction id, which stays the same when the payment is
// posted again.
func paymentTag(txnRef string) string {
	sum := sha256.Sum256([]byte(txnRef))
	return hex.EncodeToString(sum[:4])
}

const repeatsSQL = `SELECT merchant_tx_ref, amount, bank_code, account_number, created_at FROM transfers WHERE merchant_tx_ref = ANY($1)`

// withoutRepeats removes the requests whose reference already has a transfer: no answer is stored
// under their key, but the same settlement was requested before, and adopted ([Service.Adopt]).
// They get the answer of the first request; of another sum, or to another destination, the request
// is [idempotency.ErrReused]. If the first one was so long ago that its key may be used again, the
// request gets a random reference instead.
func (s *Service) withoutRepeats(ctx context.Context, tx pg.Tx, now time.Time, candidates []*acceptance, out []batch.Outcome[Settled]) ([]*acceptance, error) {
	of := map[string]*acceptance{}
	for _, c := range candidates {
		if c.key.Given() {
			of[c.MerchantTxRef] = c
		}
	}
	if len(of) == 0 {
		return candidates, nil
	}
	rows := pg.Rows(ctx, tx, repeatsSQL, slices.Collect(maps.Keys(of)))
	repeated := map[*acceptance]bool{}
	var ref, bankCode, accountNumber string
	var amount money.Amount
	var at time.Time
	_, err := pgx.ForEachRow(rows, []any{&ref, &amount, &bankCode, &accountNumber, &at}, func() (err error) {
		c := of[ref]
		switch {
		case now.Sub(at) > idempotency.Keep:
			c.MerchantTxRef = c.newRef(c.from.ID, idempotency.Request{})
			return nil
		case !amount.Equal(c.amount) || !mayBe(bankCode, c.order.BankCode, NoBankCode) || !mayBe(accountNumber, c.order.AccountNumber, NoAccountNumber):
			out[c.at].Err = idempotency.ErrReused
		default:
			out[c.at].Value.Replayed = true
			out[c.at].Value.Answer, err = c.answer()
		}
		repeated[c] = true
		return err
	})
	return slices.DeleteFunc(candidates, func(c *acceptance) bool { return repeated[c] }), err
}

// taggedAccount finds the account that one of our references names, or [ErrNoAccount]. It reads all
// accounts.
func taggedAccount(ctx context.Context, q pg.Querier, ref string) (id uuid.UUID, err error) {
	tag, ok := tagsOf(ref)
	if !ok {
		return id, ErrNoAccount
	}
	if refundsSome(ref) && tag[:16] == accountTag(suspense.ID) {
		return suspense.ID, nil
	}
	err = q.QueryRow(ctx, `SELECT id FROM accounts WHERE right(replace(id::text, '-', ''), 16) = $1`, tag[:16]).Scan(&id)
	return id, pg.OrNone(err, ErrNoAccount)
}

// refundsSome reports whether a reference belongs to a refund.
func refundsSome(ref string) bool {
	_, ok := tagsOf(ref)
	return ok && strings.HasPrefix(ref, refundPrefix)
}

// tagsOf returns what follows the prefix of one of our references.
func tagsOf(ref string) (tags string, ok bool) {
	if len(ref) != len(refPrefix)+32 || !strings.HasPrefix(ref, refPrefix) && !strings.HasPrefix(ref, refundPrefix) {
		return "", false
	}
	return ref[len(refPrefix):], true
}
