package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"ajo/internal/clock"
)

const (
	// manyUnknown is how many questions of one kind may in a row be answered "not found" before
	// none is believed any more.
	manyUnknown = 5
	// recheckAfter is how long a known record that was not found is not asked for again.
	recheckAfter = 10 * time.Second
)

// ErrDoubted says that the bank's "not found" is no answer: it said so many times in a row, and
// does not find a record either that it has shown before. Its index is empty, behind, or another
// bank's.
var ErrDoubted = errors.New("provider: not found, but the bank finds nothing at all, so that is no answer")

// A Known names a record that the bank certainly has, as what it is asked by; none is empty.
type Known func(ctx context.Context) (string, error)

// Destination is an account that a payout went to, as [KnownRecords] name it.
type Destination struct{ BankCode, AccountNumber string }

// KnownRecords name what the bank certainly has, for each kind of question.
type KnownRecords struct {
	Transaction Known
	Payout      Known
	Account     Known
	// PaymentElsewhere and PayoutElsewhere report whether what is asked about was made when the
	// books were of another account at the bank; nil: nothing was.
	PaymentElsewhere, PayoutElsewhere func(ctx context.Context, ref string) (bool, error)
	Destination                       func(ctx context.Context) (Destination, error)
}

// DoubtOptions are what [Doubt] needs.
type DoubtOptions struct {
	Bank  Bank
	Known KnownRecords
	Clock clock.Clock
	Log   *slog.Logger
	// Observe is called for each answer that was not believed, by the kind of question; nil:
	// nothing is.
	Observe func(kind string)
}

// Doubting is a [Bank] that does not believe every "not found". One such answer may be true; many
// in a row are more likely a bank (or a gateway) that finds nothing at all. Then a record that is
// known to be there is asked for: if it is found, the answers are believed again, and if not, they
// are [ErrDoubted] until something is found, or [ErrBusy] if that question had no turn. Before the
// first payout that was paid, a payment is asked for in its place, and before the first payment an
// account. That is no proof that the bank would find a payout, but enough to submit one again,
// which the bank does only once. Before the first destination that was paid, the last account that
// a look-up of this process found is looked up again. Without one there is nothing in its place:
// what is ours says nothing of other banks' accounts. The count is the process's own. What was made
// when the books were of another account at the bank is not "not found" but [ErrOtherAccount].
type Doubting struct {
	Bank
	opt     DoubtOptions
	asking  singleflight.Group
	mu      sync.Mutex
	unknown map[string]int      // in a row, by the kind of question
	failed  map[string]unproven // what the last question for a known record came to
	holder  Destination         // the last one that a look-up found
}

// unproven says why a known record was not found, and when it was asked for.
type unproven struct {
	at  time.Time
	why error
}

// Doubt returns the bank that doubts.
func Doubt(o DoubtOptions) *Doubting {
	if o.Observe == nil {
		o.Observe = func(string) {}
	}
	return &Doubting{Bank: o.Bank, opt: o, unknown: map[string]int{}, failed: map[string]unproven{}}
}

// The kinds of questions.
const (
	kindTransaction = "transaction"
	kindPayout      = "payout"
	kindAccount     = "account"
	kindLookup      = "lookup"
)

// Transaction is the bank's, but for a doubted "not found".
func (d *Doubting) Transaction(ctx context.Context, id string) (Transaction, error) {
	t, err := d.Bank.Transaction(ctx, id)
	return t, d.believe(ctx, kindTransaction, d.elsewhere(ctx, d.opt.Known.PaymentElsewhere, id, err))
}

// Payout is the bank's, but for a doubted "not found".
func (d *Doubting) Payout(ctx context.Context, ref string) (Payout, error) {
	p, err := d.Bank.Payout(ctx, ref)
	return p, d.believe(ctx, kindPayout, d.elsewhere(ctx, d.opt.Known.PayoutElsewhere, ref, err))
}

// Pay is the bank's, but for a refusal while "not found" is doubted: that the bank has no payout of
// the reference is such an answer.
func (d *Doubting) Pay(ctx context.Context, p NewPayout) (Payout, error) {
	out, err := d.Bank.Pay(ctx, p)
	var refused *Rejection
	if !errors.As(err, &refused) {
		return out, err
	}
	if doubt := d.believe(ctx, kindPayout, ErrUnknown); !errors.Is(doubt, ErrUnknown) {
		err = fmt.Errorf("refused (%s), but it is not clear whether submitted before: %w", refused.Msg, doubt)
	}
	return out, err
}

// CloseAccount is the bank's, but for a doubted "not found".
func (d *Doubting) CloseAccount(ctx context.Context, ref string) error {
	return d.believe(ctx, kindAccount, d.Bank.CloseAccount(ctx, ref))
}

// FindAccount is the bank's, but for a doubted "not found".
func (d *Doubting) FindAccount(ctx context.Context, ref string) (Account, error) {
	a, err := d.Bank.FindAccount(ctx, ref)
	return a, d.believe(ctx, kindAccount, err)
}

// Lookup is the bank's, but for a doubted "no such account".
func (d *Doubting) Lookup(ctx context.Context, bankCode, accountNumber string) (Holder, error) {
	h, err := d.Bank.Lookup(ctx, bankCode, accountNumber)
	if err == nil && h.AccountNumber == accountNumber {
		d.mu.Lock()
		d.holder = Destination{bankCode, accountNumber}
		d.mu.Unlock()
	}
	return h, d.believe(ctx, kindLookup, err)
}

// elsewhere makes a "not found" [ErrOtherAccount] where it is that.
func (d *Doubting) elsewhere(ctx context.Context, is func(context.Context, string) (bool, error), ref string, answer error) error {
	if is == nil || !errors.Is(answer, ErrUnknown) {
		return answer
	}
	other, err := is(ctx, ref)
	if err == nil && other {
		err = ErrOtherAccount
	}
	return cmp.Or(err, answer)
}

// believe passes an answer on, or says that it is none.
func (d *Doubting) believe(ctx context.Context, kind string, answer error) error {
	var refused *Rejection
	switch {
	case errors.Is(answer, ErrUnknown), kind == kindLookup && errors.As(answer, &refused):
	case answer == nil:
		d.found(kind)
		return nil
	default:
		return answer
	}
	if !d.suspicious(kind) {
		return answer
	}
	_, err, _ := d.asking.Do(kind, func() (any, error) { return nil, d.askKnown(ctx, kind) })
	switch {
	case errors.Is(err, ErrBusy): // the known record was not asked for: neither proof nor doubt
		return fmt.Errorf("not found, and there was no turn to ask for a record that is known: %w", err)
	case err != nil:
		d.opt.Observe(kind)
		d.opt.Log.ErrorContext(ctx, "the bank finds nothing, not even what it has shown before: not believed", slog.String("alert", "not_found_doubted"),
			slog.String("kind", kind), slog.Any("err", err))
		// without what err wraps: it must not be taken for ErrUnknown or a Rejection
		return fmt.Errorf("%w: %s", ErrDoubted, err)
	}
	return answer
}

func (d *Doubting) found(kind string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unknown[kind] = 0
	delete(d.failed, kind)
}

// suspicious counts a "not found", and reports whether it is one of many.
func (d *Doubting) suspicious(kind string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unknown[kind]++
	return d.unknown[kind] >= manyUnknown
}

var errNoneKnown = errors.New("no record is known that it must have")

// askKnown asks for a record that is known to be there; nil: it is. An unanswered question proves
// nothing. The question is the service's own and waits in no tenant's line. If it had no turn, the
// error is [ErrBusy], and the next caller asks.
func (d *Doubting) askKnown(ctx context.Context, kind string) error {
	ctx = ForTenant(ctx, uuid.Nil)
	now := d.opt.Clock.Now()
	d.mu.Lock()
	last, asked := d.failed[kind]
	d.mu.Unlock()
	if asked && now.Sub(last.at) < recheckAfter {
		return last.why
	}
	err := d.ask(ctx, kind)
	switch {
	case err == nil:
		d.found(kind)
		return nil
	case errors.Is(err, ErrBusy):
		return err
	}
	d.mu.Lock()
	d.failed[kind] = unproven{now, err}
	d.mu.Unlock()
	return err
}

func (d *Doubting) ask(ctx context.Context, kind string) error {
	if kind == kindLookup {
		to, err := d.opt.Known.Destination(ctx)
		if err == nil && to.AccountNumber == "" {
			d.mu.Lock()
			to = d.holder
			d.mu.Unlock()
		}
		if err == nil && to.AccountNumber == "" {
			err = errNoneKnown
		}
		if err == nil {
			_, err = d.Bank.Lookup(ctx, to.BankCode, to.AccountNumber)
		}
		return err
	}
	known := map[string]Known{kindTransaction: d.opt.Known.Transaction, kindPayout: d.opt.Known.Payout, kindAccount: d.opt.Known.Account}[kind]
	ref, err := known(ctx)
	switch {
	case err != nil:
		return err
	case ref == "" && kind == kindPayout: // none has been paid yet, but money for them came in
		if err = d.ask(ctx, kindTransaction); errors.Is(err, errNoneKnown) { // from an operator
			err = d.ask(ctx, kindAccount)
		}
		return err
	case ref == "":
		return errNoneKnown
	case kind == kindTransaction:
		_, err = d.Bank.Transaction(ctx, ref)
	case kind == kindPayout:
		_, err = d.Bank.Payout(ctx, ref)
	default:
		_, err = d.Bank.FindAccount(ctx, ref)
	}
	if err != nil {
		return fmt.Errorf("the known record %s: %w", ref, err)
	}
	return nil
}
