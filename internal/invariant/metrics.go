package invariant

import (
	"time"

	"ajo/internal/metrics"
)

// Publish shows the state as gauges.
func (s State) Publish(now time.Time) {
	metrics.BooksChecked(metrics.Books{
		At: now, Violations: int64(len(s.Findings)), Accounts: s.Accounts, NegativeBalances: s.NegativeBalances,
		ProvisionalN: s.ProvisionalCount, ProvisionalNaira: s.ProvisionalNaira, ProvisionalAge: s.ProvisionalOldest, Reviews: s.ReviewCount,
		Unposted: s.UnpostedCount, UnpostedAge: s.UnpostedOldest, Misdirected: s.MisdirectedCount, Pending: s.PendingCount + s.StoppedCount, PendingAge: s.PendingOldest,
		Processing: s.ProcessingCount, ProcessingAge: s.ProcessingOldest, Differing: s.DifferingCount, DeadLetters: s.DeadLetters,
		RecallAge: s.RecallOldest, Freezes: s.FreezeCount, FreezeAge: s.FreezeOldest,
	})
}
