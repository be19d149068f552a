package testenv

import (
	"context"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
)

// Subscribe subscribes a tenant to events, as an array in Postgres' notation, at a URL of its own.
func (e *Env) Subscribe(tenant uuid.UUID, events string) {
	e.T.Helper()
	e.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook', webhook_events = $2 WHERE id = $1`, tenant, events)
}

// Published lists the deliveries of a transaction group to the URL of [Env.Subscribe], as "event
// status", in the order in which they were made. A delivery to any other URL has the URL behind it.
func (e *Env) Published(group uuid.UUID) []string {
	e.T.Helper()
	return Value[[]string](e, `
		SELECT coalesce(array_agg(event_type || ' ' || (convert_from(body, 'UTF8')::json->>'status')
			|| CASE callback_url WHEN 'https://tenant.example/hook' THEN '' ELSE ' ' || callback_url END ORDER BY id), '{}')
		FROM deliveries WHERE transaction_group_id = $1`, group)
}

// Statements are the SQL statements that a pool has sent.
type Statements struct {
	mu  sync.Mutex
	all []string
}

// TraceQueryStart keeps a statement.
func (s *Statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d.SQL)
	return ctx
}

// TraceQueryEnd makes it a tracer of pgx.
func (s *Statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Taken returns the statements since the last call.
func (s *Statements) Taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.all = nil }()
	return s.all
}

// Traced is another pool of the test's database, and the statements that it sends.
func (e *Env) Traced() (*pg.Pool, *Statements) {
	e.T.Helper()
	sent := &Statements{}
	cfg := e.Pool.Config()
	cfg.ConnConfig.Tracer = sent
	pool, err := pgxpool.NewWithConfig(e.T.Context(), cfg)
	require.NoError(e.T, err)
	e.T.Cleanup(pool.Close)
	return pool, sent
}
