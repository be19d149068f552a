package payment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/fee"
	"ajo/internal/idempotency"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// policies is a bundle whose account has a policy and expects 5,000.00, of which the bank takes
// 25.00, and whose payments can go back.
type policies struct {
	*bundle
	transfers *transfer.Service
	accounts  *account.Service
}

func setupPolicy(t *testing.T, p account.Policy, payoutFee ...money.Amount) *policies {
	t.Helper()
	t.Parallel()
	b := &policies{bundle: setupAt(t, fakebank.Options{PayoutFee: append(payoutFee, money.Must("20.00"))[0]})}
	b.transfers = transfer.New(transfer.Options{
		Pool: b.Pool, Bank: b.client(), Clock: b.Clock, Log: b.log.Logger(), Delays: defaults.SettleDelays, Rechecks: defaults.SettleRechecks,
		Fees: fee.Tiers{{Fee: money.Must("10.00")}},
	})
	t.Cleanup(b.transfers.Close)
	b.svc.SendBack = b.transfers.RefundByPolicy
	b.transfers.OpenRecall = b.svc.RecallTakenBack
	b.accounts = account.New(account.Options{Pool: b.Pool, Clock: b.Clock})
	amount := money.Must("5000.00")
	_, err := b.accounts.Update(b.ctx, b.tenant, "customer-1", account.Changes{ExpectedAmount: &amount, Policy: &p}, byHand)
	require.NoError(t, err)
	b.openAtBank()
	b.Subscribe(b.tenant, "{payment.confirmed,payment.reversed}")
	return b
}

// said is what the tenant's only event of that type says of the policy; empty: nothing.
func (b *policies) said(event string) string {
	b.T.Helper()
	var body struct{ Policy string }
	events := b.Delivered(`event_type = $1`, event)
	require.Len(b.T, events, 1)
	require.NoError(b.T, json.Unmarshal([]byte(events[0].Body), &body))
	return body.Policy
}

// pays is a payment to the account, posted; change may spoil the bank's record of it.
func (b *policies) pays(amount string, change ...func(*fakebank.Payment)) (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	p := fakebank.Payment{
		AccountRef: b.account.String(), Amount: money.Must(amount), Fee: new(money.Must("25.00")), SenderName: "Amina Bello", SenderAccount: "0123456789",
		SenderBank: "Guaranty Trust Bank", Time: b.Clock.Now(), Silent: true, Force: true,
	}
	for _, f := range change {
		f(&p)
	}
	txn, err := b.bank.Pay(b.ctx, p)
	require.NoError(b.T, err)
	event := b.sign(b.bank.EventFor(txn))
	id := b.receive(event).ID
	require.Equal(b.T, payment.CategoryPayment, b.post(id).Category)
	b.receive(event) // the event comes twice, and is posted once
	require.Empty(b.T, b.post(id).Category)
	return id, txn
}

// hold is the open hold of the payment: source, amount and reason; empty: there is none.
func (b *policies) hold(id uuid.UUID) string {
	b.T.Helper()
	return testenv.Value[string](b.Env, `SELECT coalesce((SELECT h.source || ' ' || h.amount || ' ' || h.reason FROM holds h JOIN ledger_entries e ON e.id = h.entry_id
		WHERE e.transaction_group_id = $1 AND e.direction = 'credit' AND h.status = 'open'), '')`, id)
}

// left is what may leave the account; the invariants hold.
func (b *policies) left() string {
	b.T.Helper()
	b.books()
	return testenv.Value[money.Amount](b.Env, `SELECT `+ledger.Available("false", "$2")+` FROM ledger_balances b WHERE account_id = $1`, b.account, b.Clock.Now()).String()
}

// nothingNotRefunded is what the overview has where nothing waits for the tenant's decision.
const nothingNotRefunded = `"notRefunded":{"count":0,"amount":"0.00","oldest":null}`

// overview is what the tenant's first page has.
func (b *policies) overview() string {
	b.T.Helper()
	o, err := ledger.ReadOverview(b.ctx, b.Pool, b.tenant, b.Clock.Now(), 7)
	require.NoError(b.T, err)
	body, err := json.Marshal(o)
	require.NoError(b.T, err)
	return string(body)
}

// entryOf is the credit of a payment.
func (b *policies) entryOf(id uuid.UUID) uuid.UUID {
	b.T.Helper()
	return testenv.Value[uuid.UUID](b.Env, `SELECT id FROM ledger_entries WHERE transaction_group_id = $1 AND direction = 'credit' AND reversal_of IS NULL`, id)
}

// toTheEnd asks the bank about a payment until nothing is due any more, or n times.
func (b *policies) toTheEnd(id uuid.UUID, n int) {
	b.T.Helper()
	for range n {
		if b.DueAt(work.Confirm, id) == nil {
			return
		}
		b.check(id)
	}
}

// sent runs the only refund to its end, and returns its status, sum and destination; empty: there
// is none.
func (b *policies) sent() []string {
	b.T.Helper()
	var out []string
	for _, id := range testenv.Value[[]uuid.UUID](b.Env, `SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM transfers`) {
		for i := 0; b.DueAt(work.Settle, id) != nil && i < 30; i++ {
			b.Clock.Set(later(b.Clock.Now(), *b.DueAt(work.Settle, id)))
			_ = b.transfers.Advance(b.ctx, id) // what becomes of it counts
		}
		out = append(out, testenv.Value[string](b.Env, `SELECT status || ' ' || amount || ' ' || bank_code || ' ' || account_number || ' ' || by_policy FROM transfers WHERE id = $1`, id))
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// release ends the payment's hold as the tenant does.
func (b *policies) release(id uuid.UUID) {
	b.T.Helper()
	hold := testenv.Value[uuid.UUID](b.Env, `SELECT h.id FROM holds h JOIN ledger_entries e ON e.id = h.entry_id WHERE e.transaction_group_id = $1 AND h.status = 'open'`, id)
	_, err := b.accounts.ReleaseHold(b.ctx, b.tenant, hold, byHand, idempotency.Request{})
	require.NoError(b.T, err)
}

func (b *policies) refundByHand(id uuid.UUID, amount string) error {
	entry := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM ledger_entries WHERE transaction_group_id = $1 AND direction = 'credit' AND reversal_of IS NULL`, id)
	_, err := b.transfers.Refund(b.ctx, b.tenant, entry, amount, transfer.Maker{}, idempotency.Request{})
	return err
}

// Each row of a policy with each action, on an account of each type.
func TestEachRowOfAPolicy(t *testing.T) {
	rows := []struct {
		name, amount, net, why string
		late                   bool
		of                     func(account.Action) account.Policy
	}{
		{"exact", "5000.00", "4975.00", "exact: NGN 5000.00 of NGN 5000.00 expected", false, func(a account.Action) account.Policy { return account.Policy{Exact: a} }},
		{"under", "4999.99", "4974.99", "under: NGN 4999.99 of NGN 5000.00 expected", false, func(a account.Action) account.Policy { return account.Policy{Under: a} }},
		{"over", "5000.01", "4975.01", "over: NGN 5000.01 of NGN 5000.00 expected", false, func(a account.Action) account.Policy { return account.Policy{Over: a} }},
		{"late", "5000.00", "4975.00", "late: made after the account's end", true, func(a account.Action) account.Policy { return account.Policy{Late: a} }},
	}
	for _, row := range rows {
		for _, action := range []account.Action{account.Accept, account.Hold, account.Refund} {
			for _, kind := range []account.Type{account.Dedicated, account.OneTime} {
				t.Run(fmt.Sprint(row.name, " ", action, " ", kind), func(t *testing.T) {
					b := setupPolicy(t, row.of(action))
					b.Exec(`UPDATE accounts SET type = $2 WHERE id = $1`, b.account, kind)
					if row.late {
						b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2 WHERE id = $1`, b.account, b.Clock.Now().Add(-time.Minute))
					}
					id, _ := b.pays(row.amount)
					posted, want := "", ""
					switch action {
					case account.Hold:
						posted, want = "policy "+row.net+" "+row.why, "hold"
					case account.Refund:
						posted, want = "refund "+row.net+" "+row.why, "refund"
					}
					require.Equal(t, posted, b.hold(id))
					require.Equal(t, "0.00", b.left())
					require.Equal(t, want, b.said("payment.received"))

					b.toTheEnd(id, 5)
					require.Equal(t, want, b.said("payment.confirmed"))
					sent := b.sent()
					switch action {
					case account.Accept:
						require.Equal(t, row.net, b.left())
						require.Empty(t, sent)
					case account.Hold:
						require.Equal(t, posted, b.hold(id))
						require.Equal(t, "0.00", b.left())
						require.Empty(t, sent)
						b.release(id)
						require.Equal(t, row.net, b.left())
					case account.Refund:
						require.Empty(t, b.hold(id))
						require.Equal(t, []string{"success " + row.net + " 058 0123456789 true"}, sent)
						require.Equal(t, "0.00", b.left())
						require.ErrorIs(t, b.refundByHand(id, ""), transfer.ErrRefunded)
					}
					require.Nil(t, b.DueAt(work.Confirm, id))
				})
			}
		}
	}
}

// Two exact payments to a one-time account, posted in one batch: the first one ends the account, so
// the second one, made after it, is late, as it is when each is posted by itself.
func TestLateInTheBatchThatEndsTheAccount(t *testing.T) {
	const late = " 4975.00 late: made after the account's end"
	for name, c := range map[string]struct {
		policy       account.Policy
		category     payment.Category
		first, after string // holds
	}{
		"accept":           {account.Policy{Exact: account.Hold, Late: account.Accept}, payment.CategoryPayment, "policy 4975.00 exact: NGN 5000.00 of NGN 5000.00 expected", ""},
		"hold":             {account.Policy{Late: account.Hold}, payment.CategoryPayment, "", "policy" + late},
		"refund":           {account.Policy{Late: account.Refund}, payment.CategoryPayment, "", "refund" + late},
		"no row for it":    {account.Policy{Under: account.Refund}, payment.CategoryMisdirected, "", ""},
		"no policy at all": {account.Policy{}, payment.CategoryMisdirected, "", ""},
	} {
		for _, batch := range []string{"one batch", "one by one"} {
			t.Run(name+" "+batch, func(t *testing.T) {
				b := setupPolicy(t, c.policy)
				b.Exec(`UPDATE accounts SET type = 'onetime' WHERE id = $1`, b.account)
				ids := make([]uuid.UUID, 3)
				for i := range ids {
					ids[i] = b.receive(b.event(func(e *fakebank.Event) {
						e.Data.Transaction.AliasReference = b.account.String()
						// the third one was made before the first, and is in time
						e.Data.Transaction.Time = b.Clock.Now().Add([]time.Duration{-time.Minute, -time.Second, -2 * time.Minute}[i]).Format(time.RFC3339)
					})).ID
				}
				categories := make([]payment.Category, len(ids))
				if batch == "one batch" {
					for i, o := range b.svc.PostAll(b.ctx, ids) {
						require.NoError(t, o.Err)
						categories[i] = o.Value.Category
					}
				} else {
					for i, id := range ids {
						categories[i] = b.post(id).Category
					}
				}
				require.Equal(t, []payment.Category{payment.CategoryPayment, c.category, payment.CategoryPayment}, categories)
				require.Equal(t, []string{c.first, c.after, c.first}, []string{b.hold(ids[0]), b.hold(ids[1]), b.hold(ids[2])})
				b.left()
			})
		}
	}
}

// Without a policy, or without the row or the expected amount, all is as ever: less and more are
// accepted, and what comes late is misdirected.
func TestNoPolicyIsAsEver(t *testing.T) {
	for name, p := range map[string]account.Policy{"none": {}, "another row": {Exact: account.Hold}} {
		t.Run(name, func(t *testing.T) {
			b := setupPolicy(t, p)
			require.Equal(t, name != "none", testenv.Value[bool](b.Env, `SELECT policy IS NOT NULL FROM accounts WHERE id = $1`, b.account))
			for _, amount := range []string{"100.00", "9000.00"} {
				id, _ := b.pays(amount)
				require.Empty(t, b.hold(id))
			}
			b.Exec(`UPDATE accounts SET expected_amount = NULL WHERE id = $1`, b.account)
			id, _ := b.pays("5000.00")
			require.Empty(t, b.hold(id))
			b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2 WHERE id = $1`, b.account, b.Clock.Now().Add(-time.Minute))
			b.paidTo(b.account.String(), nil, payment.CategoryMisdirected)
		})
	}
}

// What the bank denies, or a person must judge, leaves the balance with its hold, and comes back
// with it; what the tenant had released comes back without.
func TestPolicyThroughAReview(t *testing.T) {
	for _, action := range []account.Action{account.Hold, account.Refund} {
		for _, decision := range []string{"confirm", "reverse", "released"} {
			t.Run(fmt.Sprint(action, " ", decision), func(t *testing.T) {
				b := setupPolicy(t, account.Policy{Under: action})
				id, txn := b.pays("4000.00")
				held := b.hold(id)
				b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("26.00") })
				if decision == "released" {
					b.release(id)
				}
				b.toTheEnd(id, 1)
				require.Empty(t, b.hold(id))
				require.Equal(t, "0.00", b.left())
				b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("25.00") })
				by := audit.By{Actor: "ops@example.com", Reason: "the bank wrote"}
				if decision == "reverse" {
					_, err := b.svc.DecideReview(b.ctx, id, ledger.EventReverse, by)
					require.NoError(t, err)
					b.toTheEnd(id, 3)
					require.Empty(t, b.said("payment.reversed"))
					require.Empty(t, b.sent())
					require.Equal(t, "0.00", b.left())
					return
				}
				_, err := b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, by)
				require.NoError(t, err)
				if decision == "released" {
					require.Empty(t, b.said("payment.confirmed"))
					require.Empty(t, b.hold(id))
					require.Equal(t, "3975.00", b.left())
					b.toTheEnd(id, 3)
					require.Empty(t, b.sent(), "what the tenant has released is not refunded")
					return
				}
				require.Equal(t, string(action), b.said("payment.confirmed"))
				require.Equal(t, held, b.hold(id))
				require.Equal(t, "0.00", b.left())
				b.toTheEnd(id, 3)
				if action == account.Refund {
					require.Equal(t, []string{"success 3975.00 058 0123456789 true"}, b.sent())
				}
			})
		}
	}
}

// A payment that the bank denies is reversed, and its hold ends.
func TestPolicyOfADeniedPayment(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Refund})
	id, txn := b.pays("4000.00")
	b.taken(txn, "PAYMENT_FAILED")
	require.Negative(t, b.check(id), "nothing is left to do")
	require.Empty(t, b.hold(id))
	require.Equal(t, "0.00", b.left())
	require.Empty(t, b.sent())
}

// Whatever dies between the confirmation and the refund, or after it, there is one refund; and so
// when eight workers do it at once.
func TestPolicyRefundsOnce(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Refund})
	dead := errors.New("dead")
	for i, dies := range []string{"before", "after"} {
		id, _ := b.pays("4000.00")
		b.toTheEnd(id, 1)
		b.svc.SendBack = func(ctx context.Context, id uuid.UUID) error {
			if dies == "after" {
				require.NoError(t, b.transfers.RefundByPolicy(ctx, id))
			}
			return dead
		}
		for range 3 {
			require.Positive(t, b.check(id))
		}
		require.Equal(t, "dead", testenv.Value[string](b.Env, `SELECT last_error FROM inbound_events WHERE id = $1`, id))
		b.svc.SendBack = b.transfers.RefundByPolicy
		b.toTheEnd(id, 3)
		require.Len(t, b.sent(), i+1)
	}
	id, _ := b.pays("4000.00")
	b.toTheEnd(id, 1)
	testenv.AtOnce(8, func(int) {
		if err := b.transfers.RefundByPolicy(b.ctx, id); err != nil {
			t.Error(err)
		}
	})
	require.Len(t, b.sent(), 3)
	require.Len(t, b.bank.Paid(), 3)
	require.Equal(t, "0.00", b.left())
}

// A refund by policy awaits no approval, whatever sum the tenant's members must approve: nobody has
// asked for it, and it goes back to who paid. A payout of the same sum does.
func TestPolicyRefundsAwaitNoApproval(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Refund})
	b.Exec(`UPDATE tenants SET payout_approvals = 2, approve_above = 0, approve_day_above = 0 WHERE id = $1`, b.tenant)
	id, _ := b.pays("4000.00")
	b.toTheEnd(id, 3)
	require.Equal(t, []string{"success 3975.00 058 0123456789 true"}, b.sent())
	require.Equal(t, []any{0, "0.00"}, []any{testenv.Value[int](b.Env, `SELECT approvals_needed FROM transfers`), b.left()})
	exact, _ := b.pays("5000.00")
	b.toTheEnd(exact, 3)
	s, err := b.transfers.Settle(b.ctx, b.tenant, "customer-1", transfer.Order{Amount: "3975.00", BankCode: "058", AccountNumber: "0123456789"}, idempotency.Request{})
	require.NoError(t, err)
	require.Contains(t, string(s.Answer.Body), `"awaiting":"approval"`)
}

// A recall that comes before the refund stops it; when the bank's record has said for two weeks
// that it was not taken back, it is refunded.
func TestPolicyAndRecall(t *testing.T) {
	for _, taken := range []bool{true, false} {
		for _, when := range []string{"provisional", "confirmed", "refund accepted"} {
			t.Run(fmt.Sprint(when, " taken ", taken), func(t *testing.T) {
				b := setupPolicy(t, account.Policy{Under: account.Refund})
				id, txn := b.pays("4000.00")
				switch when {
				case "confirmed":
					b.toTheEnd(id, 1)
				case "refund accepted":
					b.toTheEnd(id, 2)
				}
				require.Equal(t, id, b.receive(b.reversal(txn)).Recalled)
				require.Equal(t, map[bool]string{true: "-3975.00", false: "0.00"}[when == "refund accepted"], b.left())
				if when == "confirmed" {
					require.ErrorIs(t, b.transfers.RefundByPolicy(b.ctx, id), transfer.ErrRecalled)
				}
				if taken {
					b.taken(txn, "REFUND")
				}
				b.toTheEnd(id, 40)
				sent := b.sent()
				require.Empty(t, b.hold(id))
				require.Equal(t, "0.00", b.left())
				switch {
				case !taken:
					require.Equal(t, []string{"success 3975.00 058 0123456789 true"}, sent)
				case when == "refund accepted":
					require.Equal(t, []string{"failed 3975.00 058 0123456789 true"}, sent)
					require.Empty(t, b.bank.Paid())
				default:
					require.Empty(t, sent)
				}
			})
		}
	}
}

// A recall and the refund of 20 payments at once: what the bank has taken back is never paid too.
func TestPolicyRefundRacesRecall(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Refund})
	for range 20 {
		id, txn := b.pays("4000.00")
		b.toTheEnd(id, 1)
		var wg sync.WaitGroup
		wg.Go(func() { _ = b.transfers.RefundByPolicy(b.ctx, id) })
		wg.Go(func() { b.receive(b.reversal(txn)) })
		wg.Wait()
		b.taken(txn, "REFUND")
		b.toTheEnd(id, 10)
		b.sent()
		require.Equal(t, "0.00", b.left())
	}
	require.Empty(t, b.bank.Paid())
}

// What cannot go back stays held, with the reason, until the tenant releases it.
func TestPolicyRefundThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakebank.Payment)
		fault  fakebank.Action
		why    string
	}{
		"no sender":        {change: func(p *fakebank.Payment) { p.SenderAccount = "-" }, why: "the bank's record does not say from which account the payment came"},
		"another holder":   {why: "the bank names another holder of the account that the payment came from"},
		"the bank fails":   {fault: fakebank.FailLater},
		"the bank refuses": {fault: fakebank.Reject},
		"it comes back":    {fault: fakebank.Refund},
	} {
		t.Run(name, func(t *testing.T) {
			b := setupPolicy(t, account.Policy{Under: account.Refund})
			change := c.change
			if change == nil {
				change = func(*fakebank.Payment) {}
			}
			if c.fault != "" {
				b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: c.fault, Next: 1})
			}
			id, txn := b.pays("4000.00", change)
			if name == "another holder" {
				b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.SenderName = "Chidi Okeke" })
			}
			b.toTheEnd(id, 5)
			sent := b.sent()
			require.Contains(t, b.hold(id), "policy 3975.00 not refunded: "+c.why)
			require.Equal(t, "0.00", b.left())
			require.Contains(t, b.overview(), `"notRefunded":{"count":1,"amount":"3975.00","oldest":"`+b.entryOf(id).String()+`"}`)
			require.Nil(t, b.DueAt(work.Confirm, id))
			require.NoError(t, b.transfers.RefundByPolicy(b.ctx, id), "it is not tried again by itself")
			require.Len(t, b.sent(), len(sent))
			if name == "no sender" {
				b.log.Has(t, "alert=policy_refund_declined")
				require.ErrorIs(t, b.refundByHand(id, ""), transfer.ErrNoSender)
				b.release(id)
				require.Equal(t, "3975.00", b.left())
				require.Contains(t, b.overview(), nothingNotRefunded, "it has decided")
				return
			}
			// A refund by hand takes what is held, a part of it first.
			require.NoError(t, b.refundByHand(id, "1000.00"))
			require.Contains(t, b.hold(id), "policy 2975.00 not refunded: ")
			require.Equal(t, "0.00", b.left())
			require.Contains(t, b.overview(), `"notRefunded":{"count":1,"amount":"2975.00",`)
			require.NoError(t, b.refundByHand(id, ""))
			require.Empty(t, b.hold(id))
			require.Equal(t, "0.00", b.left())
			require.Contains(t, b.overview(), nothingNotRefunded)
		})
	}
}

// A bank that the record names without its code is not known while the banks cannot be listed, or
// only by an old list: the refund waits. One that a fresh list lacks is none.
func TestPolicyRefundWaitsForTheBanks(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Refund})
	b.transfers.Banks = transfer.NewBankList(b.client(), "bank.example", nil, b.Clock, b.log.Logger())
	silent := fakebank.Rule{On: fakebank.OnBanks, Do: fakebank.Fail}
	b.bank.Faults.Set(silent)
	id, txn := b.pays("4000.00")
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.SenderBankCode = "" })
	b.toTheEnd(id, 3)
	require.Contains(t, b.hold(id), "refund 3975.00 ", "it is still to go back")
	require.Contains(t, b.overview(), nothingNotRefunded)
	require.Empty(t, b.sent())
	state := func() (n [2]int64) {
		s, err := invariant.Light(b.ctx, b.Pool, b.Clock.Now())
		require.NoError(t, err)
		require.Equal(t, s.GoesBackCount > 0, s.GoesBackOldest > 0)
		return [2]int64{s.ProvisionalCount, s.GoesBackCount}
	}
	require.Equal(t, [2]int64{0, 1}, state(), "the bank has confirmed it, and what waits is the refund")
	b.bank.Faults.Clear()
	b.toTheEnd(id, 5)
	require.Equal(t, []string{"success 3975.00 058 0123456789 true"}, b.sent())
	require.Equal(t, [2]int64{}, state())

	b.bank.Faults.Set(silent)
	b.Clock.Advance(2 * time.Hour)
	id, txn = b.pays("4000.00")
	require.Equal(t, [2]int64{1, 0}, state(), "it is to be confirmed first")
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.SenderBank, x.SenderBankCode = "Young Bank", "" })
	b.toTheEnd(id, 3)
	require.Contains(t, b.hold(id), "refund 3975.00 ", "the bank may be younger than the list")
	b.bank.Faults.Clear()
	b.toTheEnd(id, 5)
	require.Contains(t, b.hold(id), "policy 3975.00 not refunded: "+transfer.ErrNoSender.Error())
	require.Len(t, b.sent(), 1)
}

// What the tenant releases before it is confirmed is not refunded; of what it refunds by hand, the
// policy refunds the rest.
func TestTheTenantDecidesBeforeThePolicy(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Refund})
	id, _ := b.pays("4000.00")
	b.release(id)
	b.toTheEnd(id, 5)
	require.Empty(t, b.sent())
	require.Equal(t, "3975.00", b.left())

	part, _ := b.pays("4000.00")
	b.toTheEnd(part, 1)
	require.NoError(t, b.refundByHand(part, "975.00"))
	require.Contains(t, b.hold(part), "refund 3000.00 under")
	require.Equal(t, "3975.00", b.left())
	b.toTheEnd(part, 5)
	require.Equal(t, []string{"success 975.00 058 0123456789 false", "success 3000.00 058 0123456789 true"}, b.sent())
	require.Equal(t, "3975.00", b.left())
}

// A refund of a held payment that the tenant has made, and that fails: what it took of the hold is
// held again, and nothing of what was released.
func TestRefundByHandOfAHeldPaymentThatFails(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Hold})
	other, _ := b.pays("5000.00")
	b.toTheEnd(other, 5)
	id, _ := b.pays("4000.00")
	b.toTheEnd(id, 5)
	for _, c := range []struct {
		amount string
		fault  fakebank.Action
		hold   string
		left   string
	}{
		{"1000.00", fakebank.FailLater, "policy 3975.00 not refunded: the bank could not complete the transfer", "4975.00"},
		{"1000.00", "", "policy 2975.00 not refunded: the bank could not complete the transfer", "4975.00"},
		{"", fakebank.Refund, "policy 2975.00 not refunded: the bank returned the money", "4975.00"},
		{"release", "", "", "7950.00"},
		{"500.00", fakebank.FailLater, "", "7950.00"},
	} {
		if c.amount == "release" {
			b.release(id)
		} else {
			if b.bank.Faults.Clear(); c.fault != "" {
				b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: c.fault, Next: 1})
			}
			require.NoError(t, b.refundByHand(id, c.amount))
			b.sent()
		}
		require.Equal(t, c.hold, b.hold(id))
		require.Equal(t, c.left, b.left())
	}
}

// The payment pays for its refund: what the platform has taken of it, and the payout's fee that the
// tenant bears, come out of it, so that no other money of the account is needed.
func TestPolicyRefundPaysForItself(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Refund})
	b.price("1", "0", b.Clock.Now().Add(-time.Minute))
	b.Exec(`UPDATE tenants SET payout_fee_by = 'tenant' WHERE id = $1`, b.tenant)
	id, _ := b.pays("4000.00")
	require.Contains(t, b.hold(id), "refund 3932.00 under", "less 40.00 and 3.00 of VAT")
	b.toTheEnd(id, 5)
	require.Equal(t, "0.00", b.left())
	require.Equal(t, []string{"success 3922.00 058 0123456789 true"}, b.sent(), "less the expected 10.00")

	small, _ := b.pays("30.00")
	require.Contains(t, b.hold(small), "refund 4.68 under")
	b.toTheEnd(small, 5)
	require.Contains(t, b.hold(small), "policy 4.68 not refunded: nothing is left of it after fees")
}

// Limits of tiers look at a payment when the policy's hold is released, not before.
func TestPolicyAndLimits(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Hold})
	b.Exec(`INSERT INTO tier_limits (tenant_id, tier, starts_at, max_day, created_at, actor, reason) VALUES ($1, 1, $2, 5000, $2, 'cli:ada', 'the law')`, b.tenant, b.Clock.Now())
	held, _ := b.pays("4000.00")
	whole, _ := b.pays("5000.00")
	require.Contains(t, b.hold(held), "policy 3975.00")
	require.Empty(t, b.hold(whole), "what is held uses up no limit")
	b.toTheEnd(held, 3)
	b.toTheEnd(whole, 3)
	require.Equal(t, "4975.00", b.left())
	b.release(held)
	require.Equal(t, "limit 3950.00 maxDay of tier 1: NGN 5000.00", b.hold(held))
	require.Equal(t, "5000.00", b.left())
}

// A payment names what holds it, on its own account, as long as that holds it.
func TestAPaymentNamesItsHold(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Hold})
	id, _ := b.pays("4000.00")
	held := func() *ledger.Hold {
		line, err := b.svc.Timeline(b.ctx, b.tenant, id)
		require.NoError(t, err)
		return line.Held
	}
	h := held()
	require.NotNil(t, h)
	require.Equal(t, []any{"customer-1", "3975.00", ledger.HeldByPolicy, ledger.HoldOpen}, []any{h.AccountRef, h.Amount.String(), h.Source, h.Status})
	b.release(id)
	require.Nil(t, held())
}
