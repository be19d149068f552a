package nomba

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"ajo/internal/money"
	"ajo/internal/provider"
)

const payPath = "/v2/transfers/bank"

// Pay submits a payout, once: it is repeated in one case only, a 401, which is the bank's word that
// it has not acted.
//
// What came back, and what it means:
//   - code 00 with a record that echoes p.Ref: the record. Without an echo, or without an amount,
//     its status is Pending.
//   - code 201 PROCESSING (and 200, as the bank's own reference has it), and 00 without a record:
//     taken, Status Pending.
//   - a documented refusal (02, 05, 06, or 400, 403, 422 in the envelope; under HTTP 2xx or 4xx but
//     401, 408, 409, 425 and 429): a [*provider.Rejection], but only after the bank, asked by
//     reference, does not know it. A refusal of a reference that has been used looks the same, and
//     taking that one for a failure pays twice. Where the bank does know it, its record is
//     returned.
//   - a refusal that says duplicate, in the bank's envelope or as a 409: an [*Error] that wraps
//     [provider.ErrDuplicate]. Ask with [Client.Payout].
//   - 00 with an unreadable amount, or with data of another form: an [*Error] that wraps
//     [provider.ErrUnreadable]. The bank has taken it. Ask with [Client.Payout].
//   - no answer, a cut one, 408, 409, 425, 429, 5xx, code 01, an unknown code, somebody else's
//     record: an [*Error]. The money may have left. Ask with [Client.Payout]; submit again, under
//     the same reference, only when that says [provider.ErrUnknown].
//
// It takes up to twice Options.Timeout for its token and its turn and Options.PayTimeout for the
// answer, all that again after a 401, and after a refusal one more Options.Timeout for the
// question.
func (c *Client) Pay(ctx context.Context, p provider.NewPayout) (out provider.Payout, err error) {
	defer c.observe("pay", time.Now(), &err)
	if p.Ref == "" || !p.Amount.IsPositive() || p.BankCode == "" || p.AccountNumber == "" {
		return out, &Error{Call: "pay", Msg: "reference, amount, bank code and account number are all required", unsent: true}
	}
	a, err := c.send(ctx, request{
		call: "pay", method: http.MethodPost, path: payPath, timeout: c.payTimeout,
		body: struct {
			Amount        json.Number `json:"amount"`
			AccountNumber string      `json:"accountNumber"`
			AccountName   string      `json:"accountName"`
			BankCode      string      `json:"bankCode"`
			MerchantTxRef string      `json:"merchantTxRef"`
			SenderName    string      `json:"senderName"`
			Narration     string      `json:"narration,omitempty"`
		}{p.Amount.Number(), p.AccountNumber, p.AccountName, p.BankCode, p.Ref, p.SenderName, p.Narration},
	})
	if err != nil {
		return out, err
	}
	switch v := a.verdict(); {
	case v == success:
		return c.submitted(ctx, a, p)
	case v == underWay || v == bare && a.status/100 == 2:
		return provider.Payout{Ref: p.Ref, Status: provider.Pending, Amount: p.Amount}, nil
	case v == refused:
		return c.refusal(ctx, a, p.Ref)
	case v == duplicate:
		return out, &Error{Call: a.call, HTTP: a.status, Code: a.code, Msg: "ask by reference: " + a.desc, Err: provider.ErrDuplicate}
	default:
		return out, a.err("outcome unknown")
	}
}

// submitted reads a good answer to a payout.
func (c *Client) submitted(ctx context.Context, a answer, p provider.NewPayout) (provider.Payout, error) {
	var r record
	if err := a.decode(&r); err != nil {
		return provider.Payout{}, a.unreadable(err)
	}
	echoed, stranger := r.echoes(p.Ref)
	if stranger {
		return provider.Payout{}, a.err("the record in the answer is not of this payout")
	}
	known := r
	if r.Amount == "" {
		known.Amount = text(p.Amount.String())
	}
	out, err := c.toPayout(ctx, known, p.Ref)
	if err != nil {
		return provider.Payout{}, a.unreadable(err)
	}
	if !echoed || r.Amount == "" {
		out.Status = provider.Pending
	}
	return out, nil
}

// refusal makes sure that a refused payout is not one that was submitted before.
func (c *Client) refusal(ctx context.Context, a answer, ref string) (provider.Payout, error) {
	found, err := c.askPayout(ctx, "pay", ref)
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, provider.ErrUnknown):
		return provider.Payout{}, a.rejection()
	default:
		return provider.Payout{}, &Error{
			Call: "pay", HTTP: a.status, Code: a.code, Msg: "refused (" + a.desc + "), but it is not clear whether submitted before", Err: err,
		}
	}
}

// Payout returns the bank's record of the payout ref: the debit of the wallet. It is
// [provider.ErrUnknown] where the bank says that it has none (404, code 01, or 00 without data; a
// fresh payout may not be found at once), and an [*Error] in any other case: a record of another
// reference or of an inbound transfer is not believed, and a refusal of the question says nothing
// about the payout. One of this payout whose amount cannot be read is [provider.ErrUnreadable]. It
// only reads, so an unanswered call means nothing.
func (c *Client) Payout(ctx context.Context, ref string) (p provider.Payout, err error) {
	defer c.observe("payout", time.Now(), &err)
	return c.askPayout(ctx, "payout", ref)
}

func (c *Client) askPayout(ctx context.Context, call, ref string) (provider.Payout, error) {
	r, a, err := c.single(ctx, call, "merchantTxRef", ref)
	if err != nil {
		return provider.Payout{}, err
	}
	switch echoed, stranger := r.echoes(ref); {
	case !echoed || stranger:
		return provider.Payout{}, a.err("the record in the answer is not of this payout")
	case r.isInbound() || strings.EqualFold(string(r.EntryType), "CREDIT"):
		return provider.Payout{}, a.err("the record in the answer is not of a payout")
	}
	p, err := c.toPayout(ctx, r, ref)
	if err != nil {
		return provider.Payout{}, a.unreadable(err)
	}
	return p, nil
}

// unreadable is an answer about a payout that the bank has, and that cannot be read.
func (a answer) unreadable(why error) error {
	return &Error{Call: a.call, HTTP: a.status, Code: a.code, Msg: oneLine(why), Err: provider.ErrUnreadable}
}

// echoes reports whether the record bears the reference, and whether it bears another.
func (r record) echoes(ref string) (echoed, stranger bool) {
	for _, borne := range []text{r.MerchantTxRef, r.Meta.MerchantTxRef} {
		switch string(borne) {
		case "":
		case ref:
			echoed = true
		default:
			stranger = true
		}
	}
	return echoed, stranger
}

// toPayout reads a record of a payout. A missing fee is not known, and no reason to doubt the
// record. Charges that cannot all be read are not known either.
func (c *Client) toPayout(ctx context.Context, r record, ref string) (provider.Payout, error) {
	p := provider.Payout{
		ID: string(r.ID), Ref: ref, Status: status(r.Status), FeeKept: r.FeeKept == "true", BankCode: string(r.BankCode), AccountNumber: string(r.Recipient), Narration: string(r.Narration),
	}
	p.Time, _ = wireTime(string(r.TimeCreated))
	p.UpdatedAt, _ = wireTime(string(r.TimeUpdated))
	var err error
	if p.Amount, err = amount("amount", r.Amount); err != nil {
		return p, err
	}
	var errs [3]error
	p.Fee, errs[0] = charge("fee", cmp.Or(r.FixedCharge, r.Fee))
	p.VAT, errs[1] = charge("vat", r.VAT)
	p.StampDuty, errs[2] = charge("stampDuty", r.StampDuty)
	if err := errors.Join(errs[:]...); err != nil {
		p.Fee, p.VAT, p.StampDuty = nil, nil, nil
		c.log.ErrorContext(ctx, "the bank's charges for a payout cannot be read", "transfer", tidy(ref), "error", oneLine(err))
	}
	return p, nil
}

// charge reads what the bank takes for a payout; nil where the record does not name it.
func charge(name string, t text) (*money.Amount, error) {
	if t == "" {
		return nil, nil
	}
	a, err := amount(name, t)
	return &a, err
}
