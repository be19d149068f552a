package metrics

import "time"

// What the last light check of the books saw ([ajo/internal/invariant]), in each worker, once a
// minute. All are of one moment, except the sums of the balances (accounts, negative balances, the
// sum of the unconfirmed credits): they are older where there are so many accounts that reading
// them takes long.
var (
	Violations          = newGauge[int]("ajo_invariant_violations", "Rows that break an invariant, among the sums and what was posted in the last minutes. Above 0: run ajo ledger verify.")
	BooksChecked        = newGauge[time.Time]("ajo_invariant_last_run_timestamp_seconds", "When the check last completed, with all of its parts.")
	Accounts            = newGauge[int64]("ajo_invariant_accounts", "Accounts with a balance.")
	NegativeBalances    = newGauge[int64]("ajo_invariant_negative_balances", "Accounts below zero, where money was paid out that the bank then took back.")
	ProvisionalCredits  = newGauge[int64]("ajo_invariant_provisional_credits", "Credits that the bank has not confirmed yet.")
	ProvisionalNaira    = newGauge[int64]("ajo_invariant_provisional_naira", "Sum of the unconfirmed credits, in whole naira.")
	ProvisionalOldest   = newGauge[time.Duration]("ajo_invariant_provisional_oldest_seconds", "Age of the oldest unconfirmed credit.")
	Reviews             = newGauge[int64]("ajo_invariant_needs_review", "Payments under review, which an operator must decide.")
	RecallOldest        = newGauge[time.Duration]("ajo_invariant_recall_oldest_seconds", "Age of the oldest open recall: a payment that the bank may have taken back.")
	Freezes             = newGauge[int64]("ajo_invariant_freezes", "Freezes of payouts that stand.")
	FreezeOldest        = newGauge[time.Duration]("ajo_invariant_freeze_oldest_seconds", "Time since the oldest freeze that stands began.")
	UnpostedEvents      = newGauge[int64]("ajo_invariant_unposted_events", "Events that wait to be posted.")
	UnpostedOldest      = newGauge[time.Duration]("ajo_invariant_unposted_oldest_seconds", "Age of the oldest event that waits to be posted.")
	MisdirectedEvents   = newGauge[int64]("ajo_invariant_misdirected_events", "Payments that match no account, without those that were paid back.")
	PendingTransfers    = newGauge[int64]("ajo_invariant_pending_transfers", "Transfers that have not been submitted.")
	PendingOldest       = newGauge[time.Duration]("ajo_invariant_pending_oldest_seconds", "Age of the oldest transfer that has not been submitted, without those that a freeze or a suspension stops.")
	ProcessingTransfers = newGauge[int64]("ajo_invariant_processing_transfers", "Transfers whose outcome is not known yet.")
	ProcessingOldest    = newGauge[time.Duration]("ajo_invariant_processing_oldest_seconds", "Time since the submission of the oldest transfer whose outcome is not known.")
	DifferingTransfers  = newGauge[int64]("ajo_invariant_differing_transfers", "Transfers whose record at the bank differs from the books, and that nobody has resolved.")
	DeadLetters         = newGauge[int64]("ajo_invariant_dead_letters", "Deliveries that were given up, counted up to 100,000: above that there are more.")
)

// Events, payments, transfers.
var (
	events      = counters("ajo_inbound_events_total", "Calls of the bank's webhook: stored, duplicate, forged (no valid signature), spooled (Postgres was unavailable), refused (not stored).", "outcome")
	postedAs    = each(counters("ajo_payments_total", "Events that were posted, or ended in another category.", "category"), "payment", "misdirected", "processing_error")
	postedAfter = histogram("ajo_payment_posting_seconds", "Time from receiving an event to posting it, or to its other end.", waited)
	// Confirmations are the results of questions about payments.
	Confirmations = each(counters("ajo_confirmations_total", "Checks of posted payments with the bank, by outcome; later: the answer decides nothing yet.", "outcome"),
		"confirmed", "reversed", "needs_review", "later", "recalled", "kept")
	TransfersEnded = each(counters("ajo_transfers_ended_total", "Transfers that ended; one that is refunded after success counts twice.", "status"), "success", "failed", "refunded")

	reconciledUntil = newGauge[time.Time]("ajo_reconcile_read_until_timestamp_seconds", "End of the newest window in which books and bank were compared; 0: none yet.")
	reconcileOdd    = newGauge[int64]("ajo_reconcile_exceptions", "Differences between bank and books, in the newest finished reconciliation, that an operator must check.")
	reconcileLate   = newGauge[time.Duration]("ajo_reconcile_overdue_seconds", "For how long the oldest run of a kind has been due that has not finished: daily, a day of the bank's list read once more; again, a time in which the list was behind.", "kind")
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

// Posted counts an event that was posted or refused, and how long after its receipt.
func Posted(category string, after time.Duration) {
	postedAs.Inc(category)
	postedAfter.Observe(after.Seconds())
}

// Reconciled shows how far books and bank have been compared, and how many disagreements the newest
// comparison found.
func Reconciled(until *time.Time, exceptions int64) {
	if until != nil {
		reconciledUntil.Set(*until)
	}
	reconcileOdd.Set(exceptions)
}

// ReconcileOverdue shows for how long runs of the two other kinds have been due.
func ReconcileOverdue(daily, again time.Duration) {
	reconcileLate.Set(daily, "daily")
	reconcileLate.Set(again, "again")
}

func init() { ReconcileOverdue(0, 0) }
