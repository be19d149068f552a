package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ajo/internal/errs"
	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// Fault is what goes wrong with a test payment.
type Fault string

// The faults of payments. api/openapi.yaml and docs/guide.md say what a tenant sees of each.
const (
	WebhookLost      Fault = "webhook_lost"
	WebhookLate      Fault = "webhook_late"
	WebhookDuplicate Fault = "webhook_duplicate"
	AmountDiffers    Fault = "amount_differs"
	FailedAtBank     Fault = "failed_at_bank"
	PendingAtBank    Fault = "pending_at_bank"
	Recalled         Fault = "recalled"
)

// Faults are all there are.
var Faults = []Fault{WebhookLost, WebhookLate, WebhookDuplicate, AmountDiffers, FailedAtBank, PendingAtBank, Recalled}

// How long faults that take time take. A payment is confirmed some seconds after it came, so it is
// recalled after that.
const (
	lateBy     = 20 * time.Second
	pendingFor = 20 * time.Second
	recalledIn = 20 * time.Second
	payoutLate = 30 * time.Second
)

// maxText is how long the texts of a test payment may be, in characters.
const maxText = 140

// Refusals of a test payment.
var (
	ErrFault     = errs.New(errs.Invalid, "fault must be one of "+faultList())
	ErrLong      = errs.New(errs.Invalid, "sender.name, sender.account, sender.bank and narration must each be at most 140 characters")
	ErrAmount    = errs.New(errs.Invalid, "invalid amount")
	ErrNoAccount = errs.New(errs.NotFound, "account not found")
	ErrClosed    = errs.New(errs.Unprocessable, "account is not active")
)

func faultList() string {
	var names []string
	for _, f := range Faults {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// The account numbers, at any bank, to which a payout goes wrong. To all others it succeeds.
const (
	ToRejected = "1000000001"
	ToNobody   = "1000000002"
	ToUnclear  = "1000000003"
	ToFailed   = "1000000004"
	ToRefunded = "1000000005"
)

// payoutFaults have the simulated bank do so.
var payoutFaults = []fakebank.Rule{
	{On: fakebank.OnPayouts, Match: ToRejected, Do: fakebank.Reject},
	{On: fakebank.OnLookup, Match: ToNobody, Do: fakebank.NotFound},
	{On: fakebank.OnPayouts, Match: ToUnclear, Do: fakebank.Lagging, Delay: payoutLate},
	{On: fakebank.OnPayouts, Match: ToFailed, Do: fakebank.FailLater},
	{On: fakebank.OnPayouts, Match: ToRefunded, Do: fakebank.Refund, Delay: payoutLate},
}

// Bank is the simulated bank of the sandbox.
type Bank struct{ *fakebank.Bank }

// NewBank makes the bank, with its faults.
func NewBank(o fakebank.Options) *Bank {
	b := &Bank{fakebank.New(o)}
	b.Faults.Set(payoutFaults...)
	return b
}

// Payment is a test payment. The caller has checked that the account is the tenant's.
type Payment struct {
	AccountNumber string
	Amount        money.Amount // gross
	Sender        fakebank.Sender
	Narration     string
	Fault         Fault // "": none
}

// Paid names a payment at the bank.
type Paid struct {
	TransactionID string       `json:"transactionId"`
	RequestID     string       `json:"requestId"` // of its webhook
	AccountNumber string       `json:"accountNumber"`
	Amount        money.Amount `json:"amount"`
	Fee           money.Amount `json:"fee"`
	Fault         Fault        `json:"fault"` // "": none
}

// Pay has somebody pay into an account. Its webhook goes to the service as the bank's would.
// [ErrFault], [ErrAmount], [ErrNoAccount], [ErrClosed].
func (b *Bank) Pay(ctx context.Context, p Payment) (Paid, error) {
	if p.Fault != "" && !slices.Contains(Faults, p.Fault) {
		return Paid{}, ErrFault
	}
	for _, text := range []string{p.Sender.Name, p.Sender.Account, p.Sender.Bank, p.Narration} {
		if utf8.RuneCountInString(text) > maxText {
			return Paid{}, ErrLong
		}
	}
	in := fakebank.Payment{
		NUBAN: p.AccountNumber, Amount: p.Amount, SenderName: p.Sender.Name, SenderAccount: p.Sender.Account, SenderBank: p.Sender.Bank, Narration: p.Narration,
	}
	switch p.Fault {
	case WebhookLost:
		in.Silent = true
	case WebhookLate:
		in.Late = lateBy
	case AmountDiffers:
		in.Recorded = func(t *fakebank.Transaction) { t.Amount = t.Amount.Add(money.FromKobo(1_00)) }
	case FailedAtBank:
		in.Recorded = func(t *fakebank.Transaction) { t.Status = fakebank.StatusFailed }
	case PendingAtBank:
		in.Recorded = func(t *fakebank.Transaction) { t.Status = fakebank.StatusPending }
	}
	t, err := b.Bank.Pay(ctx, in)
	if err != nil {
		return Paid{}, refusal(err)
	}
	switch p.Fault {
	case WebhookDuplicate:
		err = b.Resend(t.ID)
	case PendingAtBank:
		b.After(pendingFor, func() { _, _ = b.Arrive(t.ID) })
	case Recalled:
		b.After(recalledIn, func() { _, _ = b.Reverse(context.Background(), t.ID) })
	}
	return Paid{t.ID, t.RequestID, t.NUBAN, t.Amount, t.Fee, p.Fault}, err
}

// refusal is the bank's refusal as the service's.
func refusal(err error) error {
	known := map[error]*errs.Error{fakebank.ErrAmount: ErrAmount, fakebank.ErrNoAccount: ErrNoAccount, fakebank.ErrClosed: ErrClosed}
	if e := known[err]; e != nil {
		return e
	}
	return fmt.Errorf("the simulated bank: %w", err)
}

// Sender fills in what a test payment says nothing of. The account goes by the name: the bank is
// one for all tenants, and the holder of an account is whoever last paid from it, so payers of two
// names with one account would make each other's refunds fail.
func Sender(name, account, bank string) fakebank.Sender {
	name = cmp.Or(name, "TEST SENDER")
	return fakebank.Sender{Name: name, Account: cmp.Or(account, accountOf(name)), Bank: bank}
}

// accountOf is the account of a payer of that name: none of the numbers that stand for an outcome,
// and none that no bank knows.
func accountOf(name string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return fmt.Sprintf("3%09d", h.Sum64()%1_000_000_000)
}
