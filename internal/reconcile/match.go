package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"ajo/internal/errs"
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
	x.ProviderTxnRef, x.AccountNumber, x.BankStatus, x.BankAmount, x.BankFee = t.ID, t.AccountNumber, string(t.Status), &t.Amount, &t.Fee
	if x.At = &t.Time; t.Time.IsZero() {
		x.At = nil
	}
	return x
}

// matchPage compares records of a slice's list with what is stored, and notes the successful
// payments that are missing.
func (r *comparison) matchPage(ctx context.Context, s *slice, page provider.Page) error {
	for _, u := range page.Unreadable {
		if u.ID == "" || !r.isKept(u.ID, (*slice).ids) {
			r.nameUnreadable(s, u.ID, cmp.Or(u.Record, u.Why), Exception{Detail: "the record in the bank's list cannot be read: " + u.Why})
		}
		if u.ID != "" {
			s.listed.add(u.ID)
		}
	}
	var fresh []provider.Transaction
	var ids []string
	for _, t := range page.Transactions {
		back := (t.Status == provider.Failed || t.Status == provider.Refunded) && !r.isKept(t.ID, (*slice).backs)
		if back {
			s.listedBack.add(t.ID)
		}
		// A list that moves while it is read may show a record twice. One that has failed or was
		// given back since it was shown first is asked about by its id, by the next run.
		if r.isKept(t.ID, (*slice).ids) {
			if about := (subject{aboutPayment, t.ID}); back && isID(t.ID) && r.items[about] == nil {
				r.unsettled(item{subject: about})
			}
			continue
		}
		s.listed.add(t.ID)
		if !isID(t.ID) {
			r.nameUnreadable(s, "", t.ID, Exception{Detail: "the record's id is none"}.withBank(t))
			continue
		}
		fresh, ids = append(fresh, t), append(ids, t.ID)
		r.part.Bank.of(t.Status).add(t.Amount, t.Fee)
	}
	ours, err := r.payments.Known(ctx, ids)
	if err != nil {
		return err
	}
	for _, t := range fresh {
		if p, ok := r.judge(t, ours[t.ID]); ok {
			s.missing = append(s.missing, p)
		}
	}
	return nil
}

// isID reports whether a record may be stored under the text.
func isID(id string) bool {
	return id != "" && errs.Plain(id, payment.MaxID)
}

// nameUnreadable flags an unusable record of a slice's list. If it has an id, the bank is asked for
// it by that id later. Otherwise it is known by a hash of what the record is, and open until its
// part of the list is read again without it.
func (r *comparison) nameUnreadable(s *slice, id, record string, x Exception) {
	x.Kind = Unreadable
	if isID(id) {
		r.nameUnusable(id, x)
		return
	}
	sum := sha256.Sum256([]byte(record))
	about := subject{aboutList, "unreadable-" + hex.EncodeToString(sum[:8])}
	old := r.before[about]
	switch {
	case r.judged(about):
		return
	case old != nil && !old.exception.From.Before(s.from) && !old.exception.To.After(s.to): // known by a shorter part
		r.keepOpen(old)
	default:
		x.From, x.To = &s.from, &s.to
		x.Detail += fmt.Sprintf("; it is in the list from %s to %s", s.from.Format(time.RFC3339), s.to.Format(time.RFC3339))
		r.unsettled(item{subject: about, exception: &x})
	}
	r.part.Bank.Unreadable++
}

// nameUnusable flags a record that has an id and cannot be used.
func (r *comparison) nameUnusable(id string, x Exception) {
	if s := (subject{aboutPayment, id}); !r.judged(s) {
		r.part.Bank.Unreadable++
		x.Kind, x.ProviderTxnRef = Unreadable, id
		r.unsettled(item{subject: s, exception: &x})
	}
}

// judge compares the bank's record of a payment with what is stored. It returns what must be posted
// for it: a payment that is missing, or one whose event could not be posted.
func (r *comparison) judge(t provider.Transaction, k payment.Known) (posting, bool) {
	s := subject{aboutPayment, t.ID}
	unposted := k.Status == "" || k.Status == payment.Failed
	switch {
	case k.Entry != nil:
		r.compareEntry(t, k.Entry)
	case unposted && t.Status == provider.Pending: // remembered until it is final, as its event may never come
		r.wait(t)
	case k.Category == payment.CategoryMisdirected && t.Status != provider.Success:
		r.notInWallet(t, k)
	case k.LookAlikeOf != "" && t.Status == provider.Refunded:
		r.alikeTakenBack(t, k)
	case t.Status != provider.Success && k.Outside.Sign() != 0: // the float counts it as received
		it := item{subject: s, effect: k.Outside.Neg(), since: &t.Time}
		if !t.UpdatedAt.IsZero() {
			it.since = &t.UpdatedAt
		}
		r.unsettled(it)
	case !unposted || t.Status != provider.Success: // it is about to be posted, or moved no money
		r.settle(aboutPayment, t.ID)
		if k.Status == payment.Failed {
			r.done[s] = struct{}{}
		}
	case k.Category == payment.CategoryMisdirected && !(t.Amount.Equal(k.Amount) && t.Fee.Equal(k.Fee)):
		r.otherInWallet(t, k)
	case k.Category == payment.CategoryMisdirected: // it is on the list of events until an operator assigns it
		r.part.except(Exception{Kind: Unposted, EventID: &k.EventID, Detail: fmt.Sprintf("%s: %s", k.Category, k.Problem)}.withBank(t))
		r.settle(aboutPayment, t.ID)
	case payment.Unfit(t) != "" && k.Status == "":
		r.nameUnusable(t.ID, Exception{Detail: "the record in the bank's list is not stored: " + payment.Unfit(t)}.withBank(t))
	case payment.Unfit(t) != "":
		x := Exception{Kind: Unposted, EventID: &k.EventID, Detail: fmt.Sprintf("%s: %s; the bank's own record does not help: %s", k.Category, k.Problem, payment.Unfit(t))}.withBank(t)
		r.unsettled(item{subject: s, exception: &x})
	case t.Time.IsZero() && k.OccurredAt == nil: // the time decides whose it is, and whether it is a repeat
		r.nameUnusable(t.ID, Exception{Detail: "the record is not stored: it does not say when the payment was made"}.withBank(t))
	default:
		if t.Time.IsZero() {
			t.Time = *k.OccurredAt
		}
		return posting{t: t, event: k.EventID, problem: k.Problem}, true
	}
	return posting{}, false
}

// alikeTakenBack looks, for a payment that is held back as a repeat and that the bank took back, at
// the payment that it may repeat: that one's recall is opened, since the bank may say it of the one
// under the id of the other. What is held back counts nowhere.
func (r *comparison) alikeTakenBack(t provider.Transaction, k payment.Known) {
	it := item{subject: subject{aboutPayment, t.ID}, since: &t.Time}
	if e := k.LookAlike; e != nil && (e.Status == ledger.Provisional || e.Status == ledger.Confirmed) && !e.IsRest(t) {
		x := Exception{
			Kind: Contradicts, EventID: &k.EventID, EntryStatus: e.Status, BooksAmount: &k.Amount, BooksFee: &k.Fee,
			Detail: fmt.Sprintf("the bank says %s, and the payment %s, which it looks like, is %s", t.Status, k.LookAlikeOf, e.Status),
		}.withBank(t)
		it.exception = &x
	}
	r.unsettled(it)
	r.done[it.subject] = struct{}{} // it is not to be named as held back
}

// notInWallet flags a misdirected payment that the bank took back, or never made: the suspense
// account has it, or has refunded it, but the wallet does not have it. Assigning it ends that,
// since its confirmation reverses it. Until then there is no entry that a recall could be opened
// for.
func (r *comparison) notInWallet(t provider.Transaction, k payment.Known) {
	where := "it is in suspense, misdirected: assigned, it is reversed"
	if k.ReturnedBy != "" {
		where = "it is misdirected, and paid back out of suspense as well: see the refund " + k.ReturnedBy
	}
	x := Exception{
		Kind: Contradicts, EventID: &k.EventID, BooksAmount: &k.Amount, BooksFee: &k.Fee, Detail: fmt.Sprintf("the bank says %s, and %s", t.Status, where),
	}.withBank(t)
	it := item{subject: subject{aboutPayment, t.ID}, exception: &x, effect: k.Fee.Sub(k.Amount), since: &t.Time}
	if !t.UpdatedAt.IsZero() {
		it.since = &t.UpdatedAt
	}
	r.unsettled(it)
}

// otherInWallet flags a misdirected payment for which the wallet has another sum than the suspense
// account. It cannot be refunded like that; if it is assigned, it goes under review and is
// corrected there.
func (r *comparison) otherInWallet(t provider.Transaction, k payment.Known) {
	x := Exception{
		Kind: Differs, EventID: &k.EventID, BooksAmount: &k.Amount, BooksFee: &k.Fee,
		Detail: fmt.Sprintf("it is in suspense, misdirected, as %s with a fee of %s: assigned, it goes under review", k.Amount, k.Fee),
	}.withBank(t)
	r.unsettled(item{subject: subject{aboutPayment, t.ID}, exception: &x, effect: t.Amount.Sub(t.Fee).Sub(k.Amount.Sub(k.Fee)), since: &t.Time})
}

// wait remembers a payment whose record is not final. It is reported if that takes more than a day.
func (r *comparison) wait(t provider.Transaction) {
	it := item{subject: subject{aboutPayment, t.ID}}
	since := t.Time
	if old := r.before[it.subject]; since.IsZero() && old != nil { // the record does not say when it was made
		since = old.foundAt
	}
	if !since.IsZero() && r.report.StartedAt.Sub(since) >= pendingTooLong {
		x := Exception{Kind: StillPending, Detail: "the bank has not reported its outcome for more than a day"}.withBank(t)
		it.exception = &x
	}
	r.unsettled(it)
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
// reversed or under review is as it should be, unless the bank says that the payment succeeded, and
// so is one that counts what is left after a part went back. The confirmation asks about a record
// that is not final only while the entry is provisional.
func (r *comparison) compareEntry(t provider.Transaction, e *payment.Entry) {
	counts := e.Status == ledger.Provisional || e.Status == ledger.Confirmed
	switch {
	case t.Status == provider.Pending && e.Status == ledger.Provisional:
		r.settle(aboutPayment, t.ID)
		return
	case t.Status == provider.Pending:
		r.wait(t)
		return
	case counts && e.IsRest(t):
		r.settle(aboutPayment, t.ID)
		return
	}
	it := item{subject: subject{aboutPayment, t.ID}, effect: held(e).Neg(), since: &t.Time}
	if t.Status == provider.Success {
		it.effect = it.effect.Add(t.Amount).Sub(t.Fee)
	} else if !t.UpdatedAt.IsZero() {
		it.since = &t.UpdatedAt
	}
	var x Exception
	switch d := e.Differs(t); {
	case t.Status != provider.Success && counts:
		x = ofEntry(e, Contradicts, fmt.Sprintf("the bank says %s, the entry is %s", t.Status, e.Status)).withBank(t)
	case t.Status == provider.Success && e.Status == ledger.Reversed && d != "":
		command := "ajo review correct" // it counts the payment on the same account
		if e.IsElsewhere(t) {
			command = "ajo events assign"
		}
		x = ofEntry(e, Contradicts, "the bank says success, the entry is reversed, and "+d+": see "+command).withBank(t)
	case t.Status == provider.Success && e.Status == ledger.Reversed:
		x = ofEntry(e, Contradicts, "the bank says success, the entry is reversed: see ajo review restore").withBank(t)
		if e.Assigned {
			x.Detail += ", or ajo events assign if that was the wrong account"
		}
		it.exception = &x
		r.moved = append(r.moved, reversed{*e, it}) // decided when the slice is compared
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
	r.unsettled(it)
}

// held is what the wallet has of the payment by the books: it is in the balance or under review.
func held(e *payment.Entry) money.Amount {
	if e.Status == ledger.Reversed {
		return money.Zero
	}
	return e.Amount.Sub(e.Fee)
}

// askPayment asks about a payment that an earlier run has left open.
func (r *comparison) askPayment(ctx context.Context, s *slice, it *item) error {
	ours, err := r.payments.Known(ctx, []string{it.ref})
	if err != nil {
		return err
	}
	k := ours[it.ref]
	t, err := r.askTransaction(ctx, it.ref)
	switch {
	case errors.Is(err, provider.ErrUnknown) && k.Entry != nil:
		r.lostPayment(k.Entry, unknownByID)
	case errors.Is(err, provider.ErrUnknown) && k.Category == payment.CategoryMisdirected:
		r.lostStray(k)
	case err != nil:
		return r.unanswered(ctx, it, err)
	default:
		if p, ok := r.judge(t, k); ok {
			s.missing = append(s.missing, p)
		}
	}
	return r.postMissing(ctx, s)
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

const (
	unknownByID = "the bank neither lists it nor knows its id"
	unasked     = "the bank does not list it; not asked for by its id: there are too many"
)

// lostPayment flags an entry that the bank does not know. What a person has found received, without
// a record, the wallet has.
func (r *comparison) lostPayment(e *payment.Entry, why string) {
	if e.Status == ledger.Reversed {
		r.settle(aboutPayment, e.TxnRef)
		return
	}
	effect := held(e).Neg()
	if e.ByHand {
		effect, why = money.Zero, why+"; a person has found that the wallet has it"
	}
	x := ofEntry(e, UnknownAtBank, why)
	r.unsettled(item{subject: subject{aboutPayment, e.TxnRef}, exception: &x, effect: effect, since: e.OccurredAt})
}

// readEntries adds up the entries of a slice, by the time of their payments, and asks about those
// that the list lacks.
func (r *comparison) readEntries(ctx context.Context, s *slice) error {
	var absent []payment.Entry
	if err := r.payments.EntriesBetween(ctx, s.from, s.to, func(e payment.Entry) {
		sums := map[ledger.Status]*Sum{
			ledger.Provisional: &r.part.Books.Provisional, ledger.Confirmed: &r.part.Books.Confirmed,
			ledger.NeedsReview: &r.part.Books.NeedsReview, ledger.Reversed: &r.part.Books.Reversed,
		}
		sums[e.Status].add(e.Amount, e.Fee)
		switch {
		case e.Status == ledger.Reversed || r.isKept(e.TxnRef, (*slice).ids):
		case len(absent) < maxWaiting:
			absent = append(absent, e)
		case r.clock.Now().Sub(e.PostedAt) < r.minAge:
			r.part.Young++
		default:
			r.leave(subject{aboutPayment, e.TxnRef}, notAsked(&e))
		}
	}); err != nil {
		return err
	}
	return r.askAbsent(ctx, s, absent)
}

// heal posts, from the bank's own record, an event that could not be posted.
func (r *comparison) heal(ctx context.Context, p posting) error {
	posted, err := r.payments.RepostListed(ctx, p.event, p.t)
	x := Exception{Kind: Unposted, EventID: &p.event}.withBank(p.t)
	switch {
	case errors.Is(err, payment.ErrNotUnposted): // somebody else has done it
		r.settle(aboutPayment, p.t.ID)
	case pg.IsData(err):
		x.Detail = "from the bank's own record it cannot be posted either: " + err.Error()
		r.unsettled(item{subject: subject{aboutPayment, p.t.ID}, exception: &x})
	case err != nil:
		return err
	case posted.Category != payment.CategoryPayment:
		x.Detail = fmt.Sprintf("%s: posted from the bank's own record, it finds no account", posted.Category)
		r.part.except(x)
		r.settle(aboutPayment, p.t.ID)
	default:
		x.Kind, x.Detail = Healed, "it could not be posted ("+p.problem+"), and is posted now from the bank's own record"
		r.part.except(x)
		r.settle(aboutPayment, p.t.ID)
	}
	return nil
}
