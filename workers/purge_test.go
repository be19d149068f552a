package workers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/retention"
	"ajo/internal/testenv"
)

// A purge removes all that is old, in as many steps as that takes, and nothing else; two at once do
// not get in each other's way.
func TestPurgeUntilNothingIsOld(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const old, young, step = 250, 20, 10
	b.Exec(`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, digest, received_at)
		SELECT gen_random_uuid(), 'webhook', false, false, '', '', '', 'failed', 'sig_invalid', sha256('x'),
			now() - CASE WHEN n <= $1 THEN interval '31 days' ELSE interval '29 days' END FROM generate_series(1, $1::int + $2::int) AS n`, old, young)
	b.Exec(`INSERT INTO idempotency_keys (tenant_id, key, request_hash, status_code, response, created_at)
		SELECT $3, n::text, sha256('x'), 200, '{}', now() - CASE WHEN n <= $1 THEN interval '8 days' ELSE interval '6 days' END
		FROM generate_series(1, $1::int + $2::int) AS n`, old, young, b.tenant)
	b.Exec(`INSERT INTO listen_events (tenant_id, id, event_type, body, created_at)
		SELECT $3, gen_random_uuid(), 'payment.received', '{}', now() - CASE WHEN n <= $1 THEN interval '2 hours' ELSE interval '1 minute' END
		FROM generate_series(1, $1::int + $2::int) AS n`, old, young, b.tenant)
	const age = ` - CASE WHEN n <= $1 THEN interval '400 days' ELSE interval '-1 hour' END`
	b.Exec(`INSERT INTO operators (id, name, role, created_at) VALUES ($1, 'ada', 'viewer', now())`, b.tenant)
	for _, sql := range []string{
		`INSERT INTO operator_sessions (token_hash, operator_id, created_at, expires_at) SELECT sha256(n::text::bytea), $3, now(), now()` + age,
		`INSERT INTO api_keys (id, tenant_id, main, name, hash, suffix, created_at, expires_at)
			SELECT gen_random_uuid(), $3, false, 'a', sha256(n::text::bytea), 'a', now(), now()` + age,
		`INSERT INTO sessions (token_hash, id, tenant_id, member_id, created_at, expires_at) SELECT sha256(n::text::bytea), gen_random_uuid(), $3, $3, now(), now()` + age,
		`INSERT INTO login_links (token_hash, tenant_id, created_at, expires_at) SELECT sha256(n::text::bytea), $3, now(), now()` + age,
		`INSERT INTO password_resets (token_hash, email, created_at, expires_at) SELECT sha256(n::text::bytea), 'a' || ($3::uuid IS NULL), now(), now()` + age,
		`INSERT INTO pending_registrations (id, email, name, password_hash, code_expires_at, created_at)
			SELECT gen_random_uuid(), 'a' || ($3::uuid IS NULL), 'a', '', now(), now()` + age,
		`INSERT INTO known_networks (email, network, last_at) SELECT 'a' || ($3::uuid IS NULL), n::text, now()` + age,
		`INSERT INTO audit_log (id, at, actor, action, target, reason) SELECT gen_random_uuid(), now()` + age + `, 'ops', 'x', $3::uuid::text, 'x'`,
		`INSERT INTO reconciliations (id, kind, window_from, window_to, status, started_at, finished_at, report)
			SELECT gen_random_uuid(), 'periodic', now() - n * interval '1 minute' - interval '1 day', now() - n * interval '1 minute', 'finished',
				now()` + age + `, now(), jsonb_build_object('of', $3::uuid)`,
		`INSERT INTO payout_turns (bank_code, account_number, since, taken, put_off) SELECT 'a' || ($3::uuid IS NULL), n::text, now()` + age + `, 1, 0`,
		`INSERT INTO confirm_lists (second, leased_until) SELECT now() - n * interval '1 second' + ($3::uuid IS NULL)::int * interval '1 day'` + age + `, now()`,
	} {
		b.Exec(sql+` FROM generate_series(1, $1::int + $2::int) AS n`, old, young, b.tenant)
	}
	// the newest comparison, however old it is, says where the next one begins
	b.Exec(`UPDATE reconciliations SET window_to = now() + interval '1 hour' WHERE id = (SELECT id FROM reconciliations WHERE started_at < now() - interval '1 year' LIMIT 1)`)
	b.opts.Keep = retention.Keep{Reports: 30 * 24 * time.Hour, Audit: 370 * 24 * time.Hour}
	w := &Workers{Options: b.opts}
	other := make(chan error)
	go func() { other <- w.purge(b.ctx, step) }()
	require.NoError(t, w.purge(b.ctx, step))
	require.NoError(t, <-other)
	require.Equal(t, young, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`))
	for _, r := range retention.Rules(b.opts.Keep) {
		want := young
		if r.Table == "reconciliations" {
			want++
		}
		if r.Age != "" {
			require.Equal(t, want, testenv.Value[int](b.Env, `SELECT count(*) FROM `+r.Table), r.Table)
		}
	}
}

// What is young cannot be removed from the record of what operators did.
func TestYoungAuditLinesStay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(`INSERT INTO audit_log (id, at, actor, action, target, reason) VALUES (gen_random_uuid(), now() - interval '11 months', 'ops', 'x', 'x', 'x')`)
	require.Error(t, retention.Purge(b.ctx, b.Pool, retention.Keep{Audit: time.Hour}, time.Now(), 10))
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log`))
}

// The last finished reconciliation of each kind stays, however old it is: the next one names what
// nobody has read since.
func TestTheLastRunOfEachKindStays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, kind := range []string{"periodic", "daily", "again", "manual"} {
		b.Exec(`INSERT INTO reconciliations (id, kind, window_from, window_to, status, started_at, finished_at, report)
			SELECT gen_random_uuid(), $1, at - interval '1 day', at, 'finished', at, at, '{}'
			FROM generate_series(now() - interval '50 days', now() - interval '40 days', interval '1 day') at`, kind)
	}
	b.Exec(`INSERT INTO reconciliations (id, kind, window_from, window_to, status, started_at, finished_at, report)
		VALUES (gen_random_uuid(), 'periodic', now() - interval '1 hour', now(), 'finished', now(), now(), '{}')`)
	require.NoError(t, retention.Purge(b.ctx, b.Pool, retention.Keep{Reports: 31 * 24 * time.Hour}, time.Now(), 10))
	require.Equal(t, "again 40, daily 40, manual 40, periodic 0", testenv.Value[string](b.Env, `
		SELECT string_agg(kind || ' ' || extract(day FROM now() - window_to), ', ' ORDER BY kind, window_to) FROM reconciliations`))
}
