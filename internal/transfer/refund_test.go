package transfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/freeze"
	"ajo/internal/idempotency"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// payer is whom the bank's record names: "0123456789" has that holder at every fake bank.
var payer = ledger.Sender{Name: "Amina Bello", AccountNumber: "0123456789", BankCode: "058", BankName: "Guaranty Trust Bank", SessionID: "000013"}

// received posts a payment and confirms it by a record that names the sender; it returns the
// payment's group and entry.
func (b *bundle) received(amount string, sender *ledger.Sender) (group, entry uuid.UUID) {
	b.T.Helper()
	group = b.credit(amount)
	b.confirmFrom(group, sender)
	return group, b.entryOf(group)
}

func (b *bundle) confirmFrom(group uuid.UUID, sender *ledger.Sender) {
	b.T.Helper()
	b.Move(ledger.Move{TransactionGroupID: group, Direction: ledger.Credit, Event: ledger.EventConfirm, Sender: sender})
}

func (b *bundle) entryOf(group uuid.UUID) uuid.UUID {
	b.T.Helper()
	return testenv.Value[uuid.UUID](b.Env, `SELECT id FROM ledger_entries WHERE transaction_group_id = $1 AND direction = 'credit'`, group)
}

// refund asks for a refund under a key, or without one.
func (b *bundle) refund(key string, entry uuid.UUID, amount string) (transfer.RefundAccepted, bool, error) {
	b.T.Helper()
	r, err := idempotency.NewRequest(b.tenant, key, "POST", "/v1/entries/"+entry.String()+"/refund", []byte(amount))
	require.NoError(b.T, err)
	s, err := b.svc.Refund(b.ctx, b.tenant, entry, amount, transfer.Maker{}, r)
	var a transfer.RefundAccepted
	if err == nil {
		require.Equal(b.T, 202, s.Answer.Status)
		require.NoError(b.T, json.Unmarshal(s.Answer.Body, &a))
	}
	return a, s.Replayed, err
}

// takenBack opens a recall of a payment, as the bank's event does, in one transaction.
func (b *bundle) takenBack(group uuid.UUID) {
	b.T.Helper()
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		held, err := ledger.HoldRecalled(b.ctx, tx, b.Clock.Now(), []uuid.UUID{group})
		if err != nil {
			return err
		}
		_, err = tx.Exec(b.ctx, `INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at) VALUES ($1, $2, $3, 'event', 'open', $4, now())
			ON CONFLICT (event_id) DO UPDATE SET status = 'open', held = excluded.held, closed_at = NULL`,
			group, b.tenant, b.account, held[group].Amount)
		return err
	}))
}

// answer ends the recall, as the bank's record does.
func (b *bundle) answer(group uuid.UUID, amount string, taken bool) {
	b.T.Helper()
	b.answered(group, amount, taken)
	b.Exec(`UPDATE recalls SET status = CASE WHEN $2 THEN 'reversed' ELSE 'kept' END, held = 0, closed_at = now() WHERE event_id = $1`, group, taken)
}

// agree checks everything but that credits have events: the tests' money has none.
func (b *bundle) agree() {
	b.T.Helper()
	found, err := invariant.Verify(b.ctx, b.Pool)
	require.NoError(b.T, err)
	require.Empty(b.T, slices.DeleteFunc(found, func(f ledger.Finding) bool { return f.Check == invariant.CheckCreditEvent }))
}

// refunded asks for a refund, and returns its transfer.
func (b *bundle) refunded(entry uuid.UUID, amount string) transfer.Transfer {
	b.T.Helper()
	a, _, err := b.refund("", entry, amount)
	require.NoError(b.T, err)
	return b.get(a.MerchantTxRef)
}

func TestRefundPaysThePayer(t *testing.T) {
	b := setup(t)
	_, entry := b.received("100.00", &payer)
	a, replayed, err := b.refund("k", entry, "60.00")
	require.NoError(t, err)
	require.False(t, replayed)
	require.Equal(t, []any{entry, "60.00", "shop", transfer.Pending, "NGN"}, []any{a.RefundOf, a.Amount.String(), a.AccountRef, a.Status, a.Currency})
	again, replayed, err := b.refund("k", entry, "60.00")
	require.NoError(t, err)
	require.True(t, replayed)
	require.Equal(t, a, again)
	_, _, err = b.refund("k", entry, "1.00")
	require.ErrorIs(t, err, idempotency.ErrReused)

	got := b.run(b.get(a.MerchantTxRef))
	require.Equal(t, transfer.Success, got.Status)
	require.Equal(t, []any{&entry, "058", "0123456789", "Refund"}, []any{got.RefundOf, got.BankCode, got.AccountNumber, got.Narration})
	b.paid(got)
	b.money("40.00", "credit 100.00 confirmed", "debit 60.00 confirmed")
	s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, ledger.Filter{}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Nil(t, s.Lines[0].Entry.RefundOf)
	require.Equal(t, &entry, s.Lines[1].Entry.RefundOf)
	list, _, err := b.svc.List(b.ctx, b.tenant, transfer.Filter{}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, &entry, list[0].RefundOf)

	// The rest goes where no amount is named, and then nothing is left.
	_, _, err = b.refund("", entry, "40.01")
	require.ErrorIs(t, err, transfer.ErrRefundAmount)
	rest := b.run(b.refunded(entry, ""))
	require.Equal(t, "40.00", rest.Amount.String())
	b.paid(got, rest)
	b.money("0.00", "credit 100.00 confirmed", "debit 60.00 confirmed", "debit 40.00 confirmed")
	_, _, err = b.refund("", entry, "")
	require.ErrorIs(t, err, transfer.ErrRefunded)
	b.agree()
}

func TestRefundRefusals(t *testing.T) {
	b := setup(t)
	group, entry := b.received("100.00", &payer)
	foreign := b.anotherAccount(t)
	_, theirs := foreign.received("50.00", &payer)
	provisional := b.entryOf(b.credit("5.00"))
	_, unnamed := b.received("6.00", &ledger.Sender{Name: "Amina Bello"})
	_, noName := b.received("6.00", &ledger.Sender{AccountNumber: "0123456789", BankCode: "058"})
	_, noBank := b.received("6.00", &ledger.Sender{Name: "Amina Bello", AccountNumber: "0123456789"})
	_, badAccount := b.received("6.00", &ledger.Sender{Name: "Amina Bello", AccountNumber: "01234", BankCode: "058"})
	_, badCode := b.received("6.00", &ledger.Sender{Name: "Amina Bello", AccountNumber: "0123456789", BankCode: "GTB"})
	_, byHand := b.received("6.00", nil) // confirmed by a person
	reversed := b.credit("7.00")
	b.MoveCredit(reversed, ledger.EventReverse)
	review := b.credit("8.00")
	b.MoveCredit(review, ledger.EventHold)
	p := b.refunded(entry, "1.00")
	debit := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM ledger_entries WHERE transaction_group_id = $1`, p.ID)
	for _, c := range []struct {
		entry  uuid.UUID
		amount string
		want   error
	}{
		{entry, "0.00", transfer.ErrAmount},
		{entry, "-1.00", transfer.ErrAmount},
		{entry, "1.001", transfer.ErrAmount},
		{entry, "all", transfer.ErrAmount},
		{uuid.New(), "1.00", ledger.ErrEntryNotFound},
		{theirs, "1.00", ledger.ErrEntryNotFound},
		{debit, "1.00", transfer.ErrNotPayment},
		{provisional, "1.00", transfer.ErrUnconfirmed},
		{b.entryOf(review), "1.00", transfer.ErrUnconfirmed},
		{b.entryOf(reversed), "1.00", transfer.ErrTakenBack},
		{unnamed, "1.00", transfer.ErrNoSender},
		{noName, "1.00", transfer.ErrNoSender},
		{noBank, "1.00", transfer.ErrNoSender},
		{badAccount, "1.00", transfer.ErrNoSender},
		{badCode, "1.00", transfer.ErrNoSender},
		{byHand, "1.00", transfer.ErrNoRecord},
		{entry, "99.01", transfer.ErrRefundAmount},
	} {
		_, _, err := b.refund("refused", c.entry, c.amount)
		require.ErrorIs(t, err, c.want, "%v %s", c.entry, c.amount)
	}
	lift := b.freeze(freeze.New{Scope: freeze.Account, Subject: b.account, Requests: true})
	_, _, err := b.refund("refused", entry, "1.00")
	require.ErrorIs(t, err, account.ErrFrozen)
	lift()
	b.takenBack(group)
	_, _, err = b.refund("refused", entry, "1.00")
	require.ErrorIs(t, err, transfer.ErrRecalled)
	b.answered(group, "100.00", false)
	b.Exec(`UPDATE recalls SET status = 'watched', held = 0, closed_at = now() WHERE event_id = $1`, group)
	_, _, err = b.refund("refused", entry, "1.00")
	require.ErrorIs(t, err, transfer.ErrRecalled, "its record may lag")
	b.Exec(`UPDATE recalls SET status = 'kept' WHERE event_id = $1`, group)
	_, _, err = b.refund("refused", entry, "1.00")
	require.NoError(t, err, "a refusal keeps no answer")
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
}

// A bank code that the list of banks lacks, or a record without one, is made up for by the bank's
// name; and no account is guessed where that names none.
func TestRefundFindsTheBankByItsName(t *testing.T) {
	b := setup(t)
	b.svc = b.service(func(o *transfer.Options) {
		o.Banks = transfer.NewBankList(b.client, "bank.example", b.Redis(), b.Clock, b.log.Logger())
	})
	for _, c := range []struct {
		code, bank, want string
	}{
		{"058", "", "058"}, {"", "guaranty trust  BANK", "058"}, {"305", "OPay", "999992"}, {"305", "Opay (Paycom)", ""}, {"", "", ""}, {"", "Bank", ""},
	} {
		_, entry := b.received("10.00", &ledger.Sender{Name: "Amina Bello", AccountNumber: "0123456789", BankCode: c.code, BankName: c.bank})
		a, _, err := b.refund("", entry, "")
		if c.want == "" {
			require.ErrorIs(t, err, transfer.ErrNoSender, "%+v", c)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, b.get(a.MerchantTxRef).BankCode)
	}
}

// Money that is not confirmed, held, or on its way out is refunded by nobody.
func TestRefundTakesAvailableMoney(t *testing.T) {
	b := setup(t)
	_, entry := b.received("100.00", &payer)
	b.credit("500.00") // not confirmed
	b.settle("30.00")
	_, err := b.accounts().PlaceHold(b.ctx, b.tenant, "shop", account.NewHold{Amount: "20.00", Reason: "dispute"}, idempotency.Request{})
	require.NoError(t, err)
	_, _, err = b.refund("", entry, "50.01")
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
	_, _, err = b.refund("", entry, "")
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
	b.run(b.refunded(entry, "50.00"))
}

// The bank is asked who holds the payer's account before the money leaves. Another name than the
// record's ends the refund, and the money is back; so it may be tried again.
func TestRefundToAnotherHolder(t *testing.T) {
	b := setup(t)
	for _, c := range []struct {
		payer, status string
	}{
		{"Chidi Okeke", "failed"},
		{"Amina", "failed"},
		{"Bello", "failed"},
		{"Amina Okeke", "failed"},
		{"Amina Bello Okeke", "success"},
		{"BELLO, Amina", "success"},
		{"Mrs. Ámina Bello", "success"},
	} {
		sender := payer
		sender.Name = c.payer
		_, entry := b.received("10.00", &sender)
		got := b.run(b.refunded(entry, ""))
		require.Equal(t, c.status, string(got.Status), c.payer)
		if got.Status == transfer.Success {
			continue
		}
		require.Equal(t, "the bank names another holder of the account that the payment came from", *got.FailureReason)
		require.Zero(t, got.AttemptCount, "nothing was submitted")
		require.Equal(t, "10.00", b.refunded(entry, "").Amount.String(), "the whole may be tried again")
	}
	require.Len(t, b.bank.Paid(), 3)
	b.agree()
}

// A refund that the bank refuses, fails or gives back has returned its money, and may be made
// again; one that was paid counts for good.
func TestRefundThatFailsMayBeTriedAgain(t *testing.T) {
	b := setup(t)
	_, entry := b.received("100.00", &payer)
	for _, rule := range []fakebank.Rule{{Do: fakebank.Reject}, {Do: fakebank.FailLater}, {Do: fakebank.Refund}} {
		rule.On, rule.Next = fakebank.OnPayouts, 1
		b.bank.Faults.Set(rule)
		p := b.refunded(entry, "100.00")
		_, _, err := b.refund("", entry, "0.01")
		require.ErrorIs(t, err, transfer.ErrRefunded, "%s: while it is under way it counts", rule.Do)
		got := b.run(p)
		for got.Status == transfer.Success {
			b.untilDue(got)
			_ = b.svc.Advance(b.ctx, got.ID)
			got = b.get(got.MerchantTxRef)
		}
		require.Contains(t, []transfer.Status{transfer.Failed, transfer.Refunded}, got.Status, "%s", rule.Do)
	}
	last := b.run(b.refunded(entry, ""))
	require.Equal(t, transfer.Success, last.Status)
	_, _, err := b.refund("", entry, "0.01")
	require.ErrorIs(t, err, transfer.ErrRefunded)
	b.agree()
}

// A hundred at once, of five sums, beside settlements and holds: never more than the payment goes
// back, never more leaves than is there.
func TestRefundsAtOnce(t *testing.T) {
	b := setup(t)
	_, entry := b.received("100.00", &payer)
	_, other := b.received("60.00", &payer)
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := map[uuid.UUID]money.Amount{}
	refused := 0
	for i := range 500 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(16, uint64(i)))
			of := []uuid.UUID{entry, other}[rng.IntN(2)]
			amount := money.FromKobo(1 + rng.Int64N(30_00))
			var err error
			switch i % 10 {
			case 0:
				of = uuid.Nil
				_, err = b.svc.Settle(b.ctx, b.tenant, "shop", order("1.00"), idempotency.Request{})
			case 1:
				of = uuid.Nil
				_, err = b.accounts().PlaceHold(b.ctx, b.tenant, "shop", account.NewHold{Amount: "0.50", Reason: "dispute"}, idempotency.Request{})
			default:
				_, err = b.svc.Refund(b.ctx, b.tenant, of, amount.String(), transfer.Maker{}, idempotency.Request{})
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, transfer.ErrRefunded), errors.Is(err, transfer.ErrRefundAmount), errors.Is(err, ledger.ErrInsufficientFunds):
				refused++
			case err != nil:
				t.Error(err)
			case of != uuid.Nil:
				accepted[of] = accepted[of].Add(amount)
			}
		})
	}
	wg.Wait()
	require.NotZero(t, refused)
	require.LessOrEqual(t, accepted[entry].Cmp(money.Must("100.00")), 0)
	require.LessOrEqual(t, accepted[other].Cmp(money.Must("60.00")), 0)
	// 160.00 are there; settlements and holds take 75.00 at most, so some refund finds its money.
	// Which of the two payments goes back depends on who came first.
	require.True(t, accepted[entry].Add(accepted[other]).IsPositive())
	require.GreaterOrEqual(t, b.shown(false).Available.Sign(), 0)
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
	b.agree()
}

// One key asked for eight times at once makes one refund.
func TestRefundTwiceAtOnce(t *testing.T) {
	b := setup(t)
	_, entry := b.received("100.00", &payer)
	atOnce(t, func() (string, error) {
		a, _, err := b.refund("once", entry, "10.00")
		return a.MerchantTxRef, err
	})
	b.money("90.00", "credit 100.00 confirmed", "debit 10.00 provisional")
}

// A payment that the bank takes back while its refund waits is not paid back as well, though the
// account has other money; and one that it keeps is.
func TestRecallBeforeARefundLeaves(t *testing.T) {
	for _, taken := range []bool{true, false} {
		t.Run(fmt.Sprint("taken ", taken), func(t *testing.T) {
			b := setup(t)
			b.fund("1000.00")
			group, entry := b.received("100.00", &payer)
			p := b.refunded(entry, "")
			b.takenBack(group)
			for range 3 {
				b.untilDue(p)
				require.Error(t, b.svc.Advance(b.ctx, p.ID))
				require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status)
			}
			require.Contains(t, row[string](b, p, "last_error"), "may have taken back")
			b.answer(group, "100.00", taken)
			got := b.run(p)
			if taken {
				require.Equal(t, []any{transfer.Failed, "the payment that it was to refund was taken back"}, []any{got.Status, *got.FailureReason})
				b.paid()
				b.money("1000.00", "credit 1000.00 confirmed", "credit 100.00 reversed", "debit 100.00 reversed", "debit 100.00 reversed", "credit 100.00 reversed")
				_, _, err := b.refund("", entry, "")
				require.ErrorIs(t, err, transfer.ErrTakenBack)
			} else {
				require.Equal(t, transfer.Success, got.Status)
				b.paid(got)
			}
			b.agree()
		})
	}
}

// The bank's record of a payment names less than the refunds of it pay back: a part may have gone
// back already. Nothing more than the record names leaves, and what waits can be cancelled.
func TestRefundOfMoreThanTheRecordSays(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	group, entry := b.received("100.00", &payer)
	record := provider.Transaction{ID: group.String(), Status: provider.Success, Amount: money.Must("60.00"), Currency: money.Currency}
	b.svc = b.service(func(o *transfer.Options) { o.Bank = recordOf{b.client, &record} })
	first := b.refunded(entry, "50.00")
	require.Equal(t, transfer.Success, b.run(first).Status)
	second := b.refunded(entry, "50.00")
	for range 3 {
		b.untilDue(second)
		b.step(second)
		require.Equal(t, transfer.Pending, b.get(second.MerchantTxRef).Status)
	}
	require.Contains(t, row[string](b, second, "last_error"), "the bank's record of the payment that it refunds is of 60.00")
	b.paid(first)
	_, err := b.svc.Cancel(b.ctx, second.MerchantTxRef, byHand)
	require.NoError(t, err)
	third := b.refunded(entry, "10.00")
	require.Equal(t, transfer.Success, b.run(third).Status)
	b.paid(first, third)

	record.Amount = money.Must("100.00")
	rest := b.refunded(entry, "")
	require.Equal(t, transfer.Success, b.run(rest).Status)
	b.paid(first, third, rest)
}

// recordOf is a bank that has one record of a payment.
type recordOf struct {
	provider.Bank
	record *provider.Transaction
}

func (r recordOf) Transaction(context.Context, string) (provider.Transaction, error) {
	return *r.record, nil
}

// A recall between a refund's claim and its submission, when the name is looked up: it is not
// submitted, the first time and again.
func TestRecallBetweenClaimAndSubmission(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	group, entry := b.received("100.00", &payer)
	p := b.refunded(entry, "")
	taken := make(chan struct{})
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnLookup, Do: fakebank.SlowAfter, Delay: time.Minute, Until: taken, Next: 1})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.svc.Advance(b.ctx, p.ID) // what becomes of the transfer counts
	}()
	testenv.Eventually(t, time.Minute, "the name is looked up", func() bool { return b.bank.Calls(lookupCall) > 0 })
	b.takenBack(group)
	close(taken)
	<-done
	require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status)
	b.answer(group, "100.00", true)
	require.Equal(t, transfer.Failed, b.run(p).Status)
	b.paid()
	require.Zero(t, b.bank.Calls(payCall))
	b.agree()
}

// A refund whose first submission was lost is not submitted again once the payment is recalled: the
// bank does not know it, so it ends without, when it would have been given up.
func TestRecallBeforeASecondSubmission(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	group, entry := b.received("100.00", &payer)
	p := b.refunded(entry, "")
	b.bank.Faults.Set(pays(fakebank.Drop, 1))
	b.step(p)
	require.Equal(t, transfer.Processing, b.get(p.MerchantTxRef).Status)
	calls := b.bank.Calls(payCall)
	b.takenBack(group)
	for range 12 {
		b.untilDue(p)
		b.step(p)
	}
	require.Equal(t, calls, b.bank.Calls(payCall), "nothing is submitted while it is not clear")
	b.answer(group, "100.00", true)
	got := b.run(p)
	require.Equal(t, []any{transfer.Failed, "the payment that it was to refund was taken back"}, []any{got.Status, *got.FailureReason})
	require.Equal(t, calls, b.bank.Calls(payCall))
	b.paid()
	b.agree()
}

// What was submitted before the recall has left: the payment is reversed, the refund stands, and
// the books say what is missing.
func TestRecallAfterARefund(t *testing.T) {
	b := setup(t)
	group, entry := b.received("100.00", &payer)
	got := b.run(b.refunded(entry, ""))
	b.takenBack(group)
	b.answer(group, "100.00", true)
	require.Equal(t, transfer.Success, got.Status)
	b.paid(got)
	b.money("-100.00", "credit 100.00 reversed", "debit 100.00 confirmed", "debit 100.00 reversed")
	b.agree()
}

// A recall and the acceptance of a refund at once: either the refund is refused, or it is accepted
// and never leaves.
func TestRecallAndRefundAtOnce(t *testing.T) {
	b := setup(t)
	b.fund("10000.00")
	var accepted, refused int
	for range 20 {
		group, entry := b.received("100.00", &payer)
		var wg sync.WaitGroup
		var err error
		var a transfer.RefundAccepted
		wg.Go(func() { a, _, err = b.refund("", entry, "") })
		wg.Go(func() { b.takenBack(group) })
		wg.Wait()
		if err != nil {
			require.ErrorIs(t, err, transfer.ErrRecalled)
			refused++
		} else {
			accepted++
			_ = b.svc.Advance(b.ctx, b.get(a.MerchantTxRef).ID)
			require.Equal(t, transfer.Pending, b.get(a.MerchantTxRef).Status)
		}
		b.answer(group, "100.00", true)
		if err == nil {
			require.Equal(t, transfer.Failed, b.run(b.get(a.MerchantTxRef)).Status)
		}
	}
	t.Log("accepted", accepted, "refused", refused)
	b.paid()
	require.Equal(t, "10000.00", b.shown(false).Balance.String())
	b.agree()
}

// A freeze of any scope stops a refund as it does any payout.
func TestFrozenRefundWaits(t *testing.T) {
	b := setup(t)
	_, entry := b.received("100.00", &payer)
	for _, f := range []freeze.New{{Scope: freeze.Account, Subject: b.account}, {Scope: freeze.Tenant, Subject: b.tenant}, {Scope: freeze.Payouts}} {
		p := b.refunded(entry, "10.00")
		lift := b.freeze(f)
		_ = b.svc.Advance(b.ctx, p.ID)
		require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status)
		lift()
		require.Equal(t, transfer.Success, b.run(p).Status)
	}
}

// The schema refuses what the use case does: more than the payment, a payment of another account,
// and a refund that changes what it refunds.
func TestRefundsAreGuarded(t *testing.T) {
	b := setup(t)
	_, entry := b.received("100.00", &payer)
	other := b.on(b.Account(b.tenant, "till"))
	_, elsewhere := other.received("100.00", &payer)
	unconfirmed := b.entryOf(b.credit("100.00"))
	p := b.refunded(entry, "60.00")
	const insert = `INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, created_at, updated_at, refund_of, refund_name, debit_seq, debits_to)
		SELECT gen_random_uuid(), tenant_id, account_id, 'X', 'pending', $2::numeric, '058', '0123456789', now(), now(), $3, 'A B', 9, 999 FROM transfers WHERE id = $1`
	for _, c := range []struct {
		amount string
		of     uuid.UUID
	}{{"40.01", entry}, {"1.00", elsewhere}, {"1.00", unconfirmed}, {"1.00", uuid.New()}} {
		_, err := b.Pool.Exec(b.ctx, insert, p.ID, c.amount, c.of)
		require.True(t, pg.IsData(err), "%v: %v", c, err)
	}
	for _, set := range []string{"refund_of = '" + elsewhere.String() + "'", "refund_of = NULL, refund_name = NULL", "refund_name = 'THIEF'", "expected_name = 'THIEF'"} {
		_, err := b.Pool.Exec(b.ctx, `UPDATE transfers SET `+set+` WHERE id = $1`, p.ID)
		require.Error(t, err, set)
	}
	require.NotNil(t, b.DueAt(work.Settle, p.ID))
}
