package e2e

import (
	"encoding/json"
	"errors"
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
	"ajo/internal/testenv"
)

// skewedProgram links the binary with a standard library whose time.Now is off by as many seconds
// as AJO_TEST_SKEW says, or the file that AJO_TEST_SKEW_FILE names, at any moment: all of the
// process then has the wrong time, asynq and the libraries too, as on a machine whose clock is off.
// (Go reads no clock that a preloaded library could stand for, and a time namespace moves other
// clocks than this one.) Package time alone is compiled anew. What it offers stays the same, line
// by line, so that all that was compiled for the binary itself is linked with it; if not, the
// linker says so.
var skewedProgram = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(std)
	if err != nil {
		return "", err
	}
	skewed := string(source)
	for before, after := range map[string]string{
		"import (\n\t": "import (\n\t\"syscall\"; ",
		"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n": "func Now() Time {\n\tsec, nsec, mono := runtimeNow(); sec += int64(syscall.Stdin)\n",
	} {
		if !strings.Contains(skewed, before) {
			return "", fmt.Errorf("time.Now of this Go is not the one that the test knows: look at %s", std)
		}
		skewed = strings.Replace(skewed, before, after, 1)
	}
	dir := filepath.Join(filepath.Dir(ajo), "skewed")
	err = os.Mkdir(dir, 0o700)
	write := func(name, text string) (path string) {
		path = filepath.Join(dir, name)
		err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	with := func(file, text string) []string { // -trimpath: else the path would tell the files apart
		overlay, _ := json.Marshal(map[string]map[string]string{"Replace": {file: write(filepath.Base(file), text)}})
		return []string{"-trimpath", "-overlay", write(filepath.Base(file)+".json", string(overlay)), plain}
	}
	list := exec.Command("go", append(append([]string{"list", "-export", "-f", "{{.Export}}"}, with(std, skewed)...), "time")...)
	list.Stderr = os.Stderr
	compiled, listErr := list.Output()
	cmd, pathErr := filepath.Abs("../../cmd/ajo/skewed.go")
	linker := write("link.sh", fmt.Sprintf(skewedLink, strings.TrimSpace(string(compiled))))
	program, flags := filepath.Join(dir, "ajo"), append(with(cmd, skewer), "-toolexec", "sh "+linker)
	if err = errors.Join(err, listErr, pathErr); err != nil {
		return "", err
	}
	return program, build(program, flags...)
})

// skewer is a file of cmd/ajo. It keeps the seconds in a variable of package syscall that nothing
// reads after the start, and that package time can see without another name of its own.
const skewer = `package main

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

func init() {
	skew(os.Getenv("AJO_TEST_SKEW"))
	if file := os.Getenv("AJO_TEST_SKEW_FILE"); file != "" {
		go func() {
			for ; ; time.Sleep(50 * time.Millisecond) {
				text, _ := os.ReadFile(file)
				skew(string(text))
			}
		}()
	}
}

//go:norace
func skew(seconds string) { syscall.Stdin, _ = strconv.Atoi(seconds) }
`

// skewedLink runs a tool of Go's; the linker takes the other package time.
const skewedLink = `case "$1" in
*/link) for file; do case "$file" in
	*/importcfg.link) sed "s|^packagefile time=.*|packagefile time=%s|" "$file" >"$file.skewed" && mv "$file.skewed" "$file" || exit ;;
	esac; done ;;
esac
exec "$@"
`

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
	testenv.FindsNothing(t, p.Pool, invariant.Verify)
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
	require.Zero(t, p.count(`
		SELECT count(*) FROM (SELECT id, created_at FROM deliveries UNION ALL SELECT id, received_at FROM inbound_events) r
		WHERE abs(extract(epoch FROM created_at) - ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0) > 300`),
		"the log of events is read on by the times in the ids")
	for _, a := range once {
		require.Equal(t, 1, p.count(`
			SELECT count(*) FROM accounts a JOIN account_history h ON h.account_id = a.id AND h.to_status = 'expired'
			WHERE a.id = $1 AND a.expired_at = a.expires_at AND h.created_at BETWEEN a.expires_at AND a.expires_at + interval '45 s'`, a.ID), "account %s", a.AccountRef)
	}
}
