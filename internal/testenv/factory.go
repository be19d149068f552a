package testenv

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// Tenant inserts an active, verified tenant, whose owner nobody can log in as, and returns its id.
func (e *Env) Tenant() uuid.UUID {
	e.T.Helper()
	id := uuid.Must(uuid.NewV7())
	e.Exec(InsertTenants, []uuid.UUID{id}, []string{id.String() + "@tenant.example"}, "Test tenant", "x", e.Clock.Now())
	return id
}

// InsertTenants inserts tenants of ids and e-mails, with one name and one hash of a password of
// their owners, at a time. An owner has its tenant's id.
const InsertTenants = `
	WITH n AS (SELECT * FROM unnest($1::uuid[], $2::text[]) n (id, email)),
		t AS (INSERT INTO tenants (id, name, email, email_verified_at, created_at, updated_at) SELECT id, $3, email, $5, $5, $5 FROM n)
	INSERT INTO members (id, tenant_id, email, name, role, password_hash, invited_at, joined_at)
	SELECT id, id, email, $3, 'owner', $4, $5, $5 FROM n`

// Account inserts an active dedicated account of the tenant, with its customer and an empty
// balance, and returns its id. Its reference is ref, its number is derived from its id.
func (e *Env) Account(tenant uuid.UUID, ref string) uuid.UUID {
	e.T.Helper()
	id, customer, now := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), e.Clock.Now()
	e.Exec(`INSERT INTO customers (id, tenant_id, external_ref, name, created_at, updated_at) VALUES ($1, $2, $3, 'Ada Obi', $4, $4)`,
		customer, tenant, ref, now)
	e.Exec(`INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_number, bank_account_name, bank_name,
			status, type, created_at, updated_at)
		VALUES ($1, $2, $3, $4, 'nomba', lpad((abs(hashtextextended($1::uuid::text, 0)) % 10000000000)::text, 10, '0'), 'Ada Obi', 'Test Bank',
			'active', 'dedicated', $5, $5)`, id, tenant, customer, ref, now)
	e.Exec(`INSERT INTO account_history (id, account_id, to_status, reason, created_at) VALUES ($1, $2, 'active', 'provisioned', $3)`,
		uuid.Must(uuid.NewV7()), id, now)
	e.Exec(`INSERT INTO ledger_balances (account_id, tenant_id) VALUES ($1, $2)`, id, tenant)
	return id
}

// KeyEvents stores the keys of the authentic events that a test has inserted by itself.
func (e *Env) KeyEvents() {
	e.T.Helper()
	e.ExecUnguarded(`INSERT INTO event_keys (request, transaction, event_id, event_type)
		SELECT event_key(request_id), event_key(nullif(provider_txn_ref, '')), id, event_type FROM inbound_events e
		WHERE authentic AND NOT EXISTS (SELECT FROM event_keys k WHERE k.request = event_key(e.request_id))`)
}

// Recalled is what is held of an account for recalls, and what was taken back.
func (e *Env) Recalled(account uuid.UUID) [2]string {
	e.T.Helper()
	held := Value[money.Amount](e, `SELECT coalesce(recall_held, 0) FROM ledger_balances WHERE account_id = $1`, account)
	reversed := Value[money.Amount](e, `SELECT coalesce(recall_reversed, 0) FROM ledger_balances WHERE account_id = $1`, account)
	return [2]string{held.String(), reversed.String()}
}

// Exec runs one statement and fails the test on an error.
func (e *Env) Exec(sql string, args ...any) {
	e.T.Helper()
	if _, err := e.Pool.Exec(context.Background(), sql, args...); err != nil {
		e.T.Fatalf("%s: %v", sql, err)
	}
}

// ExecUnguarded is Exec without triggers, the checks of foreign keys and the time limit: for very
// many rows, and for rows in states that none begins in.
func (e *Env) ExecUnguarded(sql string, args ...any) {
	e.T.Helper()
	ctx := context.Background()
	must(e.T, pg.InTx(ctx, e.Pool, func(tx pg.Tx) error {
		_, err := tx.Exec(ctx, `SELECT set_config('session_replication_role', 'replica', true), set_config('statement_timeout', '0', true)`)
		if err == nil {
			_, err = tx.Exec(ctx, sql, args...)
		}
		return err
	}))
}

// PostgresTool is the path of a program that comes with the tests' Postgres, as pg_dump.
func (e *Env) PostgresTool(name string) string {
	return filepath.Join(Value[string](e, `SELECT setting FROM pg_config WHERE name = 'BINDIR'`), name)
}

// Value reads the one value of a one-row query.
func Value[T any](e *Env, sql string, args ...any) T {
	e.T.Helper()
	var v T
	if err := e.Pool.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		e.T.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Map reads the rows of a query of two columns, the second by the first.
func Map[K comparable, V any](e *Env, sql string, args ...any) map[K]V {
	e.T.Helper()
	m := map[K]V{}
	var k K
	var v V
	_, err := pgx.ForEachRow(pg.Rows(context.Background(), e.Pool, sql, args...), []any{&k, &v}, func() error {
		m[k] = v
		return nil
	})
	must(e.T, err)
	return m
}

// FindsNothing fails the test if a check of the books (ledger.Verify, invariant.Verify) finds
// something.
func FindsNothing[T any](t testing.TB, pool *pg.Pool, verify func(context.Context, *pg.Pool) ([]T, error)) {
	t.Helper()
	found, err := verify(context.Background(), pool)
	must(t, err)
	if len(found) > 0 {
		t.Fatalf("testenv: the books do not agree: %+v", found)
	}
}
