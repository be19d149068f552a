package transfer

import (
	"cmp"
	"context"
	"errors"
	"regexp"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
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
)

// Adopt takes a payout into the books that the bank has and they do not: a database that was
// restored from a backup lacks what was paid after it. The transfer is made as one under way, with
// its debit, which may bring the balance below zero; the worker then asks the bank and ends it,
// like any other. The account is the one that the reference names, or, where it names none, the
// given one. For operators. [provider.ErrNotSet] without a bank, [ErrKnown], [ErrNotPaid],
// [ErrNoAccount], [ErrBank].
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
			return ErrKnown
		}
		from, err := taggedAccount(ctx, tx, ref)
		if errors.Is(err, ErrNoAccount) && account != uuid.Nil {
			from, err = account, nil
		}
		if err != nil {
			return err
		}
		posted, err := ledger.PostDebits(ctx, tx, now, []ledger.Posting{{
			AccountID: from, Amount: p.Amount, Narration: p.Narration, TransactionGroupID: id, TransferRef: &ref, Gone: true,
		}})
		if err != nil {
			return err
		}
		if posted[0].Err != nil {
			return posted[0].Err
		}
		// What the record does not say has a form that no bank code and no account number has.
		var tenant uuid.UUID
		if err := tx.QueryRow(ctx, `
			INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, narration, attempt_count, submitted_at,
				created_at, updated_at, fee_by_tenant)
			SELECT $1, a.tenant_id, a.id, $3, 'processing', $4::numeric, $5, $6, $7, 1, $8, $8, $8, n.payout_fee_by = 'tenant'
			FROM accounts a JOIN tenants n ON n.id = a.tenant_id WHERE a.id = $2 RETURNING tenant_id`,
			id, from, ref, p.Amount, fitting(bankCodeForm, p.BankCode, "000"), fitting(accountForm, p.AccountNumber, "0000000000"), p.Narration, now).Scan(&tenant); err != nil {
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
		}{from, p.Amount.String(), p.BankCode, p.AccountNumber}))
	})
}

func fitting(form *regexp.Regexp, text, otherwise string) string {
	if !form.MatchString(text) {
		text = ""
	}
	return cmp.Or(text, otherwise)
}
