package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/transfer"
)

// maxEnded bounds the payouts that are kept until the float is compared. If there are more, the
// float counts as not comparable.
const maxEnded = 100_000

// transferRow has what the comparison needs of a transfer.
type transferRow struct {
	Ref       string
	AccountID uuid.UUID
	Status    transfer.Status
	Ordered   money.Amount
	// the sum of its debit: another sum than was ordered if a person has found that the bank paid
	// that
	Left          money.Amount
	Fee           *money.Amount // the bank's charges as the transfer has them; nil: not known yet
	VAT           *money.Amount
	StampDuty     *money.Amount
	Booked        money.Amount // what the books have of the three
	Short         money.Amount // the part that the tenant bears, but its account did not have
	BankCode      string
	AccountNumber string
	Attempts      int
	SubmittedAt   *time.Time
	Known         string // how the bank's record differs, if a person has dealt with it
	UpdatedAt     time.Time
	ByHand        bool // a person has ended it
}

const payoutColumns = `merchant_tx_ref, account_id, status, amount, coalesce(paid_amount, amount), provider_fee, provider_vat, provider_stamp_duty,
	coalesce(booked_fee, 0) + coalesce(booked_taxes, 0), CASE WHEN fee_by_tenant AND reserved_fee IS NULL AND status IN ('success', 'failed', 'refunded')
		THEN coalesce(booked_fee, 0) + coalesce(booked_taxes, 0) - coalesce(tenant_fee, 0) - coalesce(tenant_taxes, 0) ELSE 0 END, bank_code, account_number, attempt_count, submitted_at, CASE WHEN differs_since IS NULL THEN difference ELSE '' END, updated_at, ended_by = 'operator'`

// out is what the payout has taken from the balances.
func (t *transferRow) out() money.Amount {
	if t.Attempts > 0 && (t.Status == transfer.Processing || t.Status == transfer.Success) {
		return t.Left
	}
	return money.Zero // not sent, or given back
}

// bankOut is what the bank has taken from the wallet for a payout whose outcome it knows, without
// its fee. If a part came back, the record of that has the sum that came back.
func (t *transferRow) bankOut(p provider.Payout) money.Amount {
	switch {
	case p.Status == provider.Success:
		return p.Amount
	case p.Status != provider.Refunded:
		return money.Zero
	case t.Status == transfer.Success && p.Amount.Equal(t.Ordered.Sub(t.Left)):
		return t.Left // the part that a person has already booked
	case p.Amount.Cmp(t.Left) >= 0:
		return money.Zero
	case t.Left.Cmp(t.Ordered) > 0:
		return t.Left.Sub(p.Amount)
	}
	return t.Ordered.Sub(p.Amount)
}

// charges are what the bank has charged for the payout in addition to its amount: nothing if all of
// it came back, unless the record says that the bank kept them. ok is false if no record names the
// fee.
func (t *transferRow) charges(p provider.Payout) (sum money.Amount, ok bool) {
	if !p.FeeKept && !t.bankOut(p).IsPositive() {
		return money.Zero, true
	}
	p.Fee, p.VAT, p.StampDuty = cmp.Or(p.Fee, t.Fee), cmp.Or(p.VAT, t.VAT), cmp.Or(p.StampDuty, t.StampDuty)
	return chargesOf(p), p.Fee != nil
}

// booked returns the charges that the books have for a payout that was sent.
func (t *transferRow) booked() money.Amount {
	if t.Attempts == 0 {
		return money.Zero
	}
	return t.Booked
}

// madeAt is when the bank made the payout: as of its submission if the record does not say.
func (t *transferRow) madeAt(p provider.Payout) time.Time {
	if p.Time.IsZero() && t.SubmittedAt != nil {
		return *t.SubmittedAt
	}
	return p.Time
}

// effect returns how much more the wallet has because of the payout than the books say.
func (t *transferRow) effect(p provider.Payout) money.Amount {
	if p.Status == provider.Pending {
		return money.Zero
	}
	taken, known := t.charges(p)
	if !known {
		taken = t.booked()
	}
	return t.out().Add(t.booked()).Sub(t.bankOut(p)).Sub(taken)
}

// matchPayouts compares payouts of a slice's list with the transfers. What failed or was given back
// is compared when the neighbours have been read, as one reference may have several records.
func (r *comparison) matchPayouts(ctx context.Context, s *slice, payouts []provider.Payout) error {
	var fresh []provider.Payout
	for _, p := range payouts {
		gone := p.Status == provider.Success || p.Status == provider.Pending
		if !isID(p.Ref) || p.ID != "" && !isID(p.ID) {
			r.nameUnreadable(s, "", p.Ref+" "+p.ID, unnamed(p))
			continue
		}
		switch record := p.Ref + " " + p.ID; {
		case r.isKept(record, (*slice).records): // a list that changes while it is read may show it twice
			if err := r.askOfBack(ctx, p, gone); err != nil {
				return err
			}
			continue
		case r.isKept(p.Ref, (*slice).gone):
			if err := r.comparePaidTwice(ctx, p, record, gone); err != nil {
				return err
			}
		case gone:
			fresh = append(fresh, p)
		case !r.isKept(p.Ref, (*slice).refs): // a try, if the list has the payout too
			s.tries = append(s.tries, p)
		}
		s.payoutRecords.add(p.Ref + " " + p.ID)
		s.payouts.add(p.Ref)
		if gone {
			s.paidPayouts.add(p.Ref)
		}
	}
	return r.comparePayouts(ctx, fresh)
}

func (r *comparison) findPayouts(ctx context.Context, refs []string) (map[string]*transferRow, error) {
	list, err := pg.Collect(ctx, r.pool, pgx.RowToAddrOfStructByPos[transferRow], `SELECT `+payoutColumns+` FROM transfers WHERE merchant_tx_ref = ANY($1)`, refs)
	ours := make(map[string]*transferRow, len(list))
	for _, t := range list {
		ours[t.Ref] = t
	}
	return ours, err
}

// comparePayout reports how the bank's record and the transfer disagree, and how much more the
// wallet has because of it than the books say. A transfer that is still processing although the
// record has its end asks the bank by itself, which has acknowledged it from here on; until then
// only the float needs to know. A refund that only the list shows makes the transfer due at once,
// and so do charges that are not booked as the record names them, or that the tenant has not paid,
// unless a person has dismissed that.
func (r *comparison) comparePayout(ctx context.Context, p provider.Payout, t *transferRow) error {
	if t == nil {
		r.nameUnknownPayout(p)
		return nil
	}
	// what the float must not count as in progress
	if p.Status != provider.Pending && (t.Status == transfer.Processing || t.UpdatedAt.After(r.wallet.at)) && len(r.ended) < maxEnded {
		r.ended[p.Ref] = t.madeAt(p)
	}
	switch {
	case t.Status == transfer.Processing:
		if err := r.transfers.AcknowledgeListed(ctx, p.Ref); err != nil {
			return err
		}
	case t.Status == transfer.Pending && t.conflictsWith(p.Status):
		if err := r.takeUp(ctx, p.Ref); err != nil {
			return err
		}
	}
	s := subject{aboutPayout, p.Ref}
	kind, detail := t.difference(p)
	effect := t.effect(p)
	since := t.madeAt(p)
	if !p.UpdatedAt.IsZero() && (p.Status != provider.Success || t.Status == transfer.Failed || t.Status == transfer.Refunded) {
		since = p.UpdatedAt // the money moved when the bank's record changed
	}
	charges, known := t.charges(p)
	ended := t.Status == transfer.Success || t.Status == transfer.Failed || t.Status == transfer.Refunded
	against, _ := t.disagrees(p)
	x := t.asException(kind, detail).withPayout(p)
	short := t.Short.IsPositive() && !(kind == PayoutFeeShort && r.isDismissed(s, x)) // dismissed: the platform bears it
	if kind != "" && t.Status == transfer.Success && p.Status == provider.Refunded || against == "" && ended && known && (!charges.Equal(t.booked()) || short) {
		// the transfer's own question books it
		if _, err := r.transfers.Expedite(ctx, p.Ref); err != nil {
			return err
		}
	}
	switch {
	case kind != "":
		r.unsettled(item{subject: s, exception: &x, effect: effect, since: &since})
	case effect.Sign() != 0:
		r.unsettled(item{subject: s, effect: effect, since: &since})
	default:
		r.settle(aboutPayout, p.Ref)
	}
	return nil
}

// nameUnknownPayout flags a payout that moved money although no transfer accounts for it. A
// transfer is stored before the bank is asked to pay, so either it was lost with a database, or
// somebody else pays from the wallet.
func (r *comparison) nameUnknownPayout(p provider.Payout) {
	s, out, detail, whole := subject{aboutPayout, p.Ref}, p.Amount, "the bank pays "+p.Ref, p.Amount
	if old := r.before[s]; old != nil && old.exception != nil && old.exception.BankAmount != nil {
		whole = *old.exception.BankAmount // a part of it may have come back
	}
	switch {
	case p.Status == provider.Refunded && p.Amount.Cmp(whole) < 0:
		out, detail = whole.Sub(p.Amount), fmt.Sprintf("the bank gave back %s of %s for %s", p.Amount, whole, p.Ref)
	case p.Status != provider.Failed && p.Status != provider.Refunded:
	case p.FeeKept:
		out, detail = money.Zero, "the bank kept its charges for "+p.Ref+", which came back"
	default:
		r.settle(s.kind, s.ref)
		return
	}
	x := Exception{Kind: UnknownPayout, Detail: detail + ", and no transfer has that reference"}.withPayout(p)
	x.BankAmount = &whole
	r.unsettled(item{subject: s, exception: &x, effect: out.Add(chargesOf(p)).Neg(), since: &p.Time})
}

// difference describes how the bank's record differs from the transfer; empty if they agree, or may
// come to agree by themselves.
func (t *transferRow) difference(p provider.Payout) (ExceptionKind, string) {
	say := fmt.Sprintf
	if kind, detail := t.disagrees(p); kind != "" {
		if t.Known == p.Beside(string(t.Status), t.Left) {
			return "", ""
		}
		return kind, detail
	}
	switch {
	case p.Status == provider.Failed && !p.FeeKept:
		return "", ""
	case p.Status == provider.Failed:
	case p.AccountNumber != "" && t.AccountNumber != transfer.NoAccountNumber && p.AccountNumber != t.AccountNumber:
		return PayoutDiffers, say("it went to account %s, not %s", p.AccountNumber, t.AccountNumber)
	case p.BankCode != "" && t.BankCode != transfer.NoBankCode && p.BankCode != t.BankCode:
		return PayoutDiffers, say("it went to bank %s, not %s", p.BankCode, t.BankCode)
	case t.Fee != nil && p.Fee != nil && !t.Fee.Equal(*p.Fee) && p.Status == provider.Success:
		return PayoutDiffers, say("fee is %s, not %s", p.Fee, t.Fee)
	}
	if _, known := t.charges(p); !known && p.Status != provider.Pending && t.Status != transfer.Processing {
		return PayoutFeeUnknown, "the bank's record does not name its fee: nothing is booked for it"
	}
	if t.Short.IsPositive() {
		return PayoutFeeShort, say("the tenant bears what the bank took, and its account did not have %s of it: the platform bears that", t.Short)
	}
	return "", ""
}

// disagrees compares status and sum. A part that came back and that a person has booked is not a
// difference.
func (t *transferRow) disagrees(p provider.Payout) (ExceptionKind, string) {
	say := fmt.Sprintf
	out := t.bankOut(p)
	switch part := p.Status == provider.Refunded && out.IsPositive(); {
	case part && t.Status == transfer.Success && out.Equal(t.Left):
		return "", ""
	case part:
		return PayoutDiffers, say("the bank gave back %s of %s, the transfer is %s", p.Amount, p.Amount.Add(out), t.Status)
	case t.conflictsWith(p.Status):
		return PayoutContradicts, say("the bank says %s, the transfer is %s", p.Status, t.Status)
	case p.Status != provider.Failed && !p.Amount.Equal(t.Left):
		return PayoutDiffers, say("amount is %s, not %s", p.Amount, t.Left)
	}
	return "", ""
}

// conflictsWith reports whether the bank's status cannot stand beside the transfer's. A processing
// transfer will get its end from the bank's record. Failed and refunded say the same: the money is
// where it was.
func (t *transferRow) conflictsWith(s provider.Status) bool {
	switch t.Status {
	case transfer.Success:
		return s != provider.Success
	case transfer.Failed, transfer.Refunded:
		return s == provider.Success || s == provider.Pending
	case transfer.Pending:
		return t.Attempts == 0 && (s == provider.Success || s == provider.Pending)
	}
	return false
}

// readPayouts adds up the transfers that were submitted in a slice, and asks the bank about those
// that its list lacks.
func (r *comparison) readPayouts(ctx context.Context, s *slice) error {
	if err := r.compareTries(ctx, s); err != nil {
		return err
	}
	rows := pg.Rows(ctx, r.pool, `SELECT `+payoutColumns+` FROM transfers WHERE submitted_at >= $1 AND submitted_at < $2`, s.from, s.to)
	var absent []transferRow
	var t transferRow
	if _, err := pgx.ForEachRow(rows, t.fields(), func() error {
		fee := money.Zero
		if t.Fee != nil {
			fee = *t.Fee
		}
		r.part.Books.Payouts.add(string(t.Status), t.Left, fee)
		switch {
		case t.Status == transfer.Failed || r.isKept(t.Ref, (*slice).refs):
		case len(absent) < maxWaiting:
			absent = append(absent, t)
		default:
			one := t
			r.leave(subject{aboutPayout, t.Ref}, one.notAsked())
		}
		return nil
	}); err != nil {
		return err
	}
	return r.askPayouts(ctx, s, absent)
}

func (t *transferRow) fields() []any {
	return []any{
		&t.Ref, &t.AccountID, &t.Status, &t.Ordered, &t.Left, &t.Fee, &t.VAT, &t.StampDuty, &t.Booked, &t.Short, &t.BankCode, &t.AccountNumber, &t.Attempts, &t.SubmittedAt, &t.Known, &t.UpdatedAt, &t.ByHand,
	}
}

func (t *transferRow) notAsked() Exception {
	return t.asException(PayoutUnknown, "the bank does not list it; not asked for by its reference: there are too many")
}

// askPayouts asks the bank, one by one, about the payouts that its list does not have. A transfer
// in progress asks by itself; this only reports what the bank says.
func (r *comparison) askPayouts(ctx context.Context, s *slice, absent []transferRow) error {
	for _, t := range absent {
		if r.report.StartedAt.Sub(*t.SubmittedAt) < r.minAge {
			r.part.Young++
			s.young = true
			continue
		}
		if !r.mayAsk("payouts") {
			r.leave(subject{aboutPayout, t.Ref}, t.notAsked())
			continue
		}
		p, err := r.askRecord(ctx, t.Ref)
		switch {
		case errors.Is(err, provider.ErrUnknown):
			r.lostPayout(&t)
		case err != nil:
			if err := r.unclear(ctx, subject{aboutPayout, t.Ref}, t.asException(Unreadable, ""), err); err != nil {
				return err
			}
		default:
			r.part.Elsewhere++
			if err := r.comparePayout(ctx, p, &t); err != nil {
				return err
			}
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lostPayout flags a payout that the books have and the bank does not know.
func (r *comparison) lostPayout(t *transferRow) {
	if t.ByHand || t.Status != transfer.Success && t.Status != transfer.Refunded {
		// the bank has not reported its end yet, and the transfer asks; or the money has come back;
		// or a person has found what became of it, where the bank's index does not say
		r.settle(aboutPayout, t.Ref)
		return
	}
	x := t.asException(PayoutUnknown, "the transfer is "+string(t.Status)+", and the bank neither lists it nor knows its reference")
	effect := t.out().Add(t.booked())
	r.unsettled(item{subject: subject{aboutPayout, t.Ref}, exception: &x, effect: effect, since: t.SubmittedAt})
}

// askPayout asks about a payout that an earlier run has left open.
func (r *comparison) askPayout(ctx context.Context, it *item) error {
	if it.isPaidTwice() {
		return r.askPaidTwice(ctx, it)
	}
	ours, err := r.findPayouts(ctx, []string{it.ref})
	if err != nil {
		return err
	}
	t := ours[it.ref]
	p, err := r.askRecord(ctx, it.ref)
	switch {
	case err == nil:
		return r.comparePayout(ctx, p, t)
	case errors.Is(err, provider.ErrUnknown) && t != nil:
		r.lostPayout(t)
	default:
		return r.unanswered(ctx, it, err)
	}
	return nil
}

// errAnother marks an answer that does not count, because it is about somebody else's money.
var errAnother = errors.New("the bank answered with another's record")

// askRecord asks for the bank's record of a payout. It changes nothing.
func (r *comparison) askRecord(ctx context.Context, ref string) (provider.Payout, error) {
	if r.unheard >= maxUnheard {
		return provider.Payout{}, errUnheard
	}
	p, err := r.bank.Payout(ctx, ref)
	if err == nil && p.Ref != ref {
		err = errAnother
	}
	r.heard(err)
	return p, err
}

func (t *transferRow) asException(k ExceptionKind, detail string) Exception {
	return Exception{
		Kind: k, MerchantTxRef: t.Ref, AccountID: &t.AccountID, TransferStatus: string(t.Status), BooksAmount: &t.Left, BooksFee: t.Fee, Detail: detail,
	}
}

// withPayout adds the bank's side to an exception about a payout.
func (x Exception) withPayout(p provider.Payout) Exception {
	x.ProviderTxnRef, x.MerchantTxRef, x.AccountNumber, x.BankStatus, x.BankAmount, x.BankFee = p.ID, p.Ref, p.AccountNumber, string(p.Status), &p.Amount, p.Fee
	if x.At = &p.Time; p.Time.IsZero() {
		x.At = nil
	}
	return x
}
