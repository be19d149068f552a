package transfer_test

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
)

var saver = audit.Session("bola@shop.example", netip.MustParseAddr("198.51.100.9"))

func (b *bundle) save(number, label string) transfer.Beneficiary {
	b.T.Helper()
	saved, _, err := b.svc.SaveBeneficiary(b.ctx, b.tenant, transfer.NewBeneficiary{BankCode: "058", AccountNumber: number, Label: label}, transfer.Maker{By: saver})
	require.NoError(b.T, err)
	return saved
}

// to is an order to a beneficiary.
func to(b transfer.Beneficiary, amount string) transfer.Order {
	return transfer.Order{Amount: amount, Beneficiary: b.ID.String(), Narration: "rent"}
}

// lines are the actions of the audit log on a beneficiary, oldest first.
func (b *bundle) lines(of transfer.Beneficiary) string {
	b.T.Helper()
	return testenv.Value[string](b.Env, `SELECT coalesce(string_agg(action || ' ' || actor, ', ' ORDER BY id), '') FROM audit_log WHERE target = $1 AND tenant_id = $2`,
		"beneficiary:"+of.ID.String(), b.tenant)
}

// A beneficiary is saved with the name that the bank gives, renamed and removed, each with a line
// of the audit log; saved twice it is the same; removed and saved again it is another.
func TestBeneficiaries(t *testing.T) {
	b := setup(t)
	saved, isNew, err := b.svc.SaveBeneficiary(b.ctx, b.tenant, transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789", Label: "  Landlord "}, transfer.Maker{By: saver})
	require.NoError(t, err)
	require.True(t, isNew)
	want := transfer.Beneficiary{
		ID: saved.ID, Label: "Landlord", BankCode: "058", AccountNumber: "0123456789", AccountName: "AMINA BELLO",
		SavedBy: "session:bola@shop.example", SavedAt: b.Clock.Now(),
	}
	saved.SavedAt = saved.SavedAt.UTC()
	require.Equal(t, want, saved)
	again, isNew, err := b.svc.SaveBeneficiary(b.ctx, b.tenant, transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789", Label: "Somebody"}, transfer.Maker{By: checker})
	require.NoError(t, err)
	require.False(t, isNew)
	require.Equal(t, [3]string{saved.ID.String(), "Landlord", saver.Actor}, [3]string{again.ID.String(), again.Label, again.SavedBy})

	renamed, err := b.svc.RenameBeneficiary(b.ctx, b.tenant, saved.ID, "Rent", checker)
	require.NoError(t, err)
	require.Equal(t, "Rent", renamed.Label)
	require.JSONEq(t, `{"before":{"label":"Landlord","bankCode":"058","accountNumber":"0123456789","accountName":"AMINA BELLO"},
		"after":{"label":"Rent","bankCode":"058","accountNumber":"0123456789","accountName":"AMINA BELLO"}}`, testenv.Value[string](b.Env, `SELECT detail::text FROM audit_log WHERE action = 'beneficiary.rename'`))
	other := b.save("1234567890", "")
	list, info, err := b.svc.Beneficiaries(b.ctx, b.tenant, page.Request{Limit: 1})
	require.NoError(t, err)
	require.True(t, info.HasMore)
	require.Equal(t, other.ID, list[0].ID, "newest first")
	list, _, err = b.svc.Beneficiaries(b.ctx, b.tenant, page.Request{Limit: 1, After: *info.NextCursor})
	require.NoError(t, err)
	require.Equal(t, "Rent", list[0].Label)

	removed, err := b.svc.RemoveBeneficiary(b.ctx, b.tenant, saved.ID, checker)
	require.NoError(t, err)
	require.Equal(t, renamed, removed)
	for _, gone := range []func() error{
		func() error { _, err := b.svc.Beneficiary(b.ctx, b.tenant, saved.ID); return err },
		func() error { _, err := b.svc.RenameBeneficiary(b.ctx, b.tenant, saved.ID, "x", saver); return err },
		func() error { _, err := b.svc.RemoveBeneficiary(b.ctx, b.tenant, saved.ID, saver); return err },
		func() error { _, err := b.svc.Beneficiary(b.ctx, b.Tenant(), other.ID); return err },
		func() error { _, err := b.svc.RemoveBeneficiary(b.ctx, b.Tenant(), other.ID, saver); return err },
	} {
		require.ErrorIs(t, gone(), transfer.ErrBeneficiary)
	}
	require.Equal(t, "beneficiary.save session:bola@shop.example, beneficiary.rename session:ada@shop.example, beneficiary.remove session:ada@shop.example", b.lines(saved))
	require.NotEqual(t, saved.ID, b.save("0123456789", "").ID)
	for _, sql := range []string{`DELETE FROM beneficiaries`, `UPDATE beneficiaries SET account_number = '1111111111'`, `UPDATE beneficiaries SET account_name = 'ME'`, `UPDATE beneficiaries SET removed_at = NULL WHERE removed_at IS NOT NULL`} {
		_, err := b.Pool.Exec(b.ctx, sql)
		require.ErrorContains(t, err, "23514", sql)
	}
}

// naming is a bank that names one holder of all accounts.
func (b *bundle) naming(name string) provider.Bank {
	return testenv.BankWith{Bank: b.client, AfterLookup: func(h *provider.Holder) { h.AccountName = name }}
}

// A payout to a beneficiary whose account has another holder by now is refused.
func TestABeneficiarysHolderMustBeTheSame(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	saved := b.save("0123456789", "")
	svc := b.service(func(o *transfer.Options) { o.Bank = b.naming("NGOZI EZE") })
	_, err := svc.Settle(b.ctx, b.tenant, "shop", to(saved, "1.00"), idempotency.Request{})
	require.ErrorIs(t, err, transfer.ErrNameMismatch)
	b.money("100.00", "credit 100.00 confirmed")
	now, isNew, err := svc.SaveBeneficiary(b.ctx, b.tenant, transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789"}, transfer.Maker{By: saver})
	require.NoError(t, err)
	require.False(t, isNew)
	require.Equal(t, "AMINA BELLO", now.AccountName, "saving it again does not give it another name")
}

// The holder that a settlement names, itself or by its beneficiary, is compared once more before
// it is submitted, as it may have waited for long: if the bank names another one by then, it fails.
// One that names nobody goes to whoever has the account.
func TestTheHolderMustBeTheSameWhenItIsPaid(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	saved := b.save("0123456789", "")
	named := order("10.00")
	named.AccountName = new("amina, Bello")
	later := b.service(func(o *transfer.Options) { o.Bank = b.naming("NGOZI EZE") })
	for name, o := range map[string]transfer.Order{"accountName": named, "beneficiary": to(saved, "10.00")} {
		s, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, idempotency.Request{})
		require.NoError(t, err, name)
		require.NoError(t, later.Advance(b.ctx, s.TransferID), "%s: it has ended", name)
		p := b.get(accepted(t, s).MerchantTxRef)
		require.Equal(t, transfer.Failed, p.Status, name)
		require.Equal(t, "the bank names another holder of the destination account than was expected", *p.FailureReason, name)
		require.Zero(t, p.AttemptCount, name)
	}
	b.paid()
	p := b.settle("10.00")
	_ = later.Advance(b.ctx, p.ID) // its status counts
	require.Equal(t, transfer.Success, b.get(p.MerchantTxRef).Status)
	require.Equal(t, "NGOZI EZE", *b.get(p.MerchantTxRef).AccountName)
}

// What agrees when the order is accepted agrees when it is paid, if the bank's answer is the same;
// and a name without a letter is nobody's.
func TestHoldersAgreeTwice(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	for bank, name := range map[string]string{
		"ADEBÁYỌ̀ ỌLÁTÚNJÍ":        "adebáyọ̀ Ọlátúnjí",
		" N'GOZI  EZE-OKE (MRS.) ": "n gozi eze oke mrs",
		"Groß & Söhne\t\ufffd LTD": "GROß, SÖHNE LTD",
		"3RD MAINLAND ǅURO":        "3rd mainland ǆuro",
	} {
		svc := b.service(func(o *transfer.Options) { o.Bank = b.naming(bank) })
		o := order("1.00")
		o.AccountName = &name
		s, err := svc.Settle(b.ctx, b.tenant, "shop", o, idempotency.Request{})
		require.NoError(t, err, name)
		_ = svc.Advance(b.ctx, s.TransferID) // its status counts
		require.Equal(t, 1, b.get(accepted(t, s).MerchantTxRef).AttemptCount, name)
	}
	for _, name := range []string{"-", ""} {
		o := order("1.00")
		o.AccountName = &name
		_, err := b.service(func(o *transfer.Options) { o.Bank = b.naming("***") }).Settle(b.ctx, b.tenant, "shop", o, idempotency.Request{})
		require.ErrorIs(t, err, transfer.ErrNameMismatch, "%q", name)
	}
}

// What is wrong, and what the bank does not answer for, is not saved, and nothing of it is logged.
func TestNothingIsSavedWithoutAName(t *testing.T) {
	b := setup(t)
	lookup := func(do fakebank.Action) func() {
		return func() { b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnLookup, Do: do}) }
	}
	none := func() {}
	for name, c := range map[string]struct {
		n      transfer.NewBeneficiary
		before func()
		want   error
	}{
		"a bad bank code":  {transfer.NewBeneficiary{BankCode: "5", AccountNumber: "0123456789"}, none, transfer.ErrBankCode},
		"a bad number":     {transfer.NewBeneficiary{BankCode: "058", AccountNumber: "123"}, none, transfer.ErrAccountNumber},
		"a long label":     {transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789", Label: strings.Repeat("ü", 101)}, none, transfer.ErrLabel},
		"a label of lines": {transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789", Label: "a\nb"}, none, transfer.ErrLabel},
		"no such account":  {transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0001234567"}, none, transfer.ErrLookup},
		"the bank fails":   {transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789"}, lookup(fakebank.Fail), transfer.ErrBank},
		"the bank is cut":  {transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789"}, lookup(fakebank.DropAfter), transfer.ErrBank},
		"an empty answer":  {transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789"}, lookup(fakebank.Empty), transfer.ErrBank},
		"a page of HTML":   {transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789"}, lookup(fakebank.Garbage), transfer.ErrBank},
		"the bank is down": {transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789"}, func() { b.bank.Faults.Clear(); b.bank.Faults.SetDown(fakebank.DownClose) }, transfer.ErrBank},
	} {
		b.bank.Faults.Clear()
		c.before()
		_, _, err := b.svc.SaveBeneficiary(b.ctx, b.tenant, c.n, transfer.Maker{By: saver})
		require.ErrorIs(t, err, c.want, name)
	}
	b.bank.Faults.Clear()
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM beneficiaries`))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log`))
	b.save("0123456789", "")
}

// Saved, renamed and removed at once: one account is one beneficiary at any time, and each change
// that has an answer has its line.
func TestBeneficiariesAtOnce(t *testing.T) {
	b := setup(t)
	for range 5 {
		var mu sync.Mutex
		news := map[uuid.UUID]int{}
		testenv.AtOnce(12, func(i int) {
			saved, isNew, err := b.svc.SaveBeneficiary(b.ctx, b.tenant, transfer.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789"}, transfer.Maker{By: saver})
			require.NoError(t, err)
			mu.Lock()
			if isNew {
				news[saved.ID]++
			}
			mu.Unlock()
			switch i % 3 {
			case 0:
				_, err = b.svc.RemoveBeneficiary(b.ctx, b.tenant, saved.ID, saver)
			case 1:
				_, err = b.svc.RenameBeneficiary(b.ctx, b.tenant, saved.ID, "x", saver)
			}
			if err != nil {
				require.ErrorIs(t, err, transfer.ErrBeneficiary)
			}
		})
		for id, n := range news {
			require.Equal(t, 1, n, id)
		}
	}
	require.LessOrEqual(t, testenv.Value[int](b.Env, `SELECT count(*) FROM beneficiaries WHERE removed_at IS NULL`), 1)
	for action, condition := range map[string]string{"save": "true", "remove": "removed_at IS NOT NULL"} {
		require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM beneficiaries n WHERE (`+condition+`) <> (1 = (SELECT count(*) FROM audit_log WHERE target = 'beneficiary:' || n.id AND action = 'beneficiary.`+action+`'))`), action)
	}
}

// A settlement names a beneficiary in the place of an account: it goes to that account, under the
// name that was saved, once under its key, also when the beneficiary is removed meanwhile.
func TestSettleToABeneficiary(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	saved := b.save("0123456789", "Landlord")
	o := to(saved, "100.00")
	s, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k", o))
	require.NoError(t, err)
	p := b.get(accepted(t, s).MerchantTxRef)
	require.Equal(t, []string{"058", "0123456789"}, []string{p.BankCode, p.AccountNumber})
	require.Equal(t, transfer.Success, b.run(p).Status)

	both := to(saved, "1.00")
	both.BankCode, both.AccountNumber = "058", "0123456789"
	other := to(saved, "1.00")
	other.AccountName = new("Somebody Else")
	nobody := to(saved, "1.00")
	nobody.AccountName = new("")
	foreign := b.anotherAccount(t)
	theirs := foreign.save("0123456789", "")
	for name, c := range map[string]struct {
		o    transfer.Order
		want error
	}{
		"both":           {both, transfer.ErrBeneficiaryAlone},
		"another holder": {other, transfer.ErrNameMismatch},
		"an empty name":  {nobody, transfer.ErrNameMismatch},
		"no id":          {transfer.Order{Amount: "1.00", Beneficiary: "landlord"}, transfer.ErrBeneficiary},
		"unknown":        {transfer.Order{Amount: "1.00", Beneficiary: uuid.NewString()}, transfer.ErrBeneficiary},
		"another's":      {to(theirs, "1.00"), transfer.ErrBeneficiary},
	} {
		_, err := b.svc.Settle(b.ctx, b.tenant, "shop", c.o, idempotency.Request{})
		require.ErrorIs(t, err, c.want, name)
	}
	_, err = b.svc.RemoveBeneficiary(b.ctx, b.tenant, saved.ID, saver)
	require.NoError(t, err)
	again, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k", o))
	require.NoError(t, err)
	require.Equal(t, s.Answer, again.Answer)
	_, err = b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k2", o))
	require.Equal(t, transfer.ErrBeneficiary, errs.As(err))
	saved, another := b.save("0123456789", ""), b.save("1234567890", "")
	require.NoError(t, b.Beside(testenv.Runs(`SELECT FROM beneficiaries WHERE id = $1 FOR UPDATE`, another.ID), func() error {
		_, err := b.svc.Settle(b.ctx, b.tenant, "shop", to(saved, "1.00"), idempotency.Request{})
		return err
	}))
	err = b.Meanwhile(testenv.Runs(`UPDATE beneficiaries SET removed_at = $2 WHERE id = $1`, saved.ID, b.Clock.Now()), func() error {
		_, err := b.svc.Settle(b.ctx, b.tenant, "shop", to(saved, "1.00"), idempotency.Request{})
		return err
	})
	require.Equal(t, transfer.ErrBeneficiary, errs.As(err))
	b.paid(p)
	b.money("899.00", "credit 1000.00 confirmed", "debit 100.00 confirmed", "debit 1.00 provisional")
}

// Who removes a beneficiary waits for a settlement that has found it.
func TestARemovalWaitsForTheSettlement(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	saved := b.save("0123456789", "Landlord")
	require.NoError(t, b.InOrder(testenv.LocksBalance(b.account), func(pg.Tx) error {
		_, err := b.Pool.Exec(b.ctx, `SELECT FROM beneficiaries WHERE id = $1 FOR UPDATE NOWAIT`, saved.ID)
		require.Equal(t, "55P03", pg.Code(err), "the settlement has locked it")
		return nil
	}, func() error {
		_, err := b.svc.Settle(b.ctx, b.tenant, "shop", to(saved, "1.00"), idempotency.Request{})
		return err
	}))
}

// waitHours has new beneficiaries wait before payouts above the policy's threshold.
func (b *bundle) waitHours(hours int) {
	b.T.Helper()
	b.Exec(`UPDATE tenants SET beneficiary_wait = $2 WHERE id = $1`, b.tenant, hours)
}

func (b *bundle) exempt(of transfer.Beneficiary, exempt bool) {
	b.T.Helper()
	_, _, err := b.svc.ExemptBeneficiary(b.ctx, b.tenant, of.ID, exempt, checker)
	require.NoError(b.T, err)
}

// A payout to an exempt beneficiary's account needs no approval, whether the settlement names the
// beneficiary or the account; and only that account's, of that tenant, while it is a beneficiary.
func TestExemptBeneficiaries(t *testing.T) {
	b := setup(t)
	b.fund("10000.00")
	b.policy(1, "50.00", "200.00")
	landlord, other := b.save("0123456789", ""), b.save("1234567890", "")
	settle := func(o transfer.Order) transfer.Transfer {
		t.Helper()
		s, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, idempotency.Request{})
		require.NoError(t, err)
		return b.get(accepted(t, s).MerchantTxRef)
	}
	before := settle(to(landlord, "60.00"))
	require.NotNil(t, before.Awaiting, "saved, and not exempt")
	b.exempt(landlord, true)
	require.NotNil(t, b.get(before.MerchantTxRef).Awaiting, "what waits waits on")
	named, plain := settle(to(landlord, "60.00")), settle(order("60.00"))
	require.Nil(t, named.Awaiting)
	require.Nil(t, plain.Awaiting)
	require.NotNil(t, settle(to(other, "60.00")).Awaiting)
	elsewhere := order("60.00")
	elsewhere.BankCode = "044"
	require.NotNil(t, settle(elsewhere).Awaiting, "the same number at another bank")
	require.Nil(t, settle(to(landlord, "60.00")).Awaiting, "above the day's sum too")
	require.NotNil(t, settle(to(other, "0.01")).Awaiting, "and it counts in the day's sum of others")

	foreign := b.anotherAccount(t)
	foreign.fund("100.00")
	foreign.policy(1, "50.00", "")
	require.NotNil(t, foreign.settle("60.00").Awaiting, "another tenant's exemption")

	b.exempt(landlord, false)
	require.Nil(t, b.get(named.MerchantTxRef).Awaiting, "accepted without, it goes")
	require.Equal(t, transfer.Success, b.run(named).Status)
	require.NotNil(t, settle(to(landlord, "60.00")).Awaiting)
	b.exempt(landlord, true)
	_, err := b.svc.RenameBeneficiary(b.ctx, b.tenant, landlord.ID, "Rent", saver)
	require.NoError(t, err)
	require.Nil(t, settle(order("60.00")).Awaiting, "a rename changes nothing")
	_, err = b.svc.RemoveBeneficiary(b.ctx, b.tenant, landlord.ID, saver)
	require.NoError(t, err)
	require.NotNil(t, settle(order("60.00")).Awaiting, "removed")
	again := b.save("0123456789", "")
	require.False(t, again.Exempt, "saved again it is another")
	require.NotNil(t, settle(order("60.00")).Awaiting)
	_, _, err = b.svc.ExemptBeneficiary(b.ctx, b.tenant, landlord.ID, true, checker)
	require.ErrorIs(t, err, transfer.ErrBeneficiary)
	_, _, err = b.svc.ExemptBeneficiary(b.ctx, foreign.tenant, again.ID, true, checker)
	require.ErrorIs(t, err, transfer.ErrBeneficiary)
	require.Equal(t, "beneficiary.save session:bola@shop.example, beneficiary.exempt session:ada@shop.example, beneficiary.exempt session:ada@shop.example, "+
		"beneficiary.exempt session:ada@shop.example, beneficiary.rename session:bola@shop.example, beneficiary.remove session:bola@shop.example", b.lines(landlord))
	b.Exec(`UPDATE tenants SET approve_above = NULL, approve_day_above = NULL, payout_approvals = 0 WHERE id = $1`, b.tenant)
	require.Nil(t, settle(order("60.00")).Awaiting, "no policy")
}

// With a waiting time, a payout above the threshold goes only to a beneficiary that was saved long
// enough before; smaller ones go at once, and a refusal keeps no answer.
func TestNewBeneficiariesWait(t *testing.T) {
	b := setup(t)
	b.fund("10000.00")
	b.policy(1, "50.00", "")
	b.waitHours(24)
	large, small := order("50.01"), order("50.00")
	settle := func(o transfer.Order) error {
		_, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key(o.Amount, o))
		return err
	}
	require.EqualError(t, settle(large), "amount is above NGN 50.00: such a payout may go only to a beneficiary that was saved at least 24 hours ago")
	require.NoError(t, settle(small))
	saved := b.save("0123456789", "")
	b.exempt(saved, true)
	from := b.Clock.Now().Add(24 * time.Hour)
	b.Clock.Set(from.Add(-time.Microsecond))
	require.EqualError(t, settle(large), "amount is above NGN 50.00: the beneficiary is new, and such a payout to it is accepted from "+from.UTC().Format(time.RFC3339))
	require.Equal(t, errs.Unprocessable, errs.As(settle(to(saved, "50.01"))).Kind)
	b.Clock.Set(from)
	require.NoError(t, settle(large), "the same key is free: nothing was done under it")
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE amount = 50.01 AND approvals_needed = 0`))

	_, err := b.svc.RemoveBeneficiary(b.ctx, b.tenant, saved.ID, saver)
	require.NoError(t, err)
	b.save("0123456789", "")
	require.ErrorContains(t, settle(order("50.02")), "the beneficiary is new", "saved again, it is new again")
	// Of settlements at once each is judged by itself.
	old := b.save("1234567890", "")
	b.Exec(`ALTER TABLE beneficiaries DISABLE TRIGGER beneficiaries_unchanged`)
	b.Exec(`UPDATE beneficiaries SET saved_at = saved_at - interval '1 day' WHERE id = $1`, old.ID)
	testenv.AtOnce(20, func(i int) {
		if i%2 == 0 {
			_, err := b.svc.Settle(b.ctx, b.tenant, "shop", to(old, "70.00"), idempotency.Request{})
			require.NoError(t, err)
			return
		}
		_, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("80.00"), idempotency.Request{})
		require.ErrorContains(t, err, "the beneficiary is new")
	})
	require.Equal(t, 10, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE amount = 70 AND approvals_needed = 1`))
}

// A refund goes back to who paid, whatever the policy has beneficiaries do.
func TestRefundsDoNotWait(t *testing.T) {
	b := setup(t)
	_, entry := b.received("100.00", &payer)
	b.policy(1, "1.00", "")
	b.waitHours(24)
	p := b.refunded(entry, "100.00")
	require.Nil(t, p.Awaiting)
	require.Equal(t, transfer.Success, b.run(p).Status)
}
