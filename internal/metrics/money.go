package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What the last light check of the books saw ([ajo/internal/invariant]); all are of one moment, in
// each worker, once a minute.
var (
	violations       = gauge("ajo_invariant_violations", "Rows that break an invariant, among the sums and what was posted in the last minutes. Above 0: run ajo ledger verify.")
	lastRun          = gauge("ajo_invariant_last_run_timestamp_seconds", "When the check last ran to its end.")
	accounts         = gauge("ajo_invariant_accounts", "Accounts with a balance.")
	negativeBalances = gauge("ajo_invariant_negative_balances", "Accounts below zero: paid-out money proved false.")
	provisional      = gauge("ajo_invariant_provisional_credits", "Credits that the bank has not confirmed yet.")
	provisionalNaira = gauge("ajo_invariant_provisional_naira", "Their sum, in whole naira.")
	provisionalAge   = gauge("ajo_invariant_provisional_oldest_seconds", "Age of the oldest of them.")
	reviews          = gauge("ajo_invariant_needs_review", "Payments that wait for a person.")
	recallAge        = gauge("ajo_invariant_recall_oldest_seconds", "How long the bank has been asked about the oldest payment that it is said to have taken back.")
	unposted         = gauge("ajo_invariant_unposted_events", "Events that wait to be posted.")
	unpostedAge      = gauge("ajo_invariant_unposted_oldest_seconds", "Age of the oldest of them.")
	misdirected      = gauge("ajo_invariant_misdirected_events", "Payments that found no account.")
	pending          = gauge("ajo_invariant_pending_transfers", "Transfers that have not been submitted.")
	pendingAge       = gauge("ajo_invariant_pending_oldest_seconds", "Age of the oldest of them.")
	processing       = gauge("ajo_invariant_processing_transfers", "Transfers whose outcome is not known yet.")
	processingAge    = gauge("ajo_invariant_processing_oldest_seconds", "Time since the submission of the oldest of them.")
	differing        = gauge("ajo_invariant_differing_transfers", "Transfers of which the bank's record says what the books do not, and that nobody has dealt with.")
	deadLetters      = gauge("ajo_invariant_dead_letters", "Deliveries that were given up.")
)

// Books are the figures of one light check.
type Books struct {
	At                                                     time.Time
	Violations, Accounts, NegativeBalances, ProvisionalN   int64
	ProvisionalNaira, Reviews, Unposted, Misdirected       int64
	Pending, Processing, Differing, DeadLetters            int64
	ProvisionalAge, UnpostedAge, PendingAge, ProcessingAge time.Duration
	RecallAge                                              time.Duration
}

// BooksChecked shows the figures of a check that ran to its end.
func BooksChecked(b Books) {
	for g, n := range map[prometheus.Gauge]int64{
		violations: b.Violations, accounts: b.Accounts, negativeBalances: b.NegativeBalances, provisional: b.ProvisionalN,
		provisionalNaira: b.ProvisionalNaira, reviews: b.Reviews, unposted: b.Unposted, misdirected: b.Misdirected, pending: b.Pending,
		processing: b.Processing, differing: b.Differing, deadLetters: b.DeadLetters,
	} {
		g.Set(float64(n))
	}
	for g, d := range map[prometheus.Gauge]time.Duration{
		provisionalAge: b.ProvisionalAge, unpostedAge: b.UnpostedAge, pendingAge: b.PendingAge, processingAge: b.ProcessingAge, recallAge: b.RecallAge,
	} {
		g.Set(d.Seconds())
	}
	lastRun.Set(float64(b.At.Unix()))
}

// Events, payments, transfers.
var (
	events        = counters("ajo_inbound_events_total", "Calls of the bank's webhook: stored, duplicate, forged (no valid signature), spooled (Postgres was away), refused (stored nowhere).", "outcome")
	posted        = counters("ajo_payments_total", "Events that were posted, or came to another end.", "category")
	postedLatency = histograms("ajo_payment_posting_seconds", "Time from an event's receipt to its end in the books.", waited)
	confirmations = counters("ajo_confirmations_total", "Questions to the bank about posted payments, by what they came to; later: no answer that settles it.", "outcome")
	transferEnds  = counters("ajo_transfers_ended_total", "Transfers that came to an end; refunded after success counts again.", "status")

	reconciledUntil = gauge("ajo_reconcile_read_until_timestamp_seconds", "The end of the newest window in which books and bank were compared; 0: none yet.")
	reconcileOdd    = gauge("ajo_reconcile_exceptions", "Disagreements of bank and books in the newest finished comparison that a person must look at.")
)

// Outcomes of an inbound event.
var (
	EventStored    = events.WithLabelValues("stored")
	EventDuplicate = events.WithLabelValues("duplicate")
	EventForged    = events.WithLabelValues("forged")
	EventSpooled   = events.WithLabelValues("spooled")
	EventRefused   = events.WithLabelValues("refused")

	EventPreviousSecret = counter("ajo_inbound_previous_secret_total", "Events that the bank still signed by its previous webhook secret.")
)

// Categories, confirmations and ends are there from the start.
var (
	postedAs    = each(posted, "payment", "misdirected", "processing_error")
	confirmedAs = each(confirmations, "confirmed", "reversed", "needs_review", "later", "recalled", "kept")
	endedAs     = each(transferEnds, "success", "failed", "refunded")
	postedAfter = postedLatency.WithLabelValues()
)

func each(v *prometheus.CounterVec, values ...string) map[string]prometheus.Counter {
	m := make(map[string]prometheus.Counter, len(values))
	for _, s := range values {
		m[s] = v.WithLabelValues(s)
	}
	return m
}

// count adds one to the series of a value; of one that was not declared, nothing is kept.
func count(m map[string]prometheus.Counter, value string) {
	if c := m[value]; c != nil {
		c.Inc()
	}
}

// Posted counts an event that came to an end in the books, so long after it was received.
func Posted(category string, after time.Duration) {
	count(postedAs, category)
	postedAfter.Observe(after.Seconds())
}

// Confirmation counts what a question about a payment came to.
func Confirmation(outcome string) { count(confirmedAs, outcome) }

// TransferEnded counts a transfer's end.
func TransferEnded(status string) { count(endedAs, status) }

// Reconciled shows how far books and bank have been compared, and how many disagreements the newest
// comparison found.
func Reconciled(until *time.Time, exceptions int64) {
	if until != nil {
		reconciledUntil.Set(float64(until.Unix()))
	}
	reconcileOdd.Set(float64(exceptions))
}
