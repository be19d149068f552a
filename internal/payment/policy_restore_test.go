package payment_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// takenBack has the bank take a payment back: its event, and its record when it is asked.
func (b *policies) takenBack(id uuid.UUID, txn fakebank.Transaction) {
	b.T.Helper()
	b.receive(b.reversal(txn))
	b.taken(txn, "REFUND")
	b.toTheEnd(id, 10)
}

// restored has a person restore a payment that was taken back, which the bank's record has again.
func (b *policies) restored(id uuid.UUID, txn fakebank.Transaction) payment.Replaced {
	b.T.Helper()
	b.taken(txn, "SUCCESS")
	r, err := b.svc.RestoreReversed(b.ctx, id, byHand)
	require.NoError(b.T, err)
	return r
}

// A payment was refunded, by its account's policy, then taken back by the bank, and is restored: it
// went back to its sender already, and does not go back once more, by the policy or by hand,
// however long after and whatever other money the account has.
func TestARestoredPaymentWasRefunded(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Refund})
	other, _ := b.pays("5000.00")
	b.toTheEnd(other, 10)
	id, txn := b.pays("4000.00")
	b.toTheEnd(id, 10)
	refund := []string{"success 3975.00 058 0123456789 true"}
	require.Equal(t, refund, b.sent())
	b.takenBack(id, txn)
	require.Equal(t, "1000.00", b.left(), "the bank and the refund have taken it")

	b.Clock.Advance(8 * 24 * time.Hour)
	r := b.restored(id, txn)
	b.toTheEnd(r.Replacement, 10)
	require.Equal(t, refund, b.sent())
	require.Empty(t, b.hold(r.Replacement))
	require.Equal(t, "4975.00", b.left())
	require.ErrorIs(t, b.refundByHand(r.Replacement, ""), transfer.ErrRefunded)
	for _, which := range []uuid.UUID{id, r.Replacement} { // each page of it says so
		shown, err := b.svc.Timeline(b.ctx, b.tenant, which)
		require.NoError(t, err)
		var refunds []string
		for _, s := range shown.Timeline {
			if s.Step == payment.StepRefunded {
				refunds = append(refunds, s.Outcome+" "+s.Amount.String())
			}
		}
		require.Equal(t, []string{"success 3975.00"}, refunds)
		require.Equal(t, []string{"3975.00", "0.00"}, []string{shown.Refunded.String(), shown.BeingRefunded.String()})
	}
	// The sum has also those that the timeline has no room for.
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(b.ctx, `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(b.ctx, `
			INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, account_name, attempt_count, submitted_at, created_at, updated_at, refund_of, refund_name)
			SELECT gen_random_uuid(), tenant_id, account_id, 'AJO' || n, 'success', 0.25, bank_code, account_number, account_name, 1, created_at, created_at, created_at, refund_of, refund_name
			FROM transfers, generate_series(1, 100) n`)
		return err
	}))
	shown, err := b.svc.Timeline(b.ctx, b.tenant, r.Replacement)
	require.NoError(t, err)
	require.Equal(t, "4000.00", shown.Refunded.String())
}

// A payment that the policy accepted is restored, or corrected in its fee, after the account has
// come to expect another amount, or got another policy, or by the bank's clock after its own end of
// the account: its event says that it is accepted, and it does not go back to its sender.
func TestARestoredPaymentWasAccepted(t *testing.T) {
	for name, change := range map[string]func(*policies, *account.Changes){
		"another amount": func(_ *policies, c *account.Changes) { c.ExpectedAmount = new(money.Must("7000.00")) },
		"another policy": func(_ *policies, c *account.Changes) { c.Policy = &account.Policy{Exact: account.Refund} },
		"its own end": func(b *policies, _ *account.Changes) {
			b.Exec(`UPDATE accounts SET type = 'onetime' WHERE id = $1`, b.account)
		},
	} {
		for _, how := range []string{"denied", "recalled", "corrected"} {
			t.Run(name+" "+how, func(t *testing.T) {
				b := setupPolicy(t, account.Policy{Under: account.Refund, Late: account.Refund})
				var c account.Changes
				change(b, &c)
				id, txn := b.pays("5000.00", func(p *fakebank.Payment) { p.Time = b.Clock.Now().Add(10 * time.Second) })
				require.Empty(t, b.hold(id))
				if c != (account.Changes{}) {
					_, err := b.accounts.Update(b.ctx, b.tenant, "customer-1", c, byHand)
					require.NoError(t, err)
				}
				again, left := func() (payment.Replaced, error) {
					b.taken(txn, "SUCCESS")
					return b.svc.RestoreReversed(b.ctx, id, byHand)
				}, "4975.00"
				switch how {
				case "denied":
					b.taken(txn, "PAYMENT_FAILED")
				case "recalled":
					b.toTheEnd(id, 10)
					b.receive(b.reversal(txn))
					b.taken(txn, "REFUND")
				case "corrected":
					b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("26.00") })
					again, left = func() (payment.Replaced, error) { return b.svc.Correct(b.ctx, id, sums("5000.00", "26.00"), byHand) }, "4974.00"
				}
				b.toTheEnd(id, 10)
				require.Equal(t, "0.00", b.left())
				r, err := again()
				require.NoError(t, err)
				require.Empty(t, b.hold(r.Replacement))
				b.toTheEnd(r.Replacement, 10)
				require.Empty(t, b.sent())
				require.Equal(t, left, b.left())
			})
		}
	}
}

// A payment of which a part has gone back, or was released, is taken back by the bank and restored:
// its policy holds what is left of it, and the platform takes no more than that. The account's
// other money is free, before and after.
func TestARestoredPaymentIsHeldForWhatIsLeft(t *testing.T) {
	hold, refund := account.Policy{Under: account.Hold}, account.Policy{Under: account.Refund}
	const why = " under: NGN 4000.00 of NGN 5000.00 expected"
	goesBack := func(amounts ...string) func(*policies, uuid.UUID) {
		return func(b *policies, id uuid.UUID) {
			b.toTheEnd(id, 10)
			for _, amount := range amounts {
				require.NoError(b.T, b.refundByHand(id, amount))
				b.sent()
			}
		}
	}
	for name, c := range map[string]struct {
		policy account.Policy
		before func(*policies, uuid.UUID)
		price  bool // set after it
		review bool // a person confirms it
		posted string
		held   string // once it is confirmed
		left   string
		said   string // of the policy, by payment.confirmed
	}{
		"a part went back":             {hold, goesBack("1000.00"), false, false, "policy 2975.00" + why, "policy 2975.00" + why, "4975.00", "hold"},
		"a part went back, reviewed":   {hold, goesBack("1000.00"), false, true, "policy 2975.00" + why, "policy 2975.00" + why, "4975.00", "hold"},
		"all of it went back":          {hold, goesBack("1000.00", ""), false, false, "", "", "4975.00", "refund"},
		"a part, less a price":         {hold, goesBack("1000.00"), true, false, "policy 2932.00" + why, "policy 2932.00" + why, "4975.00", "hold"},
		"less than the price was left": {hold, goesBack("3960.00"), true, false, "", "", "4975.00", "refund"},
		"nothing was left for a price": {account.Policy{}, goesBack(""), true, false, "", "", "4975.00", ""},
		"it was released": {refund, func(b *policies, id uuid.UUID) {
			b.release(id)
			b.toTheEnd(id, 10)
		}, false, false, "", "", "8950.00", ""},
		"a part was released": {refund, func(b *policies, id uuid.UUID) {
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.PartialRefund, Value: "975.00", Next: 1})
			b.toTheEnd(id, 10)
			b.sent()
			b.Clock.Advance(time.Hour) // no lease stands
			require.NoError(b.T, b.resolved("3000.00"))
			b.release(id)
			b.Clock.Advance(time.Hour)
			require.NoError(b.T, b.resolved("2900.00"))
		}, false, false, "refund 100.00" + why, "policy 100.00 not refunded: the account's policy has made a refund of it before", "5950.00", "refund"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setupPolicy(t, c.policy)
			other, _ := b.pays("5000.00")
			b.toTheEnd(other, 10)
			id, txn := b.pays("4000.00")
			c.before(b, id)
			sent := b.sent()
			b.takenBack(id, txn)
			b.Clock.Advance(time.Hour)
			if c.price {
				b.price("1", "0", b.Clock.Now())
			}
			r := b.restored(id, txn)
			require.Equal(t, c.posted, b.hold(r.Replacement))
			b.left()
			if c.review {
				b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("26.00") })
				b.toTheEnd(r.Replacement, 1)
				require.Empty(t, b.hold(r.Replacement))
				b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("25.00") })
				_, err := b.svc.DecideReview(b.ctx, r.Replacement, ledger.EventConfirm, byHand)
				require.NoError(t, err)
			}
			b.toTheEnd(r.Replacement, 10)
			require.Equal(t, c.held, b.hold(r.Replacement))
			require.Equal(t, c.left, b.left())
			require.Equal(t, sent, b.sent(), "nothing goes back once more")
			events := b.Delivered(`event_type = 'payment.confirmed' AND transaction_group_id = $1`, r.Replacement)
			require.Len(t, events, 1)
			var body struct{ Policy string }
			require.NoError(t, json.Unmarshal([]byte(events[0].Body), &body))
			require.Equal(t, c.said, body.Policy)
		})
	}
}

// A payment that its account's policy has refunded once is restored: the policy makes no other
// refund, neither of what the first one has left nor because that failed. What did not go back is
// held, also where that is clear only later.
func TestARestoredPaymentIsRefundedByItsPolicyOnce(t *testing.T) {
	const failed = "policy 3975.00 not refunded: the bank could not complete the transfer"
	const declined = "policy 3975.00 not refunded: the account's policy has made a refund of it before"
	for name, c := range map[string]struct {
		fault fakebank.Action
		after time.Duration
		price bool
		sent  string
		held  string
	}{
		"it fails in the end":        {fakebank.Pending, 24 * time.Hour, false, "processing 3965.00", ""},
		"it fails in between":        {fakebank.Pending, 0, false, "processing 3965.00", failed},
		"it fails before that":       {fakebank.Pending, 0, false, "processing 3965.00", failed},
		"it failed, a day later":     {fakebank.Reject, 24 * time.Hour, false, "failed 3965.00", declined},
		"it failed, a week later":    {fakebank.Reject, 8 * 24 * time.Hour, false, "failed 3965.00", declined},
		"less the fee, a week later": {"", 8 * 24 * time.Hour, false, "success 3965.00", ""},
		"less a price, a week later": {"", 8 * 24 * time.Hour, true, "success 3922.00", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := setupBorne(t, "10.00")
			b.free("500.00")
			if c.price {
				b.price("1", "0", b.Clock.Now())
			}
			if c.fault != "" {
				b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: c.fault, Next: 1, Delay: 1000 * time.Hour})
			}
			id, txn := b.pays("4000.00")
			b.toTheEnd(id, 10)
			sent := b.sent()
			require.Equal(t, c.sent+" 058 0123456789 true", sent[len(sent)-1])
			b.takenBack(id, txn)

			b.Clock.Advance(c.after)
			r := b.restored(id, txn)
			fails := func() {
				_, err := b.bank.EndPayout(testenv.Value[string](b.Env, `SELECT merchant_tx_ref FROM transfers WHERE by_policy`), fakebank.StatusFailed)
				require.NoError(t, err)
				sent = b.sent()
				require.Equal(t, "failed 3965.00 058 0123456789 true", sent[len(sent)-1])
				require.Equal(t, failed, b.hold(r.Replacement))
				require.Equal(t, "500.00", b.left())
			}
			if c.held == failed {
				if name == "it fails in between" {
					b.toTheEnd(r.Replacement, 1) // confirmed, and the policy has not looked at it again
				}
				fails()
			}
			b.toTheEnd(r.Replacement, 10)
			require.Equal(t, sent, b.sent())
			require.Equal(t, c.held, b.hold(r.Replacement))
			require.Equal(t, "500.00", b.left())
			if c.fault == fakebank.Pending && c.held == "" {
				fails()
			}
		})
	}
}

// A payment was refunded and taken back by the bank, is restored and goes under review: when a
// person confirms it, a limit of the customer's tier holds nothing of it, as nothing is left of it.
// What it would hold is other money of the account.
func TestALimitHoldsNothingOfWhatWentBack(t *testing.T) {
	b := setupPolicy(t, account.Policy{})
	other, _ := b.pays("5000.00")
	b.toTheEnd(other, 10)
	id, txn := b.pays("4000.00")
	b.toTheEnd(id, 10)
	require.NoError(t, b.refundByHand(id, ""))
	require.Equal(t, []string{"success 3975.00 058 0123456789 false"}, b.sent())
	b.takenBack(id, txn)
	require.Equal(t, "1000.00", b.left())

	b.Exec(`INSERT INTO tier_limits (tenant_id, tier, starts_at, max_deposit, created_at, actor, reason) VALUES ($1, 1, $2, 1000, $2, 'cli:ada', 'the law')`, b.tenant, b.Clock.Now())
	r := b.restored(id, txn)
	require.Empty(t, b.hold(r.Replacement))
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("26.00") })
	b.toTheEnd(r.Replacement, 1)
	require.Equal(t, "1000.00", b.left(), "it is under review")
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("25.00") })
	_, err := b.svc.DecideReview(b.ctx, r.Replacement, ledger.EventConfirm, byHand)
	require.NoError(t, err)
	require.Empty(t, b.hold(r.Replacement))
	require.Equal(t, "4975.00", b.left())
}

// The bank takes a payment back without an event, weeks after its list of that day was read for the
// last time, and the tenant refunds it: the bank's record is read before the refund leaves, also
// before it is submitted again, and the payment is recalled.
func TestRefundOfWhatTheBankHasTakenBack(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("a submission was lost: ", lost), func(t *testing.T) {
			b := setupPolicy(t, account.Policy{})
			id, txn := b.pays("5000.00")
			b.toTheEnd(id, 10)
			b.Clock.Advance(20 * 24 * time.Hour)
			require.NoError(t, b.refundByHand(id, ""))
			refund := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM transfers`)
			if lost {
				b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Drop, Next: 1})
				require.Error(t, b.transfers.Advance(b.ctx, refund))
			}
			b.taken(txn, "REFUND")
			for i := 0; b.DueAt(work.Confirm, id) == nil && i < 10; i++ {
				b.Clock.Set(later(b.Clock.Now(), *b.DueAt(work.Settle, refund)))
				require.Error(t, b.transfers.Advance(b.ctx, refund))
			}
			require.Equal(t, time.Duration(-1), b.check(id))
			require.Equal(t, []string{"failed 4975.00 058 0123456789 false"}, b.sent())
			require.Empty(t, b.bank.Paid())
			require.Equal(t, "0.00", b.left())
		})
	}
}
