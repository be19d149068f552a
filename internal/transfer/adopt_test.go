package transfer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// paysOutside has the bank pay under a reference, as a database knew it that is lost.
func (b *bundle) paysOutside(ref, amount string) {
	b.T.Helper()
	_, err := b.client.Pay(b.ctx, provider.NewPayout{Ref: ref, Amount: money.Must(amount), BankCode: "058", AccountNumber: "0123456789", AccountName: "AMINA BELLO", SenderName: "Ada Stores", Narration: "rent"})
	require.NoError(b.T, err)
}

// A payout that only the bank has is taken in on the account that its reference names, once, though
// the balance does not cover it, and ends as the bank says.
func TestAdopt(t *testing.T) {
	b := setup(t)
	by := audit.By{Actor: "cli:ada", Reason: "restored"}
	b.fund("60.00")
	ref := "AJO" + hex.EncodeToString(b.account[8:]) + "0123456789abcdef"
	adopt := func(ref string, account uuid.UUID) error {
		return b.svc.Adopt(b.ctx, ref, account, by)
	}
	require.ErrorIs(t, adopt(ref, uuid.Nil), transfer.ErrNotPaid)
	b.paysOutside(ref, "100.00")
	require.NoError(t, adopt(ref, uuid.New()), "the reference names the account")
	require.ErrorIs(t, adopt(ref, uuid.Nil), transfer.ErrKnown)
	b.money("-40.00", "credit 60.00 confirmed", "debit 100.00 provisional")
	got := b.run(b.get(ref))
	require.Equal(t, transfer.Success, got.Status)
	require.Nil(t, got.OrderedAt, "before the adoption, and nobody knows when")
	b.money("-40.00", "credit 60.00 confirmed", "debit 100.00 confirmed")
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE bank_code = '058' AND account_number = '0123456789' AND narration = 'rent' AND attempt_count = 1`))
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'transfers.adopt' AND target = 'transfer:' || $1`, ref))
	require.Equal(t, 1, b.bank.Calls(payCall))

	b.paysOutside("BY-HAND-7", "5.00")
	require.ErrorIs(t, adopt("BY-HAND-7", uuid.Nil), transfer.ErrNoAccount)
	require.NoError(t, adopt("BY-HAND-7", b.account))
	for _, other := range []string{"AJO-7", ref + "0"} {
		b.paysOutside(other, "5.00")
		require.ErrorIs(t, adopt(other, uuid.Nil), transfer.ErrNoAccount, "not the length of a reference of ours")
	}
	b.paysOutside("BY-HAND-8", "5.00")
	for _, unpaid := range []string{fakebank.StatusFailed, fakebank.StatusRefund} {
		b.bank.SetPayout("BY-HAND-8", func(p *fakebank.Payout) { p.Status = unpaid })
		require.ErrorIs(t, adopt("BY-HAND-8", b.account), transfer.ErrNotPaid, unpaid)
	}
	b.bank.Faults.SetDown(fakebank.DownClose)
	require.ErrorIs(t, adopt("BY-HAND-9", b.account), transfer.ErrBank)
}

// Where an adopted payout went may be unknown, or known in part: neither the transfer nor its event
// names an account that does not exist.
func TestAnAdoptedPayoutNamesNoFalseDestination(t *testing.T) {
	b := setup(t)
	b.Subscribe(b.tenant, "{settlement.succeeded}")
	b.fund("1000.00")
	for ref, c := range map[string]struct {
		unknown func(*fakebank.Payout)
		to      [2]string
	}{
		"BY-HAND-6": {func(p *fakebank.Payout) {}, [2]string{"058", "0123456789"}},
		"BY-HAND-7": {func(p *fakebank.Payout) { p.BankCode, p.AccountNumber = "", "" }, [2]string{}},
		"BY-HAND-8": {func(p *fakebank.Payout) { p.BankCode = "" }, [2]string{"", "0123456789"}},
		"BY-HAND-9": {func(p *fakebank.Payout) { p.AccountNumber = "" }, [2]string{"058", ""}},
	} {
		b.paysOutside(ref, "5.00")
		b.bank.SetPayout(ref, c.unknown)
		require.NoError(t, b.svc.Adopt(b.ctx, ref, b.account, byHand))
		got := b.run(b.get(ref))
		require.Equal(t, transfer.Success, got.Status)
		require.Equal(t, c.to, [2]string{got.BankCode, got.AccountNumber}, ref)
		listed, _, err := b.svc.List(b.ctx, b.tenant, transfer.Filter{Search: ref}, page.Request{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, c.to, [2]string{listed[0].BankCode, listed[0].AccountNumber}, ref)
		events := b.Delivered(`transaction_group_id = $1`, got.ID)
		require.Len(t, events, 1)
		require.Contains(t, events[0].Body, `"bankCode":"`+c.to[0]+`","accountNumber":"`+c.to[1]+`"`)
	}
}

// A payout that awaits approval in the restored books, and that was approved and paid in the ones
// that are lost, is neither cancelled nor, once adopted, rejected or submitted: its money has left.
func TestAdoptOfWhatAwaitsApproval(t *testing.T) {
	b := setup(t)
	by := audit.By{Actor: "cli:ada", Reason: "restored"}
	p := b.waiting(2)
	b.paysOutside(p.MerchantTxRef, "60.00")
	_, err := b.svc.Cancel(b.ctx, p.MerchantTxRef, by)
	require.ErrorIs(t, err, transfer.ErrAtBank)
	_, err = b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: true}, by)
	require.ErrorIs(t, err, transfer.ErrNotSubmitted, "its debit stands, so it is adopted")
	b.Clock.Advance(time.Minute)
	require.NoError(t, b.svc.Adopt(b.ctx, p.MerchantTxRef, uuid.Nil, by))
	require.Equal(t, &p.CreatedAt, b.get(p.MerchantTxRef).OrderedAt)
	require.ErrorIs(t, b.svc.Adopt(b.ctx, p.MerchantTxRef, uuid.Nil, by), transfer.ErrKnown)
	shown, err := b.svc.Show(b.ctx, p.MerchantTxRef)
	require.NoError(t, err)
	require.Equal(t, "ask the bank by reference: due", shown.NextStep)
	_, err = b.decide(p, uuid.New(), transfer.Reject)
	require.ErrorIs(t, err, transfer.ErrNotAwaiting)
	require.Equal(t, transfer.Success, b.run(p).Status)
	b.money("40.00", "credit 100.00 confirmed", "debit 60.00 confirmed")
	require.Equal(t, 1, b.bank.Calls(payCall))
	b.agree()

	begun := b.settle("10.00") // a worker is about to submit it
	claims := b.claims(begun, 1)
	b.paysOutside(begun.MerchantTxRef, "10.00")
	require.NoError(t, b.svc.Adopt(b.ctx, begun.MerchantTxRef, uuid.Nil, by))
	require.Equal(t, []bool{false}, b.svc.SubmitTogether(b.ctx, claims))
	require.Equal(t, transfer.Success, b.run(begun).Status)
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'transfers.adopt'`))
}

// A payout that the lost books had submitted is rejected in the restored ones before anybody knows
// that the bank has paid it: what was given back is debited again, once a person says so too.
func TestResolveOfWhatTheLostBooksSubmitted(t *testing.T) {
	b := setup(t)
	p := b.waiting(2)
	_, err := b.decide(p, uuid.New(), transfer.Reject)
	require.NoError(t, err)
	resolve := func(to transfer.Resolution) error {
		_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, to, byHand)
		return err
	}
	require.ErrorIs(t, resolve(transfer.Resolution{Paid: true}), transfer.ErrNotSubmitted, "the bank does not know it")
	b.paysOutside(p.MerchantTxRef, "60.00")
	b.Exec(`UPDATE transfers SET acknowledged_at = $1`, b.Clock.Now()) // by a worker that outlived the lost books
	require.ErrorIs(t, resolve(transfer.Resolution{}), transfer.ErrNotSubmitted)
	require.NoError(t, resolve(transfer.Resolution{Paid: true}))
	b.money("40.00", "credit 100.00 confirmed", "debit 60.00 reversed", "credit 60.00 reversed", "debit 60.00 confirmed")
	b.agree()
	_, err = b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
	require.NoError(t, err)
	b.asked(p, 1)
	got := b.get(p.MerchantTxRef)
	require.Equal(t, []any{transfer.Refunded, 1}, []any{got.Status, got.AttemptCount})
	b.agree()
}

// A settlement whose kept answer is gone, and whose transfer is there, is not made again; one whose
// transfer is gone too gets the reference that the bank knows.
func TestSettleAgainWithoutTheKeptAnswer(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	settle := func(amount string) (transfer.Settled, error) {
		return b.svc.Settle(b.ctx, b.tenant, "shop", order(amount), b.key("rent of may", order(amount)))
	}
	forget := func() { b.Exec(`DELETE FROM idempotency_keys`) }
	first, err := settle("100.00")
	require.NoError(t, err)
	ref := accepted(t, first).MerchantTxRef
	require.Equal(t, hex.EncodeToString(b.account[8:]), ref[3:19])
	forget()
	again, err := settle("100.00")
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Answer, again.Answer)
	forget()
	_, err = settle("200.00")
	require.ErrorIs(t, err, idempotency.ErrReused)
	elsewhere := []transfer.Order{{Amount: "100.00", BankCode: "058", AccountNumber: "9876543210"}, {Amount: "100.00", BankCode: "044", AccountNumber: "0123456789"}}
	for _, o := range elsewhere {
		_, err = b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("rent of may", o))
		require.ErrorIs(t, err, idempotency.ErrReused, "another destination")
	}
	b.money("900.00", "credit 1000.00 confirmed", "debit 100.00 provisional")

	b.Clock.Advance(idempotency.Keep + time.Hour)
	forget()
	anew, err := settle("100.00")
	require.NoError(t, err)
	require.False(t, anew.Replayed)
	require.NotEqual(t, ref, accepted(t, anew).MerchantTxRef, "the key may be used anew")

	other, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("1.00"), idempotency.Request{})
	require.NoError(t, err)
	require.Regexp(t, `^AJO[0-9a-f]{32}$`, accepted(t, other).MerchantTxRef)
}

// A settlement whose transfer was adopted is the same only to the destination that the bank's
// record names, as far as it names one.
func TestSettleAgainAfterAnAdoption(t *testing.T) {
	b := setup(t)
	key := b.key("k", order("60.00"))
	own, _ := key.Name()
	ref := "AJO" + hex.EncodeToString(b.account[8:]) + hex.EncodeToString(own[:])
	b.paysOutside(ref, "60.00")
	require.NoError(t, b.svc.Adopt(b.ctx, ref, uuid.Nil, audit.By{Actor: "cli:ada", Reason: "restored"}))
	for _, known := range []bool{true, false} {
		for to, same := range map[[2]string]bool{{"058", "0123456789"}: true, {"044", "0123456789"}: !known, {"058", "9876543210"}: !known} {
			b.Exec(`DELETE FROM idempotency_keys`)
			o := transfer.Order{Amount: "60.00", BankCode: to[0], AccountNumber: to[1]}
			again, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k", o))
			if !same {
				require.ErrorIs(t, err, idempotency.ErrReused, to)
				continue
			}
			require.NoError(t, err, to)
			require.True(t, again.Replayed)
			require.Equal(t, ref, accepted(t, again).MerchantTxRef)
		}
		b.Exec(`UPDATE transfers SET bank_code = '000', account_number = '0000000000'`) // as where the record names none
	}
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
}

// refundRef is the reference that a refund of a payment has.
func (b *bundle) refundRef(txnRef, own string) string {
	sum := sha256.Sum256([]byte(txnRef))
	return "AJR" + hex.EncodeToString(b.account[8:]) + hex.EncodeToString(sum[:4]) + own
}

// A refund that only the bank has is a refund again when it is adopted: by its reference, so nobody
// has to remember, and its payment is not refunded twice.
func TestAdoptedRefundCounts(t *testing.T) {
	b := setup(t)
	by := audit.By{Actor: "cli:ada", Reason: "restored"}
	group, entry := b.received("100.00", &payer)
	first := b.run(b.refunded(entry, "10.00"))
	require.Equal(t, b.refundRef(group.String(), "")[:27], first.MerchantTxRef[:27], "the account, and the payment by the bank's id of it")

	lost := b.refundRef(group.String(), "00000001")
	b.paysOutside(lost, "60.00")
	require.NoError(t, b.svc.Adopt(b.ctx, lost, uuid.Nil, by))
	require.Equal(t, &entry, b.get(lost).RefundOf)
	_, _, err := b.refund("", entry, "30.01")
	require.ErrorIs(t, err, transfer.ErrRefundAmount)
	require.Equal(t, transfer.Success, b.run(b.get(lost)).Status)
	b.run(b.refunded(entry, ""))
	_, _, err = b.refund("", entry, "")
	require.ErrorIs(t, err, transfer.ErrRefunded)
	b.agree()

	// What has left is booked even where it is more than the payment, and is no news to the checks.
	twice := b.refundRef(group.String(), "00000002")
	b.paysOutside(twice, "100.00")
	require.NoError(t, b.svc.Adopt(b.ctx, twice, uuid.Nil, by))
	require.Equal(t, transfer.Success, b.run(b.get(twice)).Status)
	require.Equal(t, "-100.00", b.shown(false).Balance.String())
	b.agree()

	// A settlement's reference refunds nothing, whatever its narration.
	other := "AJO" + lost[3:]
	b.paysOutside(other, "1.00")
	require.NoError(t, b.svc.Adopt(b.ctx, other, uuid.Nil, by))
	require.Nil(t, b.get(other).RefundOf)
}

// A refund is not adopted before its payment is in the books and confirmed: without it, the payment
// could be refunded again.
func TestAdoptedRefundNeedsItsPayment(t *testing.T) {
	b := setup(t)
	by := audit.By{Actor: "cli:ada", Reason: "restored"}
	ref := b.refundRef("txn-1", "00000001")
	b.paysOutside(ref, "60.00")
	adopt := func() error { return b.svc.Adopt(b.ctx, ref, uuid.Nil, by) }
	b.received("100.00", &payer)
	require.ErrorIs(t, adopt(), transfer.ErrNoPayment, "the reference names another payment")

	post := func(b *bundle, amount string) (group uuid.UUID) {
		group = uuid.Must(uuid.NewV7())
		b.Post(ledger.Posting{AccountID: b.account, Amount: money.Must(amount), TransactionGroupID: group, ProviderTxnRef: "txn-1"})
		return group
	}
	another := *b
	another.account = b.Account(b.tenant, "another")
	elsewhere := post(&another, "60.00")
	require.ErrorIs(t, adopt(), transfer.ErrNoPayment, "it was posted to another account")
	b.MoveCredit(elsewhere, ledger.EventReverse)
	reversed := post(b, "90.00")
	require.ErrorIs(t, adopt(), transfer.ErrPaymentOpen)
	b.MoveCredit(reversed, ledger.EventReverse)
	posted := post(b, "100.00") // again, with its true sum
	require.ErrorIs(t, adopt(), transfer.ErrPaymentOpen)
	b.confirmFrom(posted, &payer)
	require.NoError(t, adopt())
	require.Equal(t, b.entryOf(posted), *b.get(ref).RefundOf)
	require.Equal(t, transfer.Success, b.run(b.get(ref)).Status)
	_, _, err := b.refund("", b.entryOf(posted), "40.01")
	require.ErrorIs(t, err, transfer.ErrRefundAmount)
	b.agree()

	// Where the bank has taken the payment back since, the refund has left all the same.
	b.takenBack(posted)
	b.answer(posted, "100.00", true)
	second := b.refundRef("txn-1", "00000002")
	b.paysOutside(second, "40.00")
	require.NoError(t, b.svc.Adopt(b.ctx, second, uuid.Nil, by))
	require.Equal(t, b.entryOf(posted), *b.get(second).RefundOf)
	require.Equal(t, transfer.Success, b.run(b.get(second)).Status)
	b.agree()
}

// The request, sent again, is accepted while the same payout is being adopted: the operator reads
// that there is a transfer with this reference, or the request that it is adopted; there is one.
func TestAdoptionBesideTheRequest(t *testing.T) {
	for name, ask := range map[string]func(*bundle, uuid.UUID) error{
		"refund": func(b *bundle, entry uuid.UUID) error {
			r, err := idempotency.NewRequest(b.tenant, "k", "POST", "", nil)
			require.NoError(b.T, err)
			_, err = b.svc.Refund(b.ctx, b.tenant, entry, "60.00", transfer.Maker{}, r)
			return err
		},
		"settlement": func(b *bundle, _ uuid.UUID) error {
			_, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("60.00"), b.key("k", order("60.00")))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			group, entry := b.received("100.00", &payer)
			r, err := idempotency.NewRequest(b.tenant, "k", "POST", "", nil)
			require.NoError(t, err)
			own, _ := r.Name()
			ref := "AJO" + hex.EncodeToString(b.account[8:]) + hex.EncodeToString(own[:])
			if name == "refund" {
				ref = b.refundRef(group.String(), hex.EncodeToString(own[:4]))
			}
			b.paysOutside(ref, "60.00")
			lock, err := b.Pool.Begin(b.ctx)
			require.NoError(t, err)
			_, err = lock.Exec(b.ctx, `SELECT FROM ledger_balances WHERE account_id = $1 FOR NO KEY UPDATE`, b.account)
			require.NoError(t, err)
			var asked, adopted error
			var wg sync.WaitGroup
			wg.Go(func() { asked = ask(b, entry) })
			require.Eventually(t, func() bool { return b.LockWaits() == 1 }, time.Minute, time.Millisecond)
			wg.Go(func() { adopted = b.svc.Adopt(b.ctx, ref, uuid.Nil, audit.By{Actor: "cli:ada", Reason: "restored"}) })
			require.Eventually(t, func() bool { return b.LockWaits() == 2 }, time.Minute, time.Millisecond)
			require.NoError(t, lock.Commit(b.ctx))
			wg.Wait()
			if asked == nil && adopted != nil {
				require.ErrorIs(t, adopted, transfer.ErrKnown)
			} else {
				require.NoError(t, adopted)
			}
			require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
			require.Equal(t, transfer.Success, b.run(b.get(ref)).Status)
			require.Len(t, b.bank.Payouts(), 1)
			b.agree()
		})
	}
}
