package payment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/testenv"
)

// Each answer of the bank is counted by what it means.
func TestConfirmationsAreCounted(t *testing.T) {
	b := setup(t) // not beside other tests, whose answers are counted too
	for outcome, change := range map[string]func(*fakebank.Transaction){
		"confirmed":    func(*fakebank.Transaction) {},
		"reversed":     func(x *fakebank.Transaction) { x.Status = "REFUND" },
		"later":        func(x *fakebank.Transaction) { x.Status = "PENDING_BILLING" },
		"needs_review": func(x *fakebank.Transaction) { x.Amount = money.Must("1.00") },
	} {
		id, txn := b.paid()
		b.bank.SetTransaction(txn.ID, change)
		want := testenv.Metric(t, "ajo_confirmations_total")
		want[outcome]++
		b.check(id)
		require.Equal(t, want, testenv.Metric(t, "ajo_confirmations_total"))
	}
}

// So is each event that comes, by its outcome.
func TestEventsAreCounted(t *testing.T) {
	b := setup(t) // as above
	event := b.event(nil)
	forged := event
	forged.Signature = "AAAA" + event.Signature[4:]
	for _, c := range []struct {
		outcome string
		event   payment.InboundRequest
	}{{"stored", event}, {"duplicate", event}, {"forged", forged}, {"stored", b.event(nil)}, {"forged", forged}} {
		want := testenv.Metric(t, "ajo_inbound_events_total")
		want[c.outcome]++
		b.receive(c.event)
		require.Equal(t, want, testenv.Metric(t, "ajo_inbound_events_total"))
	}
}
