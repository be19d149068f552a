package transfer

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/work"
	"ajo/ledger"
)

// charges are what the bank takes for a payout beside its amount, as its own record names them; nil
// is what no record has named.
type charges struct {
	Fee       *money.Amount `pg:"fee,numeric"`
	VAT       *money.Amount `pg:"vat,numeric"`
	StampDuty *money.Amount `pg:"stamp_duty,numeric"`
}

func chargesOf(p provider.Payout) charges { return charges{p.Fee, p.VAT, p.StampDuty} }

// or fills in what c does not name.
func (c charges) or(known charges) charges {
	return charges{cmp.Or(c.Fee, known.Fee), cmp.Or(c.VAT, known.VAT), cmp.Or(c.StampDuty, known.StampDuty)}
}

// taxes are VAT and stamp duty together.
func (c charges) taxes() money.Amount { return money.Sum(c.VAT, c.StampDuty) }

// booked is what the books have of a payout's charges.
type booked struct {
	fee, taxes money.Amount
	count      int32 // how often it was changed
}

// charged is what the books are to have of the charges once the transfer is in the status to: what
// the bank's record names, of a payout that it made, or for which it kept them. A record that
// differs from the books in something else is a person's to judge first. What no record names is
// not booked: reconciliation names the payout, and asks again.
func (st *claimed) charged(to Status) booked {
	c, record := st.learned.or(st.known), st.learned.Difference
	taken := to == Success || st.learned.Kept
	b := booked{count: st.booked.count + 1}
	switch {
	case to == Pending || to == Processing || record != nil && *record != "" && (st.Differs || *record != st.Difference):
		return st.booked
	case taken && c.Fee == nil:
		return st.booked
	case taken:
		b.fee, b.taxes = *c.Fee, c.taxes()
	case to == st.Status && record == nil: // no answer
		return st.booked
	}
	if b.fee.Equal(st.booked.fee) && b.taxes.Equal(st.booked.taxes) {
		return st.booked
	}
	return b
}

// bookings are the columns of a change that has b booked; empty where it is so already.
func (st *claimed) bookings(b booked) (columns bookings) {
	if b.count != st.booked.count {
		columns = bookings{&b.fee, &b.taxes, &b.count}
	}
	return columns
}

type bookings struct {
	BookedFee   *money.Amount `pg:"booked_fee,numeric"`
	BookedTaxes *money.Amount `pg:"booked_taxes,numeric"`
	Count       *int32        `pg:"booking_count"`
}

// chargeGroup is the transaction group of a transfer's n-th booking on an account. A second one of
// the same number is refused by the schema.
func chargeGroup(on ledger.SystemAccount, transfer uuid.UUID, n int32) uuid.UUID {
	group := ledger.GroupOf(ledger.KindFee, on, transfer)
	for range n {
		group = ledger.GroupOf(ledger.KindFee, on, group)
	}
	return group
}

// rebooked are the movements that lead from what the books have of the charges to b.
func (st *claimed) rebooked(b booked) (list []ledger.Movement) {
	for _, a := range []struct {
		on         ledger.SystemAccount
		have, want money.Amount
		narration  string
	}{
		{ledger.BankFees, st.booked.fee, b.fee, "Payout fee"},
		{ledger.Taxes, st.booked.taxes, b.taxes, "VAT and stamp duty of a payout"},
	} {
		m := ledger.Movement{
			Account: a.on, Direction: ledger.Debit, Amount: a.want.Sub(a.have), Kind: ledger.KindFee, Narration: a.narration, TransferRef: &st.Ref,
			TransactionGroupID: chargeGroup(a.on, st.ID, st.booked.count),
		}
		switch m.Amount.Sign() {
		case 0:
			continue
		case -1:
			m.Direction, m.Amount, m.Narration = ledger.Credit, m.Amount.Neg(), "Given back: "+a.narration
		}
		list = append(list, m)
	}
	return list
}

// charge is a transfer whose charges are to be booked for its status to.
type charge struct {
	*claimed
	to Status
}

// bookCharges posts the movements of the transfers' charges. It comes last in its transaction: all
// payouts share the accounts.
func bookCharges(ctx context.Context, tx pg.Tx, now time.Time, all []charge) error {
	var movements []ledger.Movement
	for _, c := range all {
		movements = append(movements, c.rebooked(c.charged(c.to))...)
	}
	return ledger.PostMovements(ctx, tx, now, movements)
}

// Refusals of [Service.BookCharges].
var (
	ErrCharges      = errs.New(errs.Invalid, "fee, VAT and stamp duty must not be below zero")
	ErrChargesNamed = errs.New(errs.Unprocessable, "the bank's own record names the fee: poll the transfer, and its step books what the record says")
	ErrNoCharges    = errs.New(errs.Unprocessable, "the transfer was not paid, and the bank's record does not say that it keeps its charges")
)

// Charges are what a person has found out that the bank took for a payout.
type Charges struct {
	Fee, VAT, StampDuty money.Amount
}

// BookCharges books what the bank took for a payout whose record does not name it. The bank is
// asked first, where it can be: what its record names is not booked otherwise, now or later. For
// operators. [ErrNotFound], [ErrCharges], [ErrLeased], [ErrChargesNamed], [ErrNoCharges].
func (s *Service) BookCharges(ctx context.Context, merchantTxRef string, c Charges, by audit.By) error {
	if c.Fee.Sign() < 0 || c.VAT.Sign() < 0 || c.StampDuty.Sign() < 0 {
		return ErrCharges
	}
	record, said := s.askedByHand(ctx, merchantTxRef)
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		st, err := s.lockTransfer(ctx, tx, now, merchantTxRef)
		if err != nil {
			return err
		}
		leased, err := work.Leased(ctx, tx, work.Settle, st.ID, now)
		switch {
		case err != nil:
			return err
		case leased:
			return ErrLeased
		case record == nil && st.known.Fee != nil || record != nil && record.Fee != nil:
			return ErrChargesNamed
		case st.Status != Success && (record == nil || !record.FeeKept || !st.ended()):
			return ErrNoCharges
		}
		st.learned = learned{charges: charges{&c.Fee, &c.VAT, &c.StampDuty}, Kept: st.Status != Success}
		if err := writeAll(ctx, tx, now, []change{{
			ID: st.ID, From: st.Status, To: st.Status, Asks: st.Asks, Unknown: st.Unknown, learned: st.learned, bookings: st.bookings(st.charged(st.Status)),
		}}); err != nil {
			return err
		}
		if err := bookCharges(ctx, tx, now, []charge{{st, st.Status}}); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("transfers.charges", "transfer:"+merchantTxRef, struct {
			Status              Status
			Fee, VAT, StampDuty string
			Before              *money.Amount
			BankSays            string
		}{st.Status, c.Fee.String(), c.VAT.String(), c.StampDuty.String(), st.known.Fee, said}))
	})
}
