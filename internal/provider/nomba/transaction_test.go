package nomba

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/provider"
)

// fields is a record that tests change.
type fields map[string]any

func transfer(change fields) string {
	r := fields{
		"id": "T-1", "status": "SUCCESS", "amount": "100.0", "fixedCharge": "0.5", "type": "vact_transfer", "entryType": "CREDIT",
		"currency": "NGN", "virtualAccount": "9391076543", "aliasAccountReference": ref, "senderName": "MUSA BELLO",
		"narration": "rent", "timeCreated": "2026-11-20T11:31:35.017Z", "accountNumber": "8028952054",
	}
	for k, v := range change {
		if r[k] = v; v == nil {
			delete(r, k)
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestTransaction(t *testing.T) {
	t.Parallel()
	c, w := setup(t, always(200, good(transfer(nil))))
	got, err := c.Transaction(t.Context(), "T-1")
	require.NoError(t, err)
	require.Equal(t, provider.Transaction{
		ID: "T-1", Status: provider.Success, Amount: money.Must("100.0"), Fee: money.Must("0.5"), Currency: "NGN",
		AccountNumber: "9391076543", AccountRef: ref, SenderName: "MUSA BELLO", SenderAccount: "8028952054", Narration: "rent",
		Time: time.Date(2026, 11, 20, 11, 31, 35, 17_000_000, time.UTC),
	}, got)
	require.Equal(t, []string{"GET " + singlePath}, w.got())
	require.Equal(t, "transactionRef=T-1", w.last().Query)
	_, _ = c.Transaction(t.Context(), "a b&c=d")
	require.Equal(t, url.Values{"transactionRef": {"a b&c=d"}}.Encode(), w.last().Query)
}

func TestTransactionForms(t *testing.T) {
	t.Parallel()
	number := func(s string) json.RawMessage { return json.RawMessage(s) }
	for label, tt := range map[string]struct {
		change fields
		want   string // class
		check  func(*testing.T, provider.Transaction)
	}{
		"amounts as numbers": {fields{"amount": number(`5000.10`), "fixedCharge": number(`0`)}, "O", func(t *testing.T, tx provider.Transaction) {
			require.Equal(t, "5000.10 0.00", tx.Amount.String()+" "+tx.Fee.String())
		}},
		"beyond a float": {fields{"amount": number(`900719925474099.31`), "fixedCharge": number(`0.010`)}, "O", func(t *testing.T, tx provider.Transaction) {
			require.Equal(t, "900719925474099.31 0.01", tx.Amount.String()+" "+tx.Fee.String())
		}},
		"the other account field": {fields{"virtualAccount": nil, "recipientAccountNumber": "9391076543"}, "O", func(t *testing.T, tx provider.Transaction) {
			require.Equal(t, "9391076543", tx.AccountNumber)
		}},
		"both account fields":   {fields{"recipientAccountNumber": "9391076543"}, "O", nil},
		"two accounts":          {fields{"recipientAccountNumber": "1111111111"}, "E", nil},
		"the sender's is not":   {fields{"virtualAccount": nil}, "O", func(t *testing.T, tx provider.Transaction) { require.Empty(t, tx.AccountNumber) }},
		"no currency":           {fields{"currency": nil}, "O", func(t *testing.T, tx provider.Transaction) { require.Empty(t, tx.Currency) }},
		"no time":               {fields{"timeCreated": nil}, "O", func(t *testing.T, tx provider.Transaction) { require.Zero(t, tx.Time) }},
		"a bad time":            {fields{"timeCreated": "yesterday"}, "O", func(t *testing.T, tx provider.Transaction) { require.Zero(t, tx.Time) }},
		"no type":               {fields{"type": nil, "entryType": nil}, "O", nil},
		"somebody else's":       {fields{"id": "T-2"}, "E", nil},
		"another case":          {fields{"id": "t-1"}, "E", nil},
		"no id":                 {fields{"id": nil}, "E", nil},
		"a payout":              {fields{"entryType": "DEBIT"}, "E", nil},
		"a payout given back":   {fields{"type": "refund", "merchantTxRef": "AJO-1"}, "E", nil},
		"no amount":             {fields{"amount": nil}, "E", nil},
		"null amount":           {fields{"amount": number(`null`)}, "E", nil},
		"no fee":                {fields{"fixedCharge": nil}, "E", nil},
		"empty amount":          {fields{"amount": ""}, "E", nil},
		"three decimals":        {fields{"amount": "1.005"}, "E", nil},
		"exponent":              {fields{"amount": number(`1e2`)}, "E", nil},
		"negative":              {fields{"amount": number(`-100`)}, "E", nil},
		"thousands":             {fields{"amount": "1,000.00"}, "E", nil},
		"currency sign":         {fields{"amount": "₦100"}, "E", nil},
		"a minus of Unicode":    {fields{"amount": "−100"}, "E", nil},
		"NaN":                   {fields{"amount": "NaN"}, "E", nil},
		"amount is an object":   {fields{"amount": number(`{"value":1}`)}, "E", nil},
		"a bad fee":             {fields{"fixedCharge": "free"}, "E", nil},
		"other field, other tt": {fields{"accountNumber": "9391076543", "virtualAccount": "1111111111"}, "O", func(t *testing.T, tx provider.Transaction) { require.Equal(t, "1111111111", tx.AccountNumber) }},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c, _ := setup(t, always(200, good(transfer(tt.change))))
			got, err := c.Transaction(t.Context(), "T-1")
			require.Equal(t, tt.want, class(got.Status, err), "%v", err)
			if tt.want == "E" {
				require.Empty(t, got)
			}
			if tt.check != nil {
				tt.check(t, got)
			}
		})
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]provider.Status{
		"SUCCESS": provider.Success, "PAYMENT_SUCCESSFUL": provider.Success, "success": provider.Success,
		"PAYMENT_FAILED": provider.Failed,
		"REFUND":         provider.Refunded, "REVERSED": provider.Refunded, "REFUNDED": provider.Refunded,
		"NEW": provider.Pending, "PENDING_BILLING": provider.Pending, "PENDING_PAYMENT": provider.Pending,
		"": provider.Pending, "FAILED?": provider.Pending, "SUCCESS_MAYBE": provider.Pending, "true": provider.Pending, "00": provider.Pending,
	} {
		require.Equal(t, want, status(text(in)), in)
	}
}

func TestTransactionNotKnown(t *testing.T) {
	t.Parallel()
	for _, h := range []http.HandlerFunc{
		always(404, `{"code":"404","description":"x"}`), always(200, `{"code":"01"}`),
		always(200, `{"code":"00"}`), always(200, `{"code":"00","data":null}`), always(200, `{"code":"00","data":{}}`), always(200, `{"code":"00","data":[]}`),
	} {
		c, w := setup(t, h)
		_, err := c.Transaction(t.Context(), "T-1")
		require.ErrorIs(t, err, provider.ErrUnknown)
		_, err = c.Payout(t.Context(), ref)
		require.ErrorIs(t, err, provider.ErrUnknown)
		require.Len(t, w.got(), 2, "an answer is not asked for again")
	}
	// A gateway's 404 is nobody's word.
	for _, body := range []string{``, `default backend - 404`, `not found`, `<html>`, `{"message":"no Route matched"}`, `{"code":404}`, `{"code":null}`, `{"code":""}`, `[]`, `null`} {
		c, w := setup(t, always(404, body))
		_, err := c.Transaction(t.Context(), "T-1")
		require.Equal(t, "E", class("", err), body)
		_, err = c.Payout(t.Context(), ref)
		require.Equal(t, "E", class("", err), body)
		require.Len(t, w.got(), 2)
	}
	c, w := setup(t, always(200, good(transfer(nil))))
	_, err := c.Transaction(t.Context(), "")
	require.Equal(t, "E", class("", err))
	_, err = c.Payout(t.Context(), "")
	require.Equal(t, "E", class("", err))
	require.Empty(t, w.got(), "a question about nothing is not asked")
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	from, to := start.Add(500*time.Millisecond), start.Add(time.Hour+time.Millisecond)
	at := func(id string, d time.Duration) string {
		return transfer(fields{"id": id, "timeCreated": start.Add(d).Format(time.RFC3339), "virtualAccount": nil, "recipientAccountNumber": "9391076543"})
	}
	page := `{"results":[` + strings.Join([]string{
		at("late", 40*time.Minute),
		at("first", 0), // in the second of from
		at("before", -time.Second),
		at("last", time.Hour), at("after", time.Hour+time.Second),
		transfer(fields{"id": "payout", "type": "transfer", "entryType": "DEBIT"}),
		transfer(fields{"id": "ours", "type": "transfer", "entryType": "DEBIT", "merchantTxRef": "AJO-1", "timeCreated": start.Add(time.Minute).Format(time.RFC3339), "bankCode": "058", "amount": "100.00", "fixedCharge": nil}),
		transfer(fields{"id": "ours-before", "type": "transfer", "entryType": "DEBIT", "merchantTxRef": "AJO-0", "timeCreated": "2020-01-01T00:00:00Z"}),
		transfer(fields{"id": "ours-odd", "type": "transfer", "entryType": "DEBIT", "merchantTxRef": "AJO-2", "amount": "x"}),
		transfer(fields{"id": "pos", "type": "withdrawal"}),
		transfer(fields{"id": "untyped", "type": nil, "entryType": nil, "virtualAccount": nil}),
		transfer(fields{"id": "respelt", "type": "virtual_account_transfer", "entryType": "CR"}),
		transfer(fields{"id": "untyped-payout", "type": nil, "entryType": nil, "merchantTxRef": "AJO-0", "timeCreated": "2020-01-01T00:00:00Z"}),
		transfer(fields{"id": "nobody's", "type": nil, "entryType": nil, "virtualAccount": nil, "aliasAccountReference": nil}),
		transfer(fields{"id": "debit", "entryType": "DEBIT"}),
		transfer(fields{"id": "no-amount", "amount": nil}),
		transfer(fields{"id": "no-fee", "fixedCharge": nil}),
		transfer(fields{"id": "no-time", "timeCreated": "x"}),
		transfer(fields{"id": "no-currency", "currency": nil}),
		transfer(fields{"id": "no-account", "virtualAccount": nil, "aliasAccountReference": nil}),
		transfer(fields{"id": "given-back", "type": "refund", "merchantTxRef": "AJO-1", "virtualAccount": nil, "aliasAccountReference": nil}),
		transfer(fields{"id": "top-up", "type": "deposit", "virtualAccount": nil, "aliasAccountReference": nil}),
		`"a text"`,
		at("early", time.Minute),
	}, ",") + `],"cursor":"next-1"}`
	var logged bytes.Buffer
	c, w := setup(t, always(200, good(page)), func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&logged, nil)) })

	got, err := c.Transactions(t.Context(), from, to, "")
	require.NoError(t, err)
	var ids []string
	for _, tx := range got.Transactions {
		ids = append(ids, tx.ID)
		require.Equal(t, "9391076543", tx.AccountNumber)
	}
	require.Equal(t, []string{"first", "early", "late", "last"}, ids)
	require.Len(t, got.Payouts, 1)
	require.Equal(t, []string{"ours", "AJO-1", "100.00", "058"}, []string{got.Payouts[0].ID, got.Payouts[0].Ref, got.Payouts[0].Amount.String(), got.Payouts[0].BankCode})
	var unreadable []string
	for _, u := range got.Unreadable {
		unreadable = append(unreadable, u.ID+": "+u.Why)
	}
	require.Equal(t, []string{
		`: a payout: amount "x": invalid amount, reference AJO-2, id ours-odd`, // asked for by its id, it would not be found
		`pos: a CREDIT of the type "withdrawal": reference "", account "9391076543"`,
		`untyped: a record of the type "": reference "", account "` + ref + `"`,
		`respelt: a CR of the type "virtual_account_transfer": reference "", account "9391076543"`,
		`no-amount: amount "": invalid amount`,
		`no-fee: fixedCharge "": invalid amount`,
		`no-time: without timeCreated`,
		`no-currency: without currency`,
		`no-account: without account number`,
		`given-back: a CREDIT of the type "refund": reference "AJO-1", account ""`,
		`: json: cannot unmarshal string into Go value of type nomba.record`,
	}, unreadable)
	require.Equal(t, 6, strings.Count(logged.String(), "unreadable record"))
	require.Equal(t, "next-1", got.Next)
	require.Equal(t, []string{"POST " + listPath}, w.got())
	require.JSONEq(t, `{}`, w.last().Body)
	q, err := url.ParseQuery(w.last().Query)
	require.NoError(t, err)
	require.Equal(t, url.Values{"limit": {"50"}, "dateFrom": {"2026-11-20T12:00:00"}, "dateTo": {"2026-11-20T13:00:01"}}, q)

	_, err = c.Transactions(t.Context(), from, to, "next-0")
	require.NoError(t, err)
	require.Contains(t, w.last().Query, "cursor=next-0")
	_, err = c.Transactions(t.Context(), from, to, "next-1")
	require.ErrorContains(t, err, "does not move")
}

// The last record that has a time says whether the page ends after the time asked for.
func TestTransactionsEndLater(t *testing.T) {
	t.Parallel()
	payout := fields{"type": "transfer", "entryType": "DEBIT", "merchantTxRef": "AJO-1"}
	for name, row := range map[string]struct {
		ages  []time.Duration // zero: without a time
		later bool
	}{
		"within":                  {ages: []time.Duration{1, time.Hour - 1}},
		"within, then after":      {ages: []time.Duration{1, time.Minute, time.Hour}, later: true},
		"newest first":            {ages: []time.Duration{time.Hour, time.Minute}},
		"all after":               {ages: []time.Duration{time.Hour, 2 * time.Hour}, later: true},
		"after, unreadable":       {ages: []time.Duration{time.Hour, 0}, later: true},
		"nothing":                 {},
		"nothing that has a time": {ages: []time.Duration{0}},
	} {
		for kind, of := range map[string]fields{"transfers": {}, "payouts": payout} {
			records := make([]string, len(row.ages))
			for i, age := range row.ages {
				changed := maps.Clone(of)
				changed["timeCreated"] = start.Add(age).Format(time.RFC3339)
				if age == 0 {
					changed["timeCreated"] = "x"
				}
				records[i] = transfer(changed)
			}
			c, _ := setup(t, always(200, good(`{"results":[`+strings.Join(records, ",")+`],"cursor":"more"}`)))
			got, err := c.Transactions(t.Context(), start, start.Add(time.Hour), "")
			require.NoError(t, err)
			require.Equal(t, row.later, got.EndsLater, "%s, %s", name, kind)
			require.Equal(t, "more", got.Next)
		}
	}
}

func TestTransactionsOfOddAnswers(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		good(`{"results":[],"cursor":""}`):   "O",
		good(`{"results":[]}`):               "O",
		good(`{"results":null,"cursor":""}`): "O",
		// no list at all: the range must not count as read
		good(`[]`):             "E",
		good(`{}`):             "E",
		good(`[1]`):            "E",
		good(`{"results":{}}`): "E",
		`{"code":"01"}`:        "E",
		`{"code":"02"}`:        "E",
	} {
		c, _ := setup(t, always(200, body))
		got, err := c.Transactions(t.Context(), start, start.Add(time.Hour), "")
		require.Equal(t, want, class("", err), "%s: %v", body, err)
		require.Empty(t, got)
	}
}

func TestBanks(t *testing.T) {
	t.Parallel()
	for label, tt := range map[string]struct{ data, want string }{
		"an array":         {`[{"code":"058","name":"GTBank"},{"code":"090645","name":"Nombank"}]`, "058 GTBank,090645 Nombank"},
		"data.results":     {`{"results":[{"code":"058","name":"GTBank"}]}`, "058 GTBank"},
		"codes as numbers": {`[{"code":305,"name":"Paycom"}]`, "305 Paycom"},
		"odd ones out":     {`[{"code":"05","name":"a"},{"code":"0000000","name":"b"},{"code":"05x","name":"c"},{"code":"058","name":""},{"name":"d"},{"code":"044","name":"Access"}]`, "044 Access"},
		"none left":        {`[{"code":"05","name":"a"}]`, ""},
		"another form":     {`{"banks":[{"code":"058","name":"GTBank"}]}`, ""},
		"a text":           {`"GTBank"`, ""},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c, w := setup(t, always(200, good(tt.data)))
			got, err := c.Banks(t.Context())
			var list []string
			for _, b := range got {
				list = append(list, b.Code+" "+b.Name)
			}
			require.Equal(t, tt.want, strings.Join(list, ","))
			require.Equal(t, tt.want == "", err != nil)
			require.Equal(t, []string{"GET " + banksPath}, w.got())
		})
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for label, tt := range map[string]struct {
		do   http.HandlerFunc
		want string
	}{
		"found":              {always(200, good(`{"accountNumber":"0554772814","accountName":"M.A OBI"}`)), "O"},
		"found, no echo":     {always(200, good(`{"accountName":"M.A OBI"}`)), "O"},
		"busy, then found":   {inTurn(always(429, ``), always(200, good(`{"accountName":"M.A OBI"}`))), "O"},
		"another's":          {always(200, good(`{"accountNumber":"1111111111","accountName":"M.A OBI"}`)), "E"},
		"no name":            {always(200, good(`{"accountNumber":"0554772814","accountName":""}`)), "E"},
		"no data":            {always(200, `{"code":"00"}`), "E"},
		"404":                {always(404, `{"code":"404","description":"no such account"}`), "R"},
		"404, bare":          {always(404, ``), "E"},
		"a gateway's 404":    {always(404, `<html>`), "E"},
		"404 in a 200":       {always(200, `{"code":"404"}`), "R"},
		"a refusal":          {always(200, `{"code":"02","description":"invalid bank code"}`), "R"},
		"not permitted":      {always(200, `{"code":"05","description":"Not permitted"}`), "E"},
		"forbidden":          {always(403, `{"code":"02"}`), "E"},
		"forbidden, no one":  {always(403, `{"code":"404"}`), "E"},
		"forbidden in a 200": {always(200, `{"code":"403"}`), "E"},
		"again, for ever":    {always(200, `{"code":"01"}`), "E"},
		"the switch is down": {always(503, `{"code":"02"}`), "E"},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c, w := setup(t, tt.do)
			got, err := c.Lookup(t.Context(), "058", "0554772814")
			require.Equal(t, tt.want, class("", err), "%v", err)
			require.JSONEq(t, `{"bankCode":"058","accountNumber":"0554772814"}`, w.last().Body)
			if tt.want == "O" {
				require.Equal(t, provider.Holder{AccountNumber: "0554772814", AccountName: "M.A OBI"}, got)
			}
		})
	}
}

func TestWireTime(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                            "0001-01-01T00:00:00Z",
		"2026-11-20T11:31:35.017Z":    "2026-11-20T11:31:35.017Z",
		"2023-09-08T19:26:34.657000Z": "2023-09-08T19:26:34.657Z",
		"2026-11-20T12:31:35+01:00":   "2026-11-20T11:31:35Z",
		"2024-10-12T12:30:49":         "2024-10-12T12:30:49Z",
		"2026-01-30 12:15:00":         "2026-01-30T12:15:00Z",
		"1700000000":                  "bad",
	} {
		got, err := wireTime(in)
		if want == "bad" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, in)
		require.Equal(t, want, got.Format(time.RFC3339Nano), fmt.Sprint(in))
	}
}
