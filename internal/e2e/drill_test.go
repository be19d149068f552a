package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/invariant"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

const (
	drillPayments = 150 // after the dump
	drillPayouts  = 24
	// payouts that were accepted, and that no bank had heard of when the database was lost
	drillLost = 4
)

// postgresTool runs a program that comes with Postgres against the world's database.
func (w *world) postgresTool(name string, args ...string) {
	w.t.Helper()
	out, err := exec.Command(w.PostgresTool(name), args...).CombinedOutput()
	require.NoError(w.t, err, "%s: %s", name, out)
}

// libpqURL is the address of the world's database for Postgres' own programs: their library refuses
// settings of the server in it.
func (w *world) libpqURL() string {
	w.t.Helper()
	u, err := url.Parse(w.settings["AJO_DATABASE_URL"])
	require.NoError(w.t, err)
	q := u.Query()
	for _, name := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		q.Del(name)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// losesDatabase removes the database, and makes an empty one of its name.
func (w *world) losesDatabase() {
	w.t.Helper()
	u, err := url.Parse(w.settings["AJO_DATABASE_URL"])
	require.NoError(w.t, err)
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	ctx := context.Background()
	c, err := pgx.Connect(ctx, u.String())
	require.NoError(w.t, err)
	defer func() { _ = c.Close(ctx) }()
	for _, sql := range []string{"DROP DATABASE " + name + " WITH (FORCE)", "CREATE DATABASE " + name} {
		_, err := c.Exec(ctx, sql)
		require.NoError(w.t, err, sql)
	}
	w.Pool.Reset()
}

// pays asks for the payout number i, always under the same key, and returns its reference.
func (p *paid) asks(i int) string {
	p.t.Helper()
	a, err := request("POST", p.apiURL+"/v1/accounts/shop-1/settle", map[string]string{
		"amount": "1000.00", "bankCode": "058", "accountNumber": fmt.Sprintf("7%09d", i),
	}, http.Header{"X-Api-Key": {p.tenant.key}, "Idempotency-Key": {fmt.Sprintf("payout %d", i)}})
	require.NoError(p.t, err)
	require.Equal(p.t, 202, a.status, "%s", a.body)
	var accepted struct{ MerchantTxRef string }
	a.into(p.t, &accepted)
	return accepted.MerchantTxRef
}

// drills makes a change by an operator's command, and returns what it prints.
func (p *paid) drills(args ...string) string {
	p.t.Helper()
	got := runToEnd(p.t, p.dir, p.settings, append(args, "--yes", "--reason", "restore drill")...)
	require.Zero(p.t, got.code, got.out)
	return got.out
}

// The drill of deploy/runbook.md: the database is lost, and restored from a dump that is older than
// a few hundred payments and settlements. Reconciliation with the bank brings back the payments,
// `ajo transfers adopt` the payouts; the tenant sends all its settlements again, before and after
// that, and none is paid twice. A payout that was cancelled after the dump waits again, and is
// cancelled again.
func TestRestoreDrill(t *testing.T) {
	w := newWorld(t)
	w.settings["AJO_SETTLE_DELAYS"], w.settings["AJO_CONFIRM_MIN_AGE"] = "200ms,500ms,1s", "0s"
	p := w.settle()
	worker := p.startWorker("")
	for range 40 {
		p.txs = append(p.txs, p.payAndTell(p.nuban, "5000.00"))
	}
	p.waitForEnd(len(p.txs))
	before := p.asks(1000)
	p.payOutsEnd(1)
	worker.Kill()
	wrong := p.asks(1001) // waits when the dump is made, and is cancelled after it
	dump := filepath.Join(t.TempDir(), "ajo.dump")
	p.postgresTool("pg_dump", "--format=custom", "--file="+dump, w.libpqURL())

	p.drills("transfers", "cancel", wrong)
	worker = p.startWorker("")
	for range drillPayments {
		p.txs = append(p.txs, p.payAndTell(p.nuban, "5000.00"))
	}
	refs := map[int]string{}
	for i := range drillPayouts {
		refs[i] = p.asks(i)
	}
	p.payOutsEnd(1 + drillPayouts)
	p.eventually("the payments to be delivered", func() bool { return p.progress().delivered == len(p.txs) })
	worker.Kill()
	for i := range drillLost {
		refs[drillPayouts+i] = p.asks(drillPayouts + i)
	}
	told := len(p.endpoint.received())
	p.api.Kill()
	w.losesDatabase()

	lost := time.Now()
	p.postgresTool("pg_restore", "--no-owner", "--exit-on-error", "--dbname="+w.libpqURL(), dump)
	freeze := anID.FindString(p.drills("freeze", "payouts"))
	waits := runToEnd(t, w.dir, w.settings, "transfers", "list", "--status", "pending")
	require.Equal(t, []string{wrong}, regexp.MustCompile(`(?m)^AJ[A-Za-z0-9]{20,}`).FindAllString(waits.out, -1), waits.out)
	p.startAPI() // from now on events are taken
	require.Equal(t, 40, p.progress().posted)
	refsAgain := func(from, to int) {
		for i := from; i < to; i++ {
			require.Equal(t, refs[i], p.asks(i), "the same reference, which the bank knows")
		}
	}
	refsAgain(0, drillPayouts/2) // a tenant that is quicker than the operator
	p.startWorker("ingest,confirm,deliver,expire")
	report := runToEnd(t, w.dir, w.settings, "reconcile", "--from", "1h", "--json")
	require.Equal(t, 1, report.code, "%s", report.out)
	var found struct {
		Counts     map[string]int
		Exceptions []struct{ Kind, MerchantTxRef string }
	}
	require.NoError(t, json.NewDecoder(strings.NewReader(report.out[strings.Index(report.out, "{\n"):])).Decode(&found), report.out)
	require.Equal(t, drillPayments, found.Counts["missing_event"])
	adopt := []string{"transfers", "adopt"}
	for _, x := range found.Exceptions {
		if x.Kind == "unknown_payout" {
			adopt = append(adopt, x.MerchantTxRef)
		}
	}
	require.Len(t, adopt, 2+drillPayouts/2, "those that the tenant has not sent again")
	for range 2 { // a list may be given again
		p.drills(adopt...)
	}
	refsAgain(0, drillPayouts+drillLost)
	p.eventually("all payments to be posted, confirmed and delivered", func() bool {
		at := p.progress()
		return at.posted == len(p.txs) && at.delivered == len(p.txs) && p.count(`SELECT count(*) FROM ledger_entries WHERE direction = 'credit' AND status = 'confirmed'`) == len(p.txs)
	})
	p.drills("transfers", "cancel", wrong) // once more
	p.startWorker("settle")
	p.drills("freeze", "lift", freeze)
	p.payOutsEnd(1 + drillPayouts + drillLost)
	p.checkDrill(before)
	t.Logf("%d payments and %d payouts after the dump, %d payouts lost unpaid: right again %s after the loss; %d deliveries before it, %d after", drillPayments, drillPayouts,
		drillLost, time.Since(lost).Round(time.Millisecond), told, len(p.endpoint.received())-told)
}

// checkDrill compares the books with the bank's.
func (p *paid) checkDrill(before string) {
	t := p.t
	t.Helper()
	testenv.FindsNothing(t, p.Pool, invariant.Verify)
	to := map[string]bool{}
	for _, out := range p.bank.Paid() {
		require.False(t, to[out.AccountNumber], "paid twice: %s", out.AccountNumber)
		to[out.AccountNumber] = true
		require.Equal(t, 1, p.count(`
			SELECT count(*) FROM transfers t JOIN ledger_entries e ON e.transaction_group_id = t.id AND e.direction = 'debit' AND e.status = 'confirmed'
			WHERE t.merchant_tx_ref = $1 AND t.status = 'success' AND t.amount = $2 AND t.account_number = $3 AND e.amount = t.amount`, out.Ref, out.Amount, out.AccountNumber), out.Ref)
	}
	require.Len(t, to, 1+drillPayouts+drillLost)
	require.Equal(t, 1, p.count(`SELECT count(*) FROM transfers WHERE merchant_tx_ref = $1`, before))
	for _, tx := range p.txs {
		require.Equal(t, 1, p.count(`SELECT count(*) FROM ledger_entries WHERE provider_txn_ref = $1 AND amount = $2`, tx.ID, tx.Amount.Sub(tx.Fee)), tx.ID)
	}
	require.Equal(t, 1, p.count(`SELECT count(*) FROM ledger_balances WHERE balance = $1`, p.bank.Wallet()), "the balance is the bank's")
	p.endpoint.checkAll()
	groups := p.endpoint.groups()
	ids, err := pg.Collect(context.Background(), p.Pool, pgx.RowTo[string], `SELECT id::text FROM inbound_events WHERE status = 'processed'`)
	require.NoError(t, err)
	for _, id := range ids {
		require.True(t, groups[id], "the tenant was notified of %s", id)
	}
}
