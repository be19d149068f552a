package nomba

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/provider"
)

const theAccount = `{"accountRef":"` + ref + `","accountName":"Ada Obi Stores","bankName":"Nombank MFB","bankAccountNumber":"9391076543","bankAccountName":"Nomba/Ada Obi Stores","currency":"NGN","expired":false}`

func newAccount() provider.NewAccount { return provider.NewAccount{Ref: ref, Name: "Ada Obi Stores"} }

// byMethod answers POST, GET and DELETE differently; nil hangs up.
func byMethod(m map[string]http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h := m[r.Method]; h != nil {
			h(w, r)
			return
		}
		hangUp(w, r)
	}
}

func TestCreateAccount(t *testing.T) {
	t.Parallel()
	c, w := setup(t, always(200, good(theAccount)))
	expected, expires := money.Must("200.50"), time.Date(2026, 12, 1, 13, 15, 0, 0, time.FixedZone("WAT", 3600))
	got, err := c.CreateAccount(t.Context(), provider.NewAccount{
		Ref: ref, Name: "Ọla & O'Neil-24", BVN: "12234412345", ExpectedAmount: &expected, ExpiresAt: &expires,
	})
	require.NoError(t, err)
	require.Equal(t, provider.Account{Ref: ref, Number: "9391076543", Name: "Nomba/Ada Obi Stores", BankName: "Nombank MFB"}, got)
	require.Equal(t, []string{"POST " + accountPath}, w.got())
	require.JSONEq(t, `{"accountRef":"`+ref+`","accountName":"Ola and ONeil","bvn":"12234412345","expectedAmount":200.50,
		"expiryDate":"2026-12-01 12:15:00"}`, w.last().Body)

	_, err = c.CreateAccount(t.Context(), newAccount())
	require.NoError(t, err)
	require.JSONEq(t, `{"accountRef":"`+ref+`","accountName":"Ada Obi Stores"}`, w.last().Body)
}

func TestCreateAccountAsksBeforeGivingUp(t *testing.T) {
	t.Parallel()
	found, none := always(200, good(theAccount)), always(404, `{"code":"404"}`)
	for label, tt := range map[string]struct {
		post, get http.HandlerFunc
		want      string
	}{
		"silence, but it is there":      {hangUp, found, "O"},
		"500, but it is there":          {always(500, `{"code":"01"}`), found, "O"},
		"exists already":                {always(200, `{"code":"02","description":"accountRef already exists"}`), found, "O"},
		"exists already, in some words": {always(200, `{"code":"06","description":"invalid accountRef"}`), found, "O"},
		"conflict":                      {always(409, ``), found, "O"},
		"no number, but it has one":     {always(200, good(`{"accountRef":"`+ref+`"}`)), found, "O"},
		"somebody else's, ours exists":  {always(200, good(strings.Replace(theAccount, ref, "somebody-elses-ref", 1))), found, "O"},
		"no data, but it is there":      {always(200, `{"code":"00"}`), found, "O"},
		"silence, and not there":        {hangUp, none, "E"},
		"500, and not there":            {always(500, ``), none, "E"},
		"unknown code, and not there":   {always(200, `{"code":"99"}`), none, "E"},
		"duplicate, but not there":      {always(200, `{"code":"02","description":"duplicate"}`), none, "E"},
		"a refused name":                {always(200, `{"code":"400","description":"invalid name"}`), none, "R"},
		"not permitted":                 {always(403, `{"code":"05"}`), none, "R"},
		"refused, and no word whether":  {always(200, `{"code":"02"}`), always(500, ``), "E"},
		"refused, question refused":     {always(200, `{"code":"02"}`), always(403, `{"code":"05"}`), "E"},
		"silence, then silence":         {hangUp, hangUp, "E"},
		"no number, nor by reference":   {always(200, good(`{"accountRef":"`+ref+`"}`)), always(200, good(`{"accountRef":"`+ref+`"}`)), "E"},
		"a short number":                {always(200, good(`{"accountRef":"`+ref+`","bankAccountNumber":"93910"}`)), none, "E"},
		"another's by reference":        {hangUp, always(200, good(strings.Replace(theAccount, ref, "somebody-elses-ref", 1))), "E"},
		"no reference in the answer":    {hangUp, always(200, good(`{"bankAccountNumber":"9391076543"}`)), "E"},
		"data of another form":          {always(200, good(`"9391076543"`)), none, "E"},
		"a gateway's 404 by reference":  {always(200, `{"code":"02"}`), always(404, `<html>`), "E"},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c, w := setup(t, byMethod(map[string]http.HandlerFunc{"POST": tt.post, "GET": tt.get}))
			got, err := c.CreateAccount(t.Context(), newAccount())
			require.Equal(t, tt.want, class("", err), "%v", err)
			posts := 0
			for _, call := range w.got() {
				if strings.HasPrefix(call, "POST") {
					posts++
				}
			}
			require.Equal(t, 1, posts, "an account is asked for once")
			if tt.want == "O" {
				require.Equal(t, "9391076543", got.Number)
			} else {
				require.Empty(t, got)
			}
		})
	}
}

func TestCreateAccountThatIsClosed(t *testing.T) {
	t.Parallel()
	c, _ := setup(t, always(200, good(strings.Replace(theAccount, `"expired":false`, `"expired":true`, 1))))
	got, err := c.CreateAccount(t.Context(), newAccount())
	require.NoError(t, err)
	require.True(t, got.Closed)
}

func TestCreateAccountWithABadReference(t *testing.T) {
	t.Parallel()
	c, w := setup(t, always(200, good(theAccount)))
	for _, bad := range []string{"", "short", strings.Repeat("x", 65)} {
		_, err := c.CreateAccount(t.Context(), provider.NewAccount{Ref: bad, Name: "Ada Obi"})
		require.Equal(t, "E", class("", err))
	}
	require.Empty(t, w.got())
}

func TestCloseAccount(t *testing.T) {
	t.Parallel()
	open, closed := always(200, good(theAccount)), always(200, good(strings.Replace(theAccount, `"expired":false`, `"expired":true`, 1)))
	none := always(404, `{"code":"404"}`)
	for label, tt := range map[string]struct {
		del, get http.HandlerFunc
		want     string
	}{
		"closed":                    {always(200, good(`{"expired":true}`)), nil, "O"},
		"closed, no data":           {always(200, `{"code":"00"}`), nil, "O"},
		"busy, then closed":         {inTurn(always(429, ``), hangUp, always(200, good(`{"expired":true}`))), nil, "O"},
		"still open":                {always(200, good(`{"expired":false}`)), nil, "E"},
		"closed already":            {always(200, `{"code":"06","description":"account already closed"}`), closed, "O"},
		"closed already, 409":       {always(409, ``), closed, "O"},
		"not there":                 {none, none, "U"},
		"not to be closed":          {always(200, `{"code":"05","description":"not permitted"}`), open, "R"},
		"unknown code, still open":  {always(200, `{"code":"99"}`), open, "E"},
		"unknown code, no word":     {always(200, `{"code":"99"}`), hangUp, "E"},
		"refused, but no word":      {always(200, `{"code":"02"}`), always(500, ``), "E"},
		"silence":                   {hangUp, closed, "E"},
		"busy for ever":             {always(503, ``), closed, "E"},
		"a gateway's page for both": {always(404, `<html>`), always(404, `<html>`), "E"},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c, _ := setup(t, byMethod(map[string]http.HandlerFunc{"DELETE": tt.del, "GET": tt.get}))
			err := c.CloseAccount(t.Context(), ref)
			require.Equal(t, tt.want, class("", err), "%v", err)
		})
	}
	c, w := setup(t, always(200, good(`{"expired":true}`)))
	require.NoError(t, c.CloseAccount(t.Context(), "a/b?c"))
	require.Equal(t, "DELETE "+accountPath+"/a/b?c", w.got()[0], "the reference is one escaped segment")
	require.Empty(t, w.last().Query)
}

func TestHolderName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Abcdefg ", 12)
	for in, want := range map[string]string{
		"Daniel Okafor":                         "Daniel Okafor",
		"  ada   obi stores ":                   "ada obi stores",
		"Adébáyọ̀ Ọláníyì":                      "Adebayo Olaniyi",
		"Ɗanladi Ƙasim":                         "Danladi Kasim",
		"O'Brien & Sons Ltd.":                   "OBrien and Sons Ltd",
		"Al-Amin":                               "Al Amin Account",
		"Shop 24/7":                             "Shop Account",
		"Ade":                                   "Ade Account",
		"A":                                     "A Account",
		"Abcdefg":                               "Abcdefg Account",
		"Abcdefgh":                              "Abcdefgh",
		"":                                      "Customer",
		"12345":                                 "Customer",
		"名前":                                    "Customer",
		"\x00\x1b[31m Ada\nObi Store":           "m Ada Obi Store",
		long:                                    strings.TrimSpace(long[:64]),
		strings.Repeat("x", 80):                 strings.Repeat("x", 64),
		strings.Repeat("x", 64):                 strings.Repeat("x", 64),
		strings.Repeat("x", 63) + " y z":        strings.Repeat("x", 63),
		strings.Repeat("x", 62) + " y z":        strings.Repeat("x", 62) + " y",
		"Abc " + strings.Repeat("y", 70):        "Abc " + strings.Repeat("y", 60),
		strings.Repeat("Ábc ", 20) + "Trailing": strings.TrimSpace(strings.Repeat("Abc ", 16)),
	} {
		require.Equal(t, want, holderName(in), "%q", in)
		require.Equal(t, want, holderName(want), "fitting twice: %q", in)
	}
}

func FuzzHolderName(f *testing.F) {
	f.Add("Adébáyọ̀ & O'Neil 24")
	f.Add("")
	f.Add(strings.Repeat("x", 65))
	f.Fuzz(func(t *testing.T, s string) {
		got := holderName(s)
		if len(got) < 8 || len(got) > 64 || strings.Contains(got, "  ") || strings.TrimSpace(got) != got {
			t.Fatalf("holderName(%q) = %q", s, got)
		}
		for _, r := range got {
			if (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != ' ' {
				t.Fatalf("holderName(%q) = %q has %q", s, got, r)
			}
		}
		if again := holderName(got); again != got {
			t.Fatalf("fitting twice: %q, %q", got, again)
		}
	})
}

func FuzzParseAnswer(f *testing.F) {
	f.Add(200, []byte(good(theAccount)))
	f.Add(404, []byte(`{"code":404,"data":[[]]}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		a := parseAnswer("x", status, body)
		var w wireAccount
		var r record
		if a.data != nil && !json.Valid(a.data) {
			t.Fatal("invalid data passed")
		}
		_, _ = a.decode(&w), a.decode(&r)
		if v := a.verdict(); (v == refused || v == bare) && !a.settles() || v == success && a.code != "00" || a.notKnown() && a.notNow() {
			t.Fatalf("HTTP %d code %q: %d", status, a.code, v)
		}
	})
}
