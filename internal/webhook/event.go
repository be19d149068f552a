package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// Type is the type of an event, as on the wire.
type Type string

// The types. Every tenant gets received payments, and the others if it subscribed to them
// ([Service.Choose]).
const (
	PaymentReceived Type = "payment.received" // posted to the ledger
	// found in the bank's own records, or confirmed by a person
	PaymentConfirmed    Type = "payment.confirmed"
	PaymentReversed     Type = "payment.reversed"     // taken out of the balance for good
	SettlementSucceeded Type = "settlement.succeeded" // paid out
	// not paid out: the money is back in the balance
	SettlementFailed Type = "settlement.failed"
	// paid out and given back by the bank: the money is in the balance again
	SettlementRefunded Type = "settlement.refunded"
)

// Types are all types, in the order in which they are listed. They are also in the schema
// (migrations/0001 and 0005), in api/openapi.yaml and api/client, in package compact, in the checks
// of package invariant and on the dashboard (deliveries.js).
var Types = []Type{PaymentReceived, PaymentConfirmed, PaymentReversed, SettlementSucceeded, SettlementFailed, SettlementRefunded}

var typeList = func() string {
	var b strings.Builder
	for i, t := range Types {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(t))
	}
	return b.String()
}()

// statusOf is the status that an event reports: of the payment's entry, or of the transfer.
var statusOf = map[Type]string{
	PaymentReceived: "provisional", PaymentConfirmed: "confirmed", PaymentReversed: "reversed",
	SettlementSucceeded: "success", SettlementFailed: "failed", SettlementRefunded: "refunded",
}

// Payload is the part of an event that depends on its type: a [Payment] or a [Settlement].
type Payload interface {
	wire(d *NewDelivery) any
}

// Payment is the payload of payment events. (Specification, "Outbound event".)
type Payment struct {
	Amount      money.Amount // net: what is, or was, credited to the balance
	GrossAmount money.Amount // what the payer sent
	ProviderFee money.Amount
	SenderName  string
	Narration   string
	Policy      string // hold or refund, if the account's policy does not accept it
	// the group of the payment in whose place this one was posted again; nil: it is the first
	Replaces *uuid.UUID
}

// paymentWire is the wire form; its fields stand in the specification's order.
type paymentWire struct {
	EventType          Type         `json:"eventType"`
	TransactionGroupID uuid.UUID    `json:"transactionGroupId"`
	AccountRef         string       `json:"accountRef"`
	Amount             money.Amount `json:"amount"`
	GrossAmount        money.Amount `json:"gross_amount"`
	ProviderFee        money.Amount `json:"provider_fee"`
	Currency           string       `json:"currency"`
	SenderName         string       `json:"senderName"`
	Narration          string       `json:"narration"`
	Status             string       `json:"status"`
	Policy             string       `json:"policy,omitempty"`   // an addition
	Replaces           *uuid.UUID   `json:"replaces,omitempty"` // another one
}

func (p Payment) wire(d *NewDelivery) any {
	return paymentWire{
		EventType: d.Type, TransactionGroupID: d.TransactionGroupID, AccountRef: d.AccountRef,
		Amount: p.Amount, GrossAmount: p.GrossAmount, ProviderFee: p.ProviderFee, Currency: money.Currency,
		SenderName: p.SenderName, Narration: p.Narration, Status: statusOf[d.Type], Policy: p.Policy, Replaces: p.Replaces,
	}
}

// Settlement is the payload of settlement events.
type Settlement struct {
	MerchantTxRef string
	Amount        money.Amount
	PaidAmount    *money.Amount // what left, if an operator found another sum
	BankCode      string
	AccountNumber string // of the destination; empty, as BankCode: not known
	// of a refund: the payment's entry, as in the transfer; nil: an ordinary settlement
	RefundOf *uuid.UUID
}

type settlementWire struct {
	EventType          Type          `json:"eventType"`
	TransactionGroupID uuid.UUID     `json:"transactionGroupId"`
	MerchantTxRef      string        `json:"merchantTxRef"`
	AccountRef         string        `json:"accountRef"`
	Amount             money.Amount  `json:"amount"`
	Currency           string        `json:"currency"`
	BankCode           string        `json:"bankCode"`
	AccountNumber      string        `json:"accountNumber"`
	Status             string        `json:"status"`
	PaidAmount         *money.Amount `json:"paidAmount,omitempty"`
	RefundOf           *uuid.UUID    `json:"refundOf,omitempty"`
}

func (p Settlement) wire(d *NewDelivery) any {
	return settlementWire{
		EventType: d.Type, TransactionGroupID: d.TransactionGroupID, MerchantTxRef: p.MerchantTxRef, AccountRef: d.AccountRef,
		Amount: p.Amount, Currency: money.Currency, BankCode: p.BankCode, AccountNumber: p.AccountNumber, Status: statusOf[d.Type],
		PaidAmount: p.PaidAmount, RefundOf: p.RefundOf,
	}
}

// encode builds the bytes that are stored, signed and sent. Characters of HTML are not escaped:
// this is not a web page.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// messageID is an event's webhook-id, which is the same each time the event is sent, and unique to
// it. For a received payment it is the transactionGroupId, as decided. Other events of the same
// payment have that group too, so theirs is a UUID (version 5) derived from the group and the type,
// which no transactionGroupId (version 7) can equal.
func messageID(t Type, group uuid.UUID) uuid.UUID {
	if t == PaymentReceived {
		return group
	}
	return uuid.NewSHA1(group, []byte(t))
}

// Chosen lists the events that the tenant is subscribed to.
func (s *Service) Chosen(ctx context.Context, tenant uuid.UUID) ([]Type, error) {
	var chosen []Type
	err := s.pool.QueryRow(ctx, `SELECT webhook_events FROM tenants WHERE id = $1`, tenant).Scan(&chosen)
	return withReceived(chosen), err
}

// Choose replaces the events that the tenant is subscribed to, and returns them. PaymentReceived
// stays, whether named or not. Earlier events are not published. An unknown type is [ErrEvents].
func (s *Service) Choose(ctx context.Context, tenant uuid.UUID, events []Type, by audit.By) ([]Type, error) {
	for _, t := range events {
		if !slices.Contains(Types, t) {
			return nil, ErrEvents
		}
	}
	chosen := withReceived(events)
	err := pg.InTx(ctx, s.pool, func(tx pg.Tx) error {
		now := s.clock.Now()
		var was []Type
		if err := tx.QueryRow(ctx, `SELECT webhook_events FROM tenants WHERE id = $1 FOR NO KEY UPDATE`, tenant).Scan(&was); err != nil {
			return err
		}
		if was = withReceived(was); slices.Equal(was, chosen) {
			return nil
		}
		if _, err := tx.Exec(ctx, `UPDATE tenants SET webhook_events = $2, updated_at = $3 WHERE id = $1`, tenant, chosen[1:], now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("webhook.events", "tenant:"+tenant.String(), audit.Change{Before: was, After: chosen}).Of(tenant))
	})
	return chosen, err
}

// withReceived returns PaymentReceived and the events, each once, in their listed order.
func withReceived(events []Type) []Type {
	out := []Type{}
	for _, t := range Types {
		if t == PaymentReceived || slices.Contains(events, t) {
			out = append(out, t)
		}
	}
	return out
}

// NewDelivery is an event to be published. The tagged fields are columns of its delivery.
type NewDelivery struct {
	Type               Type      `pg:"event_type"`
	TenantID           uuid.UUID `pg:"tenant_id"`
	AccountID          uuid.UUID `pg:"account_id"`
	AccountRef         string
	TransactionGroupID uuid.UUID `pg:"transaction_group_id"` // the payment's event, or the transfer
	// the account's, else the tenant's; passed safehttp.CheckURL when it was set. Empty: no
	// endpoint is called
	CallbackURL string `pg:"callback_url"`
	// the tenant has other endpoints or keeps a log: those that want the event get it too
	FanOut    bool
	Listening bool // the tenant is listening: the event goes to its feed too
	// when it happened; for a received payment, when its event was received
	CreatedAt time.Time `pg:"created_at"`
	// of the payment or settlement, so that the delivery is a step of its trace
	Traceparent string `pg:"traceparent"`
	Payload     Payload
}
