package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// lostPayouts is how many settlements the standby lacks at least.
const lostPayouts = 100

// A standby that has received nothing for a while takes over, beside processes that run on, and
// beside Redis as it was. The runbook brings back what it lacks: ajo reconcile the payments, ajo
// transfers adopt the payouts, and the tenant's repeated requests the rest. Nothing is paid twice.
func TestStandbyThatWasBehind(t *testing.T) {
	if os.Getenv("AJO_FAILOVERS") == "" {
		t.Skip("make failover runs it")
	}
	f := startFailovers(t)
	f.startWorkers()
	ctx := t.Context()
	primary, standby := connected(t, f.servers.DatabaseURL), connected(t, f.servers.StandbyURL())
	set := func(c *pgx.Conn, what string) {
		for _, sql := range []string{"ALTER SYSTEM SET " + what, "SELECT pg_reload_conf()"} {
			_, err := c.Exec(ctx, sql)
			require.NoError(t, err)
		}
	}
	count := func(c *pgx.Conn, table string) (n int) {
		require.NoError(t, c.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n))
		return n
	}
	set(primary, "synchronous_standby_names = ''")
	end := f.startLoad()
	f.since(time.Now(), "transfers to be paid", `SELECT count(*) FROM transfers WHERE status = 'success'`)
	set(standby, "primary_conninfo = 'host=127.0.0.1 port=1'")
	testenv.Eventually(t, time.Minute, "the standby to be behind", func() bool { return count(primary, "transfers") >= count(standby, "transfers")+lostPayouts })
	events, payouts := count(primary, "inbound_events")-count(standby, "inbound_events"), count(primary, "transfers")-count(standby, "transfers")
	f.servers.Postgres.Kill()
	require.NoError(t, f.servers.Promote(ctx))
	f.since(time.Now(), "transfers to be paid", `SELECT count(*) FROM transfers WHERE status = 'success'`)
	end()

	for again := true; again; {
		report := runToEnd(t, f.dir, f.settings, "reconcile", "--from", "1h", "--json")
		var found struct {
			Exceptions []struct{ Kind, MerchantTxRef string }
		}
		require.NoError(t, json.NewDecoder(strings.NewReader(report.out[strings.Index(report.out, "{\n"):])).Decode(&found), report.out)
		adopt := []string{"transfers", "adopt", "--yes", "--reason", "a standby that was behind"}
		for _, x := range found.Exceptions {
			if x.Kind == "unknown_payout" {
				adopt = append(adopt, x.MerchantTxRef)
			}
		}
		if again = len(adopt) > 5; again {
			got := runToEnd(t, f.dir, f.settings, adopt...)
			require.Zero(t, got.code, got.out)
		}
	}
	f.payouts.Range(func(n, ref any) bool {
		a, err := request("POST", f.apiURL+"/v1/accounts/shop-1/settle", map[string]string{"amount": "100.00", "bankCode": "058", "accountNumber": fmt.Sprintf("7%09d", n)},
			http.Header{"X-Api-Key": {f.tenant.key}, "Idempotency-Key": {fmt.Sprintf("payout %d", n)}})
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, a.status, "%s", a.body)
		require.Contains(t, string(a.body), ref, "the same reference, which the bank knows")
		return true
	})
	f.checkAll()
	f.eventually("the balance to be the bank's", func() bool {
		return f.count(`SELECT count(*) FROM ledger_balances WHERE balance = $1`, f.bank.Wallet()) == 1
	})
	t.Logf("the standby lacked %d events and %d settlements", events, payouts)
}

// connected is a connection of the test's own to a server.
func connected(t *testing.T, url string) *pgx.Conn {
	c, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}
