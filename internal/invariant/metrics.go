package invariant

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func gauge(name, help string) prometheus.Gauge {
	return promauto.NewGauge(prometheus.GaugeOpts{Namespace: "ajo", Subsystem: "invariant", Name: name, Help: help})
}

// What the last light check of this process saw.
var (
	violations       = gauge("violations", "Rows that break an invariant, among the sums and what was posted in the last minutes. Above 0: run ajo ledger verify.")
	lastRun          = gauge("last_run_timestamp_seconds", "When the check last ran to its end.")
	accounts         = gauge("accounts", "Accounts with a balance.")
	negativeBalances = gauge("negative_balances", "Accounts below zero: paid-out money proved false.")
	provisional      = gauge("provisional_credits", "Credits that the bank has not confirmed yet.")
	provisionalAge   = gauge("provisional_oldest_seconds", "Age of the oldest of them.")
	reviews          = gauge("needs_review", "Payments that wait for a person.")
	unposted         = gauge("unposted_events", "Events that wait to be posted.")
	unpostedAge      = gauge("unposted_oldest_seconds", "Age of the oldest of them.")
	misdirected      = gauge("misdirected_events", "Payments that found no account.")
	pending          = gauge("pending_transfers", "Transfers that have not been submitted.")
	pendingAge       = gauge("pending_oldest_seconds", "Age of the oldest of them.")
	processing       = gauge("processing_transfers", "Transfers whose outcome is not known yet.")
	processingAge    = gauge("processing_oldest_seconds", "Time since the submission of the oldest of them.")
	deadLetters      = gauge("dead_letters", "Deliveries that were given up.")
)

// Publish shows the state as Prometheus gauges, in the default registry.
func (s State) Publish(now time.Time) {
	for g, n := range map[prometheus.Gauge]int64{
		violations: int64(len(s.Findings)), lastRun: now.Unix(), accounts: s.Accounts, negativeBalances: s.NegativeBalances,
		provisional: s.ProvisionalCount, reviews: s.ReviewCount, unposted: s.UnpostedCount, misdirected: s.MisdirectedCount,
		pending: s.PendingCount, processing: s.ProcessingCount, deadLetters: s.DeadLetters,
		provisionalAge: seconds(s.ProvisionalOldest), unpostedAge: seconds(s.UnpostedOldest), pendingAge: seconds(s.PendingOldest),
		processingAge: seconds(s.ProcessingOldest),
	} {
		g.Set(float64(n))
	}
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
