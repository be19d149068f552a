package fakebank

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// The types of events.
const (
	PaymentSuccess  = "payment_success"
	PaymentFailed   = "payment_failed"
	PaymentReversal = "payment_reversal"
	PayoutSuccess   = "payout_success"
	PayoutFailed    = "payout_failed"
	PayoutRefund    = "payout_refund"
)

// Values of a [Payment]'s ResponseCode that are not text on the wire.
const (
	ResponseCodeNull   = "<null>"   // JSON null
	ResponseCodeAbsent = "<absent>" // no such field
)

// Event is a webhook's body (specification, "Inbound event from the upstream provider").
type Event struct {
	EventType string    `json:"event_type"`
	RequestID string    `json:"requestId"`
	Data      EventData `json:"data"`
}

// EventData is the part of an event that is about money.
type EventData struct {
	Merchant    EventMerchant    `json:"merchant"`
	Transaction EventTransaction `json:"transaction"`
	Customer    EventCustomer    `json:"customer"`
}

// EventMerchant is the owner of the wallet.
type EventMerchant struct {
	UserID        string          `json:"userId"`
	WalletID      string          `json:"walletId"`
	WalletBalance json.RawMessage `json:"walletBalance"` // a number
}

// EventTransaction is an inbound transfer or, with MerchantTxRef and without the alias, a payout.
type EventTransaction struct {
	TransactionID     string          `json:"transactionId"`
	Type              string          `json:"type"`
	Time              string          `json:"time"`
	ResponseCode      json.RawMessage `json:"responseCode,omitempty"`
	TransactionAmount json.RawMessage `json:"transactionAmount"` // a number
	Fee               json.RawMessage `json:"fee"`               // a number
	Currency          string          `json:"currency"`
	AliasReference    string          `json:"aliasAccountReference,omitempty"`
	AliasNumber       string          `json:"aliasAccountNumber,omitempty"`
	MerchantTxRef     string          `json:"merchantTxRef,omitempty"`
	SessionID         string          `json:"sessionId,omitempty"`
	Narration         string          `json:"narration"`
}

// EventCustomer is the other side: the payer, or the recipient of a payout.
type EventCustomer struct {
	SenderName    string `json:"senderName,omitempty"`
	RecipientName string `json:"recipientName,omitempty"`
	AccountNumber string `json:"accountNumber"`
	BankName      string `json:"bankName"`
}

// SignedFields are the eight values of a body that its signature covers; the ninth is the timestamp
// header.
type SignedFields struct {
	EventType, RequestID, UserID, WalletID, TransactionID, Type, Time, ResponseCode string
}

// Sign returns the base64 of the HMAC-SHA256, under secret, of the fields and the timestamp joined
// by colons. A ResponseCode "null" counts as empty.
func Sign(secret string, f SignedFields, timestamp string) string {
	if f.ResponseCode == "null" {
		f.ResponseCode = ""
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(strings.Join([]string{
		f.EventType, f.RequestID, f.UserID, f.WalletID, f.TransactionID, f.Type, f.Time, f.ResponseCode, timestamp,
	}, ":")))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// FieldsOf reads the signed values from a body; null and absent ones are empty.
func FieldsOf(body []byte) (SignedFields, error) {
	var in struct {
		EventType string `json:"event_type"`
		RequestID string `json:"requestId"`
		Data      struct {
			Merchant    struct{ UserID, WalletID string }
			Transaction struct{ TransactionID, Type, Time, ResponseCode string }
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return SignedFields{}, fmt.Errorf("fakebank: event: %w", err)
	}
	m, t := in.Data.Merchant, in.Data.Transaction
	return SignedFields{
		EventType: in.EventType, RequestID: in.RequestID, UserID: m.UserID, WalletID: m.WalletID,
		TransactionID: t.TransactionID, Type: t.Type, Time: t.Time, ResponseCode: t.ResponseCode,
	}, nil
}

// SignedHeaders returns the headers that a body is sent with now: its signature, the timestamp and
// the content type.
func (b *Bank) SignedHeaders(body []byte) (http.Header, error) {
	return b.headers(body, *b.hooks.secret.Load())
}

func (b *Bank) headers(body []byte, secret string) (http.Header, error) {
	f, err := FieldsOf(body)
	if err != nil {
		return nil, err
	}
	timestamp := wireTime(b.clock.Now())
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set(b.opt.SignatureHeader, Sign(secret, f, timestamp))
	h.Set(b.opt.TimestampHeader, timestamp)
	return h, nil
}

// EventFor returns the payment_success body of a transaction, which the bank need not have in its
// books.
func (b *Bank) EventFor(t Transaction) []byte { return body(b.Event(PaymentSuccess, t)) }

// Event builds an event about a transaction, to be altered, marshalled and sent. Its requestId is
// the transaction's, or a new one when that is empty.
func (b *Bank) Event(eventType string, t Transaction) Event {
	id := t.RequestID
	if id == "" {
		id = uuid.NewString()
	}
	return Event{EventType: eventType, RequestID: id, Data: EventData{
		Merchant: b.merchant(),
		Transaction: EventTransaction{
			TransactionID: t.ID, Type: TypeInbound, Time: wireTime(t.Time), ResponseCode: responseCode(t.ResponseCode),
			TransactionAmount: asNumber(t.Amount), Fee: asNumber(t.Fee), Currency: t.Currency,
			AliasReference: t.AccountRef, AliasNumber: t.NUBAN, SessionID: t.SessionID, Narration: t.Narration,
		},
		Customer: EventCustomer{SenderName: t.SenderName, AccountNumber: t.SenderAccount, BankName: t.SenderBank},
	}}
}

func (b *Bank) payoutEvent(eventType string, p Payout) Event {
	name := p.BankCode
	if i, ok := bankIndex[p.BankCode]; ok {
		name = Banks[i].Name
	}
	when := p.CreatedAt
	if p.EndedAt != nil {
		when = *p.EndedAt
	}
	return Event{EventType: eventType, RequestID: uuid.NewString(), Data: EventData{
		Merchant: b.merchant(),
		Transaction: EventTransaction{
			TransactionID: p.ID, Type: TypePayout, Time: wireTime(when), ResponseCode: responseCode(""),
			TransactionAmount: asNumber(p.Amount), Fee: asNumber(p.Fee), Currency: "NGN", MerchantTxRef: p.Ref, Narration: p.Narration,
		},
		Customer: EventCustomer{SenderName: p.SenderName, RecipientName: p.AccountName, AccountNumber: p.AccountNumber, BankName: name},
	}}
}

func (b *Bank) merchant() EventMerchant {
	return EventMerchant{UserID: b.opt.AccountID, WalletID: "wallet-" + b.opt.AccountID, WalletBalance: asNumber(b.books.balance())}
}

func responseCode(s string) json.RawMessage {
	switch s {
	case ResponseCodeAbsent:
		return nil
	case ResponseCodeNull:
		return json.RawMessage("null")
	}
	return body(s)
}

// body is the JSON of a value that has one.
func body(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("fakebank: %v", err))
	}
	return b
}
