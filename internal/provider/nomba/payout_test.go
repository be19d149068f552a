package nomba

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/provider"
)

func payout(change fields) string {
	r := fields{
		"id": "P-1", "status": "SUCCESS", "amount": "5000.10", "fixedCharge": "20", "type": "transfer", "entryType": "DEBIT",
		"merchantTxRef": ref, "virtualAccount": nil, "aliasAccountReference": nil,
	}
	for k, v := range change {
		r[k] = v
	}
	return transfer(r)
}

// payBank answers submissions with post and the question after a refusal with get.
func payBank(post, get http.HandlerFunc) http.HandlerFunc {
	return byMethod(map[string]http.HandlerFunc{"POST": post, "GET": get})
}

func TestPay(t *testing.T) {
	t.Parallel()
	c, w := setup(t, always(200, good(goodData["pay"])))
	got, err := c.Pay(t.Context(), payOf(ref))
	require.NoError(t, err)
	require.Equal(t, []string{"P-1", ref, "success", "5000.10", "20.00"},
		[]string{got.ID, got.Ref, string(got.Status), got.Amount.String(), got.Fee.String()})
	require.Equal(t, []string{"POST " + payPath}, w.got())
	require.Equal(t, `{"amount":5000.10,"accountNumber":"0554772814","accountName":"ADA OBI","bankCode":"058",`+
		`"merchantTxRef":"`+ref+`","senderName":"Shop","narration":"rent"}`, w.last().Body)
}

func TestPayAnswers(t *testing.T) {
	t.Parallel()
	none := always(404, `{"code":"404"}`)
	said := func(data string) http.HandlerFunc { return always(200, good(data)) }
	for label, tt := range map[string]struct {
		post, get http.HandlerFunc
		want      string
		gets      int
	}{
		"paid":                       {said(payout(nil)), nil, "O", 0},
		"new":                        {said(payout(fields{"status": "NEW"})), nil, "P", 0},
		"pending":                    {said(payout(fields{"status": "PENDING_BILLING"})), nil, "P", 0},
		"unheard-of status":          {said(payout(fields{"status": "LOST"})), nil, "P", 0},
		"processing":                 {always(200, `{"code":"201","description":"PROCESSING","status":false}`), nil, "P", 0},
		"processing under 201":       {always(201, `{"code":201,"description":"PROCESSING"}`), nil, "P", 0},
		"final, but no echo":         {said(payout(fields{"merchantTxRef": nil})), nil, "P", 0},
		"failed, but no echo":        {said(payout(fields{"merchantTxRef": nil, "status": "PAYMENT_FAILED"})), nil, "P", 0},
		"final, but no amount":       {said(payout(fields{"amount": nil})), nil, "P", 0},
		"meta is a text":             {said(payout(fields{"meta": "x"})), nil, "O", 0},
		"somebody else's":            {said(payout(fields{"merchantTxRef": "other"})), nil, "E", 0},
		"two references":             {said(payout(fields{"meta": fields{"merchantTxRef": "other"}})), nil, "E", 0},
		"a bad amount":               {said(payout(fields{"amount": "1e9"})), nil, "H", 0},
		"a bad amount, no echo":      {said(payout(fields{"amount": "1e9", "merchantTxRef": nil})), nil, "H", 0},
		"a bad amount, another's":    {said(payout(fields{"amount": "1e9", "merchantTxRef": "other"})), nil, "E", 0},
		"a bad fee":                  {said(payout(fields{"fixedCharge": "-1"})), nil, "O", 0},
		"no data":                    {always(200, `{"code":"00"}`), nil, "P", 0},
		"a list":                     {said(`[1]`), nil, "H", 0},
		"garbage":                    {always(200, `<html>`), nil, "E", 0},
		"cut off":                    {hangUp, nil, "E", 0},
		"broken after acting":        {always(500, `{"code":"01"}`), nil, "E", 0},
		"502 with a refusal in it":   {always(502, `{"code":"06"}`), nil, "E", 0},
		"too many":                   {always(429, `{"code":"06"}`), nil, "E", 0},
		"may be retried":             {always(200, `{"code":"01"}`), nil, "E", 0},
		"unknown code":               {always(200, `{"code":"77"}`), nil, "E", 0},
		"400 without an envelope":    {always(400, `no`), nil, "E", 0},
		"404":                        {always(404, ``), nil, "E", 0},
		"duplicate":                  {always(200, `{"code":"06","description":"Duplicate transaction"}`), nil, "D", 0},
		"a reference in use":         {always(400, `{"code":"02","description":"merchantTxRef has been used"}`), nil, "D", 0},
		"a reference that exists":    {always(200, `{"code":"06","description":"Transaction reference exists"}`), nil, "D", 0},
		"conflict":                   {always(409, `{"code":"02"}`), nil, "D", 0},
		"no such reference":          {always(200, `{"code":"06","description":"reference does not exist"}`), none, "R", 1},
		"00 under a 404":             {always(404, `{"code":"00"}`), nil, "E", 0},
		"refused, not known":         {always(200, `{"code":"06","description":"insufficient funds"}`), none, "R", 1},
		"invalid, not known":         {always(400, `{"code":"02","description":"bad account"}`), none, "R", 1},
		"400 in a 200, not known":    {always(200, `{"code":"400","description":"BAD_REQUEST"}`), always(200, `{"code":"01"}`), "R", 1},
		"refused, but it is there":   {always(200, `{"code":"06","description":"invalid reference"}`), said(payout(nil)), "O", 1},
		"refused, it is under way":   {always(200, `{"code":"06"}`), said(payout(fields{"status": "PENDING_BILLING"})), "P", 1},
		"refused, a bad amount":      {always(200, `{"code":"06"}`), said(payout(fields{"amount": "1e9"})), "H", 1},
		"refused, no word":           {always(200, `{"code":"06"}`), always(200, `{"code":"99"}`), "E", 1},
		"refused, another's record":  {always(200, `{"code":"06"}`), said(payout(fields{"merchantTxRef": "other"})), "E", 1},
		"refused, question refused":  {always(200, `{"code":"06"}`), always(200, `{"code":"05"}`), "E", 1},
		"refused, bank breaks down":  {always(200, `{"code":"06"}`), always(500, `{"code":"01"}`), "E", 4},
		"refused, a gateway's page ": {always(200, `{"code":"06"}`), always(404, `<html>`), "E", 1},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c, w := setup(t, payBank(tt.post, tt.get))
			got, err := c.Pay(t.Context(), payOf(ref))
			have := class(got.Status, err)
			switch {
			case errors.Is(err, provider.ErrDuplicate):
				have = "D"
			case errors.Is(err, provider.ErrUnreadable): // the bank has it
				have = "H"
			}
			require.Equal(t, tt.want, have, "%v", err)
			gets := 0
			for _, call := range w.got()[1:] {
				require.True(t, strings.HasPrefix(call, "GET "+singlePath), "submitted more than once")
				gets++
			}
			require.Equal(t, tt.gets, gets)
			if gets > 0 {
				require.Equal(t, "merchantTxRef="+ref, w.last().Query)
			}
			if err != nil {
				require.Empty(t, got)
			} else {
				require.Equal(t, ref, got.Ref)
			}
		})
	}
}

func TestPayDoesNotSubmitNonsense(t *testing.T) {
	t.Parallel()
	c, w := setup(t, always(200, good(goodData["pay"])))
	for _, change := range []func(*provider.NewPayout){
		func(p *provider.NewPayout) { p.Ref = "" },
		func(p *provider.NewPayout) { p.Amount = money.Zero },
		func(p *provider.NewPayout) { p.Amount = money.Must("-1") },
		func(p *provider.NewPayout) { p.BankCode = "" },
		func(p *provider.NewPayout) { p.AccountNumber = "" },
	} {
		p := payOf(ref)
		change(&p)
		_, err := c.Pay(t.Context(), p)
		require.Equal(t, "E", class("", err))
	}
	require.Empty(t, w.got())
}

func TestPayout(t *testing.T) {
	t.Parallel()
	for label, tt := range map[string]struct {
		change fields
		want   string
		status provider.Status
	}{
		"paid":               {nil, "O", provider.Success},
		"numbers":            {fields{"amount": 5000.5, "fixedCharge": 20}, "O", provider.Success},
		"failed":             {fields{"status": "PAYMENT_FAILED"}, "O", provider.Failed},
		"given back":         {fields{"status": "REFUND"}, "O", provider.Refunded},
		"under way":          {fields{"status": "PENDING_PAYMENT"}, "P", provider.Pending},
		"reference in meta":  {fields{"merchantTxRef": nil, "meta": fields{"merchantTxRef": ref}}, "O", provider.Success},
		"no fee":             {fields{"fixedCharge": nil}, "O", provider.Success},
		"no entry type":      {fields{"entryType": nil}, "O", provider.Success},
		"somebody else's":    {fields{"merchantTxRef": "other"}, "E", ""},
		"nobody's":           {fields{"merchantTxRef": nil}, "E", ""},
		"two references":     {fields{"meta": fields{"merchantTxRef": "other"}}, "E", ""},
		"an inbound one":     {fields{"type": "vact_transfer", "entryType": nil}, "E", ""},
		"a credit":           {fields{"entryType": "CREDIT"}, "E", ""},
		"no amount":          {fields{"amount": nil}, "H", ""},
		"three decimals":     {fields{"amount": "1.005"}, "H", ""},
		"of nobody, and bad": {fields{"amount": "1.005", "merchantTxRef": nil}, "E", ""},
		"a bad fee":          {fields{"fixedCharge": "x"}, "O", provider.Success},
		"a reference number": {fields{"merchantTxRef": 7}, "E", ""},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c, w := setup(t, always(200, good(payout(tt.change))))
			got, err := c.Payout(t.Context(), ref)
			have := class(got.Status, err)
			if errors.Is(err, provider.ErrUnreadable) {
				have = "H"
			}
			require.Equal(t, tt.want, have, "%v", err)
			require.Equal(t, tt.status, got.Status)
			require.Equal(t, []string{"GET " + singlePath}, w.got())
			require.Equal(t, "merchantTxRef="+ref, w.last().Query)
		})
	}
}
