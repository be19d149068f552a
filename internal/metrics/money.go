package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What the last light check of the books saw ([ajo/internal/invariant]); all are of one moment, in
// each worker, once a minute.
var (
	violations       = gauge("ajo_invariant_violations", "Rows that break an invariant, among the sums and what was posted in the last minutes. Above 0: run ajo ledger verify.")
	lastRun          = gauge("ajo_invariant_last_run_timestamp_seconds", "When the check last completed.")
	accounts         = gauge("ajo_invariant_accounts", "Accounts with a balance.")
	negativeBalances = gauge("ajo_invariant_negative_balances", "Accounts below zero, where money was paid out that the bank then took back.")
	provisional      = gauge("ajo_invariant_provisional_credits", "Credits that the bank has not confirmed yet.")
	provisionalNaira = gauge("ajo_invariant_provisional_naira", "Sum of the unconfirmed credits, in whole naira.")
	provisionalAge   = gauge("ajo_invariant_provisional_oldest_seconds", "Age of the oldest unconfirmed credit.")
	reviews          = gauge("ajo_invariant_needs_review", "Payments under review, which an operator must decide.")
	recallAge        = gauge("ajo_invariant_recall_oldest_seconds", "Age of the oldest open recall: a payment that the bank may have taken back.")
	freezes          = gauge("ajo_invariant_freezes", "Freezes of payouts that stand.")
	freezeAge        = gauge("ajo_invariant_freeze_oldest_seconds", "Time since the oldest freeze that stands began.")
	unposted         = gauge("ajo_invariant_unposted_events", "Events that wait to be posted.")
	unpostedAge      = gauge("ajo_invariant_unposted_oldest_seconds", "Age of the oldest event that waits to be posted.")
	misdirected      = gauge("ajo_invariant_misdirected_events", "Payments that match no account, without those that were paid back.")
	pending          = gauge("ajo_invariant_pending_transfers", "Transfers that have not been submitted.")
	pendingAge       = gauge("ajo_invariant_pending_oldest_seconds", "Age of the oldest transfer that has not been submitted, without those that a freeze or a suspension stops.")
	processing       = gauge("ajo_invariant_processing_transfers", "Transfers whose outcome is not known yet.")
	processingAge    = gauge("ajo_invariant_processing_oldest_seconds", "Time since the submission of the oldest transfer whose outcome is not known.")
	differing        = gauge("ajo_invariant_differing_transfers", "Transfers whose record at the bank differs from the books, and that nobody has resolved.")
	deadLetters      = gauge("ajo_invariant_dead_letters", "Deliveries that were given up.")
)

// Books are the figures of one light check.
type Books struct {
	At                                                     time.Time
	Violations, Accounts, NegativeBalances, ProvisionalN   int64
	ProvisionalNaira, Reviews, Unposted, Misdirected       int64
	Pending, Processing, Differing, DeadLetters, Freezes   int64
	ProvisionalAge, UnpostedAge, PendingAge, ProcessingAge time.Duration
	RecallAge, FreezeAge                                   time.Duration
}

// BooksChecked shows the figures of a check that ran to its end.
func BooksChecked(b Books) {
	for g, n := range map[prometheus.Gauge]int64{
		violations: b.Violations, accounts: b.Accounts, negativeBalances: b.NegativeBalances, provisional: b.ProvisionalN,
		provisionalNaira: b.ProvisionalNaira, reviews: b.Reviews, unposted: b.Unposted, misdirected: b.Misdirected, pending: b.Pending,
		processing: b.Processing, differing: b.Differing, deadLetters: b.DeadLetters, freezes: b.Freezes,
	} {
		g.Set(float64(n))
	}
	for g, d := range map[prometheus.Gauge]time.Duration{
		provisionalAge: b.ProvisionalAge, unpostedAge: b.UnpostedAge, pendingAge: b.PendingAge, processingAge: b.ProcessingAge, recallAge: b.RecallAge,
		freezeAge: b.FreezeAge,
	} {
		g.Set(d.Seconds())
	}
	lastRun.Set(float64(b.At.Unix()))
}

// Events, payments, transfers.
var (
	events         = counters("ajo_inbound_events_total", "Calls of the bank's webhook: stored, duplicate, forged (no valid signature), spooled (Postgres was unavailable), refused (not stored).", "outcome")
	paymentsPosted = counters("ajo_payments_total", "Events that were posted, or ended in another category.", "category")
	postedLatency  = histograms("ajo_payment_posting_seconds", "Time from receiving an event to posting it, or to its other end.", waited)
	confirmations  = counters("ajo_confirmations_total", "Checks of posted payments with the bank, by outcome; later: the answer decides nothing yet.", "outcome")
	transferEnds   = counters("ajo_transfers_ended_total", "Transfers that ended; one that is refunded after success counts twice.", "status")

	reconciledUntil = gauge("ajo_reconcile_read_until_timestamp_seconds", "End of the newest window in which books and bank were compared; 0: none yet.")
	reconcileOdd    = gauge("ajo_reconcile_exceptions", "Differences between bank and books, in the newest finished reconciliation, that an operator must check.")
	reconcileLate   = gauges("ajo_reconcile_overdue_seconds", "For how long the oldest run of a kind has been due that has not finished: daily, a day of the bank's list read once more; again, a time in which the list was behind.", "kind")
)

// Outcomes of an inbound event.
var (
	EventStored    = events.WithLabelValues("stored")
	EventDuplicate = events.WithLabelValues("duplicate")
	EventForged    = events.WithLabelValues("forged")
	EventSpooled   = events.WithLabelValues("spooled")
	EventRefused   = events.WithLabelValues("refused")

	EventPreviousSecret = counter("ajo_inbound_previous_secret_total", "Events that the bank still signed with its previous webhook secret.")
)

// Categories, confirmations and ends are there from the start.
var (
	postedAs    = each(paymentsPosted, "payment", "misdirected", "processing_error")
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

// Posted counts an event that was posted or refused, and how long after its receipt.
func Posted(category string, after time.Duration) {
	count(postedAs, category)
	postedAfter.Observe(after.Seconds())
}

// Confirmation counts the result of a question about a payment.
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

// ReconcileOverdue shows for how long runs of the two other kinds have been due.
func ReconcileOverdue(daily, again time.Duration) {
	reconcileLate.WithLabelValues("daily").Set(daily.Seconds())
	reconcileLate.WithLabelValues("again").Set(again.Seconds())
}

func init() { ReconcileOverdue(0, 0) }
