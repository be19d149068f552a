package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
)

// skewedProgram builds the binary with a standard library whose time.Now is off by as many seconds
// as AJO_TEST_SKEW says, or the file that AJO_TEST_SKEW_FILE names, at any moment: all of the
// process then has the wrong time, asynq and the libraries too, as on a machine whose clock is off.
// (Go reads no clock that a preloaded library could stand for, and a time namespace moves other
// clocks than this one.)
var skewedProgram = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(ajo)
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		return "", err
	}
	const before = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if !strings.Contains(string(source), before) {
		return "", fmt.Errorf("time.Now of this Go is not the one that the test knows: look at %s", std)
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for name, text := range map[string]string{
		"time.go": strings.Replace(string(source), before, before+"\tsec += skewed.Load()\n", 1),
		"skewed.go": `package time

import (
	"sync/atomic"
	"syscall"
)

var skewed atomic.Int64

func init() {
	text, _ := syscall.Getenv("AJO_TEST_SKEW")
	skewed.Store(seconds(text))
	file, ok := syscall.Getenv("AJO_TEST_SKEW_FILE")
	if !ok {
		return
	}
	go func() {
		for ; ; Sleep(50 * Millisecond) {
			text := make([]byte, 20)
			n := 0
			if fd, err := syscall.Open(file, syscall.O_RDONLY, 0); err == nil {
				n, _ = syscall.Read(fd, text)
				syscall.Close(fd)
			}
			skewed.Store(seconds(string(text[:max(0, n)])))
		}
	}()
}

func seconds(text string) (n int64) {
	for _, c := range text {
		if '0' <= c && c <= '9' {
			n = 10*n + int64(c-'0')
		}
	}
	if len(text) > 0 && text[0] == '-' {
		n = -n
	}
	return n
}
`,
	} {
		file := filepath.Join(dir, "skewed-"+name)
		overlay["Replace"][filepath.Join(std, name)] = file
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file, program := filepath.Join(dir, "skewed.json"), filepath.Join(dir, "ajo-skewed")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	return program, build(program, "-gcflags=", "-overlay", file)
})

// startSkewed runs a worker on a machine whose clock is off by d.
func (w *world) startSkewed(d time.Duration) *process {
	w.t.Helper()
	return w.startSkewedBy(fmt.Sprintf("AJO_TEST_SKEW=%d", int(d.Seconds())))
}

// startSkewedBySteps runs a worker on a machine whose clock is off by what the last call of leap
// said.
func (w *world) startSkewedBySteps() (worker *process, leap func(time.Duration)) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "skew")
	return w.startSkewedBy("AJO_TEST_SKEW_FILE=" + file), func(d time.Duration) {
		w.t.Helper()
		require.NoError(w.t, os.WriteFile(file+".new", fmt.Append(nil, int(d.Seconds())), 0o600))
		require.NoError(w.t, os.Rename(file+".new", file))
	}
}

func (w *world) startSkewedBy(settings ...string) *process {
	w.t.Helper()
	program, err := skewedProgram()
	require.NoError(w.t, err)
	w.program = func(args []string) *exec.Cmd {
		return exec.Command("env", append(append(settings, program), args...)...)
	}
	defer func() { w.program = nil }()
	return w.startWorker("")
}

const (
	skewedPayments = 40
	skewedPayouts  = 12
	// lifetime is that of the one-time accounts: a worker whose clock is ahead would end them at
	// once.
	lifetime = 12 * time.Second
)

// One of two workers has its clock ten minutes ahead, or behind, and then is alone: payments are
// posted, confirmed and delivered with signatures that their receivers take; deliveries that failed
// come again, and payouts that the bank pays later or whose answers are lost are asked about, each
// in its time; one-time accounts end when they should. Nothing is done twice.
func TestSkewedWorker(t *testing.T) {
	for name, off := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settings["AJO_SETTLE_DELAYS"], w.settings["AJO_SETTLE_LEASE"] = "200ms,500ms,1s", "20s"
			p := w.settle()
			skewed := p.startSkewed(off)
			line := skewed.logged("this machine's clock is off; Postgres' time is used instead, but what Redis keeps for later may run early or late")
			ahead, err := time.ParseDuration(fmt.Sprint(line["ahead"]))
			require.NoError(t, err)
			require.InDelta(t, off.Seconds(), ahead.Seconds(), 1)
			right := p.startWorker("")
			// every third call fails
			p.endpoint.answers(func(n int) int { return 200 + 300*(n%3/2) })

			begin := time.Now()
			once := p.openOnce(2, begin.Add(lifetime))
			p.txs = append(p.txs, p.payAndTell(once[0].BankAccountNumber, "5000.00"))
			for range skewedPayments / 2 {
				p.txs = append(p.txs, p.payAndTell(p.nuban, "5000.00"))
			}
			p.waitForEnd(len(p.txs))
			p.bank.Faults.Set(
				fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Pending, Delay: 2 * time.Second, Percent: 40},
				fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter, Percent: 40},
			)
			p.payOut(0, skewedPayouts/2)
			p.payOutsEnd(skewedPayouts / 2)
			right.Signal(syscall.SIGTERM)
			require.Zero(t, right.exit())

			for range skewedPayments / 2 {
				p.txs = append(p.txs, p.payAndTell(p.nuban, "5000.00"))
			}
			p.payOut(skewedPayouts/2, skewedPayouts)
			p.eventually("the one-time accounts to end", func() bool {
				return p.count(`SELECT count(*) FROM accounts WHERE status = 'expired' AND closed_at IS NOT NULL`) == len(once)
			})
			p.eventually("all payments posted, delivered and confirmed", func() bool {
				n := len(p.txs)
				at := p.progress()
				return at.posted == n && at.delivered == n && at.confirmed == n+p.count(`SELECT count(*) FROM transfers WHERE status = 'success'`)
			})
			p.payOutsEnd(skewedPayouts)
			p.checkSkewed(once)
			t.Logf("%s, %d payments, %d payouts; the accounts ended %s after their deadline at the latest; delivered after %s at the latest", time.Since(begin).Round(time.Second),
				len(p.txs), skewedPayouts, p.latest(`SELECT max(extract(epoch FROM h.created_at - a.expires_at)) FROM accounts a JOIN account_history h ON h.account_id = a.id AND h.to_status = 'expired'`),
				p.latest(`SELECT max(extract(epoch FROM delivered_at - created_at)) FROM deliveries`))
		})
	}
}

// openOnce opens one-time accounts that end at the given time.
func (p *paid) openOnce(n int, ends time.Time) (all []account) {
	p.t.Helper()
	for i := range n {
		var a account
		p.tenant.want(201, "POST", "/v1/accounts", map[string]string{
			"externalRef": fmt.Sprintf("order-%d", i), "name": "Ada Obi", "mode": "onetime", "expiresAt": ends.UTC().Format(time.RFC3339),
		}).into(p.t, &a)
		all = append(all, a)
	}
	return all
}

// payOut asks for payouts of 1,000.00 to the destinations from to to.
func (p *paid) payOut(from, to int) {
	p.t.Helper()
	for i := from; i < to; i++ {
		p.tenant.want(202, "POST", "/v1/accounts/shop-1/settle", map[string]string{"amount": "1000.00", "bankCode": "058", "accountNumber": fmt.Sprintf("7%09d", i)})
	}
}

func (p *paid) payOutsEnd(n int) {
	p.t.Helper()
	p.eventually("the payouts to end", func() bool { return p.count(`SELECT count(*) FROM transfers WHERE status = 'success'`) == n })
}

// checkSkewed compares the books with the bank's: each payment and each payout once, and every
// account ended at its time.
func (p *paid) checkSkewed(once []account) {
	t := p.t
	t.Helper()
	findings, err := invariant.Verify(context.Background(), p.Pool)
	require.NoError(t, err)
	require.Empty(t, findings)
	require.Equal(t, len(p.txs), p.count(`SELECT count(*) FROM ledger_entries WHERE direction = 'credit' AND status = 'confirmed'`))
	require.Equal(t, len(p.txs), len(p.endpoint.groups()))
	p.endpoint.checkAll()
	to := map[string]bool{}
	for _, out := range p.bank.Payouts() {
		require.False(t, to[out.AccountNumber], "paid twice: %s", out.AccountNumber)
		to[out.AccountNumber] = true
		require.Equal(t, 1, out.Submissions, "submitted again: %s", out.Ref)
	}
	require.Len(t, to, skewedPayouts)
	sum := money.FromKobo(int64(p.count(`SELECT (sum(balance) * 100)::bigint FROM ledger_balances`)))
	require.Equal(t, p.bank.Wallet().String(), sum.String())
	for _, a := range once {
		require.Equal(t, 1, p.count(`
			SELECT count(*) FROM accounts a JOIN account_history h ON h.account_id = a.id AND h.to_status = 'expired'
			WHERE a.id = $1 AND a.expired_at = a.expires_at AND h.created_at BETWEEN a.expires_at AND a.expires_at + interval '45 s'`, a.ID), "account %s", a.AccountRef)
	}
}
