package reconcile

import (
	"context"
	"slices"
	"time"

	"ajo/internal/payment"
	"ajo/internal/provider"
)

// compareTries compares the payouts of a slice that the list has as failed or given back. If a
// neighbour or the slice itself has the payout too, as paid or under way, that one counts.
func (r *comparison) compareTries(ctx context.Context, s *slice) error {
	for some := range slices.Chunk(s.tries, storeRecords) {
		var fresh []provider.Payout
		for _, p := range some {
			if !r.isKept(p.Ref, (*slice).gone) {
				fresh = append(fresh, p)
			} else if err := r.comparePaidTwice(ctx, p, p.Ref+" "+p.ID, false); err != nil {
				return err
			}
		}
		if err := r.comparePayouts(ctx, fresh); err != nil {
			return err
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	s.tries = nil
	return nil
}

// comparePaidTwice flags a payout that the bank lists in addition to another one with the same
// reference, each with its own id: the money left twice, and the transfer accounts for one of them.
// It stays open until the bank's list shows that the money came back. A second record that says
// that the money came back may be about the first: the transfer asks.
func (r *comparison) comparePaidTwice(ctx context.Context, p provider.Payout, record string, gone bool) (err error) {
	s := subject{aboutPayout, payment.Clean(record)}
	if !gone {
		if r.settle(s.kind, s.ref); p.Status == provider.Refunded {
			_, err = r.transfers.Expedite(ctx, p.Ref)
		}
		return err
	}
	x := Exception{Kind: PayoutDiffers, Detail: "the bank lists a second payout under this reference, " + payment.Clean(p.ID)}.withPayout(p)
	r.unsettled(item{subject: s, exception: &x, effect: p.Amount.Add(chargesOf(p)).Neg(), since: &p.Time})
	return nil
}

// isPaidTwice reports whether an item is of [comparison.comparePaidTwice].
func (it *item) isPaidTwice() bool {
	x := it.exception
	return x != nil && x.Kind == PayoutDiffers && x.At != nil && it.ref == payment.Clean(x.MerchantTxRef+" "+x.ProviderTxnRef)
}

// askPaidTwice reads the bank's list of the second of a payout that left in addition to another
// one, since no question by reference shows whether it came back.
func (r *comparison) askPaidTwice(ctx context.Context, it *item) error {
	from := it.exception.At.Truncate(time.Second)
	cursor := ""
	for range maxAroundPages {
		page, err := r.list(ctx, from, from.Add(time.Second), cursor)
		if err != nil {
			return r.unanswered(ctx, it, err)
		}
		for _, p := range page.Payouts {
			back := p.Status == provider.Failed || p.Status == provider.Refunded
			if record := p.Ref + " " + p.ID; back && payment.Clean(record) == it.ref {
				return r.comparePaidTwice(ctx, p, record, false)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	r.keepOpen(it)
	return nil
}

// askOfBack has a transfer ask about a record that the list shows once more: it has failed or was
// given back since it was shown as paid.
func (r *comparison) askOfBack(ctx context.Context, p provider.Payout, gone bool) error {
	if gone || !r.isKept(p.Ref, (*slice).gone) {
		return nil
	}
	_, err := r.transfers.Expedite(ctx, p.Ref)
	return err
}

// comparePayouts compares records of the list with the transfers.
func (r *comparison) comparePayouts(ctx context.Context, list []provider.Payout) error {
	if len(list) == 0 {
		return nil
	}
	refs := make([]string, len(list))
	for i, p := range list {
		refs[i] = payment.Clean(p.Ref)
	}
	ours, err := r.findPayouts(ctx, refs)
	if err != nil {
		return err
	}
	for _, p := range list {
		r.part.Bank.Payouts.add(string(p.Status), p.Amount, feeOf(p))
		if err := r.comparePayout(ctx, p, ours[p.Ref]); err != nil {
			return err
		}
	}
	return nil
}

// unnamed is an exception about a payout whose reference or id is none.
func unnamed(p provider.Payout) Exception {
	if !isID(p.Ref) {
		p.Ref = ""
	}
	if !isID(p.ID) {
		p.ID = ""
	}
	return Exception{Detail: "a payout's reference or id is none"}.withPayout(p)
}
