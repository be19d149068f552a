package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"ajo/internal/failpoint"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/ledger"
)

// ofEntry makes an exception about a posted payment.
func ofEntry(e *payment.Entry, k ExceptionKind, detail string) Exception {
	gross := e.Amount
	return Exception{
		Kind: k, ProviderTxnRef: e.TxnRef, EventID: &e.ID, AccountID: &e.AccountID, EntryStatus: e.Status,
		BooksAmount: &gross, BooksFee: &e.Fee, Detail: detail,
	}
}

// withBank adds the bank's side to an exception.
func (x Exception) withBank(t provider.Transaction) Exception {
	x.ProviderTxnRef, x.AccountNumber, x.BankStatus, x.BankAmount, x.BankFee, x.At = t.ID, t.AccountNumber, string(t.Status), &t.Amount, &t.Fee, &t.Time
	return x
}

// matchPage compares one page of the list with what is stored, and stores the successful payments
// that are missing.
func (r *comparison) matchPage(ctx context.Context, page provider.Page) error {
	for _, u := range page.Unreadable {
		r.nameUnreadable(u.ID, Exception{Detail: "the record in the bank's list cannot be read: " + u.Why})
	}
	var fresh []provider.Transaction
	var ids []string
	for _, t := range page.Transactions {
		// a list that moves while it is read may show a record twice
		if _, again := r.seen[t.ID]; again {
			continue
		}
		r.seen[t.ID] = struct{}{}
		if len(t.ID) > payment.MaxID || strings.ContainsFunc(t.ID, unicode.IsControl) {
			r.nameUnreadable("", Exception{Detail: "the record's id is none"}.withBank(t))
			continue
		}
		fresh, ids = append(fresh, t), append(ids, t.ID)
		r.report.Bank.of(t.Status).add(t.Amount, t.Fee)
	}
	ours, err := r.payments.Known(ctx, ids)
	if err != nil {
		return err
	}
	var missing []posting
	for _, t := range fresh {
		if p, ok := r.judge(t, ours[t.ID]); ok {
			missing = append(missing, p)
		}
	}
	return r.postMissing(ctx, missing)
}

// nameUnreadable flags a record that nothing can be done with. Where it has an id, the bank is
// asked for it by that id later.
func (r *comparison) nameUnreadable(id string, x Exception) {
	x.Kind = Unreadable
	if id == "" || len(id) > payment.MaxID || strings.ContainsFunc(id, unicode.IsControl) {
		r.report.Bank.Unreadable++
		r.report.except(x)
		return
	}
	r.seen[id] = struct{}{}
	if s := (subject{aboutPayment, id}); !r.judged(s) {
		r.report.Bank.Unreadable++
		x.ProviderTxnRef = id
		r.hold(item{subject: s, exception: &x})
	}
}

// judge compares the bank's record of a payment with what is stored of it. It returns what is to be
// posted for it: a payment that is missing, or one whose event could not be posted.
func (r *comparison) judge(t provider.Transaction, k payment.Known) (posting, bool) {
	s := subject{aboutPayment, t.ID}
	unposted := k.Status == "" || k.Status == payment.Failed
	switch {
	case k.Entry != nil:
		r.compareEntry(t, k.Entry)
	case unposted && t.Status == provider.Pending: // remembered until it is final, as its event may never come
		r.wait(t)
	case !unposted || t.Status != provider.Success: // it is about to be posted, or moved no money
		r.settle(aboutPayment, t.ID)
	case k.Category == payment.CategoryMisdirected: // on the events' own list, until an operator assigns it
		r.report.except(Exception{Kind: Unposted, EventID: &k.EventID, Detail: fmt.Sprintf("%s: %s", k.Category, k.Problem)}.withBank(t))
		r.settle(aboutPayment, t.ID)
	case payment.Unfit(t) != "" && k.Status == "":
		r.nameUnreadable(t.ID, Exception{Detail: "the record in the bank's list is not stored: " + payment.Unfit(t)}.withBank(t))
	case payment.Unfit(t) != "":
		x := Exception{Kind: Unposted, EventID: &k.EventID, Detail: fmt.Sprintf("%s: %s; the bank's own record does not help: %s", k.Category, k.Problem, payment.Unfit(t))}.withBank(t)
		r.hold(item{subject: s, exception: &x})
	default:
		return posting{t: t, event: k.EventID, problem: k.Problem}, true
	}
	return posting{}, false
}

// wait remembers a payment whose record is not final. It is named when that takes more than a day.
func (r *comparison) wait(t provider.Transaction) {
	it := item{subject: subject{aboutPayment, t.ID}}
	if r.report.StartedAt.Sub(t.Time) >= pendingTooLong {
		x := Exception{Kind: StillPending, Detail: "the bank has not said for more than a day what became of it"}.withBank(t)
		it.exception = &x
	}
	r.hold(it)
}

func (b *BankSide) of(s provider.Status) *Sum {
	switch s {
	case provider.Success:
		return &b.Success
	case provider.Failed:
		return &b.Failed
	case provider.Refunded:
		return &b.Refunded
	}
	return &b.Pending
}

// compareEntry flags an entry that does not agree with the bank's record of it. An entry that is
// reversed or under review, and which the bank does not say succeeded, is as it should be.
func (r *comparison) compareEntry(t provider.Transaction, e *payment.Entry) {
	if t.Status == provider.Pending { // the confirmation asks
		r.settle(aboutPayment, t.ID)
		return
	}
	it := item{subject: subject{aboutPayment, t.ID}, effect: held(e).Neg(), since: &t.Time}
	if t.Status == provider.Success {
		it.effect = it.effect.Add(t.Amount).Sub(t.Fee)
	} else if !t.UpdatedAt.IsZero() {
		it.since = &t.UpdatedAt
	}
	counts := e.Status == ledger.Provisional || e.Status == ledger.Confirmed
	var x Exception
	switch d := e.Differs(t); {
	case t.Status != provider.Success && counts:
		x = ofEntry(e, Contradicts, fmt.Sprintf("the bank says %s, the entry is %s", t.Status, e.Status)).withBank(t)
	case t.Status == provider.Success && e.Status == ledger.Reversed && d != "":
		x = ofEntry(e, Contradicts, "the bank says success, the entry is reversed, and "+d+": see ajo review correct").withBank(t)
	case t.Status == provider.Success && e.Status == ledger.Reversed:
		x = ofEntry(e, Contradicts, "the bank says success, the entry is reversed: see ajo review restore").withBank(t)
		it.exception = &x
		r.wronglyReversed[t.ID] = reversed{*e, it} // decided when the list has been read to its end
		return
	case t.Status == provider.Success && d != "":
		x = ofEntry(e, Differs, d).withBank(t)
	case it.effect.Sign() == 0:
		r.settle(aboutPayment, t.ID)
		return
	}
	if x.Kind != "" {
		it.exception = &x
	}
	r.hold(it)
}

// held is what the books say that the wallet has of the payment: it is in the balance, or under
// review beside it.
func held(e *payment.Entry) money.Amount {
	if e.Status == ledger.Reversed {
		return money.Zero
	}
	return e.Amount.Sub(e.Fee)
}

// askPayment asks about a payment that an earlier run has left open.
func (r *comparison) askPayment(ctx context.Context, it *item) error {
	ours, err := r.payments.Known(ctx, []string{it.ref})
	if err != nil {
		return err
	}
	k := ours[it.ref]
	t, err := r.askTransaction(ctx, it.ref)
	switch {
	case errors.Is(err, provider.ErrUnknown) && k.Entry != nil:
		r.lostPayment(k.Entry, unknownByID)
	case err != nil:
		return r.unanswered(ctx, it)
	default:
		if p, ok := r.judge(t, k); ok {
			return r.postMissing(ctx, []posting{p})
		}
	}
	return nil
}

func (r *comparison) askTransaction(ctx context.Context, id string) (provider.Transaction, error) {
	if r.unheard >= maxUnheard {
		return provider.Transaction{}, errUnheard
	}
	failpoint.At("reconcile/before-ask-absent")
	t, err := r.payments.BankRecord(ctx, id)
	failpoint.At("reconcile/after-ask-absent")
	r.heard(err)
	return t, err
}

const unknownByID = "the bank neither lists it nor knows its id"

// lostPayment flags an entry that the bank does not know.
func (r *comparison) lostPayment(e *payment.Entry, why string) {
	if e.Status == ledger.Reversed {
		r.settle(aboutPayment, e.TxnRef)
		return
	}
	x := ofEntry(e, UnknownAtBank, why)
	r.hold(item{subject: subject{aboutPayment, e.TxnRef}, exception: &x, effect: held(e).Neg(), since: e.OccurredAt})
}

// entrySlice is the time whose entries one query reads.
const entrySlice = time.Hour

// readEntries adds up the entries of the window, by the time of their payments, and notes those
// that the list lacks.
func (r *comparison) readEntries(ctx context.Context) error {
	for from := r.report.From; from.Before(r.report.To); from = from.Add(entrySlice) {
		to := from.Add(entrySlice)
		if to.After(r.report.To) {
			to = r.report.To
		}
		if err := r.payments.EntriesBetween(ctx, from, to, r.noteEntry); err != nil {
			return err
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *comparison) noteEntry(e payment.Entry) {
	sums := map[ledger.Status]*Sum{
		ledger.Provisional: &r.report.Books.Provisional, ledger.Confirmed: &r.report.Books.Confirmed,
		ledger.NeedsReview: &r.report.Books.NeedsReview, ledger.Reversed: &r.report.Books.Reversed,
	}
	sums[e.Status].add(e.Amount, e.Fee)
	if _, listed := r.seen[e.TxnRef]; !listed && e.Status != ledger.Reversed {
		r.absent = append(r.absent, e)
	}
}

// heal posts an event that could not be posted from the bank's own record.
func (r *comparison) heal(ctx context.Context, p posting) error {
	posted, err := r.payments.RepostListed(ctx, p.event, p.t)
	x := Exception{Kind: Unposted, EventID: &p.event}.withBank(p.t)
	switch {
	case errors.Is(err, payment.ErrNotUnposted): // somebody else has done it
		r.settle(aboutPayment, p.t.ID)
	case pg.IsData(err):
		x.Detail = "from the bank's own record it cannot be posted either: " + err.Error()
		r.hold(item{subject: subject{aboutPayment, p.t.ID}, exception: &x})
	case err != nil:
		return err
	case posted.Category != payment.CategoryPayment:
		x.Detail = fmt.Sprintf("%s: posted from the bank's own record, it finds no account", posted.Category)
		r.report.except(x)
		r.settle(aboutPayment, p.t.ID)
	default:
		x.Kind, x.Detail = Healed, "it could not be posted ("+p.problem+"), and is posted now from the bank's own record"
		r.report.except(x)
		r.settle(aboutPayment, p.t.ID)
	}
	return nil
}
