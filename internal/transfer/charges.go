package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// What a payout costs stands in three places. bankCharges are what the bank took, by its record.
// booked is what the books have of that, as what the platform spent. tenantPart is what the tenant
// pays of it, where its policy says so: at acceptance the expected fee is debited, and once the
// record names the fee, the tenant pays that. For example, 10.00 are expected and debited, and the
// record names 12.50: the tenant pays 2.50 more. Each step of a transfer has a chargePlan, which
// says what it changes of the last two.

// bankCharges are what the bank takes for a payout beside its amount, as its own record names them;
// nil is what no record has named.
type bankCharges struct {
	Fee       *money.Amount `pg:"fee,numeric"`
	VAT       *money.Amount `pg:"vat,numeric"`
	StampDuty *money.Amount `pg:"stamp_duty,numeric"`
}

func bankChargesOf(p provider.Payout) bankCharges { return bankCharges{p.Fee, p.VAT, p.StampDuty} }

// or fills in what c does not name.
func (c bankCharges) or(known bankCharges) bankCharges {
	return bankCharges{cmp.Or(c.Fee, known.Fee), cmp.Or(c.VAT, known.VAT), cmp.Or(c.StampDuty, known.StampDuty)}
}

// taxes are VAT and stamp duty together.
func (c bankCharges) taxes() money.Amount { return money.Sum(c.VAT, c.StampDuty) }

// booked is what the books have of a payout's charges.
type booked struct {
	fee, taxes money.Amount
	count      int32 // how often it was changed
}

// tenantPart is what the tenant pays of them, where its policy said so at acceptance.
type tenantPart struct {
	byTenant bool
	// the expected fee, debited provisionally at acceptance; zero: none, or not any more
	reserved   money.Amount
	fee, taxes money.Amount // debited for good
}

// chargePlan is what a step does to the books of a transfer's charges.
type chargePlan struct {
	booked                               // what they are to have
	tenantPart                           // and what the account is to have borne of it
	release                 ledger.Event // what becomes of the debit of the expected fee; empty: it stays
	wantFee                 money.Amount // still to be debited of the fee; below zero: to be given back
	wantTaxes               money.Amount
	booksChange, tenantPays bool
}

// toBook is what the books are to have of the charges once the transfer is in the status to: what
// the bank's record names, of a payout that it made, or for which it kept them. If the record
// differs from the books in something else, a person decides first. What no record names is not
// booked: reconciliation names the payout, and asks again. final says that the bank's record has
// decided it.
func (st *claimed) toBook(to Status) (b booked, final bool) {
	c, record := st.learned.or(st.known), st.learned.Difference
	taken := to == Success || st.learned.Kept
	b = booked{count: st.booked.count}
	switch {
	case to == Pending || to == Processing || record != nil && *record != "" && (st.Differs || *record != st.Difference):
		return st.booked, false
	case taken && c.Fee == nil:
		return st.booked, false
	case taken:
		b.fee, b.taxes = *c.Fee, c.taxes()
	case to == st.Status && record == nil: // no answer
		return st.booked, false
	}
	return b, true
}

// planCharges decides what the step to the status does to the charges. The tenant pays what is
// booked, once that is final. What was reserved for a payout that was not paid is free whatever
// else the bank's record says of it; for one that was paid it stays reserved until a record names
// the fee.
func (st *claimed) planCharges(to Status) chargedStep {
	b, final := st.toBook(to)
	c := &chargePlan{booked: b, tenantPart: st.tenantPart, booksChange: !b.fee.Equal(st.booked.fee) || !b.taxes.Equal(st.booked.taxes)}
	st.plan = c
	step := chargedStep{claimed: st, to: to}
	if to != Failed && to != Refunded {
		step.gone = st.Paid
	}
	if !st.tenantPart.byTenant || to == Pending || to == Processing || !final && to == Success {
		return step
	}
	if st.tenantPart.reserved.IsPositive() {
		c.tenantPart.reserved, c.release, c.tenantPays = money.Zero, ledger.EventReverse, true
		if b.fee.IsPositive() {
			c.tenantPart.fee, c.release = st.tenantPart.reserved, ledger.EventConfirm
		}
	}
	c.wantFee, c.wantTaxes = b.fee.Sub(c.tenantPart.fee), b.taxes.Sub(c.tenantPart.taxes)
	return step
}

// chargeColumns are the columns of a change that books the charges, and what the tenant pays; empty
// where nothing changes.
func (st *claimed) chargeColumns() (columns chargeColumns) {
	c := st.plan
	if c.booksChange || c.tenantPays {
		count := c.count + 1
		columns.BookedFee, columns.BookedTaxes, columns.Count = &c.booked.fee, &c.booked.taxes, &count
	}
	if c.tenantPays {
		columns.TenantFee, columns.TenantTaxes, columns.Released = &c.tenantPart.fee, &c.tenantPart.taxes, c.release != ""
	}
	return columns
}

type chargeColumns struct {
	BookedFee   *money.Amount `pg:"booked_fee,numeric"`
	BookedTaxes *money.Amount `pg:"booked_taxes,numeric"`
	Count       *int32        `pg:"booking_count"`
	TenantFee   *money.Amount `pg:"tenant_fee,numeric"`
	TenantTaxes *money.Amount `pg:"tenant_taxes,numeric"`
	Released    bool          `pg:"released"` // nothing is reserved any more
}

// reservedGroup is the transaction group of the debit of a transfer's expected fee.
func reservedGroup(transfer uuid.UUID) uuid.UUID {
	return ledger.GroupOf(ledger.KindFee, "", transfer)
}

// reservedFee is the debit of a transfer's expected fee, which goes with its own.
func reservedFee(account, transfer uuid.UUID, ref *string, fee money.Amount) ledger.Posting {
	return ledger.Posting{
		AccountID: account, Amount: fee, Narration: feeNarration, TransactionGroupID: reservedGroup(transfer), TransferRef: ref, Kind: ledger.KindFee, Contra: ledger.BankFees,
	}
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

// The narrations of charges.
const (
	feeNarration   = "Payout fee"
	taxesNarration = "VAT and stamp duty of a payout"
)

// movements lead from what the books have of the charges to what they are to have.
func (st *claimed) movements() (list []ledger.Movement) {
	for _, a := range []struct {
		on         ledger.SystemAccount
		have, want money.Amount
		narration  string
	}{
		{ledger.BankFees, st.booked.fee, st.plan.booked.fee, feeNarration},
		{ledger.Taxes, st.booked.taxes, st.plan.booked.taxes, taxesNarration},
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

// chargedStep is a step of a transfer to the status to, with what it does to the charges.
type chargedStep struct {
	*claimed
	to   Status
	gone money.Amount // what has left by its own debit then
	why  string       // of a refund by policy: why not all of it went back
}

// platformMoves is what the step does to the debits of what the platform takes: they go the way of
// the transfer's own.
func (c chargedStep) platformMoves() (moves []ledger.Move, paid []uuid.UUID) {
	groups := ledger.ChargeGroups(c.ID, c.platform.Fee, c.platform.VAT)
	switch {
	case c.to == c.Status:
	case c.to == Success:
		return nil, groups
	case c.to == Failed || c.to == Refunded:
		event := ledger.EventReverse
		if c.Status == Success {
			event = ledger.EventRefund
		}
		for _, g := range groups {
			moves = append(moves, ledger.Move{TransactionGroupID: g, Direction: ledger.Debit, Event: event})
		}
	}
	return moves, nil
}

// bookCharges posts the movements of the transfers' charges. All payouts share the accounts: their
// balances are locked after those of tenants, and little comes after them.
func bookCharges(ctx context.Context, tx pg.Tx, now time.Time, all []chargedStep) error {
	var movements []ledger.Movement
	for _, c := range all {
		movements = append(movements, c.movements()...)
	}
	return ledger.PostMovements(ctx, tx, now, movements)
}

// moveDebits moves the debits of transfers, confirms those of the paid groups, and has the tenants
// bear their charges: what was reserved is confirmed or reversed, and the rest debited as far as
// the account has money, or given back. What comes back of refunds by policy is held before that,
// so that nothing else is debited of it. Where no tenant bears anything, this costs no additional
// statement.
func moveDebits(ctx context.Context, tx pg.Tx, now time.Time, all []chargedStep, moves []ledger.Move, paid []uuid.UUID) error {
	var accounts []uuid.UUID
	var charges []ledger.Charge
	var parts []*money.Amount // what is still to be debited, of the fee or the taxes
	for _, c := range all {
		accounts = append(accounts, c.AccountID)
		back, kept := c.platformMoves()
		moves, paid = append(moves, back...), append(paid, kept...)
		switch c.plan.release {
		case ledger.EventConfirm:
			paid = append(paid, reservedGroup(c.ID))
		case ledger.EventReverse:
			moves = append(moves, ledger.Move{TransactionGroupID: reservedGroup(c.ID), Direction: ledger.Debit, Event: ledger.EventReverse})
		}
		for _, part := range []struct {
			on        ledger.SystemAccount
			want      *money.Amount
			narration string
		}{{ledger.BankFees, &c.plan.wantFee, feeNarration}, {ledger.Taxes, &c.plan.wantTaxes, taxesNarration}} {
			if part.want.Sign() != 0 {
				charges = append(charges, ledger.Charge{
					AccountID: c.AccountID, Amount: *part.want, Contra: part.on, Kind: ledger.KindFee, Narration: part.narration, TransferRef: &c.Ref,
					TransactionGroupID: chargeGroup(part.on, reservedGroup(c.ID), c.booked.count),
				})
				parts = append(parts, part.want)
			}
		}
	}
	if len(charges) > 0 { // before the moves, which would lock the balances in another order
		if err := ledger.LockBalances(ctx, tx, accounts); err != nil {
			return err
		}
	}
	moved, err := ledger.MoveEntries(ctx, tx, now, moves)
	if err == nil {
		err = ledger.ConfirmDebits(ctx, tx, paid)
	}
	for _, m := range moved {
		err = errors.Join(err, m.Err)
	}
	if err != nil {
		return fmt.Errorf("transfer: debits: %w", err)
	}
	if err := holdAgain(ctx, tx, now, all); err != nil {
		return err
	}
	posted, err := ledger.PostCharges(ctx, tx, now, charges)
	for i, sum := range posted {
		*parts[i] = sum
	}
	for _, c := range all {
		c.bear()
	}
	return err
}

// bear takes note of what was debited.
func (st *claimed) bear() {
	c := st.plan
	if c.wantFee.Sign() != 0 || c.wantTaxes.Sign() != 0 {
		c.tenantPart.fee, c.tenantPart.taxes, c.tenantPays = c.tenantPart.fee.Add(c.wantFee), c.tenantPart.taxes.Add(c.wantTaxes), true
	}
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
		st.learned = learned{bankCharges: bankCharges{&c.Fee, &c.VAT, &c.StampDuty}, Kept: st.Status != Success}
		charges := []chargedStep{st.planCharges(st.Status)}
		if err := moveDebits(ctx, tx, now, charges, nil, nil); err != nil {
			return err
		}
		if err := writeAll(ctx, tx, now, []change{{
			ID: st.ID, From: st.Status, To: st.Status, Asks: st.Asks, Unknown: st.Unknown, learned: st.learned, chargeColumns: st.chargeColumns(),
		}}); err != nil {
			return err
		}
		if err := bookCharges(ctx, tx, now, charges); err != nil {
			return err
		}
		if err := st.unlock(ctx, tx); err != nil {
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
