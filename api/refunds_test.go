package api

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/ledger"
)

// paidSession is the session id of payments that were made when the tests' clock begins.
const paidSession = "000013260302100000000000000001"

// confirmFrom confirms all provisional credits by a record that names this payer.
func (w *world) confirmFrom(account, bankCode, name string) {
	w.T.Helper()
	groups, err := pg.Collect(context.Background(), w.Pool, pgx.RowTo[uuid.UUID], `SELECT transaction_group_id FROM ledger_entries WHERE direction = 'credit' AND status = 'provisional'`)
	require.NoError(w.T, err)
	for _, group := range groups {
		w.Move(ledger.Move{
			TransactionGroupID: group, Direction: ledger.Credit, Event: ledger.EventConfirm,
			Sender: &ledger.Sender{Name: name, AccountNumber: account, BankCode: bankCode, BankName: "Guaranty Trust Bank", SessionID: paidSession},
		})
	}
}

// A refund over HTTP: what is refused, that a repeat is answered again, and that the transfer, the
// list and the statement show what it refunds.
func TestRefund(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, key...).ok(201, nil)
	w.pay(event{"r-1", "t-1", w.accountID(m, "shop-1"), "5000.00", "0"})
	var s struct {
		Lines []struct {
			Entry struct {
				ID, SenderAccount, SenderBankCode, SessionID, SenderName string
				RefundOf                                                 *string
			}
		}
	}
	statement := func() { w.do("GET", "/v1/accounts/shop-1/statement", "", key...).ok(200, &s) }
	statement()
	path := "/v1/entries/" + s.Lines[0].Entry.ID + "/refund"
	w.do("POST", path, `{}`, key...).refused(422, "the payment is not confirmed")
	w.confirmFrom("0123456789", "058", "AMINA BELLO")
	statement()
	e := s.Lines[0].Entry
	require.Equal(t, []string{"0123456789", "058", paidSession, "AMINA BELLO"}, []string{e.SenderAccount, e.SenderBankCode, e.SessionID, e.SenderName})
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{path, `{"amount":100}`, 422, "amount must be a decimal string, not a number"},
		{path, `{"amount":true}`, 400, "invalid amount"},
		{path, `{"amount":""}`, 400, "invalid amount"},
		{path, `{"amount":"0.00"}`, 400, "invalid amount"},
		{path, `{"amount":"5000.01"}`, 422, "amount is more than what is left of the payment to refund"},
		{"/v1/entries/" + uuid.NewString() + "/refund", `{}`, 404, "ledger entry not found"},
		{"/v1/entries/nothing/refund", `{}`, 404, "ledger entry not found"},
	} {
		w.do("POST", c.path, c.body, key...).refused(c.status, c.want)
	}
	once := append(key, "Idempotency-Key", "refund-1")
	var first, again struct{ MerchantTxRef, Status, Amount, Currency, AccountRef, RefundOf string }
	w.do("POST", path, `{"amount":"1000.00"}`, once...).ok(202, &first)
	repeat := w.do("POST", path, `{"amount":"1000.00"}`, once...)
	repeat.ok(202, &again)
	require.Equal(t, first, again)
	require.Equal(t, "true", repeat.Header.Get("Idempotent-Replayed"))
	require.Equal(t, []string{"pending", "1000.00", "NGN", "shop-1", e.ID}, []string{first.Status, first.Amount, first.Currency, first.AccountRef, first.RefundOf})
	var one struct{ RefundOf, BankCode, AccountNumber string }
	w.do("GET", "/v1/transfers/"+first.MerchantTxRef, "", key...).ok(200, &one)
	require.Equal(t, []string{e.ID, "058", "0123456789"}, []string{one.RefundOf, one.BankCode, one.AccountNumber})
	statement()
	require.Equal(t, e.ID, *s.Lines[1].Entry.RefundOf)
	w.do("POST", path, `{"amount":null}`, key...).ok(202, &first)
	require.Equal(t, "4000.00", first.Amount, "null is all that is left")
	w.do("POST", path, `{}`, key...).refused(422, "the payment is refunded in full")
}
