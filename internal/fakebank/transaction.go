package fakebank

import (
	"cmp"
	"encoding/json"
	"net/http"

	"ajo/internal/money"
)

// The types of records on the wire.
const (
	TypeInbound = "vact_transfer"
	TypePayout  = "transfer"
)

// wireRecord is a transaction or a payout as the wire shows it. Amounts are quoted on the
// single-record endpoint and numbers in lists; the NUBAN that received a transfer is virtualAccount
// there and recipientAccountNumber here.
type wireRecord struct {
	ID             string          `json:"id"`
	Status         string          `json:"status"`
	Amount         json.RawMessage `json:"amount"`
	FixedCharge    json.RawMessage `json:"fixedCharge,omitempty"`
	VAT            json.RawMessage `json:"vat,omitempty"`
	StampDuty      json.RawMessage `json:"stampDuty,omitempty"`
	FeeKept        bool            `json:"feeKept,omitempty"` // though the amount came back
	Currency       string          `json:"currency"`
	Type           string          `json:"type"`
	EntryType      string          `json:"entryType"`
	Source         string          `json:"source"`
	VirtualAccount string          `json:"virtualAccount,omitempty"`
	Recipient      string          `json:"recipientAccountNumber,omitempty"`
	AccountRef     string          `json:"aliasAccountReference,omitempty"`
	MerchantTxRef  string          `json:"merchantTxRef,omitempty"`
	Meta           *wireMeta       `json:"meta,omitempty"`
	SessionID      string          `json:"sessionId,omitempty"`
	SenderName     string          `json:"senderName,omitempty"`
	AccountNumber  string          `json:"accountNumber,omitempty"` // the sender's, as are the next two
	BankName       string          `json:"bankName,omitempty"`
	BankCode       string          `json:"bankCode,omitempty"`
	Narration      string          `json:"narration"`
	TimeCreated    string          `json:"timeCreated"`
	TimeUpdated    string          `json:"timeUpdated"`
}

type wireMeta struct {
	MerchantTxRef string `json:"merchantTxRef"`
	Narration     string `json:"narration,omitempty"`
	BankCode      string `json:"bankCode,omitempty"`
}

// amountForm is how an endpoint writes amounts.
type amountForm func(money.Amount) json.RawMessage

func (t *Transaction) wire(form amountForm, single bool) wireRecord {
	w := wireRecord{
		ID: t.ID, Status: t.Status, Amount: form(t.Amount), FixedCharge: form(t.Fee), Currency: t.Currency, Type: TypeInbound,
		EntryType: "CREDIT", Source: "api", AccountRef: t.AccountRef, SessionID: t.SessionID, SenderName: t.SenderName,
		AccountNumber: t.SenderAccount, BankName: t.SenderBank, BankCode: t.SenderBankCode,
		Narration: t.Narration, TimeCreated: wireTime(t.Time), TimeUpdated: wireTime(t.Time),
	}
	if t.ReversedAt != nil {
		w.TimeUpdated = wireTime(*t.ReversedAt)
	}
	if single {
		w.VirtualAccount = t.NUBAN
	} else {
		w.ID = cmp.Or(t.ListedAs, t.ID)
		w.Recipient = t.NUBAN
	}
	return w
}

func (p *Payout) wire(form amountForm) wireRecord {
	w := wireRecord{
		ID: p.ID, Status: p.Status, Amount: form(p.Amount), Currency: money.Currency, Type: TypePayout,
		EntryType: "DEBIT", Source: "api", Recipient: p.AccountNumber, MerchantTxRef: p.Ref,
		Meta: &wireMeta{MerchantTxRef: p.Ref, Narration: p.Narration, BankCode: p.BankCode}, SenderName: p.SenderName,
		BankCode: p.BankCode, Narration: p.Narration, TimeCreated: wireTime(p.CreatedAt), TimeUpdated: wireTime(p.CreatedAt),
	}
	w.FeeKept = p.FeeKept && (p.Status == StatusFailed || p.Status == StatusRefund)
	if !p.FeeUnsaid {
		w.FixedCharge = form(p.Fee)
		if p.VAT.IsPositive() {
			w.VAT = form(p.VAT)
		}
		if p.StampDuty.IsPositive() {
			w.StampDuty = form(p.StampDuty)
		}
	}
	if p.Status == StatusRefund && p.Back != nil {
		w.Amount = form(*p.Back)
	}
	if p.EndedAt != nil {
		w.TimeUpdated = wireTime(*p.EndedAt)
	}
	return w
}

// getTransaction serves GET /v1/transactions/accounts/single, by transactionRef (the id) or by
// merchantTxRef.
func (b *Bank) getTransaction(c *call) answer {
	switch c.plan.rule.Do {
	case NotFound:
		return noSuchRecord
	case NotFoundCode:
		return refused("01", "Transaction not found")
	case Empty:
		return good(nil)
	}
	q := c.URL.Query()
	id, ref := q.Get("transactionRef"), q.Get("merchantTxRef")
	if id == "" && ref == "" {
		return failed(http.StatusBadRequest, "02", "transactionRef or merchantTxRef is required")
	}
	w, ok := b.single(id, ref)
	if c.does(WrongRecord) {
		return good(stranger(w, ok))
	}
	if !ok {
		return noSuchRecord
	}
	return good(alter(w, c.plan.rule))
}

var noSuchRecord = failed(http.StatusNotFound, "404", "Transaction not found")

// single finds one record as the wire shows it.
func (b *Bank) single(id, ref string) (wireRecord, bool) {
	b.books.mu.RLock()
	defer b.books.mu.RUnlock()
	out := b.books.payouts[ref]
	if ref == "" {
		out = b.books.outIDs[id]
	}
	if out != nil && out.hidden(b.clock.Now()) {
		return wireRecord{}, false
	}
	if out != nil {
		return out.wire(asText), id == "" || id == out.ID
	}
	t := b.books.txs[id]
	if t == nil || t.Hidden || ref != "" {
		return wireRecord{}, false
	}
	if t.Wrong {
		return stranger(t.wire(asText, true), true), true
	}
	w := t.wire(asText, true)
	w.ID = id
	return w, true
}

// stranger is somebody else's record: as like the one that was asked for as it can be, but for the
// references.
func stranger(w wireRecord, found bool) wireRecord {
	if !found {
		some := Transaction{Status: StatusSuccess, Amount: money.FromKobo(1_000_00), Fee: money.FromKobo(10_00), Currency: money.Currency}
		w = some.wire(asText, true)
		w.VirtualAccount = NUBAN(BankCode, 0)
	}
	w.ID = "API-STRANGER-0000-0000-0000-000000000000"
	w.SessionID = "000000000000000000000000000000"
	if w.MerchantTxRef != "" {
		w.MerchantTxRef, w.Meta = "somebody-elses-reference", &wireMeta{MerchantTxRef: "somebody-elses-reference"}
	}
	return w
}

// alter changes one field of an answer, as a rule wants it.
func alter(w wireRecord, r Rule) wireRecord {
	switch r.Do {
	case AlterStatus:
		w.Status = cmp.Or(r.Value, StatusPending)
	case AlterAmount:
		w.Amount = altered(w.Amount, r.Value)
	case AlterFee:
		w.FixedCharge = altered(w.FixedCharge, r.Value)
	case AlterCurrency:
		w.Currency = cmp.Or(r.Value, "USD")
	case AlterAccount:
		w.VirtualAccount = cmp.Or(r.Value, NUBAN(BankCode, 0))
	}
	return w
}

// altered is the amount that value says, or one naira more than the quoted amount.
func altered(quoted json.RawMessage, value string) json.RawMessage {
	if value != "" {
		return json.RawMessage(`"` + value + `"`)
	}
	var n json.Number
	if json.Unmarshal(quoted, &n) != nil {
		return quoted
	}
	a, err := money.ParseNumber(n)
	if err != nil {
		return quoted
	}
	return asText(a.Add(money.FromKobo(1_00)))
}
