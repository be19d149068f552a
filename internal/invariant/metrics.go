package invariant

import (
	"time"

	"ajo/internal/metrics"
)

// Publish shows the state as gauges; as that of a completed check only if nothing was missed.
func (s State) Publish(now time.Time) {
	metrics.Violations.Set(len(s.Findings))
	metrics.Accounts.Set(s.Accounts)
	metrics.NegativeBalances.Set(s.NegativeBalances)
	metrics.ProvisionalCredits.Set(s.ProvisionalCount)
	metrics.ProvisionalNaira.Set(s.ProvisionalNaira)
	metrics.ProvisionalOldest.Set(s.ProvisionalOldest)
	metrics.Reviews.Set(s.ReviewCount)
	metrics.RecallOldest.Set(s.RecallOldest)
	metrics.Freezes.Set(s.FreezeCount)
	metrics.FreezeOldest.Set(s.FreezeOldest)
	metrics.UnpostedEvents.Set(s.UnpostedCount)
	metrics.UnpostedOldest.Set(s.UnpostedOldest)
	metrics.MisdirectedEvents.Set(s.MisdirectedCount)
	metrics.PendingTransfers.Set(max(s.PendingCount+s.StoppedCount, NotRead))
	metrics.PendingOldest.Set(s.PendingOldest)
	metrics.ProcessingTransfers.Set(s.ProcessingCount)
	metrics.ProcessingOldest.Set(s.ProcessingOldest)
	metrics.DifferingTransfers.Set(s.DifferingCount)
	metrics.DeadLetters.Set(s.DeadLetters)
	if len(s.Missed) == 0 {
		metrics.BooksChecked.Set(now)
	}
}
