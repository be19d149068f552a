package payment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/ledger"
)

// forged is whom a forged event names as the payer.
var forged = fakebank.EventCustomer{SenderName: "CHIDI OKEKE", AccountNumber: "1234567890", BankName: "Zenith Bank"}

// paidForged makes a payment at the bank, and posts an event of it that names another payer: the
// signature does not cover that.
func (b *bundle) paidForged() (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	b.openAtBank()
	txn, err := b.bank.Pay(b.ctx, fakebank.Payment{
		AccountRef: b.account.String(), Amount: money.Must("5000.00"), SenderName: "Ada Obi", SenderAccount: "2345678901", SenderBank: "Guaranty Trust Bank", Silent: true,
	})
	require.NoError(b.T, err)
	e := b.bank.Event(fakebank.PaymentSuccess, txn)
	e.Data.Customer = forged
	id := b.receive(b.eventOf(e)).ID
	b.post(id)
	return id, txn
}

func (b *bundle) firstEntry() ledger.Entry {
	b.T.Helper()
	s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, ledger.Filter{}, page.Request{Limit: 10})
	require.NoError(b.T, err)
	return s.Lines[0].Entry
}

// Whom a payment came from is the bank's own record's to say. The event names a payer while the
// payment is provisional, and never an account to which money could go back.
func TestSenderIsTheRecords(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.paidForged()
	e := b.firstEntry()
	require.Equal(t, []string{"CHIDI OKEKE", "Zenith Bank", "", "", ""}, []string{e.SenderName, e.SenderBank, e.SenderAccount, e.SenderBankCode, e.SessionID})
	shown, err := b.svc.InboundEvent(b.ctx, id)
	require.NoError(t, err)
	require.Nil(t, shown.Payer)

	require.Equal(t, time.Duration(-1), b.check(id))
	e = b.firstEntry()
	require.Equal(t, []string{"Ada Obi", "Guaranty Trust Bank", "2345678901", "058", txn.SessionID},
		[]string{e.SenderName, e.SenderBank, e.SenderAccount, e.SenderBankCode, e.SessionID})
	shown, err = b.svc.InboundEvent(b.ctx, id)
	require.NoError(t, err)
	require.Equal(t, &ledger.Sender{Name: "Ada Obi", AccountNumber: "2345678901", BankCode: "058", BankName: "Guaranty Trust Bank", SessionID: txn.SessionID}, shown.Payer)
	require.Equal(t, "CHIDI OKEKE", shown.SenderName, "what the event said stays readable")
	b.books()
}

// Payments that the bank's list confirms have its sender as well.
func TestSenderComesWithTheList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, txns := b.manyPaid(30)
	b.confirmAll(ids)
	require.Positive(t, b.bank.Calls(listCall))
	s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, ledger.Filter{}, page.Request{Limit: 100})
	require.NoError(t, err)
	require.Len(t, s.Lines, len(txns))
	for i, l := range s.Lines {
		require.Equal(t, []string{"Bola Ade", "0123456789", "035", txns[i].SessionID}, []string{l.Entry.SenderName, l.Entry.SenderAccount, l.Entry.SenderBankCode, l.Entry.SessionID})
	}
}

// What a record does not say, or says in a form that is no name and no number, is empty, and the
// event's word does not stand in for it. The payment is confirmed all the same.
func TestSenderThatTheRecordDoesNotName(t *testing.T) {
	t.Parallel()
	for name, sender := range map[string]fakebank.Sender{"silent": {}, "too long": {Name: strings.Repeat("A", 201), Account: strings.Repeat("1", 5000), Bank: strings.Repeat("Z", 201)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, txn := b.paidForged()
			b.bank.SetTransaction(txn.ID, func(r *fakebank.Transaction) {
				r.SenderName, r.SenderAccount, r.SenderBank, r.SenderBankCode, r.SessionID = sender.Name, sender.Account, sender.Bank, "", ""
			})
			require.Equal(t, time.Duration(-1), b.check(id))
			e := b.firstEntry()
			require.Equal(t, ledger.Confirmed, e.Status)
			require.Equal(t, []string{"", "", "", "", ""}, []string{e.SenderName, e.SenderBank, e.SenderAccount, e.SenderBankCode, e.SessionID})
		})
	}
}

// The sender is written once, by the confirmation: nobody changes it afterwards, and no other
// status has one.
func TestSenderIsWrittenOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.paidForged()
	refused := func(sql string) {
		t.Helper()
		_, err := b.Pool.Exec(b.ctx, sql, id)
		require.Error(t, err, sql)
	}
	refused(`UPDATE ledger_entries SET record_account = '1234567890' WHERE transaction_group_id = $1`)
	require.Equal(t, time.Duration(-1), b.check(id))
	for _, column := range []string{"record_account", "record_bank_code", "record_session", "record_name", "record_bank"} {
		refused(`UPDATE ledger_entries SET ` + column + ` = '1234567890' WHERE transaction_group_id = $1`)
	}
	require.Equal(t, "2345678901", b.firstEntry().SenderAccount)
}
