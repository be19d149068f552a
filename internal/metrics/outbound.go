package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Deliveries.
var (
	attemptAs   = each(counters("ajo_delivery_attempts_total", "Calls of tenants' endpoints: delivered; failed, to be retried; exhausted, now a dead letter.", "outcome"), "delivered", "failed", "exhausted")
	attemptTook = histogram("ajo_delivery_attempt_duration_seconds", "Duration of calls of tenants' endpoints, answered or not.", remote)
	// DeliveryLatency observes the seconds from an event's receipt to its delivery.
	DeliveryLatency = histogram("ajo_delivery_latency_seconds", "Time from an event's receipt to its delivery, retries included.", waited)
	Deferred        = each(counters("ajo_delivery_deferred_total", "Deliveries that were deferred: busy, too many calls in flight; held, the breaker is open; paused, the tenant has paused the endpoint.", "reason"), "busy", "held", "paused")
	breakersOpen    = newGauge[int]("ajo_delivery_breakers_open", "Endpoints to which this process sends nothing because their breaker is open.")
	breakerOldest   = newGauge[time.Duration]("ajo_delivery_breaker_oldest_open_seconds", "How long the oldest open breaker has been open.")
	BreakerChanges  = each(counters("ajo_delivery_breaker_changes_total", "Breakers that opened or closed.", "to"), "open", "closed")
)

// Calls of the bank, and of the NIN service.
var (
	bankCalls    = counters("ajo_bank_calls_total", "Calls of the bank: ok, unknown (it does not know the reference), rejected, timeout, error.", "operation", "outcome")
	bankDuration = histograms("ajo_bank_call_duration_seconds", "Call duration, including rate-limit wait and retries.", remote, "operation")
	// Doubted counts each "not found" that was not believed, by the kind of question.
	Doubted   = each(counters("ajo_bank_not_found_doubted_total", "Answers \"not found\" that were disregarded, because the bank found nothing at all.", "kind"), "transaction", "payout", "account", "lookup", "nin")
	checkedAs = each(counters("ajo_nin_checks_total", "Checks of a NIN: match, mismatch, no_such, or unavailable.", "outcome"), "match", "mismatch", "no_such", "unavailable")
	checkTook = histogram("ajo_nin_check_duration_seconds", "Duration of NIN checks.", remote)
)

// bankOperations and bankOutcomes are the calls of the bank and how they end; others are not
// counted.
var (
	bankOperations = []string{"create_account", "close_account", "find_account", "transaction", "transactions", "banks", "lookup", "pay", "payout", "token"}
	bankOutcomes   = []string{"ok", "unknown", "rejected", "timeout", "error"}
)

var (
	bankSeries = map[[2]string]prometheus.Counter{}
	bankTook   = map[string]prometheus.Observer{}
)

func init() {
	for _, call := range bankOperations {
		bankTook[call] = bankDuration.WithLabelValues(call)
		for _, outcome := range bankOutcomes {
			bankSeries[[2]string{call, outcome}] = bankCalls.WithLabelValues(call, outcome)
		}
	}
}

// Attempted counts a call of a tenant's endpoint: "delivered", "failed" or "exhausted".
func Attempted(outcome string, took time.Duration) {
	attemptAs.Inc(outcome)
	attemptTook.Observe(took.Seconds())
}

// Breakers shows how many breakers are open, and for how long the longest.
func Breakers(open int, oldest time.Duration) {
	breakersOpen.Set(open)
	breakerOldest.Set(oldest)
}

// BankCalled counts a call of the bank; it fits nomba's Options.Observe.
func BankCalled(call, outcome string, took time.Duration) {
	if c := bankSeries[[2]string{call, outcome}]; c != nil {
		c.Inc()
		bankTook[call].Observe(took.Seconds())
	}
}

// NINChecked counts a check of a NIN.
func NINChecked(outcome string, took time.Duration) {
	checkedAs.Inc(outcome)
	checkTook.Observe(took.Seconds())
}
