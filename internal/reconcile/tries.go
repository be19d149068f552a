package reconcile

import (
	"context"
	"slices"

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
