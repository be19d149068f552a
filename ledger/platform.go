package ledger

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// What the platform charges for a payment or a payout is debited together with it: a fee and the
// VAT on it, each an entry of [KindPlatformFee] with its system account on the other side. The
// wallet does not change. The charges of a payment always have its credit's status, under review
// too; the account's provisional sum counts the credit less its charges. So a charge on unconfirmed
// money takes nothing from confirmed money.

// The narrations of the platform's charges.
const (
	platformNarration = "Platform fee"
	vatNarration      = "VAT on the platform fee"
)

// WithCharges returns the posting of a payment or a payout with the platform's charges.
func (p Posting) WithCharges(fee, vat money.Amount) Posting {
	for _, c := range []struct {
		on        SystemAccount
		amount    money.Amount
		narration string
	}{{PlatformRevenue, fee, platformNarration}, {Taxes, vat, vatNarration}} {
		if c.amount.IsPositive() {
			p.With = append(p.With, Posting{
				AccountID: p.AccountID, Amount: c.amount, Narration: c.narration, ProviderTxnRef: p.ProviderTxnRef, TransferRef: p.TransferRef,
				TransactionGroupID: platformGroup(c.on, p.TransactionGroupID), Contra: c.on, Kind: KindPlatformFee,
			})
		}
	}
	return p
}

func platformGroup(on SystemAccount, of uuid.UUID) uuid.UUID {
	return GroupOf(KindPlatformFee, on, of)
}

// ChargeGroups are the transaction groups of the platform's charges on a payment or a payout.
func ChargeGroups(of uuid.UUID, fee, vat money.Amount) (groups []uuid.UUID) {
	if fee.IsPositive() {
		groups = append(groups, platformGroup(PlatformRevenue, of))
	}
	if vat.IsPositive() {
		groups = append(groups, platformGroup(Taxes, of))
	}
	return groups
}

// readCharges reads the charges of the credits among the entries. Their accounts must be locked. If
// no credit has a price, it runs no statement.
func readCharges(ctx context.Context, tx pg.Tx, entries map[entryKey]*stored) error {
	of := map[uuid.UUID]*stored{}
	var groups []uuid.UUID
	for _, e := range entries {
		if e.Price == nil {
			continue
		}
		for _, on := range []SystemAccount{PlatformRevenue, Taxes} {
			group := platformGroup(on, e.TransactionGroupID)
			of[group], groups = e, append(groups, group)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	list, err := pg.Collect(ctx, tx, scanStored, storedSQL, groups)
	slices.SortFunc(list, func(a, b *stored) int { return pg.CompareIDs(a.ID, b.ID) })
	for _, c := range list {
		if c.Direction == Debit {
			c.charges = of[c.TransactionGroupID]
			c.charges.charged = append(c.charges.charged, c)
			entries[entryKey{c.TransactionGroupID, Debit}] = c
		}
	}
	return err
}

// kept is what a credit adds to its account after its charges.
func (e *stored) kept() money.Amount {
	sum := e.Amount
	for _, c := range e.charged {
		sum = sum.Sub(c.Amount)
	}
	return sum
}

// Brought is, as SQL, what a payment's credit e has brought its account: its amount, less what the
// platform takes of it.
func Brought(e string) string {
	group := func(on SystemAccount) string {
		return `event_key('` + string(KindPlatformFee) + `:` + string(on) + `:' || ` + e + `.transaction_group_id)`
	}
	return `(` + e + `.amount - CASE WHEN ` + e + `.price_id IS NULL THEN 0 ELSE (SELECT coalesce(sum(f.amount), 0) FROM ledger_entries f
		WHERE f.transaction_group_id = ANY(ARRAY[` + group(PlatformRevenue) + `, ` + group(Taxes) + `]) AND f.reversal_of IS NULL) END)`
}

const storedSQL = `
		SELECT account_id, contra, price_id, split::text, id, direction, amount, fee, currency, status, narration, provider_txn_ref, transaction_group_id,
			transfer_ref, reversal_of, created_at, ` + senderColumns + `, kind
		FROM ledger_entries e WHERE transaction_group_id = ANY($1)`

func scanStored(r pgx.CollectableRow) (*stored, error) {
	var s stored
	return &s, r.Scan(append([]any{&s.AccountID, &s.Contra, &s.Price, &s.Split}, s.fields()...)...)
}
