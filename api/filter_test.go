package api

import (
	"encoding/csv"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/ledger"
)

// names are one field of each record in a list, in its order.
func (f fields) names(list, field string) (out []string) {
	for _, r := range f.list(list) {
		out = append(out, r[field].(string))
	}
	return out
}

func TestListsAreSearched(t *testing.T) {
	w := setup(t)
	m, other := w.onboard(), w.onboard()
	numbers := map[string]string{}
	for ref, name := range map[string]string{"shop-1": "Ada Obi", "SHOP-2": "Ṣadé 100% Ọmọ", "other_3": "Bola Shopkeeper"} {
		a := w.ask("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":%q,"name":%q}`, ref, name), 201, m.withKey())
		numbers[ref] = a["BankAccountNumber"].(string)
	}
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-9","name":"Ada Obi"}`, other.withKey()...).ok(201, nil)
	w.do("POST", "/v1/accounts/shop-1/expire", "", m.withKey()...).ok(200, nil)
	w.Exec(`UPDATE customers SET kyc_status = 'pending_review' WHERE external_ref = 'other_3'`)

	for query, want := range map[string][]string{
		"":                               {"shop-1", "SHOP-2", "other_3"},
		"search=":                        {"shop-1", "SHOP-2", "other_3"},
		"search=shop":                    {"shop-1", "SHOP-2", "other_3"},
		"search=SHOP-":                   {"shop-1", "SHOP-2"},
		"search=%20ada%20":               {"shop-1"},
		"search=100%25":                  {"SHOP-2"},
		"search=_":                       {"other_3"},
		"search=%25":                     {"SHOP-2"},
		"search=nobody":                  {},
		"search=" + numbers["SHOP-2"]:    {"SHOP-2"},
		"status=active":                  {"SHOP-2", "other_3"},
		"status=expired":                 {"shop-1"},
		"status=active&search=ada":       {},
		"search=" + url.QueryEscape("'"): {},
	} {
		for path, key := range map[string]header{"/v1/accounts?": m.withKey(), "/auth/accounts?": m.withSession()} {
			require.ElementsMatch(t, want, w.read(key, path+query).names("accounts", "AccountRef"), query)
		}
	}
	for query, want := range map[string][]string{
		"search=shop":                           {"shop-1", "SHOP-2", "other_3"},
		"search=ada":                            {"shop-1"},
		"kycStatus=pending_review":              {"other_3"},
		"kycStatus=none":                        {"shop-1", "SHOP-2"},
		"kycStatus=approved":                    {},
		"kycStatus=none&search=shop-1&limit=20": {"shop-1"},
	} {
		for path, key := range map[string]header{"/v1/customers?": m.withKey(), "/auth/customers?": m.withSession()} {
			require.ElementsMatch(t, want, w.read(key, path+query).names("customers", "ExternalRef"), query)
		}
	}
	// A page of what was searched for goes on with the same search.
	first := w.read(m.withSession(), "/auth/accounts?search=shop&limit=2")
	rest := w.read(m.withSession(), "/auth/accounts?search=shop&limit=2&after="+first["pagination"].(map[string]any)["nextCursor"].(string))
	require.ElementsMatch(t, []string{"shop-1", "SHOP-2", "other_3"}, append(first.names("accounts", "AccountRef"), rest.names("accounts", "AccountRef")...))
}

// Transfers are found by a part of what they are called; accounts by a payment of theirs that waits
// for a review. A list of accounts says what is in each.
func TestTransfersAndReviewsAreFound(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	ref := w.settle(key, orderOf1000)
	for query, want := range map[string][]string{
		"": {ref}, "search=" + ref[:9]: {ref}, "search=" + strings.ToLower(ref): {ref}, "search=SHOP": {ref}, "search=hop-1": {ref}, "search=23456789": {ref},
		"search=nobody": {}, "search=%25": {}, "search=shop&status=success": {},
	} {
		for path, key := range map[string]header{"/v1/transfers?": key, "/auth/transfers?": m.withSession()} {
			require.ElementsMatch(t, want, w.read(key, path+query).names("transfers", "merchantTxRef"), query)
		}
	}
	w.Exec(`UPDATE transfers SET paid_amount = 400, debit_group = gen_random_uuid() WHERE merchant_tx_ref = $1`, ref)
	for amount, want := range map[string][]string{"1000": {ref}, "400.00": {ref}, "4000": {}} {
		require.ElementsMatch(t, want, w.read(key, "/v1/transfers?amount="+amount).names("transfers", "merchantTxRef"), amount)
	}
	w.do("GET", "/auth/transfers?search="+strings.Repeat("a", 101), "", m.withSession()...).refused(400, "search must be valid UTF-8 without NUL, at most 100 characters")

	w.do("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Bola Ade"}`, key...).ok(201, nil)
	require.Empty(t, w.read(m.withSession(), "/auth/accounts?status=needs_review").names("accounts", "AccountRef"))
	w.pay(event{"r-held", "t-held", "shop-2", "70.00", "0"})
	w.moveEntry("r-held", ledger.EventHold)
	require.Equal(t, []string{"shop-2"}, w.read(m.withSession(), "/auth/accounts?status=needs_review").names("accounts", "AccountRef"))
	require.Equal(t, []string{"0.00", "4000.00"}, w.read(m.withSession(), "/auth/accounts").names("accounts", "Balance"))
}

// A bad value is refused with the name of its parameter.
func TestFiltersRefuseBadValues(t *testing.T) {
	w := setup(t)
	m, _ := w.funded("5000.00")
	const (
		search = "search must be valid UTF-8 without NUL, at most 100 characters"
		when   = " must be a date such as 2026-01-30 or an ISO 8601 time such as 2026-01-30T12:15:00Z"
	)
	statement := "/auth/accounts/shop-1/statement"
	for path, want := range map[string]string{
		"/auth/accounts?search=" + strings.Repeat("a", 101):                    search,
		"/auth/accounts?search=%00":                                            search,
		"/auth/accounts?search=%ff":                                            search,
		"/auth/customers?search=" + strings.Repeat("%C3%A9", 101):              search,
		"/auth/accounts?status=Active":                                         "status must be active, expired or needs_review",
		"/auth/accounts?status=provisioning":                                   "status must be active, expired or needs_review",
		"/auth/accounts?limit=0":                                               "limit must be a whole number from 1 to 100",
		"/auth/accounts?after=x":                                               "invalid cursor",
		"/auth/customers?kycStatus=pending":                                    "kycStatus must be none, pending_review, approved or rejected",
		"/auth/transfers?awaiting=rain":                                        "awaiting must be approval",
		"/auth/transfers?status=paid":                                          "status must be pending, processing, success, failed or refunded",
		statement + "?from=yesterday":                                          "from" + when,
		statement + "?from=2026-02-30":                                         "from" + when,
		statement + "?from=2026-1-3":                                           "from" + when,
		statement + "?from=0000-01-01":                                         "from" + when,
		statement + "?from=2026-01-30T9:00:00Z":                                "from" + when,
		statement + "?from=2026-01-30T09:00:00":                                "from" + when,
		statement + "?to=%00":                                                  "to" + when,
		statement + "?to=9999-12-31T23:59:59-23:00":                            "to" + when,
		statement + "?to=2026-01-30T09:00:00." + strings.Repeat("0", 50) + "Z": "to" + when,
		// of the 30th's first moment: no day, no refusal
		statement + "?from=2026-01-30&to=2026-01-29": "",
		statement + "?from=2026-01-30&to=2026-01-28": "to must not be before from",
		statement + "?direction=in":                  "direction must be credit or debit",
		statement + "?status=pending":                "status must be provisional, confirmed, reversed or needs_review",
		statement + "?order=newest":                  "order must be asc or desc",
		statement + "?limit=101":                     "limit must be a whole number from 1 to 100",
	} {
		if want == "" {
			w.do("GET", path, "", m.withSession()...).ok(200, nil)
			continue
		}
		w.do("GET", path, "", m.withSession()...).refused(400, want)
		if file, query, ok := strings.Cut(path, "statement?"); ok && !strings.HasPrefix(query, "limit") && !strings.HasPrefix(query, "order") {
			for _, ending := range []string{"csv", "pdf"} {
				w.do("GET", file+"statement."+ending+"?"+query, "", m.withSession()...).refused(400, want)
			}
		}
	}
}

// filtered gives an account four entries on three days: 10.00 and 20.00 (reversed), 30.00, and a
// settlement of 5.00.
func (w *world) filtered() member {
	w.T.Helper()
	m := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ọlá Ẹ̀kúndayọ̀"}`, m.withKey()...).ok(201, nil)
	w.Clock.Advance(14*time.Hour - time.Minute) // 22:59 UTC of 2 March, 23:59 in Lagos
	w.pay(event{"r-1", "t-1", "shop-1", "10.00", "0"})
	w.Clock.Advance(2 * time.Minute)
	w.pay(event{"r-2", "t-2", "shop-1", "20.00", "0"})
	w.moveEntry("r-2", ledger.EventReverse)
	w.Clock.Advance(24 * time.Hour)
	w.pay(event{"r-3", "t-3", "shop-1", "30.00", "0"})
	w.settle(m.withKey(), `{"amount":"5.00","bankCode":"058","accountNumber":"0123456789"}`)
	return m
}

func TestStatementIsFiltered(t *testing.T) {
	w := setup(t)
	m := w.filtered()
	for query, want := range map[string]string{
		"":                                   "10.00 20.00 20.00 30.00 5.00",
		"from=&to=&direction=&status=":       "10.00 20.00 20.00 30.00 5.00",
		"from=2026-03-03":                    "20.00 20.00 30.00 5.00",
		"to=2026-03-02":                      "10.00",
		"from=2026-03-03&to=2026-03-03":      "20.00 20.00",
		"from=2026-03-02T23:00:00Z":          "20.00 20.00 30.00 5.00",
		"from=2026-03-03T00:00:00%2B01:00":   "20.00 20.00 30.00 5.00",
		"to=2026-03-02T23:01:00Z":            "10.00",
		"to=2026-03-02T23:01:00.000001Z":     "10.00 20.00 20.00",
		"direction=debit":                    "20.00 5.00",
		"status=reversed":                    "20.00 20.00",
		"status=provisional&direction=debit": "5.00",
		"from=2027-01-01":                    "",
	} {
		var got []string
		s := w.read(m.withSession(), "/auth/accounts/shop-1/statement?"+query)
		for _, l := range s.list("lines") {
			got = append(got, l["entry"].(map[string]any)["Amount"].(string))
		}
		require.Equal(t, want, strings.Join(got, " "), query)
		s.has(t, fields{"totalCredits": "60.00", "totalDebits": "25.00", "closingBalance": "35.00"})

		r := w.do("GET", "/auth/accounts/shop-1/statement.csv?"+query, "", m.withSession()...).ok(200, nil)
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(r.Body, "\uFEFF"))).ReadAll()
		require.NoError(t, err)
		got = nil
		for _, row := range rows[1:] {
			got = append(got, row[2])
		}
		require.Equal(t, want, strings.Join(got, " "), "csv "+query)
	}
	whole := w.do("GET", "/v1/accounts/shop-1/statement", "", m.withKey()...).ok(200, nil).Body
	require.Equal(t, whole, w.do("GET", "/v1/accounts/shop-1/statement?status=reversed&direction=debit&from=2027-01-01", "", m.withKey()...).ok(200, nil).Body,
		"the specified endpoint has no filter")
}

func TestStatementAsAFile(t *testing.T) {
	w := setup(t)
	m := w.filtered()
	r := w.do("GET", "/auth/accounts/shop-1/statement.csv", "", m.withSession()...).ok(200, nil)
	require.Equal(t, "text/csv; charset=utf-8", r.Header.Get("Content-Type"))
	require.Equal(t, "attachment; filename=statement-shop-1-2026-03-04.csv", r.Header.Get("Content-Disposition"))
	require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
	require.Contains(t, r.Body, "2026-03-02T23:59:00+01:00,credit,10.00,0.00,NGN,provisional,Rent & more,t-1,,10.00,")

	r = w.do("GET", "/auth/accounts/shop-1/statement.pdf?from=2026-03-03", "", m.withSession()...).ok(200, nil)
	require.Equal(t, "application/pdf", r.Header.Get("Content-Type"))
	require.Equal(t, "attachment; filename=statement-shop-1-2026-03-04.pdf", r.Header.Get("Content-Disposition"))
	require.True(t, strings.HasPrefix(r.Body, "%PDF-"))
	require.True(t, strings.HasSuffix(r.Body, "%%EOF\n"))
	require.Equal(t, 200, w.do("HEAD", "/auth/accounts/shop-1/statement.pdf", "", m.withSession()...).Status)

	// A file's name is a file's name, whatever the account is called.
	odd := `a b"; filename=evil.exe` + "\\é…" + strings.Repeat("x", 200)
	w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":%q,"name":"Ada Obi"}`, odd), m.withKey()...).ok(201, nil)
	r = w.do("GET", "/auth/accounts/"+url.PathEscape(odd)+"/statement.csv", "", m.withSession()...).ok(200, nil)
	require.Regexp(t, `^attachment; filename=statement-a-b---filename-evil-exe---x{54}-2026-03-04\.csv$`, r.Header.Get("Content-Disposition"))

	r = w.do("GET", "/auth/accounts/shop-1/statement.xml?from=2026-03-03", "", m.withSession()...).ok(200, nil)
	require.Equal(t, "application/xml", r.Header.Get("Content-Type"))
	require.Contains(t, r.Body, "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08")
	require.Contains(t, r.Body, `<Amt Ccy="NGN">35.00</Amt>`, "the closing balance")

	for _, ending := range []string{"csv", "pdf", "xml"} {
		path := "/auth/accounts/shop-1/statement." + ending
		w.do("GET", strings.Replace(path, "shop-1", "nobody", 1), "", m.withSession()...).refused(404, "account not found")
		w.do("GET", path, "").refused(401, "unauthorized")
	}
}

// Who paid, and from which bank, is in each line of a payment, wherever the statement is read; a
// settlement has no payer.
func TestStatementNamesThePayer(t *testing.T) {
	w := setup(t)
	m := w.filtered()
	// the reversal of the second names whom it goes back from
	want := []string{"Bayo of Bank", "Bayo of Bank", "Bayo of Bank", "Bayo of Bank", " of "}
	for path, key := range map[string]header{"/v1/accounts/shop-1/statement": m.withKey(), "/auth/accounts/shop-1/statement?order=asc": m.withSession()} {
		var got []string
		for _, l := range w.read(key, path).list("lines") {
			e := l["entry"].(map[string]any)
			got = append(got, fmt.Sprintf("%v of %v", e["SenderName"], e["SenderBank"]))
		}
		require.Equal(t, want, got, path)
	}
	r := w.do("GET", "/auth/accounts/shop-1/statement.csv", "", m.withSession()...).ok(200, nil)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(r.Body, "\uFEFF"))).ReadAll()
	require.NoError(t, err)
	for i, row := range rows[1:] {
		require.Equal(t, want[i], row[13]+" of "+row[14])
	}
	newest := w.read(m.withSession(), "/auth/accounts/shop-1/statement?order=desc&limit=1")
	require.Equal(t, "5.00", newest.list("lines")[0]["entry"].(map[string]any)["Amount"])
	next := newest["pagination"].(map[string]any)["nextCursor"].(string)
	require.Equal(t, "30.00", w.read(m.withSession(), "/auth/accounts/shop-1/statement?order=desc&limit=1&after="+next).list("lines")[0]["entry"].(map[string]any)["Amount"])
}

// What is too long for a file is refused with what to do about it, before anything of it is sent.
func TestStatementTooLongForAFile(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
	account := w.accountID(m, "shop-1")
	w.ExecUnguarded(`
		INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
		SELECT gen_random_uuid(), $1, $2, n, 'credit', 1, 'provisional', gen_random_uuid(), n, $3::timestamptz + n * interval '1 minute' FROM generate_series(1, 50001) n`,
		m.id, account, w.Clock.Now())
	w.Exec(`UPDATE ledger_balances SET total_credits = 50001, last_seq = 50001 WHERE tenant_id = $1`, m.id)
	path := "/auth/accounts/shop-1/statement."
	w.do("GET", path+"csv", "", m.withSession()...).refused(422, "the statement has more than 50000 lines: narrow it by from and to")
	w.do("GET", path+"pdf", "", m.withSession()...).refused(422, "the statement has more than 5000 lines: narrow it by from and to")
	// where the limit is exactly: TestStatementFilterRefuses
	last := "?from=" + w.Clock.Now().Add(49992*time.Minute).Format(time.RFC3339)
	w.do("GET", path+"pdf"+last, "", m.withSession()...).ok(200, nil)
	r := w.do("GET", path+"csv"+last, "", m.withSession()...).ok(200, nil)
	require.Equal(t, 11, strings.Count(r.Body, "\r\n"), "ten lines and the names")
}
