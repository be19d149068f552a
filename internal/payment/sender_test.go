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
	"ajo/internal/payment"
	"ajo/internal/testenv"
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

// The events of a payment name the payer whom its notice named only while it is provisional, as the
// statement does: what is confirmed, or taken back after that, has the payer of the bank's record.
func TestEventsNameTheRecordsSender(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Subscribe(b.tenant, "{payment.confirmed,payment.reversed}")
	id, txn := b.paidForged()
	require.Equal(t, time.Duration(-1), b.check(id))
	body := func(event string) string { return b.Delivered(`event_type = $1`, event)[0].Body }
	require.Contains(t, body("payment.received"), `"senderName":"CHIDI OKEKE"`, "nobody had asked the bank yet")
	require.Contains(t, body("payment.confirmed"), `"senderName":"Ada Obi"`)
	b.taken(txn, "REFUND")
	b.receive(b.reversal(txn))
	require.Equal(t, time.Duration(-1), b.check(id))
	require.Contains(t, body("payment.reversed"), `"senderName":"Ada Obi"`)

	// With its true sum, in another payment's place: the first was never confirmed.
	id, txn = b.paidForged()
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
	require.Equal(t, time.Duration(-1), b.check(id))
	c, err := b.svc.Correct(b.ctx, id, payment.Correction{Amount: money.Must("5000.00"), Fee: money.Must("10.00")}, byHand)
	require.NoError(t, err)
	of := func(event string, id uuid.UUID) string {
		return b.Delivered(`event_type = $1 AND transaction_group_id = $2`, event, id)[0].Body
	}
	require.Contains(t, of("payment.reversed", id), `"senderName":"CHIDI OKEKE"`)
	require.Contains(t, of("payment.confirmed", c.Replacement), `"senderName":"Ada Obi"`)

	// By a person, while the record cannot be read: the notice's word does not stand in for it.
	id, txn = b.paidForged()
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
	require.Equal(t, time.Duration(-1), b.check(id))
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = true })
	r, err := b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
	require.NoError(t, err)
	require.NotEmpty(t, r.NoSender)
	require.Contains(t, of("payment.confirmed", id), `"senderName":""`)
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

// A payment that a person confirms has the sender that the bank's record names, whatever else that
// record has wrong; where the bank says nothing then, it is read later, once, and not overwritten.
func TestSenderOfWhatAPersonConfirms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	review := func(change func(*fakebank.Transaction)) (uuid.UUID, fakebank.Transaction) {
		id, txn := b.paidForged()
		b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
		require.Equal(t, time.Duration(-1), b.check(id))
		b.bank.SetTransaction(txn.ID, change)
		return id, txn
	}
	account := func(id uuid.UUID) *string {
		return testenv.Value[*string](b.Env, `SELECT record_account FROM ledger_entries WHERE transaction_group_id = $1 AND direction = 'credit' AND reversal_of IS NULL`, id)
	}
	id, _ := review(func(*fakebank.Transaction) {})
	r, err := b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
	require.NoError(t, err)
	require.Empty(t, r.NoSender)
	require.Equal(t, new("2345678901"), account(id))
	e := b.firstEntry()
	require.Equal(t, []string{"Ada Obi", "058"}, []string{e.SenderName, e.SenderBankCode})
	require.ErrorIs(t, b.svc.RecordSender(b.ctx, id, ledger.Sender{Name: "Thief", AccountNumber: "0000000001"}, byHand), ledger.ErrSenderKnown)

	// With its true sum.
	id, _ = review(func(*fakebank.Transaction) {})
	c, err := b.svc.Correct(b.ctx, id, payment.Correction{Amount: money.Must("5000.00"), Fee: money.Must("10.00")}, byHand)
	require.NoError(t, err)
	require.Empty(t, c.NoSender)
	require.Equal(t, new("2345678901"), account(c.Replacement))
	require.Nil(t, account(id), "it is reversed")

	// The bank says nothing, or no account: the person decides, and is told.
	for _, change := range []func(*fakebank.Transaction){
		func(x *fakebank.Transaction) { x.Hidden = true },
		func(x *fakebank.Transaction) { x.SenderAccount = "" },
	} {
		id, txn := review(change)
		require.ErrorIs(t, b.svc.RecordSender(b.ctx, id, ledger.Sender{AccountNumber: "2345678901"}, byHand), ledger.ErrSenderKnown, "it is not confirmed")
		r, err = b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
		require.NoError(t, err)
		require.NotEmpty(t, r.NoSender)
		require.Nil(t, account(id))
		_, err = b.svc.Sender(b.ctx, id)
		require.ErrorContains(t, err, r.NoSender)
		b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden, x.SenderAccount = false, "2345678901" })
		s, err := b.svc.Sender(b.ctx, id)
		require.NoError(t, err)
		require.NoError(t, b.svc.RecordSender(b.ctx, id, s, byHand))
		require.Equal(t, new("2345678901"), account(id))
		require.ErrorIs(t, b.svc.RecordSender(b.ctx, id, s, byHand), ledger.ErrSenderKnown)
	}
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'review.sender'`))
	for _, change := range []string{"record_account = '0000000001'", "record_name = 'THIEF'", "record_account = NULL"} {
		_, err := b.Pool.Exec(b.ctx, `UPDATE ledger_entries SET `+change+` WHERE transaction_group_id = $1`, id)
		require.Error(t, err, change)
	}
	b.books()
}
