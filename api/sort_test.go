package api

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
)

// Each order of a list has all rows once, page by page, in that order; a cursor of another order is
// refused.
func TestListsAreSorted(t *testing.T) {
	w := setup(t)
	m := w.variety()
	w.Exec(`UPDATE accounts SET bank_account_name = (ARRAY['Ada Obi', 'zainab musa', 'Chidi Eze', 'ada obi'])[1 + ascii(right(id::text, 1)) % 4] WHERE tenant_id = $1`, m.id)
	w.Exec(`UPDATE transfers SET amount = 1 + ascii(right(id::text, 1)) % 5 WHERE tenant_id = $1`, m.id)
	w.Exec(`ALTER TABLE ledger_balances DISABLE TRIGGER USER`)
	w.Exec(`UPDATE ledger_balances SET total_credits = ascii(right(account_id::text, 1)) % 3 WHERE tenant_id = $1`, m.id)
	w.Exec(`ALTER TABLE ledger_entries DISABLE TRIGGER USER`)
	w.Exec(`UPDATE ledger_entries SET amount = 1 + ascii(right(id::text, 1)) % 5, fee = 0.5 * (ascii(right(id::text, 2)) % 3) WHERE tenant_id = $1`, m.id)
	money := func(name string) func(fields) string {
		return func(f fields) string { return fmt.Sprintf("%20s", f[name]) }
	}
	value := func(name string) func(fields) string {
		return func(f fields) string { return strings.ToLower(f[name].(string)) }
	}
	for _, c := range []struct {
		path, list, id, sort string
		of                   func(fields) string
	}{
		{"/auth/accounts", "accounts", "ID", "name", value("BankAccountName")},
		{"/auth/accounts", "accounts", "ID", "balance", money("Balance")},
		{"/auth/accounts", "accounts", "ID", "created", value("ID")},
		{"/v1/accounts?status=active", "accounts", "ID", "balance", money("Balance")},
		{"/auth/transfers", "transfers", "merchantTxRef", "amount", money("amount")},
		{"/auth/transfers?accountRef=shop-1", "transfers", "merchantTxRef", "amount", money("amount")},
		{"/auth/transfers?status=pending", "transfers", "merchantTxRef", "amount", money("amount")},
		{"/auth/transfers?status=failed", "transfers", "merchantTxRef", "created", nil},
		{"/v1/transfers?search=AJO", "transfers", "merchantTxRef", "created", nil},
		{"/auth/payments", "payments", "id", "amount", money("grossAmount")},
		{"/auth/payments?accountRef=shop-1", "payments", "id", "amount", money("grossAmount")},
		{"/auth/payments?status=confirmed", "payments", "id", "amount", money("grossAmount")},
		{"/v1/payments", "payments", "id", "created", value("createdAt")},
		{"/auth/payments?accountRef=shop-1", "payments", "id", "created", value("createdAt")},
		{"/auth/payments?status=confirmed&from=2026-03-02", "payments", "id", "created", value("createdAt")},
	} {
		path, query, _ := strings.Cut(c.path, "?")
		q, err := url.ParseQuery(query)
		require.NoError(t, err)
		var other string // a cursor of the other direction
		var ids []string
		for _, order := range []string{"desc", "asc"} {
			q.Set("sort", c.sort)
			q.Set("order", order)
			q.Set("limit", "2")
			if other != "" {
				q.Set("after", other)
				w.do("GET", path+"?"+q.Encode(), "", m.withBoth(path)...).refused(400, "invalid cursor")
				q.Del("after")
			}
			rows := w.allRows(m, path, c.list, q)
			got := make([]string, len(rows))
			for i, r := range rows {
				got[i] = r[c.id].(string)
			}
			require.Greater(t, len(got), 2, c.path)
			if order == "desc" {
				ids = got
			} else {
				require.ElementsMatch(t, ids, got, c.path)
				slices.Reverse(got)
				require.Equal(t, ids, got, "%s: one order is the other from its end", c.path)
				slices.Reverse(rows)
			}
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(got))), len(got), c.path)
			require.True(t, c.of == nil || slices.IsSortedFunc(rows, func(a, b fields) int { return cmp.Compare(c.of(b), c.of(a)) }), "%s by %s %s", c.path, c.sort, order)
			q.Del("after")
			other = w.read(m.withBoth(path), path+"?"+q.Encode())["pagination"].(map[string]any)["nextCursor"].(string)
			for _, another := range []string{"", "amount", "balance", "name", "created"} {
				if another == c.sort || another == "" && c.sort == "created" {
					continue
				}
				wrong := url.Values{"sort": {another}, "after": {other}}
				if r := w.do("GET", path+"?"+wrong.Encode(), "", m.withBoth(path)...); r.Status != 400 || !strings.Contains(r.Body, "sort must be") {
					r.refused(400, "invalid cursor")
				}
			}
		}
	}
	// a cursor that names another tenant's account tells nothing of its holder
	other := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Bola Ade"}`, other.withKey()...).ok(201, nil)
	for _, by := range []page.Sort{{By: page.Name}, {By: page.Name, Ascending: true}} {
		after := func(id uuid.UUID) fields {
			order := map[bool]string{true: "asc", false: "desc"}[by.Ascending]
			return w.read(m.withSession(), "/auth/accounts?sort=name&order="+order+"&after="+page.Sorted(page.Accounts, by, 0, id))
		}
		require.Equal(t, after(uuid.New()), after(uuid.MustParse(w.accountID(other, "shop-1"))))
	}
	for path, want := range map[string]string{
		"/v1/payments?sort=fee": "sort must be created or amount", "/auth/transfers?sort=name": "sort must be created or amount",
		"/auth/accounts?sort=amount": "sort must be created, name or balance", "/v1/accounts?order=up": "order must be asc or desc",
		"/auth/payments?sums=1": "sums must be true or false",
	} {
		w.do("GET", path, "", m.withBoth(path)...).refused(400, want)
	}
}

// allRows reads a list to its end.
func (w *world) allRows(m member, path, name string, q url.Values) (rows []fields) {
	w.T.Helper()
	for more := true; more; {
		got := w.read(m.withBoth(path), path+"?"+q.Encode())
		rows = append(rows, got.list(name)...)
		info := got["pagination"].(map[string]any)
		after, _ := info["nextCursor"].(string)
		q.Set("after", after)
		more = info["hasMore"].(bool)
	}
	return rows
}

// A list of too many rows is not sorted by what no index has, and not summed up: it says so.
func TestLongListsAreNotSortedByAmount(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	busy := w.Account(m.id, "busy")
	w.fillLists(m.id, busy, page.CountLimit+1)
	for _, path := range []string{"/auth/payments?sort=amount", "/v1/payments?sort=amount&accountRef=busy", "/auth/accounts?sort=name", "/auth/accounts?sort=balance&order=asc", "/v1/transfers?sort=amount"} {
		w.do("GET", path, "", m.withBoth(path)...).refused(422, "more than 10000 rows match: narrow the list to sort by this")
	}
	require.Len(t, w.read(m.withSession(), "/auth/payments?order=asc").list("payments"), page.DefaultList)
	require.Len(t, w.read(m.withSession(), "/auth/transfers?order=asc&search=nothing").list("transfers"), 0)
	for _, path := range []string{"/auth/payments?sums=true", "/v1/payments?sums=true&accountRef=busy", "/v1/payments?sums=true&status=confirmed"} {
		sums := w.read(m.withBoth(path), path)["sums"]
		require.Equal(t, "map[amount:<nil> byStatus:[] count:10000 exact:false fee:<nil> grossAmount:<nil>]", fmt.Sprint(sums), path)
	}
	none := w.read(m.withSession(), "/auth/payments?sums=true&to=2001-01-01")["sums"]
	require.Equal(t, "map[amount:0.00 byStatus:[] count:0 exact:true fee:0.00 grossAmount:0.00]", fmt.Sprint(none))
}

// What others have under way, however much, neither hides a tenant's open transfers nor counts
// among them.
func TestOpenTransfersBesideOthersWork(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	w.do("POST", "/auth/payout-policy", proven(`{"approvals":1,"threshold":"2000.00"}`), m.withSession()...).ok(200, nil)
	small := w.settle(key, orderOf1000)
	large := w.settle(key, strings.Replace(orderOf1000, "1000.00", "2500.00", 1))
	other := w.Tenant()
	w.firstFilled = time.Now().UnixMilli() + 1 // newer than all that is there
	w.fillLists(other, w.Account(other, "busy"), page.CountLimit+1)
	for query, want := range map[string][]string{
		"status=pending":                                  {large, small},
		"status=pending&accountRef=shop-1":                {large, small},
		"status=pending&sort=amount&order=asc":            {small, large},
		"status=pending&sort=created&order=asc":           {small, large},
		"status=processing":                               nil,
		"awaiting=approval":                               {large},
		"awaiting=approval&sort=amount&accountRef=shop-1": {large},
	} {
		got := w.read(m.withSession(), "/auth/transfers?total=true&"+query)
		var refs []string
		for _, x := range got.list("transfers") {
			refs = append(refs, x["merchantTxRef"].(string))
		}
		require.Equal(t, want, refs, query)
		info := fields(got["pagination"].(map[string]any))
		info.has(t, fields{"hasMore": false, "nextCursor": nil})
		require.Equal(t, fmt.Sprintf("map[count:%d exact:true]", len(want)), fmt.Sprint(info["total"]), query)
		require.Len(t, w.read(key, "/v1/transfers?"+query).list("transfers"), len(want), query)
	}
}

// The sums of payments are those of all pages, by status too.
func TestSumsOfPayments(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	for _, ref := range []string{"shop-1", "shop-2"} {
		w.do("POST", "/v1/accounts", `{"externalRef":"`+ref+`","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
	}
	w.pay(event{"r-1", "t-1", w.accountID(m, "shop-1"), "5000.00", "25"})
	w.confirmFrom("0123456789", "058", "AMINA BELLO")
	w.pay(event{"r-2", "t-2", w.accountID(m, "shop-2"), "12000.50", "10.25"})
	other := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Bola Ade"}`, other.withKey()...).ok(201, nil)
	w.pay(event{"r-3", "t-3", w.accountID(other, "shop-1"), "7.00", "0"})
	const confirmed = "map[amount:4975.00 count:1 fee:25.00 grossAmount:5000.00 status:confirmed]"
	const provisional = "map[amount:11990.25 count:1 fee:10.25 grossAmount:12000.50 status:provisional]"
	for query, want := range map[string]string{
		"":                   "map[amount:16965.25 byStatus:[" + confirmed + " " + provisional + "] count:2 exact:true fee:35.25 grossAmount:17000.50]",
		"limit=1":            "map[amount:16965.25 byStatus:[" + confirmed + " " + provisional + "] count:2 exact:true fee:35.25 grossAmount:17000.50]",
		"accountRef=shop-2":  "map[amount:11990.25 byStatus:[" + provisional + "] count:1 exact:true fee:10.25 grossAmount:12000.50]",
		"search=amina":       "map[amount:4975.00 byStatus:[" + confirmed + "] count:1 exact:true fee:25.00 grossAmount:5000.00]",
		"search=nobody":      "map[amount:0.00 byStatus:[] count:0 exact:true fee:0.00 grossAmount:0.00]",
		"from=2026-03-03":    "map[amount:0.00 byStatus:[] count:0 exact:true fee:0.00 grossAmount:0.00]",
		"status=provisional": "map[amount:11990.25 byStatus:[" + provisional + "] count:1 exact:true fee:10.25 grossAmount:12000.50]",
	} {
		for _, path := range []string{"/v1/payments?sums=true&", "/auth/payments?sums=true&"} {
			require.Equal(t, want, fmt.Sprint(w.read(m.withBoth(path), path+query)["sums"]), path+query)
		}
	}
	require.NotContains(t, w.read(m.withKey(), "/v1/payments"), "sums")
}
