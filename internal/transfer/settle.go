package transfer

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/failpoint"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/ledger"
)

const maxNarration = 140 // characters; what banks carry

var (
	bankCodeForm = regexp.MustCompile(`^[0-9]{3,6}$`)
	accountForm  = regexp.MustCompile(`^[0-9]{10}$`)
)

// Order is a request to settle (specification, "Settle body").
type Order struct {
	Amount        string // decimal naira, as the client wrote it
	BankCode      string
	AccountNumber string
	AccountName   string // optional: refused when the bank names another holder
	Narration     string
}

// Accepted is the answer to a settle request.
type Accepted struct {
	MerchantTxRef string       `json:"merchantTxRef"`
	Status        Status       `json:"status"`
	Amount        money.Amount `json:"amount"`
	Currency      string       `json:"currency"`
	AccountRef    string       `json:"accountRef"`
}

// Settled is what a settle request came to: the answer, and the transfer to ring for (uuid.Nil when the answer is a kept one).
type Settled struct {
	Answer     idempotency.Answer
	Replayed   bool
	TransferID uuid.UUID
}

// repeated is the answer that a request was given before; nil is none.
func repeated(kept *idempotency.Answer) Settled {
	if kept == nil {
		return Settled{}
	}
	return Settled{Answer: *kept, Replayed: true}
}

func (o *Order) check() (money.Amount, error) {
	amount, err := money.Parse(o.Amount)
	switch {
	case err != nil || !amount.IsPositive():
		return amount, ErrAmount
	case !bankCodeForm.MatchString(o.BankCode):
		return amount, ErrBankCode
	case !accountForm.MatchString(o.AccountNumber):
		return amount, ErrAccountNumber
	case utf8.RuneCountInString(o.Narration) > maxNarration || strings.ContainsFunc(o.Narration, unicode.IsControl):
		return amount, ErrNarration
	}
	return amount, nil
}

// Settle accepts a settlement: the transfer, its provisional debit and the kept answer are one transaction under the lock of
// the account's balance, so concurrent requests cannot overdraw. The checks come in the decided order: body, account, name,
// funds. Refusals: [ErrAmount], [ErrBankCode], [ErrAccountNumber], account.ErrNotFound, [ErrNameMismatch],
// ledger.ErrInsufficientFunds, and those of package idempotency.
func (s *Service) Settle(ctx context.Context, tenantID uuid.UUID, ref string, o Order, key idempotency.Request) (Settled, error) {
	amount, err := o.check()
	if err != nil {
		return Settled{}, err
	}
	if kept, err := idempotency.Find(ctx, s.Pool, s.Clock.Now(), key); err != nil || kept != nil {
		return repeated(kept), err // even when the bank would not name the holder by now
	}
	a, err := account.Find(ctx, s.Pool, tenantID, ref)
	if err != nil {
		return Settled{}, err
	}
	if o.AccountName != "" {
		if err := s.matchName(ctx, o); err != nil {
			return Settled{}, err
		}
	}
	var out Settled
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		kept, err := idempotency.Begin(ctx, tx, now, key)
		if err != nil {
			return err
		}
		if kept != nil {
			out = repeated(kept)
			return nil
		}
		out, err = s.accept(ctx, tx, now, a, amount, o)
		if err != nil {
			return err
		}
		err = idempotency.Save(ctx, tx, now, key, out.Answer)
		failpoint.At("transfer/before-accept-commit")
		return err
	})
	if err == nil {
		failpoint.At("transfer/after-accept-commit")
	}
	return out, err
}

// accept posts the debit and inserts the transfer, due at once.
func (s *Service) accept(ctx context.Context, tx pg.Tx, now time.Time, a account.Account, amount money.Amount, o Order) (Settled, error) {
	id := uuid.Must(uuid.NewV7())
	ref := newRef(id)
	if _, err := ledger.PostDebit(ctx, tx, now, ledger.Posting{
		AccountID: a.ID, Amount: amount, Narration: o.Narration, TransactionGroupID: id, TransferRef: &ref,
	}); err != nil {
		return Settled{}, err
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, narration, next_attempt_at, created_at, updated_at)
		VALUES ($1, $2, $3, $4, 'pending', $5::numeric, $6, $7, $8, $9, $9, $9)`,
		id, a.TenantID, a.ID, ref, amount, o.BankCode, o.AccountNumber, o.Narration, now); err != nil {
		return Settled{}, err
	}
	answer, err := idempotency.NewAnswer(http.StatusAccepted, Accepted{MerchantTxRef: ref, Status: Pending, Amount: amount, Currency: a.Currency, AccountRef: a.AccountRef})
	return Settled{TransferID: id, Answer: answer}, err
}

// newRef is the merchantTxRef of a transfer: its id in letters and digits, which every bank takes.
func newRef(id uuid.UUID) string { return "AJO" + strings.ReplaceAll(id.String(), "-", "") }

// matchName compares the name that the tenant expects with the one the bank gives.
func (s *Service) matchName(ctx context.Context, o Order) error {
	h, err := s.Lookup(ctx, o.BankCode, o.AccountNumber)
	if err != nil {
		return err
	}
	if foldName(h.AccountName) != foldName(o.AccountName) {
		return ErrNameMismatch
	}
	return nil
}

// foldName makes names comparable: case, punctuation and runs of spaces do not tell people apart.
func foldName(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToUpper(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), " ")
}

// Lookup names the holder of a destination account. A bad number is [ErrAccountNumber], a missing bank code [ErrBankCode]; an
// unknown bank or account, so also any other bank code, is [ErrLookup], a bank that does not answer [ErrBank].
func (s *Service) Lookup(ctx context.Context, bankCode, accountNumber string) (provider.Holder, error) {
	if !accountForm.MatchString(accountNumber) {
		return provider.Holder{}, ErrAccountNumber
	}
	if bankCode == "" {
		return provider.Holder{}, ErrBankCode
	}
	if !bankCodeForm.MatchString(bankCode) {
		return provider.Holder{}, ErrLookup
	}
	h, err := s.Bank.Lookup(ctx, bankCode, accountNumber)
	var rejected *provider.Rejection
	switch {
	case errors.As(err, &rejected) || errors.Is(err, provider.ErrUnknown):
		return h, ErrLookup
	case err != nil:
		return h, errors.Join(ErrBank, err)
	}
	return h, nil
}
