package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A book transfer over HTTP: what is refused, that a repeat is answered again, and that both
// statements show it.
func TestBookTransfer(t *testing.T) {
	w := setup(t)
	_, key := w.funded("5000.00")
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Bola Ade"}`, key...).ok(201, nil)
	const path = "/v1/accounts/shop-1/transfer"
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{path, `{"toAccountRef":"shop-2","amount":100}`, 422, "amount must be a decimal string, not a number"},
		{path, `{"toAccountRef":"shop-2","amount":true}`, 400, "invalid amount"},
		{path, `{"toAccountRef":"shop-2"}`, 400, "invalid amount"},
		{path, `{"amount":"1.00"}`, 400, "toAccountRef is required"},
		{path, `{"toAccountRef":7,"amount":"1.00"}`, 400, "toAccountRef must be a string"},
		{path, `{"toAccountRef":"shop-1","amount":"1.00"}`, 400, "toAccountRef must be another account"},
		{path, `{"toAccountRef":"nobody","amount":"1.00"}`, 404, "toAccountRef: account not found"},
		{"/v1/accounts/nobody/transfer", `{"toAccountRef":"shop-2","amount":"1.00"}`, 404, "account not found"},
		{path, `{"toAccountRef":"shop-2","amount":"5000.01"}`, 400, "insufficient funds"},
		{path, `{"toAccountRef":"shop-2","amount":"1.00","narration":"a\u0007b"}`, 400, "narration must be at most 140 characters, without control characters"},
	} {
		w.do("POST", c.path, c.body, key...).refused(c.status, c.want)
	}
	const body = `{"toAccountRef":"shop-2","amount":"1500.00","narration":"change"}`
	once := append(key, "Idempotency-Key", "move-1")
	var done, again struct{ ID, Amount, FromAccountRef, ToAccountRef, Narration, DebitEntryID, CreditEntryID string }
	first := w.do("POST", path, body, once...)
	first.ok(201, &done)
	require.Equal(t, []string{"1500.00", "shop-1", "shop-2", "change"}, []string{done.Amount, done.FromAccountRef, done.ToAccountRef, done.Narration})
	repeat := w.do("POST", path, body, once...)
	repeat.ok(201, &again)
	require.Equal(t, done, again)
	require.Equal(t, "true", repeat.Header.Get("Idempotent-Replayed"))
	for ref, want := range map[string][]string{"shop-1": {"3500.00", done.DebitEntryID}, "shop-2": {"1500.00", done.CreditEntryID}} {
		var s struct {
			ClosingBalance string
			Lines          []struct {
				Entry struct{ ID, Status, TransactionGroupID string }
			}
		}
		w.do("GET", "/v1/accounts/"+ref+"/statement", "", key...).ok(200, &s)
		last := s.Lines[len(s.Lines)-1].Entry
		require.Equal(t, append(want, "confirmed", done.ID), []string{s.ClosingBalance, last.ID, last.Status, last.TransactionGroupID})
	}
}
