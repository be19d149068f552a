package archive_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/partition"
	"ajo/internal/retention"
	"ajo/internal/testenv"
)

// dailyRows fill each table whose rows are removed by their age: n counts the rows of a day, whose
// noon it is.
var dailyRows = map[string]string{
	"api_keys": `(id, tenant_id, main, name, hash, suffix, created_at, expires_at)
		SELECT gen_random_uuid(), tenant, false, 'a', sha256(convert_to(noon::text || n, 'UTF8')), 'a', noon, noon`,
	"confirm_lists":     `(second, leased_until) SELECT noon + n * interval '1 second', noon`,
	"idempotency_keys":  `(tenant_id, key, request_hash, status_code, response, created_at) SELECT tenant, noon::text || n, sha256('x'), 200, '{}', noon`,
	"known_networks":    `(email, network, last_at) SELECT 'a@' || tenant, noon::text || n, noon`,
	"listen_events":     `(tenant_id, id, event_type, body, created_at) SELECT tenant, gen_random_uuid(), 'payment.received', '{}', noon`,
	"login_links":       `(token_hash, tenant_id, created_at, expires_at) SELECT sha256(convert_to(noon::text || n, 'UTF8')), tenant, noon, noon`,
	"operator_sessions": `(token_hash, operator_id, created_at, expires_at) SELECT sha256(convert_to(noon::text || n, 'UTF8')), tenant, noon, noon`,
	"password_resets":   `(token_hash, email, created_at, expires_at) SELECT sha256(convert_to(noon::text || n, 'UTF8')), 'a@' || tenant, noon, noon`,
	"payout_turns":      `(bank_code, account_number, since, taken, put_off, tenant_id) SELECT '058', noon::text || n, noon, 1, 0, tenant`,
	"pending_registrations": `(id, email, name, password_hash, code_expires_at, created_at)
		SELECT gen_random_uuid(), 'a@' || tenant, 'a', '', noon, noon`,
	"reconciliations": `(id, kind, window_from, window_to, status, started_at, finished_at, report)
		SELECT gen_random_uuid(), 'periodic', noon + n * interval '1 minute', noon + (n + 1) * interval '1 minute', 'finished',
			noon, noon, jsonb_build_object('of', tenant)`,
	"sessions": `(token_hash, id, tenant_id, member_id, created_at, expires_at)
		SELECT sha256(convert_to(noon::text || n, 'UTF8')), gen_random_uuid(), tenant, tenant, noon, noon`,
}

// 58 weeks at a steady rate: what the tables whose rows are archived or removed take on disk, and
// the number of their partitions, are at the end as when the longest kept row had come of age. The
// other tables are kept for ever.
func TestDiskStaysFlat(t *testing.T) {
	b := setup(t, 0)
	const days, keep, perDay = 406, 31, 20
	b.opts.KeepDeliveries, b.opts.KeepEvents = keep*day, keep*day
	s := b.with(b.opts.Store)
	kept := retention.Keep{Reports: keep * day} // and what operators did for ever
	tables := slices.Collect(maps.Keys(dailyRows))
	names := "^(event_bodies|deliveries|delivery_attempts)_|^(" + strings.Join(tables, "|") + ")$"
	const limited = ` FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname ~ $1`
	b.Exec(`INSERT INTO operators (id, name, role, created_at) VALUES ($1, 'ada', 'viewer', now())`, b.tenant)
	var parts, bytes, indexes []int
	for week := range days / 7 {
		noon := b.begin.Add(time.Duration(week) * 7 * day).Add(12 * time.Hour)
		b.Clock.Set(noon)
		require.NoError(t, partition.MakeAhead(b.ctx, b.Pool, partition.Week, noon))
		for table, sql := range dailyRows {
			b.Exec(`INSERT INTO `+table+` `+sql+`
				FROM (SELECT $1::timestamptz + day * interval '1 day' AS noon, $2::uuid AS tenant, n
					FROM generate_series(0, 6) AS day, generate_series(1, $3::int) AS n) AS rows`, noon, b.tenant, perDay)
		}
		for d := range 7 {
			b.Clock.Set(noon.Add(time.Duration(d) * day))
			b.Exec(`INSERT INTO event_bodies (event_id, body) SELECT id, 'x' FROM unnest($1::uuid[]) AS id`, b.deliver(b.Clock.Now(), perDay))
		}
		require.NoError(t, retention.Purge(b.ctx, b.Pool, kept, b.Clock.Now(), 1000))
		require.NoError(t, s.Run(b.ctx))
		b.Exec(`VACUUM ` + strings.Join(tables, ", ")) // as Postgres does by itself, sooner or later
		parts = append(parts, testenv.Value[int](b.Env, `SELECT count(*)::int`+limited, names))
		bytes = append(bytes, testenv.Value[int](b.Env, `SELECT sum(pg_table_size(oid))::int`+limited, names))
		indexes = append(indexes, testenv.Value[int](b.Env, `SELECT sum(pg_indexes_size(oid))::int`+limited, names))
	}
	flat := func(series []int, percent int) {
		t.Helper()
		early, late := series[20], series[len(series)-1] // some rows stay for 90 days
		require.LessOrEqual(t, late, early*percent/100, "%v", series)
	}
	flat(parts, 100)
	flat(bytes, 110)
	// Postgres uses an index's emptied page again once no transaction of the cluster is older, and
	// long ones of other tests may be. Until then the rows take new pages.
	flat(indexes, 150)
	for _, r := range retention.Rules(kept) {
		require.Equal(t, r.Age != "", dailyRows[r.Table] != "", "%s: removed by age, or among the rows of a day, but not both", r.Table)
		if r.Age != "" {
			require.LessOrEqual(t, b.rows(r.Table), (int(r.After/day)+7)*perDay, r.Table)
		}
	}
	for _, table := range []string{"event_bodies", "deliveries", "delivery_attempts"} {
		require.LessOrEqual(t, b.rows(table), (keep+14)*perDay, table)
		require.Equal(t, days*perDay, b.rows(table)+testenv.Value[int](b.Env,
			`SELECT sum((manifest ->> 'rows')::int)::int FROM archives WHERE table_name = $1 AND status = 'archived'`, table), "nothing of %s is lost", table)
	}
	r, err := s.Verify(b.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, r.Findings)
}
