package e2e

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/testenv"
)

const submissions = "POST /v2/transfers/bank"

// orders asks for n settlements of an account.
func (s *settler) orders(account string, n int) {
	s.t.Helper()
	s.fund(account, money.FromKobo(int64(n)*10_00))
	for i := range n {
		ok, err := s.order(&payout{account: account, accountNumber: fmt.Sprintf("1%09d", i), amount: money.Must("10.00")})
		require.NoError(s.t, err)
		require.True(s.t, ok)
	}
}

// unsent are the references that are recorded as submitted, and that the bank does not have.
func (s *settler) unsent() []string {
	s.t.Helper()
	there := []string{}
	for _, p := range s.bank.Payouts() {
		there = append(there, p.Ref)
	}
	return testenv.Value[[]string](s.Env, `SELECT coalesce(array_agg(merchant_tx_ref), '{}') FROM transfers WHERE status = 'processing' AND merchant_tx_ref <> ALL($1)`, there)
}

// transactions are those that other connections than the test's have begun.
func (s *settler) transactions() int {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = 'client backend'`)
}

// A worker is stopped (SIGSTOP) while payouts that it has recorded as submitted wait for their turn
// at the bank. Another worker asks about them once their leases have ended, finds that the bank has
// none of them, and pays them. Then the first goes on, and submits nothing.
func TestStoppedWorkerSubmitsNothing(t *testing.T) {
	s := newSettler(t)
	s.startAPI()
	s.settings["AJO_PROVIDER_POST_RATE"] = "1" // a second between two submissions or look-ups
	stopped := s.startWorker("settle")
	const payouts = 6
	s.orders("shop", payouts)
	var waiting []string
	s.eventually("a stopped worker with a payout that waits for its turn", func() bool {
		if len(s.unsent()) == 0 {
			return false
		}
		stopped.Signal(syscall.SIGSTOP)
		// it had its turn in this moment, or holds rows that the other worker would wait for
		if waiting = s.unsent(); len(waiting) == 0 || s.transactions() > 0 {
			waiting = nil
			stopped.Signal(syscall.SIGCONT)
		}
		return len(waiting) > 0
	})
	s.settings["AJO_PROVIDER_POST_RATE"] = "-1"
	s.startWorker("settle")
	s.eventually("the other worker to have paid all", func() bool {
		return s.count(`SELECT count(*) FROM transfers WHERE status = 'success'`) == payouts
	})
	require.Positive(t, s.count(`SELECT count(*) FROM transfers WHERE merchant_tx_ref = ANY($1) AND attempt_count = 2`, waiting),
		"the bank was asked, and had none of it")
	calls := s.bank.Calls(submissions)
	stopped.Signal(syscall.SIGCONT)
	s.stops(stopped) // what it has in hand ends first
	require.Equal(t, calls, s.bank.Calls(submissions), "it submits nothing any more")
	s.checkPayouts()
}

// Two workers share the turns of one recipient at the bank, of which a tenant alone has all but
// one: a payout without a turn waits, and is not submitted.
func TestWorkersShareTurns(t *testing.T) {
	s := newSettler(t)
	s.settings["AJO_PROVIDER_RECIPIENT_RATE"] = "3"
	s.startAPI()
	s.startWorker("settle")
	s.startWorker("settle")
	s.fund("shop", money.Must("50.00"))
	for i := range 5 {
		a, err := request("POST", s.apiURL+"/v1/accounts/shop/settle", map[string]string{"amount": "10.00", "bankCode": "058", "accountNumber": "0123456789"},
			http.Header{"X-Api-Key": {s.key}, "Idempotency-Key": {fmt.Sprint("sweep ", i)}})
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, a.status, string(a.body))
	}
	s.eventually("two paid, and three that wait for their turn", func() bool {
		return s.count(`SELECT count(*) FROM transfers WHERE status = 'success' AND attempt_count = 1`) == 2 &&
			s.count(`SELECT count(*) FROM transfers WHERE status = 'pending' AND attempt_count = 0 AND last_error LIKE '%its turn%'`) == 3
	})
	require.Len(t, s.bank.Payouts(), 2)
}

// A worker is killed while it waits for the bank's answers to many submissions. With the default
// settings, another goes on with each soon: it asks about it by reference. Nothing is paid twice.
func TestDeadWorkersTransfersGoOn(t *testing.T) {
	s := newSettler(t)
	for _, name := range []string{"AJO_SETTLE_LEASE", "AJO_SWEEP_EVERY", "AJO_SETTLE_DELAYS"} {
		delete(s.settings, name)
	}
	s.startAPI()
	answer := make(chan struct{})
	s.bank.Faults.Add(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Slow, Delay: time.Hour, Until: answer, Next: 32})
	const payouts = 100
	s.orders("shop", payouts)
	begun := time.Now()
	dead := s.startWorker("settle") // takes up many at once; the first, and so the one that sweeps
	const inHand = `FROM transfers t JOIN work w ON w.id = t.id WHERE status = 'processing' AND leased_until IS NOT NULL`
	s.eventually("many submissions that wait for their answers", func() bool { return s.count(`SELECT count(*) `+inHand) >= 30 })
	machine := time.Since(begun) // a second where nothing else is done
	dead.Kill()
	killed := time.Now()
	left := testenv.Value[[]string](s.Env, `SELECT array_agg(merchant_tx_ref) `+inHand)
	s.startWorker("settle")
	var after []time.Duration
	testenv.Eventually(t, 10*time.Minute, "another worker to have gone on with each", func() bool {
		on := s.count(`SELECT count(*) FROM transfers WHERE merchant_tx_ref = ANY($1) AND (status <> 'processing' OR ask_count > 0 OR attempt_count > 1)`, left)
		for len(after) < on {
			after = append(after, time.Since(killed).Round(100*time.Millisecond))
		}
		return on == len(left)
	})
	close(answer)
	t.Logf("of %d transfers that a killed worker had leased, another went on with the first after %s, with half after %s, with all after %s", len(left),
		after[0], after[len(after)/2], after[len(after)-1])
	require.Less(t, after[len(after)-1], time.Minute+5*machine, "30 s on a machine that does nothing else")
	s.eventually("the end of all", func() bool { return s.count(`SELECT count(*) FROM transfers WHERE status = 'success'`) == payouts })
	s.checkPayouts()
}
