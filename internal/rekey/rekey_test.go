package rekey_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/rekey"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// vault is a database with sealed values in every column, under the key "old".
type vault struct {
	*testenv.Env
	ctx            context.Context
	oldKey, newKey string
	old, both      *secret.Box // both seals with "new"
	texts          map[string]string
}

var by = audit.By{Actor: "cli:test", Reason: "yearly rotation"}

// setup makes rows of every column.
func setup(t *testing.T, rows int) *vault {
	t.Helper()
	t.Parallel()
	v := &vault{Env: testenv.New(t), ctx: context.Background(), oldKey: secret.NewKey("old").Reveal(), newKey: secret.NewKey("new").Reveal(), texts: map[string]string{}}
	v.old, v.both = box(t, v.oldKey), box(t, v.newKey+","+v.oldKey)
	for range rows {
		tenant := v.Tenant()
		v.Account(tenant, "customer-1")
		for _, c := range rekey.Columns {
			id := tenant
			switch c.Table {
			case "pending_registrations":
				v.Exec(`INSERT INTO pending_registrations (id, email, name, password_hash, code_expires_at, created_at) VALUES ($1, 'ada@example.com', 'Ada', 'x', $2, $2)`,
					id, v.Clock.Now())
			case "hash_keys":
				v.Exec(`INSERT INTO hash_keys (id, name, key, created_at) VALUES ($1, $1::uuid::text, 'x', $2)`, id, v.Clock.Now())
			case "operators":
				v.Exec(`INSERT INTO operators (id, name, role, password_hash, totp_secret, created_at) VALUES ($1, 'o' || $1::uuid::text, 'viewer', 'x', 'x', $2)`, id, v.Clock.Now())
			case "webhook_endpoints":
				if c.Name == "secret" {
					v.Endpoint(tenant, "https://example.com/", "{payment.received}")
				}
				id = testenv.Value[uuid.UUID](v.Env, `SELECT id FROM webhook_endpoints WHERE tenant_id = $1`, tenant)
			case "customers":
				id = testenv.Value[uuid.UUID](v.Env, `SELECT id FROM customers WHERE tenant_id = $1`, tenant)
			}
			v.set(c, id, v.old, "text-"+uuid.NewString())
		}
	}
	v.Tenant() // with nothing sealed
	return v
}

func box(t *testing.T, keys string) *secret.Box {
	t.Helper()
	b, err := secret.ParseKeys(keys)
	require.NoError(t, err)
	return b
}

func place(c rekey.Column, id uuid.UUID) secret.Place {
	return secret.Place{Table: c.Table, Column: c.Name, Row: id.String()}
}

// set seals a text into a row.
func (v *vault) set(c rekey.Column, id uuid.UUID, b *secret.Box, text string) {
	v.T.Helper()
	v.put(c, id, b.Seal(place(c, id), []byte(text)))
	v.texts[c.String()+id.String()] = text
}

func (v *vault) put(c rekey.Column, id uuid.UUID, value []byte) {
	v.T.Helper()
	v.Exec(fmt.Sprintf(`UPDATE %s SET %s = $2 WHERE id = $1`, c.Table, c.Name), id, value)
}

// service rekeys two rows at a time, so that everything takes several batches.
func (v *vault) service(b *secret.Box) *rekey.Service {
	return &rekey.Service{Pool: v.Pool, Clock: v.Clock, Box: b, Batch: 2}
}

// seal runs a service as the command does.
func (v *vault) seal(s *rekey.Service) (rekey.Result, error) {
	v.T.Helper()
	before, err := s.Usage(v.ctx)
	require.NoError(v.T, err)
	return s.Seal(v.ctx, before, by)
}

// opensWith checks that every value opens with the keys, to the text that was sealed.
func (v *vault) opensWith(b *secret.Box) {
	v.T.Helper()
	n := 0
	for _, c := range rekey.Columns {
		rows, err := v.Pool.Query(v.ctx, fmt.Sprintf(`SELECT id, %[2]s FROM %[1]s WHERE %[2]s IS NOT NULL`, c.Table, c.Name))
		require.NoError(v.T, err)
		var id uuid.UUID
		var value []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &value}, func() error {
			plain, err := b.Open(place(c, id), value)
			require.NoError(v.T, err, "%s %s", c, id)
			require.Equal(v.T, v.texts[c.String()+id.String()], string(plain))
			n++
			return nil
		})
		require.NoError(v.T, err)
	}
	require.Equal(v.T, len(v.texts), n)
}

func (v *vault) audited() []audit.Record {
	v.T.Helper()
	list, _, err := audit.List(v.ctx, v.Pool, audit.Filter{}, page.Request{Limit: 100})
	require.NoError(v.T, err)
	return list
}

// aRow is the id of some row that has a value in the column.
func (v *vault) aRow(c rekey.Column) uuid.UUID {
	v.T.Helper()
	return testenv.Value[uuid.UUID](v.Env, fmt.Sprintf(`SELECT id FROM %[1]s WHERE %[2]s IS NOT NULL ORDER BY id LIMIT 1`, c.Table, c.Name))
}

func TestEveryValueIsSealedAnew(t *testing.T) {
	v := setup(t, 7)
	stamps := `SELECT string_agg(id::text || updated_at::text, ',' ORDER BY id) FROM tenants`
	before := testenv.Value[string](v.Env, stamps)
	s := v.service(v.both)
	var told []string
	s.Progress = func(c rekey.Column, looked, sealed int) { told = append(told, fmt.Sprint(c, " ", looked, " ", sealed)) }

	used, err := s.Usage(v.ctx)
	require.NoError(t, err)
	require.Equal(t, rekey.Usage{"old": 70}, used)
	require.Equal(t, 70, used.Others("new"))

	checked, err := s.Check(v.ctx)
	require.NoError(t, err)
	require.Equal(t, rekey.Result{Current: "new", Looked: 70, Sealed: 70}, checked)
	v.opensWith(v.old) // a check changes nothing
	require.Empty(t, v.audited())

	told = nil
	done, err := v.seal(s)
	require.NoError(t, err)
	require.Equal(t, rekey.Result{Current: "new", Looked: 70, Sealed: 70}, done)
	v.opensWith(box(t, v.newKey)) // the old key is not needed any more
	require.Contains(t, told, "customers.nin 7 7")
	require.Equal(t, before, testenv.Value[string](v.Env, stamps), "no text has changed")
	used, err = s.Usage(v.ctx)
	require.NoError(t, err)
	require.Equal(t, rekey.Usage{"new": 70}, used)

	log := v.audited()
	require.Len(t, log, 1)
	require.Equal(t, []string{"cli:test", "rekey", "key:new", "yearly rotation"}, []string{log[0].Actor, log[0].Action, log[0].Target, log[0].Reason})
	var detail struct{ Before rekey.Usage }
	require.NoError(t, json.Unmarshal(log[0].Detail, &detail))
	require.Equal(t, rekey.Usage{"old": 70}, detail.Before)

	done, err = v.seal(s)
	require.NoError(t, err)
	require.Equal(t, rekey.Result{Current: "new"}, done)
	require.Len(t, v.audited(), 1, "nothing was changed, so nothing is recorded")
}

// A run that ends midway leaves each value under one key or the other; the next run does the rest.
func TestEndedMidway(t *testing.T) {
	v := setup(t, 7)
	s := v.service(v.both)
	ctx, cancel := context.WithCancel(v.ctx)
	batches := 0
	s.Progress = func(rekey.Column, int, int) {
		if batches++; batches == 6 {
			cancel()
		}
	}
	before, err := s.Usage(v.ctx)
	require.NoError(t, err)
	first, err := s.Seal(ctx, before, by)
	require.ErrorIs(t, err, context.Canceled)
	used, err := s.Usage(v.ctx)
	require.NoError(t, err)
	require.Equal(t, rekey.Usage{"old": 70 - first.Sealed, "new": first.Sealed}, used)
	require.Positive(t, first.Sealed)
	v.opensWith(v.both)

	second, err := v.seal(s)
	require.NoError(t, err)
	require.Equal(t, rekey.Result{Current: "new", Looked: 70 - first.Sealed, Sealed: 70 - first.Sealed}, second)
	v.opensWith(box(t, v.newKey))
	require.Len(t, v.audited(), 2)
}

// A value that the service changes between the moment it was opened and the moment it is replaced
// stays as the service has it.
func TestChangedMeanwhile(t *testing.T) {
	v := setup(t, 3)
	c := rekey.Column{Table: "tenants", Name: "webhook_secret"}
	id := v.aRow(c)
	tx, err := v.Pool.Begin(v.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(v.ctx) }()
	changed := v.old.Seal(place(c, id), []byte("changed meanwhile"))
	_, err = tx.Exec(v.ctx, `UPDATE tenants SET webhook_secret = $2 WHERE id = $1`, id, changed)
	require.NoError(t, err)

	type ended struct {
		rekey.Result
		err error
	}
	end := make(chan ended, 1)
	s := v.service(v.both)
	before, err := s.Usage(v.ctx)
	require.NoError(t, err)
	go func() {
		r, err := s.Seal(v.ctx, before, by)
		end <- ended{r, err}
	}()
	testenv.Eventually(t, 10*time.Second, "the run to wait for the row", func() bool {
		return v.LockWaits() == 1
	})
	require.NoError(t, tx.Commit(v.ctx))
	got := <-end
	require.NoError(t, got.err)
	require.Equal(t, rekey.Result{Current: "new", Looked: 30, Sealed: 29, Changed: 1}, got.Result)
	require.Equal(t, changed, testenv.Value[[]byte](v.Env, `SELECT webhook_secret FROM tenants WHERE id = $1`, id))
	v.texts[c.String()+id.String()] = "changed meanwhile"
	v.opensWith(v.both)
	used, err := s.Usage(v.ctx)
	require.NoError(t, err)
	require.Equal(t, rekey.Usage{"old": 1, "new": 29}, used, "what is left is told")
}

// A key that is missing, that is another than its id says, and a value that is none are named, and
// stop nothing else.
func TestValuesThatDoNotOpen(t *testing.T) {
	v := setup(t, 3)
	bvn, nin, code := rekey.Column{Table: "customers", Name: "bvn"}, rekey.Column{Table: "customers", Name: "nin"}, rekey.Column{Table: "pending_registrations", Name: "code_hash"}
	lost, damaged, plain := v.aRow(bvn), v.aRow(nin), v.aRow(code)
	lostBox := box(t, secret.NewKey("lost").Reveal())
	v.put(bvn, lost, lostBox.Seal(place(bvn, lost), []byte("x")))
	v.put(nin, damaged, box(t, secret.NewKey("old").Reveal()).Seal(place(nin, damaged), []byte("x")))
	v.put(code, plain, []byte(strings.Repeat("plain text", 10)))

	s := v.service(v.both)
	want := []rekey.Problem{
		{Column: "pending_registrations.code_hash", Key: rekey.NotSealed, Row: plain, Values: 1, Why: "the value is not a sealed one"},
		{Column: "customers.bvn", Key: "lost", Row: lost, Values: 1, Why: `the key "lost" is not in AJO_ENCRYPTION_KEYS`},
		{Column: "customers.nin", Key: "old", Row: damaged, Values: 1, Why: `the key given as "old" is not the one that sealed it, or the value was damaged or copied here`},
	}
	checked, err := s.Check(v.ctx)
	require.NoError(t, err)
	require.Equal(t, rekey.Result{Current: "new", Looked: 30, Sealed: 27, Problems: want}, checked)
	done, err := v.seal(s)
	require.NoError(t, err)
	require.Equal(t, checked, done)
	used, err := s.Usage(v.ctx)
	require.NoError(t, err)
	require.Equal(t, rekey.Usage{"new": 27, "old": 1, "lost": 1, rekey.NotSealed: 1}, used)

	// Without the old key every value is of an unknown one, and is counted with the first of its
	// rows.
	alone, err := v.service(box(t, secret.NewKey("newer").Reveal())).Check(v.ctx)
	require.NoError(t, err)
	require.Zero(t, alone.Sealed)
	require.Contains(t, alone.Problems, rekey.Problem{
		Column: "tenants.webhook_secret", Key: "new", Row: v.aRow(rekey.Columns[0]), Values: 3, Why: `the key "new" is not in AJO_ENCRYPTION_KEYS`,
	})
}

// The ids of keys may have up to 32 characters; all of one are told from the head of a value.
func TestLongKeyID(t *testing.T) {
	v := setup(t, 1)
	long := strings.Repeat("k", 32)
	b := box(t, secret.NewKey(long).Reveal()+","+v.oldKey)
	_, err := v.seal(v.service(b))
	require.NoError(t, err)
	used, err := v.service(b).Usage(v.ctx)
	require.NoError(t, err)
	require.Equal(t, rekey.Usage{long: len(rekey.Columns)}, used)
}

func TestBatchSize(t *testing.T) {
	v := setup(t, 1)
	for _, n := range []int{-1, 0, 10_001} {
		s := v.service(v.both)
		s.Batch = n
		_, err := s.Check(v.ctx)
		require.True(t, errors.Is(err, rekey.ErrBatch), n)
	}
}

// notSealed are the other columns of bytes, and what they hold.
var notSealed = map[string]string{
	"api_keys.hash": "hash", "members.invite_hash": "hash", "recovery_codes.hash": "hash", "operators.setup_hash": "hash", "operator_sessions.token_hash": "hash", "customers.nin_hash": "hash, with a key", "sessions.token_hash": "hash", "login_links.token_hash": "hash", "password_resets.token_hash": "hash", "inbound_events.digest": "hash", "idempotency_keys.request_hash": "hash",
	"ledger_entries.hash": "hash", "ledger_balances.chain_head": "hash", "ledger_checkpoints.hash": "hash",
	"event_bodies.body": "the bank's words", "deliveries.body": "what the tenant is told", "listen_events.body": "the same", "deliveries.response_body": "what the tenant answered", "delivery_attempts.response_body": "what it answered",
	"idempotency_keys.response": "what was answered",
}

// A new column of bytes is either sealed, and so in the list, or named above.
func TestEveryColumnIsKnown(t *testing.T) {
	v := setup(t, 0)
	found, err := pg.Collect(v.ctx, v.Pool, pgx.RowTo[string], `SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public' AND data_type = 'bytea'
		AND table_name::text NOT IN (SELECT inhrelid::regclass::text FROM pg_inherits)`)
	require.NoError(t, err)
	var known []string
	for _, c := range rekey.Columns {
		known = append(known, c.String())
	}
	for name := range notSealed {
		known = append(known, name)
	}
	require.ElementsMatch(t, known, found)
}
