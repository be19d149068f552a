package nomba

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ajo/internal/money"
	"ajo/internal/provider"
)

const (
	singlePath = "/v1/transactions/accounts/single"
	listPath   = "/v1/transactions/accounts"
	listLimit  = 50                    // the most that the bank gives a page
	listForm   = "2006-01-02T15:04:05" // of dateFrom and dateTo, in UTC
	inbound    = "vact_transfer"       // the type of a transfer into a virtual account
)

// record is a transaction or a payout as the bank shows it. The account that received a transfer is
// virtualAccount or recipientAccountNumber; its accountNumber, bankCode and bankName are the
// sender's. Of a payout, bankCode is the destination's.
type record struct {
	ID             text `json:"id"`
	Status         text `json:"status"`
	Amount         text `json:"amount"`
	FixedCharge    text `json:"fixedCharge"` // the fee, in records
	Fee            text `json:"fee"`         // the fee, in the answer to a payout
	VAT            text `json:"vat"`         // of a payout, as are the two below
	StampDuty      text `json:"stampDuty"`
	FeeKept        text `json:"feeKept"`
	Currency       text `json:"currency"`
	Type           text `json:"type"`
	EntryType      text `json:"entryType"` // CREDIT or DEBIT, where given
	VirtualAccount text `json:"virtualAccount"`
	Recipient      text `json:"recipientAccountNumber"`
	AccountRef     text `json:"aliasAccountReference"`
	MerchantTxRef  text `json:"merchantTxRef"`
	Meta           meta `json:"meta"`
	AccountNumber  text `json:"accountNumber"`
	BankCode       text `json:"bankCode"`
	SenderName     text `json:"senderName"`
	BankName       text `json:"bankName"`
	Narration      text `json:"narration"`
	SessionID      text `json:"sessionId"`
	TimeCreated    text `json:"timeCreated"`
	TimeUpdated    text `json:"timeUpdated"`
}

// meta is a record's second place for its reference. The documentation has it as an object and as a
// text.
type meta struct {
	MerchantTxRef text
}

// UnmarshalJSON reads an object's merchantTxRef and ignores what is no object.
func (m *meta) UnmarshalJSON(b []byte) error {
	var object struct {
		MerchantTxRef text `json:"merchantTxRef"`
	}
	if json.Unmarshal(b, &object) == nil {
		m.MerchantTxRef = object.MerchantTxRef
	}
	return nil
}

// status reads a status of the bank's. What is not documented is [provider.Pending]: not an answer.
func status(t text) provider.Status {
	switch strings.ToUpper(string(t)) {
	case "SUCCESS", "PAYMENT_SUCCESSFUL":
		return provider.Success
	case "PAYMENT_FAILED":
		return provider.Failed
	case "REFUND", "REFUNDED", "REVERSED":
		return provider.Refunded
	default: // NEW, PENDING_BILLING, PENDING_PAYMENT, and the unheard-of
		return provider.Pending
	}
}

// amount reads an amount, a JSON string or number, by the rules of [money.ParseNumber]. A missing
// one is an error too.
func amount(name string, t text) (money.Amount, error) {
	a, err := money.ParseNumber(json.Number(t))
	if err != nil {
		return money.Zero, fmt.Errorf("%s %q: %w", name, tidy(string(t)), err)
	}
	return a, nil
}

// wireTime reads a time of the bank's, which is in UTC where it names no zone; an empty text is the
// zero time.
func wireTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", expiryForm} {
		if t, err := time.Parse(form, s); err == nil {
			return t.UTC().Truncate(time.Microsecond), nil
		}
	}
	return time.Time{}, errors.New("not a time of a known form")
}

// isInbound reports whether the record is of a transfer into a virtual account.
func (r record) isInbound() bool {
	return strings.EqualFold(string(r.Type), inbound) && !strings.EqualFold(string(r.EntryType), "DEBIT")
}

// toTransaction reads a record of an inbound transfer. Amount and fee must be there and be amounts:
// a fee taken for zero would be paid out. Currency, account and time may be missing, and are then
// empty: the caller compares them.
func (r record) toTransaction() (provider.Transaction, error) {
	t := provider.Transaction{
		ID: string(r.ID), Status: status(r.Status), Currency: string(r.Currency),
		AccountNumber: string(cmp.Or(r.VirtualAccount, r.Recipient)), AccountRef: string(r.AccountRef),
		SenderName: string(r.SenderName), SenderAccount: string(r.AccountNumber), SenderBank: string(r.BankName), SenderBankCode: string(r.BankCode),
		Narration: string(r.Narration), SessionID: string(r.SessionID),
	}
	var amountErr, feeErr, accountErr error
	t.Amount, amountErr = amount("amount", r.Amount)
	t.Fee, feeErr = amount("fixedCharge", r.FixedCharge)
	if r.VirtualAccount != "" && r.Recipient != "" && r.VirtualAccount != r.Recipient {
		accountErr = errors.New("two different accounts")
	}
	t.Time, _ = wireTime(string(r.TimeCreated))
	t.UpdatedAt, _ = wireTime(string(r.TimeUpdated))
	return t, errors.Join(amountErr, feeErr, accountErr)
}

// single asks for one record by its id (transactionRef) or by our reference (merchantTxRef).
// [provider.ErrUnknown] where the bank says that it has none.
func (c *Client) single(ctx context.Context, call, by, value string) (record, answer, error) {
	if value == "" { // the bank might answer with any record
		return record{}, answer{}, &Error{Call: call, Msg: "asked for nothing", unsent: true}
	}
	a, err := c.ask(ctx, request{call: call, method: http.MethodGet, path: singlePath, query: url.Values{by: {value}}}, tooBusy)
	switch {
	case err != nil:
		return record{}, a, err
	case a.verdict() == success:
	case a.notKnown():
		return record{}, a, provider.ErrUnknown
	default: // a refusal as well: of the question, not of what was asked about
		return record{}, a, a.err("no clear answer")
	}
	var r record
	err = a.decode(&r)
	return r, a, err
}

// Transaction returns the bank's record of the inbound transfer id. It is [provider.ErrUnknown]
// where the bank says that it has none (404, code 01, or 00 without data), and an [*Error] in any
// other case: a record of another id, of a payout or of one that came back, or with an unreadable
// amount or fee is not believed. It only reads, so an unanswered call means nothing.
func (c *Client) Transaction(ctx context.Context, id string) (t provider.Transaction, err error) {
	defer c.observe("transaction", time.Now(), &err)
	r, a, err := c.single(ctx, "transaction", "transactionRef", id)
	if err != nil {
		return t, err
	}
	switch {
	case string(r.ID) != id:
		return t, a.err("the record in the answer is not the one asked for")
	case strings.EqualFold(string(r.EntryType), "DEBIT"), r.Type != "" && !strings.EqualFold(string(r.Type), inbound):
		return t, a.err("the record in the answer is not of an inbound transfer")
	}
	if t, err = r.toTransaction(); err != nil {
		return provider.Transaction{}, a.err("unreadable record: " + err.Error())
	}
	return t, nil
}

// Transactions lists the transfers into virtual accounts, and the payouts that bear a reference,
// that the bank dates from (inclusive) to (exclusive), both cut to whole seconds as the bank's
// times are; a page is oldest first, pages come in the bank's order. Other records of the wallet
// are left out. A record that cannot be read is in Page.Unreadable, so that it neither goes unseen
// nor holds up the rest. It only reads, so an unanswered call means nothing.
func (c *Client) Transactions(ctx context.Context, from, to time.Time, cursor string) (page provider.Page, err error) {
	defer c.observe("transactions", time.Now(), &err)
	from, to = from.UTC().Truncate(time.Second), to.UTC().Add(time.Second-1).Truncate(time.Second)
	query := url.Values{
		"limit": {strconv.Itoa(listLimit)}, "dateFrom": {from.Format(listForm)}, "dateTo": {to.Format(listForm)},
	}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	a, err := c.ask(ctx, request{
		// no type asked for: transfers in, and payouts
		call: "transactions", method: http.MethodPost, path: listPath, query: query, body: struct{}{},
	}, code01)
	if err != nil {
		return page, err
	}
	if a.verdict() != success {
		return page, a.err("no list in the answer")
	}
	var data struct {
		Results []json.RawMessage `json:"results"`
		Cursor  text              `json:"cursor"`
	}
	if err := a.decode(&data); err != nil {
		return page, err
	}
	if data.Cursor != "" && string(data.Cursor) == cursor {
		return page, a.err("the list's cursor does not move")
	}
	page.Next = string(data.Cursor)
	for _, raw := range data.Results {
		if at := c.collect(ctx, &page, raw, from, to); !at.IsZero() {
			page.EndsLater = !at.Before(to) // the bank takes dateTo's own second for asked, too
		}
	}
	slices.SortStableFunc(page.Transactions, func(x, y provider.Transaction) int { return x.Time.Compare(y.Time) })
	return page, nil
}

// collect adds one record of a list to the page, where it belongs there, and returns its time; zero
// where it cannot be read.
func (c *Client) collect(ctx context.Context, page *provider.Page, raw json.RawMessage, from, to time.Time) (at time.Time) {
	var r record
	err := json.Unmarshal(raw, &r)
	if err == nil && !r.isInbound() {
		c.collectPayout(ctx, page, raw, r, from, to)
		at, _ = wireTime(string(r.TimeCreated))
		return at
	}
	t, readErr := r.toTransaction()
	if err == nil {
		err = errors.Join(readErr, incomplete(t))
	}
	if err != nil {
		page.Unreadable = append(page.Unreadable, provider.Unreadable{ID: t.ID, Record: string(raw), Why: oneLine(err)})
		c.log.ErrorContext(ctx, "unreadable record in the bank's list", "transaction", t.ID, "error", err)
		return t.Time
	}
	if !t.Time.Before(from) && t.Time.Before(to) {
		page.Transactions = append(page.Transactions, t)
	}
	return t.Time
}

// incomplete says what a record of the list lacks that a payment cannot be without.
func incomplete(t provider.Transaction) error {
	var missing []string
	for what, absent := range map[string]bool{
		"id": t.ID == "", "timeCreated": t.Time.IsZero(), "currency": t.Currency == "", "account number": t.AccountNumber == "" && t.AccountRef == "",
	} {
		if absent {
			missing = append(missing, what)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return errors.New("without " + strings.Join(missing, ", "))
}

// oneLine is an error's text in one line of bounded length.
func oneLine(err error) string { return tidy(strings.ReplaceAll(err.Error(), "\n", "; ")) }

// collectPayout adds a record that is no inbound transfer to the page, if it is of a payout that
// somebody gave a reference. A credit to a virtual account, or of money that left under a
// reference, is nobody's business but ours: under a type that is not known it is not left out, but
// called unreadable. So is a record to a virtual account that does not say that it is a debit.
func (c *Client) collectPayout(ctx context.Context, page *provider.Page, raw json.RawMessage, r record, from, to time.Time) {
	ref := cmp.Or(r.MerchantTxRef, r.Meta.MerchantTxRef)
	credit, debit := strings.EqualFold(string(r.EntryType), "CREDIT"), strings.EqualFold(string(r.EntryType), "DEBIT")
	if credit || !debit && ref == "" {
		if account := cmp.Or(r.VirtualAccount, r.AccountRef); ref != "" || account != "" {
			why := fmt.Sprintf("a %s of the type %q: reference %q, account %q", cmp.Or(r.EntryType, "record"), r.Type, ref, account)
			page.Unreadable = append(page.Unreadable, provider.Unreadable{ID: string(r.ID), Record: string(raw), Why: tidy(why)})
		}
		return
	}
	if ref == "" {
		return
	}
	p, err := c.toPayout(ctx, r, string(ref))
	switch {
	case err != nil || p.Time.IsZero():
		why := "a payout without timeCreated"
		if err != nil {
			why = "a payout: " + oneLine(err)
		}
		// without an id, as that would be asked for as a payment's
		page.Unreadable = append(page.Unreadable, provider.Unreadable{Record: string(raw), Why: why + ", reference " + tidy(string(ref)) + ", id " + tidy(string(r.ID))})
	case !p.Time.Before(from) && p.Time.Before(to):
		page.Payouts = append(page.Payouts, p)
	}
}
