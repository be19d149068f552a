package transfer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
)

// ended reads ajo_transfers_ended_total of this process, over all ends.
func ended(t *testing.T) (n int) {
	t.Helper()
	for _, of := range testenv.Metric(t, "ajo_transfers_ended_total") {
		n += of
	}
	return n
}

// A transfer's end is counted once, by the worker that recorded it: one that had lost its claim by
// then counts nothing, nor does an end that could not be recorded.
func TestEndsAreCountedOnce(t *testing.T) {
	b := newBundle(t) // not beside other tests, whose ends are counted too
	b.fund("100.00")
	first, second := b.settle("10.00"), b.settle("10.00")
	slow, errs := b.svc.ClaimTogether(b.ctx, first.ID, second.ID)
	require.Equal(t, []error{nil, nil}, errs)
	require.Equal(t, []bool{true, true}, b.svc.SubmitTogether(b.ctx, slow))
	b.Clock.Advance(work.Term + 1e9) // and nobody has heard of it since
	quick, errs := b.service().ClaimTogether(b.ctx, first.ID)
	require.Equal(t, []error{nil}, errs)

	before := ended(t)
	b.svc.EndTogether(b.ctx, slow[:1]) // the claim is the other worker's
	require.Equal(t, before, ended(t))
	require.Equal(t, transfer.Processing, b.get(first.MerchantTxRef).Status)
	require.NoError(t, b.service().EndTogether(b.ctx, quick)[0].Err)
	require.Equal(t, before+1, ended(t))
	b.svc.EndTogether(b.ctx, slow[:1])
	b.service().EndTogether(b.ctx, quick) // for a second time
	require.Equal(t, before+1, ended(t))
	b.svc.EndTogether(b.ctx, slow) // one that is lost, and one that still stands
	require.Equal(t, before+2, ended(t))
	require.Equal(t, transfer.Success, b.get(second.MerchantTxRef).Status)
}
