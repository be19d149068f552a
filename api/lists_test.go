package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
)

// No filter that the API documents, and no combination of them, makes a list look at more than its
// share of a long history, even where nothing matches. The filters are those of the document:
// whoever adds one gives it values here.
func TestFilteredListsReadABoundedPart(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	busy, quiet := w.Account(m.id, "busy"), w.Account(m.id, "quiet")
	w.fillLists(m.id, busy, w.listRows())
	pool, asked := w.record()
	limit := pg.ScanLimit + 100
	explained := map[string]bool{} // what every request asks, and a list asks for some filters alike
	look := func(t *testing.T, what string) {
		t.Helper()
		for _, s := range asked() {
			args, err := json.Marshal(s.Args)
			require.NoError(t, err)
			key := s.SQL + string(args)
			if !strings.HasPrefix(strings.TrimSpace(s.SQL), "SELECT") || explained[key] {
				continue
			}
			explained[key] = true
			begin := time.Now()
			most, plan := w.MostRows(s)
			require.LessOrEqual(t, most, limit, "%s\n%s\n%v\n%s", what, s.SQL, s.Args, plan)
			if took := time.Since(begin); w.long() {
				require.Less(t, took, 100*time.Millisecond, "%s\n%s\n%s", what, s.SQL, plan)
			}
		}
	}
	tried := 0
	for path, filters := range w.documentedLists() {
		for _, query := range combinations(filters, w.long()) {
			if strings.HasPrefix(path, "/auth/") {
				query.Set("total", "true")
			}
			target := strings.NewReplacer("{accountRef}", "busy").Replace(path) + "?" + query.Encode()
			if r := w.do("GET", target, "", m.withBoth(path)...); query.Get("sort") != "" && r.Status == 422 {
				r.refused(422, page.ErrSort.Error())
			} else {
				r.ok(200, nil)
			}
			look(t, target)
			tried++
		}
	}
	require.Greater(t, tried, 200)

	for _, q := range []string{"busy", "nothing is called so", "12,000", "0190c0de-0000-7000-8000-00000000ffff", paidSession, "AJO" + strings.Repeat("0", 32)} {
		w.do("GET", "/auth/search?q="+url.QueryEscape(q), "", m.withSession()...).ok(200, nil)
		look(t, "search "+q)
	}

	ctx, r := t.Context(), page.Request{Limit: 20}
	for _, tenant := range []uuid.UUID{uuid.Nil, m.id} {
		for _, status := range []transfer.Status{"", transfer.Pending, transfer.Processing, transfer.Success, transfer.Failed, transfer.Refunded} {
			for _, differing := range []bool{false, true} {
				_, _, err := w.opts.Transfers.Records(ctx, transfer.RecordFilter{TenantID: tenant, Status: status, Differing: differing}, r)
				require.NoError(t, err)
				look(t, fmt.Sprint("transfers of operators ", tenant, status, differing))
			}
		}
		for _, status := range []webhook.Status{"", webhook.Pending, webhook.Delivered, webhook.Dead} {
			for _, typ := range append([]webhook.Type{""}, webhook.Types...) {
				for _, account := range []uuid.UUID{uuid.Nil, quiet} {
					_, _, err := w.opts.Webhooks.List(ctx, webhook.Filter{TenantID: tenant, AccountID: account, Status: status, EventType: typ}, r)
					require.NoError(t, err)
					look(t, fmt.Sprint("deliveries of operators ", tenant, account, status, typ))
				}
			}
		}
	}
	payments := payment.New(payment.Options{Pool: pool, Clock: w.Clock, ConfirmDelays: defaults.ConfirmDelays})
	t.Cleanup(payments.Close)
	amount := money.Must("0.01")
	for _, f := range []payment.EventFilter{
		{Category: payment.CategoryMisdirected},
		{Category: payment.CategorySigInvalid},
		{Category: payment.CategoryNonPayment},
		{Category: payment.CategoryProcessingError},
		{Status: payment.Received},
		{Status: payment.Ignored},
		{Status: payment.Failed},
		{ProviderTxnRef: "none"},
		{ProviderTxnRef: "none", Status: payment.Failed},
		{Number: "0000000000"},
		{Payer: "nobody"},
		{Session: paidSession},
		{Amount: &amount},
		{From: w.Clock.Now().AddDate(9, 0, 0)},
		{To: w.Clock.Now().AddDate(-9, 0, 0)},
		{Category: payment.CategoryPayment},
	} {
		_, _, err := payments.Events(ctx, f, r)
		require.NoError(t, err)
		look(t, fmt.Sprintf("events %+v", f))
	}
	_, _, err := audit.List(ctx, pool, audit.Filter{Action: "none", Target: "none"}, r)
	require.NoError(t, err)
	look(t, "audit")

	t.Run("the cursor leads to the end", func(t *testing.T) {
		for path, name := range map[string]string{
			"/auth/transfers?search=nothing": "transfers", "/auth/deliveries?eventType=payment.received&accountRef=quiet": "deliveries",
			"/auth/accounts/busy/statement?status=provisional&order=desc": "lines", "/auth/accounts/busy/statement?status=provisional": "lines",
			"/auth/payments?search=nothing": "payments", "/auth/payments?accountRef=busy&status=provisional": "payments",
		} {
			rows, pages := 0, 0
			for after, more := "", true; more && pages < 1000; pages++ {
				got := w.read(m.withSession(), path+"&after="+after)
				rows += len(got.list(name))
				next := got["pagination"].(map[string]any)
				after, _ = next["nextCursor"].(string)
				more = next["hasMore"].(bool)
			}
			require.Zero(t, rows, path)
			require.InDelta(t, w.listRows()/pg.ScanLimit, pages, 1, path)
		}
	})

	t.Run("others' rows do not push out an account's or a tenant's own", func(t *testing.T) {
		other := w.Tenant()
		w.oldTransfer(m.id, quiet, "1")
		w.oldTransfer(other, w.Account(other, "other"), "2")
		require.Len(t, w.read(m.withSession(), "/auth/transfers?accountRef=quiet").list("transfers"), 1)
		theirs, _, err := w.opts.Transfers.Records(ctx, transfer.RecordFilter{TenantID: other}, r)
		require.NoError(t, err)
		require.Len(t, theirs, 1)
	})
}

// oldTransfer inserts a transfer from before all that fillLists made.
func (w *world) oldTransfer(tenant, account uuid.UUID, digit string) {
	w.T.Helper()
	w.ExecUnguarded(`
		INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, attempt_count, created_at, updated_at)
		VALUES (('01800000-0000-7000-8000-00000000000' || $3)::uuid, $1, $2, 'AJO' || repeat('f', 31) || $3, 'success', 1, '058', '0123456789', 1, $4, $4)`, tenant, account, digit, w.Clock.Now())
}

// listRows is how many rows each list has: three times what a page looks at, or as many as are
// asked for (make test-lists).
func (w *world) listRows() int {
	if n, err := strconv.Atoi(os.Getenv("AJO_TEST_LIST_ROWS")); err == nil {
		return n
	}
	return 3 * pg.ScanLimit
}

func (w *world) long() bool { return w.listRows() > 3*pg.ScanLimit }

// record makes the services of the lists ask a pool that remembers what it is asked.
func (w *world) record() (*pg.Pool, func() []testenv.Statement) {
	pool, asked := w.Recorded()
	w.opts.Pool, w.opts.Payments.Pool = pool, pool
	w.opts.Accounts.Pool, w.opts.Customers.Pool, w.opts.Transfers.Pool, w.opts.Tenants.Pool = pool, pool, pool, pool
	usual := w.Pool
	w.Pool = pool
	w.opts.Webhooks = w.webhooks(nil, safehttp.Options{}, webhook.Options{})
	w.Pool = usual
	w.serve()
	return pool, asked
}

// withBoth are the credentials for a path.
func (m member) withBoth(path string) header {
	if strings.HasPrefix(path, "/v1") {
		return m.withKey()
	}
	return m.withSession()
}

// documentedLists are the document's lists with the values of their filters: those of an
// enumeration, or such as match nothing.
func (w *world) documentedLists() map[string]map[string][]string {
	w.T.Helper()
	document := w.read(nil, "/openapi.json")
	resolve := func(v map[string]any) map[string]any {
		for ref, ok := v["$ref"].(string); ok; ref, ok = v["$ref"].(string) {
			v = document
			for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
				v = v[name].(map[string]any)
			}
		}
		return v
	}
	lists := map[string]map[string][]string{}
	for path, item := range document["paths"].(map[string]any) {
		get, ok := item.(map[string]any)["get"].(map[string]any)
		if !ok {
			continue
		}
		filters := map[string][]string{}
		parameters, _ := get["parameters"].([]any)
		paged := slices.ContainsFunc(parameters, func(p any) bool { return resolve(p.(map[string]any))["name"] == "after" })
		for _, p := range parameters {
			parameter := resolve(p.(map[string]any))
			name := parameter["name"].(string)
			if !paged || parameter["in"] != "query" || name == "limit" || name == "after" || name == "total" {
				continue
			}
			values := map[string][]string{
				"search": {"nothing is called so"}, "accountRef": {"quiet"}, "from": {"2090-01-01"}, "to": {"2001-01-01"},
				"actor": {"unknown"}, "action": {"none"}, "amount": {"0.01"},
				"endpointId": {"default", "0190c0de-0000-7000-8000-00000000ffff"},
			}[name]
			schema := resolve(parameter["schema"].(map[string]any))
			enum, _ := schema["enum"].([]any)
			for _, v := range enum {
				if v != schema["default"] { // is as if it were left out
					values = append(values, v.(string))
				}
			}
			require.NotEmpty(w.T, values, "%s: give the filter %q values that match nothing", path, name)
			filters[name] = values
		}
		if paged {
			lists[path] = filters
		}
	}
	require.Greater(w.T, len(lists), 8)
	return lists
}

// combinations are the queries that a list's filters allow: all of them, or those that set two
// filters at most.
func combinations(filters map[string][]string, all bool) []url.Values {
	made := []url.Values{{}}
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		for _, q := range made { // as long as it was when the loop began
			if !all && len(q) == 2 {
				continue
			}
			for _, v := range filters[name] {
				if v == "2001-01-01" && q.Has("from") { // the one after the other is refused
					continue
				}
				with := maps.Clone(q)
				with.Set(name, v)
				made = append(made, with)
			}
		}
	}
	return made
}

// fillLists gives the tenant a long history in which every row is in its usual state, and other
// tenants a backlog.
func (w *world) fillLists(tenant, busy uuid.UUID, n int) {
	w.T.Helper()
	now := w.Clock.Now()
	id := fmt.Sprintf(`(lpad(to_hex(%d + n), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid`, cmp.Or(w.firstFilled, 1700000000000))
	err := pg.InTx(w.T.Context(), w.Pool, func(tx pg.Tx) error {
		for _, sql := range []string{
			`SET LOCAL session_replication_role = replica`,
			`SET LOCAL statement_timeout = 0`,
			`INSERT INTO customers (id, tenant_id, external_ref, name, created_at, updated_at) SELECT ` + id + `, $1, 'c' || n, 'Ada Obi', $3, $3 FROM generate_series(1, $4) n WHERE $2::uuid IS NOT NULL`,
			`INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_number, bank_account_name, bank_name, status, type, created_at, updated_at)
				SELECT ` + id + `, $1, ` + id + `, 'a' || n, 'nomba', (9000000000 + n)::text, 'Ada Obi', 'Test Bank', 'active', 'dedicated', $3, $3 FROM generate_series(1, $4) n WHERE $2::uuid IS NOT NULL`,
			`INSERT INTO ledger_balances (account_id, tenant_id) SELECT ` + id + `, $1 FROM generate_series(1, $4) n WHERE $2::uuid IS NOT NULL AND $3::timestamptz IS NOT NULL`,
			`INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
				SELECT ` + id + `, $1, $2, n, 'credit', 1, 'confirmed', ` + id + `, n, $3::timestamptz + n / 10 * interval '1 ms' FROM generate_series(1, $4) n`,
			`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, attempt_count, created_at, updated_at)
				SELECT ` + id + `, $1, $2, 'AJO' || lpad(to_hex(n), 32, '0'), 'success', 1, '058', '0123456789', 1, $3, $3 FROM generate_series(1, $4) n`,
			`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at, delivered_at)
				SELECT ` + id + `, $1, $2, ` + id + `, 'payment.received', 'https://shop.example', '{}', 'delivered', $3, $3 FROM generate_series(1, $4) n`,
			`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, amount, digest, tenant_id,
					account_id, occurred_at, received_at, processed_at)
				SELECT ` + id + `, 'webhook', true, true, 'r' || n, 'p' || n, 'payment_success', 'processed', 'payment', 1, sha256('x'), $1, $2, $3, $3, $3 FROM generate_series(1, $4) n`,
			`INSERT INTO work (kind, id, due_at) SELECT CASE WHEN n % 2 = 0 THEN 'confirm' ELSE 'deliver' END, ` + id + `, $3
				FROM generate_series(1, $4) n WHERE $1::uuid IS NOT NULL AND $2::uuid IS NOT NULL`,
			`INSERT INTO audit_log (id, at, actor, action, target, reason, tenant_id) SELECT ` + id + `, $3, 'cli:ops', 'customers.tier', 'customer:' || n, 'seen', $1
				FROM generate_series(1, $4) n WHERE $2::uuid IS NOT NULL`,
		} {
			var args []any
			if strings.HasPrefix(sql, "INSERT") {
				args = []any{tenant, busy, now, n}
			}
			if _, err := tx.Exec(w.T.Context(), sql, args...); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		_, err := tx.Exec(w.T.Context(), `UPDATE ledger_balances SET total_credits = $2::bigint, last_seq = $2::bigint WHERE account_id = $1`, busy, n)
		return err
	})
	require.NoError(w.T, err)
	w.KeyEvents()
	w.Exec(`SELECT brin_summarize_new_values(inhrelid) FROM pg_inherits WHERE inhparent = 'inbound_events_occurred'::regclass`)
	for _, table := range []string{"customers", "accounts", "ledger_balances", "ledger_entries", "transfers", "deliveries", "inbound_events", "event_keys", "work", "audit_log"} {
		w.Exec(`ANALYZE ` + table)
	}
}
