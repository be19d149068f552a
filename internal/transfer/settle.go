package transfer

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/trace"
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
	// nil: anybody; else, if the bank names another holder, the request is refused, and a transfer
	// that is about to be submitted fails. An empty name is nobody's
	AccountName *string
	// the id of a beneficiary, in place of bank code and account number
	Beneficiary string
	Narration   string
	Maker       Maker
}

// Maker is who asks for a transfer, decides about one, or saves a beneficiary. If Member is empty,
// it is an API key, whose transfers are not in the audit log.
type Maker struct {
	Member   uuid.UUID // who cannot approve it
	By       audit.By
	Standing audit.Standing `json:"-"`
}

// write records in the audit log that a member asks for a transfer. It comes behind the locks, and
// refuses the transfer if the session, or the API key, has ended while they were waited for
// ([audit.By.While]).
func (m Maker) write(ctx context.Context, tx pg.Tx, now time.Time, action string, a *acceptance) error {
	if m.Member == uuid.Nil {
		return m.Standing.Check(ctx, tx)
	}
	return audit.Write(ctx, tx, now, m.By.Entry(action, "transfer:"+a.MerchantTxRef, audit.Change{After: struct {
		AccountRef    string `json:"accountRef"`
		Amount        string `json:"amount"`
		BankCode      string `json:"bankCode"`
		AccountNumber string `json:"accountNumber"`
	}{a.from.AccountRef, a.amount.String(), a.order.BankCode, a.order.AccountNumber}}).Of(a.from.TenantID))
}

// Accepted is the answer to a settle request.
type Accepted struct {
	MerchantTxRef string       `json:"merchantTxRef"`
	Status        Status       `json:"status"`
	Amount        money.Amount `json:"amount"`
	Currency      string       `json:"currency"`
	AccountRef    string       `json:"accountRef"`
	// an addition: "approval" where members must approve it first
	Awaiting string `json:"awaiting,omitempty"`
}

// Settled is the result of a settle request: the answer, and the new transfer (uuid.Nil if the
// answer is a stored one).
type Settled struct {
	idempotency.Result
	TransferID uuid.UUID
}

func (o *Order) check() (money.Amount, error) {
	amount, err := money.Parse(o.Amount)
	switch {
	case err != nil || !amount.IsPositive():
		return amount, ErrAmount
	case o.Beneficiary != "" && (o.BankCode != "" || o.AccountNumber != ""):
		return amount, ErrBeneficiaryAlone
	case o.Beneficiary != "":
	case !bankCodeForm.MatchString(o.BankCode):
		return amount, ErrBankCode
	case !accountForm.MatchString(o.AccountNumber):
		return amount, ErrAccountNumber
	}
	if !errs.Plain(o.Narration, maxNarration) {
		return amount, ErrNarration
	}
	return amount, nil
}

// Settle accepts a settlement. The transfer, its provisional debit and the stored answer are one
// transaction, together with the settlements that other callers request at the same moment, and
// under the lock of the account's balance, so that concurrent requests cannot overdraw. The checks
// come in the specified order: body, account, beneficiary, bank, name, funds. Refusals:
// [ErrAmount], [ErrBankCode], [ErrAccountNumber], [ErrBeneficiaryAlone], account.ErrNotFound,
// [ErrBeneficiary], [ErrUnknownBank], [ErrNameMismatch], account.ErrFrozen,
// ledger.ErrInsufficientFunds, those of [Service.Lookup] if the holder must be named, and those of
// package idempotency.
func (s *Service) Settle(ctx context.Context, tenantID uuid.UUID, ref string, o Order, key idempotency.Request) (Settled, error) {
	amount, err := o.check()
	if err != nil {
		return Settled{}, err
	}
	asked := s.Clock.Now()
	bank, known := "", true
	if s.Banks != nil && o.Beneficiary == "" {
		bank, known = s.Banks.name(ctx, o.BankCode)
	}
	if o.AccountName != nil || o.Beneficiary != "" || !known { // the bank must be asked, and not within a transaction
		if kept, err := idempotency.Find(ctx, s.Pool, s.Clock.Now(), key); err != nil || kept != nil {
			return Settled{Result: idempotency.Repeated(kept)}, err // even if the bank no longer names the holder, or the beneficiary was removed
		}
		if _, err := account.Find(ctx, s.Pool, tenantID, ref); err != nil {
			return Settled{}, err
		}
		if o.Beneficiary != "" {
			if err := s.toBeneficiary(ctx, tenantID, &o); err != nil {
				return Settled{}, err
			}
			if s.Banks != nil {
				bank, known = s.Banks.name(ctx, o.BankCode)
			}
		}
		if !known {
			return Settled{}, ErrUnknownBank
		}
		if err := s.matchName(ctx, o); err != nil {
			return Settled{}, err
		}
		if err := o.Maker.Standing.Check(ctx, s.Pool); err != nil {
			return Settled{}, err // the bank's answer may have taken a while
		}
	}
	ctx, span := trace.Step(ctx, "accept")
	defer span.End()
	settled, err := pg.Flat(s.accepts.Do(ctx, &request{
		account: account.Ref{TenantID: tenantID, AccountRef: ref}, amount: amount, order: o, key: key, trace: trace.Parent(ctx), bank: bank, asked: asked,
	}))
	if span.Traced() && settled.TransferID != uuid.Nil {
		span.Text("transfer", settled.TransferID.String())
	}
	return settled, err
}

// matchName compares the name that the tenant expects with the one the bank gives. It is compared
// like this again before the first submission ([Service.submitFirst]). A name without a letter or
// digit matches nobody's: one that is empty is of a sender, with a variable that is empty, who
// believes that the holder is compared.
func (s *Service) matchName(ctx context.Context, o Order) error {
	h, err := s.Lookup(ctx, o.BankCode, o.AccountNumber)
	if err != nil {
		return err
	}
	if name := o.holder(); name == "" || foldName(h.AccountName) != name {
		return ErrNameMismatch
	}
	return nil
}

// holder is the name that the bank must give, as foldName writes it; empty if the order has none.
func (o *Order) holder() string {
	if o.AccountName == nil {
		return ""
	}
	return foldName(*o.AccountName)
}

// foldName makes names comparable: case, punctuation and runs of spaces do not distinguish people.
func foldName(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToUpper(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), " ")
}

// errStrangersName does not count as an answer: the bank is asked again.
var errStrangersName = errors.New("the bank named the holder of another account")

// Lookup names the holder of a destination account. A bad number is [ErrAccountNumber], a missing
// bank code [ErrBankCode]; an unknown bank or account, and therefore any other bank code, is
// [ErrLookup], a bank that does not answer [ErrBank], one that names the holder of another account
// [ErrOtherHolder], one whose "no such account" is doubted [ErrUnchecked], and a look-up that had
// no turn provider.ErrBusy too. The bank is not asked about a code that its own list lacks. A name
// from the bank is reused for two minutes.
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
	now := s.Clock.Now()
	if h, ok := s.holders.find(bankCode, accountNumber, now); ok {
		return h, nil
	}
	if s.Banks != nil {
		if _, known := s.Banks.name(ctx, bankCode); !known {
			return provider.Holder{}, ErrLookup
		}
	}
	h, err := s.Bank.Lookup(ctx, bankCode, accountNumber)
	if err == nil && h.AccountNumber != accountNumber {
		err = errStrangersName
	}
	var rejected *provider.Rejection
	switch {
	case errors.As(err, &rejected) || errors.Is(err, provider.ErrUnknown):
		return h, ErrLookup
	case errors.Is(err, provider.ErrDoubted):
		return provider.Holder{}, errors.Join(ErrUnchecked, err)
	case errors.Is(err, errStrangersName):
		return provider.Holder{}, errors.Join(ErrOtherHolder, err)
	case err != nil:
		return provider.Holder{}, errors.Join(ErrBank, err)
	}
	s.holders.put(bankCode, h, now)
	return h, nil
}
