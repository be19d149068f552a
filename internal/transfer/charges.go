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

// The cost of a payout is kept in three places. bankCharges is what the bank charged, by its
// record. booked is what the books have of that as the platform's expense. tenantPart is what the
// tenant pays of it, if it bears the charges: at acceptance the expected fee is debited, and once
// the record names the fee, the tenant pays that. For example, 10.00 is expected and debited, and
// the record names 12.50: the tenant pays 2.50 more. Each step of a transfer has a chargePlan,
// which says how it changes booked and tenantPart.

// bankCharges are what the bank charges for a payout in addition to its amount, by its own record;
// nil: no record has named it.
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

// booked is the part of a payout's charges that the books have.
type booked struct {
	fee, taxes money.Amount
	count      int32 // how often it was changed
}

// tenantPart is what the tenant pays of them, if it bore the charges at acceptance.
type tenantPart struct {
	byTenant bool
	// the expected fee, debited provisionally at acceptance; zero: none, or no longer
	reserved   money.Amount
	fee, taxes money.Amount // debited for good
}

// chargePlan says what a step changes in the books of a transfer's charges.
type chargePlan struct {
	booked                               // what they are to have
	tenantPart                           // and what the account shall have borne of it
	release                 ledger.Event // what happens to the debit of the expected fee; empty: nothing
	wantFee                 money.Amount // of the fee, still to be debited; below zero: to be given back
	wantTaxes               money.Amount
	booksChange, tenantPays bool
}

// toBook returns which charges the books shall have once the transfer is in the status to: those in
// the bank's record, if the bank made the payout, or kept its charges. If the record differs from
// the books in something else, a person decides first. Charges that no record names are not booked:
// reconciliation reports the payout, and asks again. final reports that the bank's record has
// decided the matter.
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
// booked, once that is final. A fee reserved for a payout that was not paid is freed, whatever else
// the bank's record says; for one that was paid, it stays reserved until a record names the fee.
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

// chargeColumns are the columns of a change that have the booked charges and what the tenant pays;
// empty if nothing changes.
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
	Released    bool          `pg:"released"` // nothing is reserved any longer
}

// reservedGroup is the transaction group of the debit of a transfer's expected fee.
func reservedGroup(transfer uuid.UUID) uuid.UUID {
	return ledger.GroupOf(ledger.KindFee, "", transfer)
}

// reservedFee is the debit of a transfer's expected fee, which is posted with the transfer's own
// debit.
func reservedFee(account, transfer uuid.UUID, ref *string, fee money.Amount) ledger.Posting {
	return ledger.Posting{
		AccountID: account, Amount: fee, Narration: feeNarration, TransactionGroupID: reservedGroup(transfer), TransferRef: ref, Kind: ledger.KindFee, Contra: ledger.BankFees,
	}
}

// chargeGroup is the transaction group of a transfer's n-th booking on an account. The schema
// refuses a second one with the same number.
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

// movements lead from what the books have of the charges to what the books shall have.
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
	why  string       // for a refund by policy: why not all of it was paid back
}

// platformMoves moves the debits of the platform's charges in the same way as the transfer's own.
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

// bookCharges posts the movements of the transfers' charges. All payouts share these system
// accounts: their balances are locked after those of tenants, and little is done after that.
func bookCharges(ctx context.Context, tx pg.Tx, now time.Time, all []chargedStep) error {
	var movements []ledger.Movement
	for _, c := range all {
		movements = append(movements, c.movements()...)
	}
	return ledger.PostMovements(ctx, tx, now, movements)
}

// moveDebits moves the debits of transfers, confirms those of the paid groups, and charges the
// tenants that bear the charges: the reserved fee is confirmed or reversed, and the rest is debited
// as far as the account has money, or given back. Money that returns from refunds by policy is held
// before that, so that nothing else takes it. If no tenant bears anything, this costs no additional
// statement.
func moveDebits(ctx context.Context, tx pg.Tx, now time.Time, all []chargedStep, moves []ledger.Move, paid []uuid.UUID) error {
	var accounts []uuid.UUID
	var charges []ledger.Charge
	var parts []*money.Amount // what is still to be debited, for the fee or the taxes
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

// bear records what was debited.
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
	ErrChargesKnown = errs.New(errs.Unprocessable, "the charges are booked already, as the bank's record or a person had them; without an answer of the bank they are not booked again")
	ErrNoCharges    = errs.New(errs.Unprocessable, "the transfer was not paid, and the bank's record does not say that it keeps its charges")
)

// Charges are what the bank charged for a payout, as a person has found out.
type Charges struct {
	Fee, VAT, StampDuty money.Amount
}

// BookCharges books the bank's charges for a payout whose record does not name them. The bank is
// asked first, if it can be: charges that its record names override those of a person, now or
// later. For operators. [ErrNotFound], [ErrCharges], [ErrLeased], [ErrChargesNamed],
// [ErrChargesKnown], [ErrNoCharges].
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
		case record == nil && st.known.Fee != nil:
			return ErrChargesKnown
		case record != nil && record.Fee != nil:
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
