package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/trace"
)

// eventType is the only outbound event.
const eventType = "payment.received"

// NewDelivery asks that a tenant be told of a payment. The caller queues none where no URL is configured.
type NewDelivery struct {
	TenantID           uuid.UUID
	AccountID          uuid.UUID
	TransactionGroupID uuid.UUID
	CallbackURL        string    // the account's, else the tenant's; passed safehttp.CheckURL when it was set
	CreatedAt          time.Time // when the payment's event was received
	Traceparent        string    // the event's, for the delivery to be a step of its trace
	Payload            PaymentReceived
}

// PaymentReceived is what the tenant is told, beside what is the same in every event. (Specification, "Outbound event".)
type PaymentReceived struct {
	AccountRef  string
	Amount      money.Amount // net: credited to the balance
	GrossAmount money.Amount // what the payer sent
	ProviderFee money.Amount
	SenderName  string
	Narration   string
}

// paymentReceived is the wire form; its fields stand in the specification's order.
type paymentReceived struct {
	EventType          string       `json:"eventType"`
	TransactionGroupID uuid.UUID    `json:"transactionGroupId"`
	AccountRef         string       `json:"accountRef"`
	Amount             money.Amount `json:"amount"`
	GrossAmount        money.Amount `json:"gross_amount"`
	ProviderFee        money.Amount `json:"provider_fee"`
	Currency           string       `json:"currency"`
	SenderName         string       `json:"senderName"`
	Narration          string       `json:"narration"`
	Status             string       `json:"status"`
}

// body builds the bytes that are stored, signed and sent. HTML's characters stay as they are: this is no web page.
func (d NewDelivery) body() ([]byte, error) {
	p := d.Payload
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(paymentReceived{
		EventType: eventType, TransactionGroupID: d.TransactionGroupID, AccountRef: p.AccountRef,
		Amount: p.Amount, GrossAmount: p.GrossAmount, ProviderFee: p.ProviderFee, Currency: money.Currency,
		SenderName: p.SenderName, Narration: p.Narration, Status: "provisional",
	})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Queue stores deliveries, due at once, in the transaction that posts their payments, with one statement however many
// there are. It returns the ids of the new rows, in the order given; a payment that has its delivery already gets no other
// and is left out. After the commit the caller rings for each id.
func Queue(ctx context.Context, tx pg.Tx, now time.Time, deliveries []NewDelivery) ([]uuid.UUID, error) {
	if len(deliveries) == 0 {
		return nil, nil
	}
	var c struct {
		id, tenant, account, group []uuid.UUID
		url, trace                 []string
		body                       [][]byte
		created                    []time.Time
	}
	for _, d := range deliveries {
		body, err := d.body()
		if err != nil {
			return nil, err
		}
		c.trace = trace.Put(c.trace, len(c.id), d.Traceparent)
		c.id = append(c.id, uuid.Must(uuid.NewV7()))
		c.tenant, c.account, c.group = append(c.tenant, d.TenantID), append(c.account, d.AccountID), append(c.group, d.TransactionGroupID)
		c.url, c.body, c.created = append(c.url, d.CallbackURL), append(c.body, body), append(c.created, d.CreatedAt)
	}
	rows, err := tx.Query(ctx, `
		WITH queued AS (
			INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status,
				next_attempt_at, created_at, traceparent)
			SELECT id, tenant, account, grp, $8, url, body, $9, $10, created, coalesce(trace, '')
			FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::bytea[], $7::timestamptz[], $11::text[])
				AS d (id, tenant, account, grp, url, body, created, trace)
			ON CONFLICT (transaction_group_id, event_type) DO NOTHING
			RETURNING id
		)
		SELECT id FROM queued ORDER BY id`, // ids are made in the order given, and sort so
		c.id, c.tenant, c.account, c.group, c.url, c.body, c.created, eventType, string(Pending), now, c.trace)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
