package transfer

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/work"
	"ajo/ledger"
)

// Refusals of [Service.Adopt].
var (
	ErrKnown     = errs.New(errs.Conflict, "a transfer with this reference exists")
	ErrNotPaid   = errs.New(errs.Unprocessable, "the bank has not paid this reference, or gave the money back: there is nothing to adopt")
	ErrNoAccount = errs.New(errs.NotFound, "no account has paid under this reference; name the account")
	// without its payment, the refund would be paid a second time
	ErrNoPayment   = errs.New(errs.Unprocessable, "it is a refund, and the payment that it pays back is not on its account: post that first (ajo reconcile, ajo events assign)")
	ErrPaymentOpen = errs.New(errs.Unprocessable, "it is a refund, and the payment that it pays back is not confirmed yet: adopt it after that")
	ErrPayments    = errs.New(errs.Conflict, "it is a refund, and its reference names several payments of the account")
)

// Adopt books a payout that the bank has and the books lack, for example because the database was
// restored from a backup that is older than the payout. It creates a transfer that is in progress,
// with its debit, which may bring the balance below zero; the worker then asks the bank and ends
// it, like any other. The account is the one that the reference names or, if it names none, the
// given one. The reference of a refund also names its payment, so the transfer is a refund of that
// payment again, even if more than the payment has left by now. A transfer that the books have as
// never submitted becomes one in progress. For operators, and for reconciliation if the books have
// the transfer. [provider.ErrNotSet] without a bank, [ErrKnown], [ErrNotPaid], [ErrNoAccount],
// [ErrNoPayment], [ErrPaymentOpen], [ErrPayments], [ErrBank].
func (s *Service) Adopt(ctx context.Context, ref string, account uuid.UUID, by audit.By) error {
	if s.Bank == nil {
		return provider.ErrNotSet
	}
	p, err := s.Bank.Payout(ctx, ref)
	switch {
	case errors.Is(err, provider.ErrUnknown):
		return ErrNotPaid
	case err != nil:
		return errors.Join(ErrBank, err)
	case p.Ref != ref:
		return errors.Join(ErrBank, provider.ErrStranger)
	case p.Status == provider.Failed || p.Status == provider.Refunded:
		return ErrNotPaid
	}
	id := uuid.Must(uuid.NewV7())
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		var known bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM transfers WHERE merchant_tx_ref = $1)`, ref).Scan(&known); err != nil {
			return err
		}
		if known {
			return adoptKnown(ctx, tx, now, p, by)
		}
		from, err := taggedAccount(ctx, tx, ref)
		if errors.Is(err, ErrNoAccount) && account != uuid.Nil {
			from, err = account, nil
		}
		if err != nil {
			return err
		}
		of, err := refundedPayment(ctx, tx, ref, from)
		if err != nil {
			return err
		}
		debit := ledger.Posting{
			AccountID: from, Amount: p.Amount, Narration: p.Narration, TransactionGroupID: id, TransferRef: &ref, AllowOverdraft: true, Kind: kindOf(suspense.ID, from),
		}
		reserved, err := s.releaseAdopted(ctx, tx, now, from, of, p.Amount)
		if err != nil {
			return err
		}
		if reserved != nil {
			debit.With = []ledger.Posting{reservedFee(from, id, &ref, *reserved)}
		}
		posted, err := ledger.PostDebits(ctx, tx, now, []ledger.Posting{debit})
		if err != nil {
			return err
		}
		if posted[0].Err != nil {
			return posted[0].Err
		}
		var tenant uuid.UUID
		if err := tx.QueryRow(ctx, `
			INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, narration, attempt_count, submitted_at,
				acknowledged_at, created_at, updated_at, adopted, fee_by_tenant, refund_of, refund_name, by_policy, reserved_fee)
			SELECT $1, b.tenant_id, b.account_id, $3, 'processing', $4::numeric, $5, $6, $7, 1, $8, $8, $8, $8, true, coalesce(n.payout_fee_by = 'tenant', false), $9, $10, $11, $12
			FROM ledger_balances b LEFT JOIN tenants n ON n.id = b.tenant_id WHERE b.account_id = $2 RETURNING tenant_id`,
			id, from, ref, p.Amount, fitting(bankCodeForm, p.BankCode, NoBankCode), fitting(accountForm, p.AccountNumber, NoAccountNumber), p.Narration, now, of.Entry, of.Name, of.byPolicy, reserved).
			Scan(&tenant); err != nil {
			if pg.IsUnique(err, "transfers_merchant_tx_ref_key") {
				return ErrKnown // created a moment ago
			}
			return err
		}
		if err := work.Schedule(ctx, tx, work.Item{Kind: work.Settle, ID: id, TenantID: tenant, DueAt: now}); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("transfers.adopt", "transfer:"+ref, struct {
			AccountID     uuid.UUID
			Amount        string
			BankCode      string
			AccountNumber string
			RefundOf      *uuid.UUID `json:",omitempty"`
		}{from, p.Amount.String(), p.BankCode, p.AccountNumber, of.Entry}))
	})
}

// adoptKnown adopts a payout whose transfer exists: [ErrKnown], unless that was never submitted.
func adoptKnown(ctx context.Context, tx pg.Tx, now time.Time, p provider.Payout, by audit.By) error {
	taken, err := takeUp(ctx, tx, now, p.Ref)
	if err != nil {
		return err
	}
	if !taken {
		return ErrKnown
	}
	return audit.Write(ctx, tx, now, by.Entry("transfers.adopt", "transfer:"+p.Ref, struct{ BankSays, Amount string }{string(p.Status), p.Amount.String()}))
}

// takeUp marks a transfer as in progress that the books have as never submitted, although the bank
// has it: the submission was lost with the database from which this one was restored or took over.
// From then on only the bank's record ends it, so that no rejection, missing approval or lack of
// cover gives back money that has left. A claim on it is lost. Taken is false for any other
// transfer.
func takeUp(ctx context.Context, tx pg.Tx, now time.Time, ref string) (taken bool, err error) {
	m := work.Item{Kind: work.Settle, DueAt: now}
	if err := tx.QueryRow(ctx, `SELECT id, tenant_id, traceparent FROM transfers WHERE merchant_tx_ref = $1`, ref).Scan(&m.ID, &m.TenantID, &m.Traceparent); err != nil {
		return false, pg.OrNone(err, nil)
	}
	if err := work.Lock(ctx, tx, work.Settle, m.ID); err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, `UPDATE transfers SET status = 'processing', attempt_count = 1, submitted_at = $2, acknowledged_at = $2, adopted = true,
			ask_count = 0, unknown_count = 0, last_error = '', updated_at = $2 WHERE id = $1 AND status = 'pending'`, m.ID, now)
	if err != nil || tag.RowsAffected() == 0 {
		return false, err
	}
	return true, work.Schedule(ctx, tx, m)
}

// refundOf is the payment that an adopted payout refunds; nil: none.
type refundOf struct {
	Entry *uuid.UUID
	Name  *string // of the payer
	// the reference is the one that the account's policy gives its refund
	byPolicy bool
	status   ledger.Status
	tenant   uuid.UUID
	txnRef   string
}

// For the form of the tag see paymentTag. It reads the credits of the account.
const refundedSQL = `
	SELECT e.id, coalesce(e.record_name, e.sender_name), e.status, e.tenant_id, e.provider_txn_ref FROM ledger_entries e
	WHERE e.account_id = $1 AND e.direction = 'credit' AND e.reversal_of IS NULL AND e.kind = $2
		AND left(encode(sha256(convert_to(e.provider_txn_ref, 'UTF8')), 'hex'), 8) = $3
	ORDER BY e.seq`

// refundedPayment is the payment that the reference of a refund names. If it was posted several
// times, that is the one that counts, or else the last one that was reversed.
func refundedPayment(ctx context.Context, q pg.Querier, ref string, account uuid.UUID) (r refundOf, err error) {
	if !refundsSome(ref) {
		return r, nil
	}
	tags, _ := tagsOf(ref)
	named, err := pg.Collect(ctx, q, func(row pgx.CollectableRow) (r refundOf, err error) {
		return r, row.Scan(&r.Entry, &r.Name, &r.status, &r.tenant, &r.txnRef)
	}, refundedSQL, account, kindOf(suspense.ID, account), tags[16:24])
	if err != nil {
		return r, err
	}
	counting := 0
	for _, p := range named {
		switch p.status {
		case ledger.Confirmed:
			counting++
			r = p
		case ledger.Reversed:
			if counting == 0 {
				r = p
			}
		default:
			return refundOf{}, ErrPaymentOpen
		}
	}
	switch {
	case counting > 1:
		return refundOf{}, ErrPayments
	case r.Entry == nil:
		return r, ErrNoPayment
	}
	key, err := policyKey(r.tenant, r.txnRef)
	r.byPolicy = (&request{refund: &refund{txnRef: r.txnRef}}).newRef(account, key) == ref
	return r, err
}

// releaseAdopted reduces what a policy holds of a payment by its refund, which is adopted, and
// locks the balance of its account. The fee that the tenant bears for a refund by policy comes out
// of the hold too, as when a refund is accepted: it returns the fee to be reserved; nil: none.
func (s *Service) releaseAdopted(ctx context.Context, tx pg.Tx, now time.Time, account uuid.UUID, of refundOf, left money.Amount) (reserved *money.Amount, err error) {
	if of.Entry == nil {
		return nil, nil
	}
	if err := ledger.LockAvailable(ctx, tx, now, account); err != nil {
		return nil, err
	}
	held, err := ledger.FindPolicyHold(ctx, tx, *of.Entry)
	if err != nil || held == nil {
		return nil, err
	}
	var bears bool
	if err := tx.QueryRow(ctx, `SELECT payout_fee_by = 'tenant' FROM tenants WHERE id = $1`, of.tenant).Scan(&bears); err != nil {
		return nil, pg.OrNone(err, nil)
	}
	rest := held.Amount.Left(left)
	fee := s.expectedFee(held.Amount, of.byPolicy && bears)
	if fee.Cmp(rest) > 0 {
		fee = rest
	}
	if fee.IsPositive() {
		reserved, rest = &fee, rest.Sub(fee)
	}
	held.Amount = rest
	return reserved, ledger.SetPolicyHold(ctx, tx, now, *held)
}

// Placeholders in an adopted transfer for what the bank's record does not say, in a form that no
// bank code or account number has.
const (
	NoBankCode      = "000"
	NoAccountNumber = "0000000000"
)

// The parts of the destination of a transfer t as people and tenants' programs are shown them, as
// SQL: empty where a placeholder stands, which would name an account that does not exist.
const (
	shownBankCode      = `CASE t.bank_code WHEN '` + NoBankCode + `' THEN '' ELSE t.bank_code END`
	shownAccountNumber = `CASE t.account_number WHEN '` + NoAccountNumber + `' THEN '' ELSE t.account_number END`
)

// shown is a part of a transfer's destination; empty: it is not known.
func shown(text, unknown string) string {
	if text == unknown {
		return ""
	}
	return text
}

// mayBe reports whether a part of a transfer's destination is the given one, as far as it is known.
func mayBe(known, given, unknown string) bool { return known == given || known == unknown }

func fitting(form *regexp.Regexp, text, otherwise string) string {
	if !form.MatchString(text) {
		text = ""
	}
	return cmp.Or(text, otherwise)
}
