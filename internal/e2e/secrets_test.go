package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/pg"
)

const nin = "70123456789"

// A run with everything in it that is secret, and with errors at each place that might show one:
// neither what the processes print, nor Redis, nor any column of the database has a secret in
// clear; tasks carry ids only.
func TestSecretsAreNowhere(t *testing.T) {
	w := newWorld(t)
	w.settings["AJO_IDENTITY_URL"], w.settings["AJO_IDENTITY_APP_ID"], w.settings["AJO_IDENTITY_KEY"] = w.bank.URL(), "app", "an-identity-key-of-this-test"
	// a call that fails stays in asynq's hands until the test has looked there
	w.settings["AJO_DELIVERY_DELAYS"] = "1h"
	w.keepSecret("identity key", "an-identity-key-of-this-test")
	w.keepSecret("BVN", bvn)
	w.keepSecret("NIN", nin)
	p := w.settle()
	workers := []*process{w.startWorker("ingest,confirm,expire,settle"), w.startWorker("deliver=128")}
	p.useSecrets()
	p.arrive()
	p.waitForEnd(some)

	p.makeErrors()
	p.eventually("failed calls in asynq's hands", func() bool {
		// Those that travelled in one task are enqueued anew, the others retried.
		return p.tasks("deliver", "retry")+p.tasks("deliver", "scheduled") > 0 &&
			p.count(`SELECT count(*) FROM deliveries WHERE attempt_count = 1 AND last_error <> ''`) >= some && p.count(`SELECT count(*) FROM inbound_events WHERE last_error <> ''`) == some
	})
	for _, worker := range workers {
		p.stops(worker)
	}
	p.arrive() // and stay in the queue
	p.eventually("every event to be enqueued", func() bool { return p.enqueued("ingest") == some })
	w.checkDatabase()
	w.checkRedis()
	w.checkOutputs()
}

// useSecrets makes every request that has a secret in it, rightly and wrongly.
func (p *paid) useSecrets() {
	p.t.Helper()
	c := p.tenant
	c.session = sessionOf(p.t, c.want(200, "POST", "/auth/login", map[string]string{"email": c.email, "password": c.password}))
	p.keepSecret("session token", c.session)
	p.keepSecret("wrong password", "a wrong password of this test")
	c.want(401, "POST", "/auth/login", map[string]string{"email": c.email, "password": p.secrets["wrong password"]})
	c.want(400, "POST", "/auth/verify-email", map[string]string{"tenantId": c.id, "otp": p.secrets["one-time code"]})
	p.keepSecret("wrong key", "ajo_"+strings.Repeat("a", 49))
	for _, header := range []http.Header{
		{"X-Api-Key": {p.secrets["wrong key"]}}, {"X-Api-Key": {c.key + "x"}}, {"Authorization": {"Bearer " + c.key}}, {"Cookie": {"service_session=" + c.key}},
	} {
		require.Equal(p.t, 401, p.send("GET", "/v1/accounts", nil, header).status)
		require.Equal(p.t, 401, p.send("GET", "/auth/me", nil, header).status)
	}
	p.bank.AddPerson(nin, fakebank.Person{FirstName: "Ada", LastName: "Obi"})
	customer := c.open("shop-9").CustomerID
	c.want(200, "POST", "/v1/customers/"+customer+"/kyc", map[string]string{"nin": nin})
	// The same request under an idempotency key is kept, with its answer, in Postgres and in Redis.
	for range 2 {
		a := p.send("POST", "/v1/accounts", map[string]string{"externalRef": "shop-10", "name": "Ada Obi", "bvn": bvn},
			http.Header{"X-Api-Key": {c.key}, "Idempotency-Key": {"key-1"}})
		require.Equal(p.t, 201, a.status, "%s", a.body)
	}
}

// makeErrors has the next payments fail wherever they go: at the tenant, and at the bank, which is
// gone.
func (p *paid) makeErrors() {
	p.t.Helper()
	p.endpoint.answers(func(int) int { return 500 })
	p.bank.RevokeTokens()
	p.tenant.want(200, "POST", "/v1/transfers/lookup", map[string]string{"bankCode": "058", "accountNumber": "0123456789"})
	p.bank.Faults.SetDown(fakebank.DownAnswer) // before the payments, which a bank that is up may confirm
	p.arrive()
	p.eventually("the deliveries that fail", func() bool {
		return p.count(`SELECT count(*) FROM deliveries WHERE attempt_count > 0 AND status = 'pending'`) == some
	})
	a := p.send("POST", "/v1/accounts", map[string]string{"externalRef": "shop-11", "name": "Ada Obi", "bvn": bvn}, http.Header{"X-Api-Key": {p.tenant.key}})
	require.Equal(p.t, 502, a.status, "%s", a.body)
}

// checkDatabase reads every column of every table that can hold text.
func (w *world) checkDatabase() {
	w.t.Helper()
	ctx := context.Background()
	type column struct{ Table, Name string }
	columns, err := pg.Collect(ctx, w.Pool, pgx.RowToStructByPos[column], `
		SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND data_type IN ('text', 'character varying', 'bytea', 'json', 'jsonb', 'ARRAY')
			AND table_name::text NOT IN (SELECT inhrelid::regclass::text FROM pg_inherits) ORDER BY 1, 2`)
	require.NoError(w.t, err)
	require.Greater(w.t, len(columns), 50)
	read := 0
	for _, c := range columns {
		name := pgx.Identifier{c.Name}.Sanitize()
		values, err := pg.Collect(ctx, w.Pool, pgx.RowTo[[]byte], fmt.Sprintf(`
			SELECT CASE WHEN pg_typeof(%[1]s) = 'bytea'::regtype THEN %[1]s::text::bytea ELSE convert_to(%[1]s::text, 'UTF8') END
			FROM %[2]s WHERE %[1]s IS NOT NULL`, name, pgx.Identifier{c.Table}.Sanitize()))
		require.NoError(w.t, err)
		for _, v := range values {
			read++
			w.checkText(c.Table+"."+c.Name, v)
		}
	}
	require.Greater(w.t, read, 200)
}

// idOrTime is what a task's message has, and what may hold the digits of any sum.
var idOrTime = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{10,}`)

// checkRedis reads every key of the test's database. A task's message has ids in it, and nothing of
// what they stand for.
func (w *world) checkRedis() {
	w.t.Helper()
	ctx := context.Background()
	tasks := 0
	for keys := w.redis.Scan(ctx, 0, "*", 1000).Iterator(); keys.Next(ctx); {
		w.checkText("the name of a Redis key", []byte(keys.Val()))
		value := w.redisValue(ctx, keys.Val())
		w.checkText("Redis key "+keys.Val(), []byte(value))
		if strings.Contains(keys.Val(), "}:t:") {
			tasks++
			require.Regexp(w.t, `\{"ids":\["[0-9a-f-]{36}"[^{}]*\]\}`, value)
			rest := idOrTime.ReplaceAllString(value, "")
			for _, told := range []string{"shop-1", "Bola", "school fees", "5000", "4975", "http://"} {
				require.NotContains(w.t, rest, told, keys.Val())
			}
		}
	}
	require.Greater(w.t, tasks, some)
}

func (w *world) redisValue(ctx context.Context, key string) string {
	w.t.Helper()
	kind, err := w.redis.Type(ctx, key).Result()
	require.NoError(w.t, err)
	var value any
	switch kind {
	case "string":
		value, err = w.redis.Get(ctx, key).Result()
	case "list":
		value, err = w.redis.LRange(ctx, key, 0, -1).Result()
	case "set":
		value, err = w.redis.SMembers(ctx, key).Result()
	case "zset":
		value, err = w.redis.ZRange(ctx, key, 0, -1).Result()
	case "hash":
		value, err = w.redis.HGetAll(ctx, key).Result()
	case "none": // it has run out meanwhile
	default:
		w.t.Errorf("the Redis key %s is a %s, which this test does not read", key, kind)
	}
	require.NoError(w.t, err)
	return fmt.Sprint(value)
}

// checkText looks for each secret in a value, as it is and in the usual spellings.
func (w *world) checkText(where string, value []byte) {
	w.t.Helper()
	for what, s := range w.secrets {
		for _, spelling := range []string{s, hex.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte(s))} {
			if showsSecret(string(value), spelling) || showsSecret(string(bytes.ToLower(value)), spelling) {
				w.t.Errorf("%s has the %s in clear", where, what)
			}
		}
	}
}

var digits = regexp.MustCompile(`^[0-9]+$`)

// showsSecret reports whether the text has the secret in it. A number counts only where it stands
// by itself: six digits of chance are in every long text of hex or times.
func showsSecret(text, secret string) bool {
	if !digits.MatchString(secret) {
		return strings.Contains(text, secret)
	}
	for rest := text; ; {
		i := strings.Index(rest, secret)
		if i < 0 {
			return false
		}
		before, after := byte(' '), byte(' ')
		if i > 0 {
			before = rest[i-1]
		}
		rest = rest[i+len(secret):]
		if len(rest) > 0 {
			after = rest[0]
		}
		if !isWord(before) && !isWord(after) {
			return true
		}
	}
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.'
}
