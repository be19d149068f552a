package transfer_test

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// Why a transfer failed is said to its tenant in plain words, whatever the bank's own were, and
// which bank and holder it was for.
func TestWhyATransferFailed(t *testing.T) {
	for name, c := range map[string]struct {
		rules []fakebank.Rule
		after func(*bundle, transfer.Transfer)
		want  string
		by    string
	}{
		"paid":                   {want: "", by: "bank"},
		"no such account":        {rules: []fakebank.Rule{names(fakebank.NotFound, 1)}, want: "the destination account does not exist", by: "bank"},
		"refused":                {rules: []fakebank.Rule{pays(fakebank.Reject, 1)}, want: "the bank refused the transfer", by: "bank"},
		"failed at the bank":     {rules: []fakebank.Rule{pays(fakebank.FailLater, 1)}, want: "the bank could not complete the transfer", by: "bank"},
		"five submissions, none": {rules: []fakebank.Rule{pays(fakebank.Drop, 0)}, want: "the bank did not carry out the transfer", by: "silence"},
		"given back": {after: func(b *bundle, p transfer.Transfer) {
			_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
			require.NoError(b.T, err)
			b.asked(p, 1)
		}, want: "the bank returned the money", by: "bank"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			b.bank.Faults.Set(c.rules...)
			p := b.run(b.settle("100.00"))
			if c.after != nil {
				c.after(b, p)
			}
			p = b.get(p.MerchantTxRef)
			reason := ""
			if p.FailureReason != nil {
				reason = *p.FailureReason
			}
			require.Equal(t, c.want, reason)
			require.Equal(t, "rent", p.Narration)
			require.Equal(t, c.by, row[string](b, p, "ended_by"))
			require.Equal(t, name == "no such account", p.AccountName == nil)
		})
	}
	t.Run("never covered", func(t *testing.T) {
		b := setup(t)
		untrue := b.credit("100.00")
		p := b.settle("100.00")
		b.MoveCredit(untrue, ledger.EventReverse)
		p = b.run(p)
		require.Equal(t, "the money that it was to be paid from was taken back", *p.FailureReason)
		require.Equal(t, "books", row[string](b, p, "ended_by"))
	})
}

// A bank that does not let us see who holds an account has not said that there is none: nothing
// fails, and the bank is asked again.
func TestANameThatMayNotBeSeen(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	p := b.settle("100.00")
	for _, code := range []string{"05", "403"} {
		b.bank.Faults.Set(with(names(fakebank.Refuse, 0), func(r *fakebank.Rule) { r.Code = code }))
		_, err := b.svc.Lookup(b.ctx, "058", "0123456789")
		require.ErrorIs(t, err, transfer.ErrBank, code)
		b.untilDue(p)
		b.step(p)
		require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status, code)
	}
	b.bank.Faults.Clear()
	require.Equal(t, transfer.Success, b.run(p).Status)
}

// An unknown bank is refused before the debit, by the list that this process keeps; a list that is
// old, or none at all, refuses nobody.
func TestAnUnknownBank(t *testing.T) {
	b := setup(t)
	list := transfer.NewBankList(b.client, "bank.example", b.Redis(), b.Clock, slog.New(slog.DiscardHandler))
	b.svc = b.service(func(o *transfer.Options) { o.Banks = list })
	b.fund("1000.00")
	unknown := order("100.00")
	unknown.BankCode = "999"
	settle := func() error {
		_, err := b.svc.Settle(b.ctx, b.tenant, "shop", unknown, idempotency.Request{})
		return err
	}
	look := func() error {
		_, err := b.svc.Lookup(b.ctx, unknown.BankCode, unknown.AccountNumber)
		return err
	}
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	require.NoError(t, settle(), "there is no list: the look-up before the submission decides")
	require.ErrorIs(t, look(), transfer.ErrBank)
	b.bank.Faults.SetDown(fakebank.Up)
	b.Clock.Advance(time.Minute)
	require.ErrorIs(t, settle(), transfer.ErrUnknownBank)
	asked := b.bank.Calls(lookupCall)
	require.ErrorIs(t, look(), transfer.ErrLookup)
	require.Equal(t, asked, b.bank.Calls(lookupCall), "the bank is not asked about what it does not list")
	require.Equal(t, "Guaranty Trust Bank", *b.settle("100.00").BankName)
	calls := b.bank.Calls(banksCall)
	for range 3 {
		require.ErrorIs(t, settle(), transfer.ErrUnknownBank)
	}
	require.Equal(t, calls, b.bank.Calls(banksCall), "kept")

	b.bank.Faults.SetDown(fakebank.DownAnswer)
	b.Clock.Advance(2 * time.Hour)
	require.NoError(t, settle(), "the list is old: the bank may be new")
	require.ErrorIs(t, look(), transfer.ErrBank)
	require.Equal(t, "Guaranty Trust Bank", *b.settle("100.00").BankName, "but it still names banks")
	b.bank.Faults.SetDown(fakebank.Up)
	b.Clock.Advance(time.Minute)
	require.ErrorIs(t, settle(), transfer.ErrUnknownBank)

	// A kept answer is given whatever the list says by now.
	body, err := json.Marshal(unknown)
	require.NoError(t, err)
	key, err := idempotency.NewRequest(b.tenant, "k", "POST", "/v1/accounts/shop/settle", body)
	require.NoError(t, err)
	free := b.service()
	first, err := free.Settle(b.ctx, b.tenant, "shop", unknown, key)
	require.NoError(t, err)
	again, err := b.svc.Settle(b.ctx, b.tenant, "shop", unknown, key)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Answer.Body, again.Answer.Body)
}
