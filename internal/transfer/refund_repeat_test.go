package transfer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// forgets removes the kept answers, as a restore of the database does.
func (b *bundle) forgets() { b.Exec(`DELETE FROM idempotency_keys`) }

// A refund that is asked for again under its key is the same refund, also when its answer is not
// kept any more: the transfer that the key names is there.
func TestRepeatedRefundWithoutItsAnswer(t *testing.T) {
	for name, amount := range map[string]string{"whole": "", "in part": "60.00"} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			_, entry := b.received("100.00", &payer)
			first, _, err := b.refund("k", entry, amount)
			require.NoError(t, err)
			same := func() {
				t.Helper()
				b.forgets()
				again, replayed, err := b.refund("k", entry, amount)
				require.NoError(t, err)
				require.True(t, replayed)
				require.Equal(t, first, again)
				require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
			}
			same()
			b.run(b.get(first.MerchantTxRef))
			same()
			b.forgets()
			_, _, err = b.refund("k", entry, "1.00")
			require.ErrorIs(t, err, idempotency.ErrReused, "another amount")
			_, other := b.received("100.00", &payer)
			_, replayed, err := b.refund("k", other, amount)
			require.NoError(t, err, "another payment")
			require.False(t, replayed)

			// After a week the key may be used again, for what is left.
			b.Clock.Advance(idempotency.Keep + time.Minute)
			b.forgets()
			rest, replayed, err := b.refund("k", entry, "")
			if amount == "" {
				require.ErrorIs(t, err, transfer.ErrRefunded)
				return
			}
			require.NoError(t, err)
			require.False(t, replayed)
			require.Equal(t, "40.00", rest.Amount.String())
			require.NotEqual(t, first.MerchantTxRef, rest.MerchantTxRef)
		})
	}
}

// A refund whose reference a transfer has already, though it names another payment, is not answered
// as accepted: there is no transfer of it, and nothing is taken off.
func TestRefundWhoseReferenceIsTaken(t *testing.T) {
	b := setup(t)
	_, entry := b.received("100.00", &payer)
	_, other := b.received("100.00", &payer)
	_, _, err := b.refund("k", entry, "60.00")
	require.NoError(t, err)
	b.forgets()
	b.ExecUnguarded(`UPDATE transfers SET refund_of = $1`, other)
	_, _, err = b.refund("k", entry, "60.00")
	require.ErrorIs(t, err, idempotency.ErrRunning)
	require.Equal(t, 0, testenv.Value[int](b.Env, `SELECT count(*) FROM idempotency_keys`))
}

// Of several refunds of a payment each key has its own, for as long as its answer is kept, to the
// microsecond.
func TestRepeatedRefundsOfOnePayment(t *testing.T) {
	b := setup(t)
	_, entry := b.received("100.00", &payer)
	first, _, err := b.refund("first", entry, "60.00")
	require.NoError(t, err)
	second, _, err := b.refund("second", entry, "")
	require.NoError(t, err)
	again := func(key, amount string, want transfer.RefundAccepted) {
		t.Helper()
		b.forgets()
		got, replayed, err := b.refund(key, entry, amount)
		require.NoError(t, err)
		require.True(t, replayed)
		require.Equal(t, want, got)
	}
	again("second", "", second)
	again("first", "60.00", first)
	b.Clock.Advance(idempotency.Keep)
	again("second", "", second)
	b.Clock.Advance(time.Microsecond)
	b.forgets()
	_, _, err = b.refund("second", entry, "")
	require.ErrorIs(t, err, transfer.ErrRefunded)
}

// A refund by policy that finds, once it has the balance, that the policy holds the payment no more
// is none; and what the fee leaves nothing of is left to the tenant.
func TestRefundByPolicyOfWhatIsHeldThen(t *testing.T) {
	end := ledger.PolicyHold{}
	released := ledger.PolicyHold{Amount: money.Must("100.00"), Policy: ledger.Policy{Source: ledger.HeldByPolicy, Reason: "under"}}
	for name, h := range map[string]ledger.PolicyHold{"the hold has ended": end, "the tenant decides": released} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			group, entry := b.received("100.00", &payer)
			b.holdFor(ledger.HeldForRefund, entry, "100.00")
			h.AccountID, h.EntryID = b.account, entry
			require.NoError(t, b.Meanwhile(func(tx pg.Tx) error {
				return ledger.SetPolicyHold(b.ctx, tx, b.Clock.Now(), h)
			}, func() error { return b.svc.RefundByPolicy(b.ctx, group) }))
			require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
			require.Equal(t, h.Amount.String(), b.held(entry))
		})
	}
	for amount, refunded := range map[string]string{"10.00": "", "10.01": "0.01"} {
		t.Run("of "+amount, func(t *testing.T) {
			b := bearerBundle(t, "10.00", "0.00")
			group, entry := b.received(amount, &payer)
			b.holdFor(ledger.HeldForRefund, entry, amount)
			require.NoError(t, b.svc.RefundByPolicy(b.ctx, group))
			require.Equal(t, refunded, testenv.Value[string](b.Env, `SELECT coalesce(min(amount)::text, '') FROM transfers`))
			if refunded == "" {
				require.Equal(t, amount, b.held(entry))
				require.Equal(t, "policy", testenv.Value[string](b.Env, `SELECT source FROM holds WHERE entry_id = $1 AND status = 'open'`, entry))
			}
		})
	}
}

// A database that was restored from before a refund, into which it was adopted: the tenant's
// request, sent again, gets its first answer; and while it is adopted, either that or a refusal
// that says to try again.
func TestRepeatedRefundAfterARestore(t *testing.T) {
	by := audit.By{Actor: "cli:ada", Reason: "restored"}
	for name, amount := range map[string]string{"whole": "100.00", "in part": "60.00"} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			group, entry := b.received("100.00", &payer)
			r, err := idempotency.NewRequest(b.tenant, "k", "POST", "", nil)
			require.NoError(t, err)
			own, _ := r.Name()
			lost := b.refundRef(group.String(), hex.EncodeToString(own[:4]))
			b.paysOutside(lost, amount)
			var wg sync.WaitGroup
			wg.Go(func() {
				// it comes too late where the request was first: that pays under the same reference
				if err := b.svc.Adopt(b.ctx, lost, uuid.Nil, by); err != nil {
					if !errors.Is(err, transfer.ErrKnown) {
						t.Error(err)
					}
				}
			})
			for range 4 {
				wg.Go(func() {
					r, err := idempotency.NewRequest(b.tenant, "k", "POST", "", nil)
					if err != nil {
						t.Error(err)
						return
					}
					for {
						_, err = b.svc.Refund(b.ctx, b.tenant, entry, amount, transfer.Maker{}, r)
						if e := errs.As(err); err == nil || e == nil || e.Kind != errs.Conflict {
							break
						}
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
			b.forgets()
			got, replayed, err := b.refund("k", entry, amount)
			require.NoError(t, err)
			require.True(t, replayed)
			require.Equal(t, lost, got.MerchantTxRef)
			require.Equal(t, transfer.Success, b.run(b.get(lost)).Status)
			require.Len(t, b.bank.Payouts(), 1)
			b.agree()
		})
	}
}

// What a policy holds of a payment stays held when a refund of a part of it is asked for again, and
// an adopted refund takes what is held first, as any does.
func TestRepeatedRefundOfAHeldPayment(t *testing.T) {
	b := setup(t)
	group, entry := b.received("100.00", &payer)
	b.hold(entry, "100.00")
	first, _, err := b.refund("k", entry, "60.00")
	require.NoError(t, err)
	require.Equal(t, "40.00", b.held(entry))
	b.forgets()
	again, replayed, err := b.refund("k", entry, "60.00")
	require.NoError(t, err)
	require.True(t, replayed)
	require.Equal(t, first, again)
	require.Equal(t, "40.00", b.held(entry))

	lost := b.refundRef(group.String(), "00000001")
	b.paysOutside(lost, "30.00")
	require.NoError(t, b.svc.Adopt(b.ctx, lost, uuid.Nil, audit.By{Actor: "cli:ada", Reason: "restored"}))
	require.Equal(t, "10.00", b.held(entry))
	require.Equal(t, "0.00", b.shown(false).Available.String())
	b.agree()
}

// The fee that the tenant bears for an adopted refund by policy comes out of what the policy still
// holds, as far as that goes.
func TestAdoptedPolicyRefundReservesItsFee(t *testing.T) {
	for left, want := range map[string][2]string{"60.00": {"10.00", "30.00"}, "90.00": {"10.00", "0.00"}, "95.00": {"5.00", "0.00"}, "100.00": {"none", "0.00"}} {
		t.Run(left, func(t *testing.T) {
			b := bearerBundle(t, "10.00", "0.00")
			group, entry := b.received("100.00", &payer)
			b.holdFor(ledger.HeldForRefund, entry, "100.00")
			sum := sha256.Sum256([]byte(group.String()))
			key, err := idempotency.NewRequest(b.tenant, "refund by policy: "+hex.EncodeToString(sum[:]), "", "", nil)
			require.NoError(t, err)
			own, _ := key.Name()
			ref := b.refundRef(group.String(), hex.EncodeToString(own[:4]))
			b.paysOutside(ref, left)
			require.NoError(t, b.svc.Adopt(b.ctx, ref, uuid.Nil, byHand))
			require.Equal(t, want, [2]string{testenv.Value[string](b.Env, `SELECT coalesce(reserved_fee::text, 'none') FROM transfers WHERE by_policy`), b.held(entry)})
		})
	}
}

// hold holds so much of a payment, as its account's policy does.
func (b *bundle) hold(entry uuid.UUID, amount string) {
	b.T.Helper()
	b.holdFor(ledger.HeldByPolicy, entry, amount)
}

// holdFor holds so much of a payment by its account's policy.
func (b *bundle) holdFor(source ledger.HoldSource, entry uuid.UUID, amount string) {
	b.T.Helper()
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		return ledger.SetPolicyHold(b.ctx, tx, b.Clock.Now(), ledger.PolicyHold{
			AccountID: b.account, EntryID: entry, Amount: money.Must(amount), Policy: ledger.Policy{Source: source, Reason: "under"},
		})
	}))
}

func (b *bundle) held(entry uuid.UUID) string {
	b.T.Helper()
	h, err := ledger.FindPolicyHold(b.ctx, b.Pool, entry)
	require.NoError(b.T, err)
	if h == nil {
		return "0.00"
	}
	return h.Amount.String()
}
