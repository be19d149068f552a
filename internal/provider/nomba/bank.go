package nomba

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"time"

	"ajo/internal/provider"
)

const (
	banksPath  = "/v1/transfers/banks"
	lookupPath = "/v1/transfers/bank/lookup"
)

var bankCodeForm = regexp.MustCompile(`^[0-9]{3,6}$`)

// Banks lists the banks that payouts can go to, in the bank's order; entries without a name or with
// a code that is not 3 to 6 digits are left out. An empty list is an error: it would refuse every
// destination. It only reads, so an unanswered call means nothing.
func (c *Client) Banks(ctx context.Context) (banks []provider.BankInfo, err error) {
	defer c.observe("banks", time.Now(), &err)
	a, err := c.ask(ctx, request{call: "banks", method: http.MethodGet, path: banksPath}, code01)
	if err != nil {
		return nil, err
	}
	if a.verdict() != success {
		return nil, a.err("no list in the answer")
	}
	type bank struct {
		Code text `json:"code"`
		Name text `json:"name"`
	}
	var list []bank // live: data is the list; documented: data.results is
	if json.Unmarshal(a.data, &list) != nil {
		var data struct {
			Results []bank `json:"results"`
		}
		if err := a.decode(&data); err != nil {
			return nil, err
		}
		list = data.Results
	}
	for _, b := range list {
		if bankCodeForm.MatchString(string(b.Code)) && b.Name != "" {
			banks = append(banks, provider.BankInfo{Code: string(b.Code), Name: string(b.Name)})
		}
	}
	if len(banks) == 0 {
		return nil, a.err("an empty list of banks")
	}
	return banks, nil
}

// Lookup names the holder of a destination account. An unknown bank or account (404 in the bank's
// own envelope, or a documented refusal) is a [*provider.Rejection]; whatever else is not an
// account with a name is an [*Error]: ask again later. So is a refusal to let us see the name: that
// the account does not exist would end payouts. It only reads, so an unanswered call means nothing.
func (c *Client) Lookup(ctx context.Context, bankCode, accountNumber string) (h provider.Holder, err error) {
	defer c.observe("lookup", time.Now(), &err)
	a, err := c.ask(ctx, request{
		call: "lookup", method: http.MethodPost, path: lookupPath,
		body: map[string]string{"accountNumber": accountNumber, "bankCode": bankCode},
	}, code01)
	if err != nil {
		return h, err
	}
	switch v := a.verdict(); {
	case v == success:
	case !a.hidden() && (v == refused || v == missing || a.own && a.code == "404" && a.settles()):
		return h, a.rejection()
	default:
		return h, a.err("no holder in the answer")
	}
	var data struct {
		AccountNumber text `json:"accountNumber"`
		AccountName   text `json:"accountName"`
	}
	switch err := a.decode(&data); {
	case err != nil:
		return h, err
	case data.AccountNumber != "" && string(data.AccountNumber) != accountNumber:
		return h, a.err("the holder in the answer is of another account")
	case data.AccountName == "":
		return h, a.err("no name in the answer")
	}
	return provider.Holder{AccountNumber: accountNumber, AccountName: string(data.AccountName)}, nil
}
