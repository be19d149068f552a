package api

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
)

// One text finds what it is a name, a number, a reference, an id or a sum of, and nothing of
// another tenant.
func TestSearch(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	// not hexadecimal digits only: references and ids are searched too
	for ref, name := range map[string]string{"shop-1": "Ugo Obi", "shop-2": "Chidi Eze"} {
		w.do("POST", "/v1/accounts", `{"externalRef":"`+ref+`","name":"`+name+`"}`, key...).ok(201, nil)
	}
	w.pay(event{"r-1", "txn-1", w.accountID(m, "shop-1"), "12000.00", "50"})
	w.confirmFrom("0123456789", "058", "AMINA BELLO")
	paid := w.read(key, "/v1/payments").list("payments")[0]
	var s struct{ MerchantTxRef string }
	w.do("POST", "/v1/accounts/shop-1/settle", `{"amount":"1500.50","bankCode":"058","accountNumber":"1122334455"}`, key...).ok(202, &s)
	number := w.read(key, "/v1/accounts/shop-1")["BankAccountNumber"].(string)

	other := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ugo Obi"}`, other.withKey()...).ok(201, nil)
	w.pay(event{"r-2", "txn-2", w.accountID(other, "shop-1"), "12000.00", "50"})

	const payment, transfer, account, customer = "payments txn-1", "transfers shop-1", "accounts shop-1", "customers shop-1"
	for q, want := range map[string][]string{
		"shop-1":                       {account, customer, transfer},
		"  ugo ":                       {account, customer},
		"eze":                          {"accounts shop-2", "customers shop-2"},
		number:                         {account},
		number[3:]:                     {account},
		"amina":                        {payment},
		"0123456789":                   {payment},
		"txn-1":                        {payment},
		"txn-2":                        nil,
		paid["id"].(string):            {payment},
		paid["sessionId"].(string):     {payment},
		"12,000":                       {payment},
		"₦ 12000.00":                   {payment},
		"11950":                        {payment}, // net
		"1,500.50":                     {transfer},
		s.MerchantTxRef:                {transfer},
		"1122334455":                   {transfer},
		"nothing is called so":         nil,
		uuid.New().String():            nil,
		"12.000,00":                    nil,
		strings.Repeat("x", maxSearch): nil,
	} {
		var got []string
		found := w.read(m.withSession(), "/auth/search?q="+url.QueryEscape(q))
		for list, name := range map[string]string{"accounts": "AccountRef", "customers": "ExternalRef", "payments": "providerTxnRef", "transfers": "accountRef"} {
			for _, v := range found.list(list) {
				got = append(got, list+" "+v[name].(string))
			}
		}
		require.ElementsMatch(t, want, got, q)
		require.Empty(t, found["more"], q)
	}
	for _, bad := range []string{"", "?q=", "?q=a", "?q=%20a%20", "?q=%ff%ff", "?q=a%00b", "?q=" + strings.Repeat("x", maxSearch+1)} {
		w.do("GET", "/auth/search"+bad, "", m.withSession()...).refused(400, "q must be valid UTF-8 without NUL, 2 to 100 characters")
	}
}

// What is named whole is found however much came after it, by its session id if it came within the
// hours around the id's time; of what is found by a part the answer says where there may be more.
func TestSearchFindsWhatIsOld(t *testing.T) {
	w := setup(t)
	sent := w.Clock.Now() // as paidSession says
	w.Clock.Advance(-time.Hour)
	m := w.onboard()
	key := m.withKey()
	w.do("POST", "/v1/accounts", `{"externalRef":"the-first","name":"Zainab Musa"}`, key...).ok(201, nil)
	pay := func(txn string, after time.Duration) {
		w.Clock.Set(sent.Add(after))
		w.pay(event{"r-" + txn, txn, w.accountID(m, "the-first"), "777.00", "0"})
		w.confirmFrom("0123456789", "058", "AMINA BELLO")
	}
	pay("too-early", -10*time.Minute-time.Microsecond)
	pay("early", -10*time.Minute)
	pay("late", 2*time.Hour-time.Microsecond)
	pay("txn-1", 2*time.Hour) // too late
	paid := w.read(key, "/v1/payments").list("payments")[0]
	var s struct{ MerchantTxRef string }
	w.do("POST", "/v1/accounts/the-first/settle", `{"amount":"500.00","bankCode":"058","accountNumber":"1122334455"}`, key...).ok(202, &s)
	number := w.read(key, "/v1/accounts/the-first")["BankAccountNumber"].(string)
	w.Clock.Advance(24 * time.Hour)
	busy := w.Account(m.id, "busy")
	w.firstFilled = time.Now().UnixMilli() + 1 // newer than all that is there
	w.fillLists(m.id, busy, pg.ScanLimit+500)

	for q, want := range map[string]string{
		"the-first": "accounts", number: "accounts", "txn-1": "payments", paid["transactionGroupId"].(string): "payments",
		paid["sessionId"].(string): "payments", s.MerchantTxRef: "transfers",
	} {
		found := w.read(m.withSession(), "/auth/search?q="+url.QueryEscape(q))
		require.NotEmpty(t, found.list(want), "%s: %v", q, found)
	}
	var around []string
	for _, p := range w.read(m.withSession(), "/auth/search?q="+paidSession).list("payments") {
		around = append(around, p["providerTxnRef"].(string))
	}
	require.Equal(t, []string{"late", "early"}, around)
	found := w.read(m.withSession(), "/auth/search?q=zainab")
	require.Empty(t, found.list("accounts"))
	require.Equal(t, "[accounts customers payments transfers]", fmt.Sprint(found["more"]))
	found = w.read(m.withSession(), "/auth/search?q=ada")
	require.Len(t, found.list("accounts"), shownFound)
	require.Contains(t, fmt.Sprint(found["more"]), "accounts")
}
