// Package compact makes the two JSON bodies that each payment leaves, the bank's event and the
// event for the tenant, a fraction as long for their tables.
//
// What always holds: what comes back is what went in, byte for byte, which is seen before anything
// is stored; and what was stored once is read for ever, so a form or a dictionary never changes. A
// new one gets a number of its own, and the release that writes it comes after one that reads it.
package compact

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// The body of a delivery is stored as its values: the rest follows from the row's type and group,
// and would be most of the row. The stored bytes begin with the number of a form; the values
// follow as the JSON has them, divided by line feeds, which no string of JSON has in it. What no
// form gives back is stored as it is, and begins with a brace. The check of the sums in deliveries
// (package invariant) reads the stored form too.

// form is what bodies have around their values: before the first, between two, and behind the last.
type form struct {
	first   string
	between []string
}

var forms = map[byte]form{
	'1': {`accountRef`, []string{`","amount":"`, `","gross_amount":"`, `","provider_fee":"`, `","currency":"NGN","senderName":"`, `","narration":"`}},
	'2': {`merchantTxRef`, []string{`","accountRef":"`, `","amount":"`, `","currency":"NGN","bankCode":"`, `","accountNumber":"`}},
}

// statuses are what each type of event says, as part of the forms.
var statuses = map[string]string{
	"payment.received": "provisional", "payment.confirmed": "confirmed", "payment.reversed": "reversed",
	"settlement.succeeded": "success", "settlement.failed": "failed", "settlement.refunded": "refunded",
}

func (f form) before(eventType string, group uuid.UUID) string {
	return `{"eventType":"` + eventType + `","transactionGroupId":"` + group.String() + `","` + f.first + `":"`
}

func (f form) behind(eventType string) string { return `","status":"` + statuses[eventType] + `"}` }

const valueEnd = '\n'

// Delivery returns what is stored of the body of a delivery.
func Delivery(eventType string, group uuid.UUID, body []byte) []byte {
	number := byte('1')
	if strings.HasPrefix(eventType, "settlement.") {
		number = '2'
	}
	f := forms[number]
	rest := bytes.TrimSuffix(bytes.TrimPrefix(body, []byte(f.before(eventType, group))), []byte(f.behind(eventType)))
	stored := append(make([]byte, 0, 1+len(rest)), number)
	for _, between := range f.between {
		var value []byte
		value, rest, _ = bytes.Cut(rest, []byte(between))
		stored = append(append(stored, value...), valueEnd)
	}
	stored = append(stored, rest...)
	if back, err := FullDelivery(eventType, group, stored); err != nil || !bytes.Equal(back, body) {
		return body
	}
	return stored
}

// FullDelivery returns the body of a delivery, of its columns event_type, transaction_group_id and
// body.
func FullDelivery(eventType string, group uuid.UUID, stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] == '{' {
		return stored, nil
	}
	f, known := forms[stored[0]]
	values := bytes.Split(stored[1:], []byte{valueEnd})
	if !known || len(values) != len(f.between)+1 {
		return nil, fmt.Errorf("compact: the stored body of %s %s has no form that this release knows", eventType, group)
	}
	body := append(make([]byte, 0, 512), f.before(eventType, group)...)
	for i, v := range values {
		if i > 0 {
			body = append(body, f.between[i-1]...)
		}
		body = append(body, v...)
	}
	return append(body, f.behind(eventType)...), nil
}
