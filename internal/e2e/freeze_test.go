package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/failpoint"
	"ajo/internal/fakebank"
	"ajo/internal/freeze"
	"ajo/internal/money"
)

// A worker dies at each point of a settlement, and all payouts are frozen before another one
// starts: what the bank did not have by then it does not get, and what it had ends right, under the
// freeze. When that is lifted, the others go.
func TestFreezeAtEachPoint(t *testing.T) {
	s := newSettler(t)
	s.settings["AJO_SETTLE_RECHECKS"] = "1h" // which ask the bank, too
	s.startAPI()
	freezes := &freeze.Service{Pool: s.Pool, Clock: clock.System}
	by := audit.By{Actor: "cli:ada", Reason: "the bank pays twice"}
	n := 0
	for _, point := range failpoint.Points {
		if !strings.HasPrefix(point, "transfer/") || strings.Contains(point, "accept:") {
			continue // the points that a worker passes
		}
		n++
		p := &payout{account: fmt.Sprintf("shop-%d", n), accountNumber: fmt.Sprintf("1%09d", n), amount: money.Must("100.00")}
		s.fund(p.account, p.amount)
		if strings.Contains(point, "ask") || strings.Contains(point, "postpone") {
			s.bank.Faults.Add(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter, Match: p.accountNumber, Next: 1})
		}
		s.settings["AJO_FAILPOINT"] = point
		dies := s.startWorker("settle")
		delete(s.settings, "AJO_FAILPOINT")
		ok, err := s.order(p)
		require.NoError(t, err)
		require.True(t, ok)
		s.eventually("the death at "+point, dies.Ended)

		begun := time.Now()
		f, err := freezes.Begin(context.Background(), freeze.New{Scope: freeze.Payouts}, by)
		require.NoError(t, err)
		took := time.Since(begun)
		sent := s.sent(p)
		s.Exec(`UPDATE work SET leased_until = now() WHERE leased_until > now()`)
		worker := s.startWorker("settle")
		if sent {
			s.eventually("the end of what the bank has", func() bool { return s.statusOf(p.ref) == "success" })
		} else {
			s.eventually("the worker to find the freeze", func() bool {
				return s.count(`SELECT count(*) FROM transfers WHERE merchant_tx_ref = $1 AND status IN ('pending', 'processing') AND last_error LIKE '%frozen%'`, p.ref) == 1
			})
			require.False(t, s.sent(p), point)
		}
		lifted := time.Now()
		_, err = freezes.Lift(context.Background(), f.ID, by)
		require.NoError(t, err)
		s.eventually("the payout", func() bool { return s.statusOf(p.ref) == "success" })
		t.Logf("%-32s sent before: %-5v frozen within %-8s paid %s after the lift", point, sent, took.Round(10*time.Microsecond), time.Since(lifted).Round(time.Millisecond))
		worker.Kill()
		s.eventually("the worker's end", worker.Ended)
		s.Exec(`UPDATE work SET leased_until = now() WHERE leased_until > now()`)
	}
	require.Equal(t, 14, n)
	s.checkPayouts()
}

// sent reports whether the bank has the payout.
func (s *settler) sent(p *payout) bool {
	return slices.ContainsFunc(s.bank.Payouts(), func(b fakebank.Payout) bool { return b.Ref == p.ref })
}
