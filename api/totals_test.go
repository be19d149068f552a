package api

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

// The total of each list of the session's pages, with each filter, is the number of rows that its
// pages have, whichever page it is asked with; another tenant's rows are in none.
func TestTotalsAreTheRowsOfAllPages(t *testing.T) {
	w := setup(t)
	m, other := w.variety(), w.variety()
	for path, filters := range w.documentedLists() {
		if !strings.HasPrefix(path, "/auth/") {
			continue
		}
		most := 0
		for _, query := range combinations(filters, false) {
			for name, hit := range map[string]string{"search": "shop-1", "accountRef": "shop-1", "from": "2026-03-03", "to": "2026-03-03", "action": "session.begin", "amount": "1.00"} {
				if query.Get(name) != "" {
					query.Set(name, hit) // in place of what matches nothing
				}
			}
			target := strings.ReplaceAll(path, "{accountRef}", "shop-1")
			n := w.requireTotal(m, target, query)
			most = max(most, n)
			query.Del("after")
			first := w.read(other.withSession(), target+"?"+query.Encode())["pagination"].(map[string]any)["total"]
			require.Equal(t, fmt.Sprint(map[string]any{"count": n, "exact": true}), fmt.Sprint(first), "%s?%s: a tenant with the same rows", path, query.Encode())
		}
		require.Positive(t, most, path)
	}
}

// The sums of payments are those of the rows beside them, also if another is posted meanwhile.
func TestSumsAreOfOneMomentWithTheirRows(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	pool, asked := w.BeforeTheSecond("ledger_entries", func() { w.fund(m, "7.00") })
	w.opts.Payments.Pool = pool
	w.serve()
	got := w.read(key, "/v1/payments?sums=true")
	require.Greater(t, asked.Load(), int64(1))
	require.Len(t, got.list("payments"), 1)
	fields(got["sums"].(map[string]any)).has(t, fields{"count": json.Number("1"), "grossAmount": "5000.00"})
	require.Len(t, w.read(key, "/v1/payments?sums=true").list("payments"), 2)
}

// requireTotal walks a list's pages and compares what they say of its total.
func (w *world) requireTotal(m member, path string, query url.Values) (rows int) {
	w.T.Helper()
	query.Set("total", "true")
	query.Set("limit", "7")
	query.Del("after")
	var said []any
	for more := true; more; {
		got := w.read(m.withSession(), path+"?"+query.Encode())
		info := got["pagination"].(map[string]any)
		for name := range got {
			if l, ok := got[name].([]any); ok && name != "pagination" {
				rows += len(l)
			}
		}
		said = append(said, info["total"])
		after, _ := info["nextCursor"].(string)
		query.Set("after", after)
		more = info["hasMore"].(bool)
	}
	for _, total := range said {
		require.Equal(w.T, fmt.Sprint(map[string]any{"count": rows, "exact": true}), fmt.Sprint(total), "%s?%s", path, query.Encode())
	}
	return rows
}

// variety is a tenant whose lists have rows of every kind.
func (w *world) variety() member {
	w.T.Helper()
	m := w.onboard()
	const (
		id  = `md5($1::uuid::text || n)::uuid`
		day = `timestamptz '2026-03-01 12:00Z' + n % 5 * interval '1 day'`
	)
	pick := func(values ...string) string {
		return `(ARRAY['` + strings.Join(values, `','`) + `'])[1 + n % ` + fmt.Sprint(len(values)) + `]`
	}
	account := `md5($1::uuid::text || 1 + n % 2)::uuid`
	require.NoError(w.T, pg.InTx(w.T.Context(), w.Pool, func(tx pg.Tx) error {
		for _, sql := range []string{
			`INSERT INTO customers (id, tenant_id, external_ref, name, kyc_status, created_at, updated_at)
				SELECT ` + id + `, $1, 'shop-' || n, 'Ada Obi', ` + pick("none", "pending_review", "approved", "rejected") + `, ` + day + `, ` + day + ` FROM generate_series(1, 13) n`,
			`INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_number, bank_account_name, status, type, expired_at, created_at, updated_at)
				SELECT ` + id + `, $1, ` + id + `, 'shop-' || n, 'nomba', left(translate(md5($1::uuid::text || n), 'abcdef', '123456'), 10), 'Ada Obi', s, 'onetime',
					CASE WHEN s = 'expired' THEN ` + day + ` END, ` + day + `, ` + day + `
				FROM (SELECT n, ` + pick("provisioning", "active", "expired") + ` AS s FROM generate_series(1, 13) n) n`,
			`INSERT INTO ledger_balances (account_id, tenant_id, last_seq) SELECT ` + id + `, $1, 24 FROM generate_series(1, 13) n`,
			`INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, review_from_seq, created_at)
				SELECT ` + id + `, $1, md5($1::uuid::text || 1)::uuid, n, CASE WHEN s = 'needs_review' THEN 'credit' ELSE ` + pick("credit", "credit", "debit") + ` END, 1, s, ` + id + `, 0,
					CASE WHEN s = 'needs_review' THEN 1 END, timestamptz '2026-03-01 12:00Z' + n / 5 * interval '1 day'
				FROM (SELECT n, ` + pick("provisional", "confirmed", "reversed", "needs_review") + ` AS s FROM generate_series(1, 24) n) n`,
			`INSERT INTO holds (id, tenant_id, account_id, amount, reason, status, created_at, ended_at)
				SELECT ` + id + `, $1, md5($1::uuid::text || 1)::uuid, n, 'a deposit', s, ` + day + `, CASE WHEN s <> 'open' THEN ` + day + ` END
				FROM (SELECT n, ` + pick("open", "released", "expired") + ` AS s FROM generate_series(1, 13) n) n`,
			`INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at)
				SELECT transaction_group_id, tenant_id, account_id, 'event', 'open', amount, created_at FROM ledger_entries
				WHERE tenant_id = $1 AND account_id = md5($1::uuid::text || 1)::uuid AND direction = 'credit' AND reversal_of IS NULL`,
			`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, attempt_count, debit_seq, debits_to, created_at, updated_at)
				SELECT ` + id + `, $1, ` + account + `, 'AJO' || md5($1::uuid::text || n), ` + pick("pending", "processing", "success", "failed", "refunded") + `, 1, '058', '0123456789', 1, n, n, ` + day + `, ` + day + `
				FROM generate_series(1, 21) n`,
			`INSERT INTO beneficiaries (id, tenant_id, bank_code, bank_name, account_number, account_name, label, saved_by, saved_at, removed_at)
				SELECT ` + id + `, $1, '058', '', lpad(n::text, 10, '9'), 'ADA OBI', '', 'key:1', ` + day + `, CASE WHEN n % 4 = 0 THEN ` + day + ` END FROM generate_series(1, 13) n`,
			`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, attempt_count, created_at, delivered_at)
				SELECT ` + id + `, $1, ` + account + `, ` + id + `, t, 'https://shop.example', '{}', s, 1, ` + day + `, CASE WHEN s = 'delivered' THEN ` + day + ` END
				FROM (SELECT n, ` + pick("pending", "delivered", "dead_letter") + ` AS s, ` + pick("payment.received", "payment.received", "payment.confirmed", "payment.reversed",
				"settlement.succeeded", "settlement.failed", "settlement.refunded") + ` AS t FROM generate_series(1, 49) n) n`,
			`INSERT INTO work (kind, id, due_at) SELECT 'settle', id, created_at FROM transfers WHERE tenant_id = $1 AND status IN ('pending', 'processing')
				UNION ALL SELECT 'deliver', id, created_at FROM deliveries WHERE tenant_id = $1 AND status = 'pending'`,
			`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, digest, received_at)
				SELECT ` + id + `, 'webhook', true, true, 'r' || n || $1::uuid, 'p' || n || $1::uuid, 'payment_success', 'ignored', c, sha256('x'), ` + day + `
				FROM (SELECT n, ` + pick("misdirected", "non_payment_event") + ` AS c FROM generate_series(1, 9) n) n`,
		} {
			if _, err := tx.Exec(w.T.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
				return err
			}
			if _, err := tx.Exec(w.T.Context(), sql, m.id); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	}))
	return m
}

// A total is exact up to its bound. Beyond it, and where a filter did not look at all rows, it says
// that there are at least so many.
func TestTotalsAreBounded(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	busy := w.Account(m.id, "busy")
	w.fillLists(m.id, busy, page.CountLimit)
	statement := "/auth/accounts/busy/statement"
	require.Equal(t, page.CountLimit, testenv.Value[int](w.Env, `SELECT count(*) FROM deliveries`))
	require.Equal(t, page.CountLimit+1, testenv.Value[int](w.Env, `SELECT count(*) FROM accounts`), "with the busy one")
	look := func(more bool, paths ...string) {
		t.Helper()
		for _, path := range paths {
			path, count, _ := strings.Cut(path, " ")
			for _, limit := range []string{"1", "100"} {
				got := w.read(m.withSession(), path+"&total=true&limit="+limit)["pagination"].(map[string]any)["total"]
				require.Equal(t, fmt.Sprintf("map[count:%s exact:%v]", count, !more), fmt.Sprint(got), path)
			}
		}
	}
	histories := []string{
		"/auth/deliveries? 10000", "/auth/deliveries?status=delivered 10000", "/auth/deliveries?accountRef=busy 10000", "/auth/deliveries?eventType=payment.received 10000",
		"/auth/transfers? 10000", "/auth/transfers?status=success 10000", "/auth/transfers?accountRef=busy 10000", "/auth/transfers?search=nobody 0",
		statement + "? 10000", statement + "?order=desc 10000", statement + "?status=confirmed 10000", statement + "?direction=credit&order=desc 10000", statement + "?status=provisional 0",
		statement + "?from=2001-01-01 10000",
	}
	look(false, histories...)
	look(false, "/auth/transfers?status=failed 0", "/auth/deliveries?status=dead_letter 0", statement+"?status=reversed 0", statement+"?direction=debit 0", statement+"?to=2001-01-01 0")
	look(true, "/auth/accounts? 10000", "/auth/accounts?status=active 10000", "/auth/accounts?search=ada 10000", "/auth/accounts?search=nobody 0", "/auth/customers? 10000",
		"/auth/customers?kycStatus=none 10000", "/auth/customers?kycStatus=rejected 0")
	another := w.login(w.onboard().email)
	for _, list := range []string{"accounts", "customers", "transfers", "deliveries"} {
		got := w.read(header{"Cookie", another}, "/auth/"+list+"?total=true")["pagination"].(map[string]any)["total"]
		require.Equal(t, "map[count:0 exact:true]", fmt.Sprint(got), "another tenant's %s", list)
	}

	require.NoError(t, pg.InTx(t.Context(), w.Pool, func(tx pg.Tx) error {
		for _, sql := range []string{
			`SET LOCAL session_replication_role = replica`,
			`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, attempt_count, created_at, updated_at)
				SELECT gen_random_uuid(), tenant_id, account_id, 'AJO' || md5('one more'), status, amount, bank_code, account_number, attempt_count, created_at, updated_at FROM transfers LIMIT 1`,
			`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at, delivered_at)
				SELECT gen_random_uuid(), tenant_id, account_id, gen_random_uuid(), event_type, callback_url, body, status, created_at, delivered_at FROM deliveries LIMIT 1`,
			`INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
				SELECT gen_random_uuid(), tenant_id, account_id, 10001, direction, amount, status, gen_random_uuid(), running_balance, created_at FROM ledger_entries LIMIT 1`,
			`UPDATE ledger_balances SET last_seq = 10001, total_credits = 10001 WHERE last_seq = 10000`,
			`UPDATE inbound_events SET category = 'misdirected', status = 'ignored'`,
		} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	}))
	look(true, histories...)
	// what is rare has an index of its own, and is counted to the end
	look(false, "/auth/misdirected? 10000", "/auth/transfers?status=failed 0", "/auth/deliveries?status=dead_letter 0", "/auth/deliveries?eventType=settlement.failed 0",
		"/auth/deliveries?status=pending 0", statement+"?direction=debit 0", statement+"?status=reversed 0", statement+"?status=needs_review&order=desc 0", statement+"?to=2001-01-01 0")
}

// Without being asked, and where a key is the credential, no answer has a total: the
// specification's answers stay as they are.
func TestTotalsAreOnlyForSessions(t *testing.T) {
	w := setup(t)
	m := w.variety()
	for path := range w.documentedLists() {
		target := strings.ReplaceAll(path, "{accountRef}", "shop-1")
		plain := w.do("GET", target, "", m.withBoth(path)...).ok(200, nil).Body
		require.NotContains(t, plain, `"total"`, path)
		if strings.HasPrefix(path, "/v1/") {
			for _, total := range []string{"true", "nonsense"} {
				require.Equal(t, plain, w.do("GET", target+"?total="+total, "", m.withBoth(path)...).ok(200, nil).Body, path)
			}
			continue
		}
		for _, total := range []string{"", "false"} {
			require.Equal(t, plain, w.do("GET", target+"?total="+total, "", m.withSession()...).ok(200, nil).Body, path)
		}
		require.Contains(t, w.do("GET", target+"?total=true", "", m.withSession()...).ok(200, nil).Body, `"total":{"count":`, path)
		for _, total := range []string{"yes", "True", "1", "%00", "%ff"} {
			w.do("GET", target+"?total="+total, "", m.withSession()...).refused(400, "total must be true or false")
		}
		w.do("GET", target+"?total=true", "").refused(401, "unauthorized")
	}
}
