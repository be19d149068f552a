package migrations_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
	"ajo/migrations"
)

// A database that has entries when the chain comes: they stay as they are, and the chain begins
// with the next entry of each.
func TestChainOverOldEntries(t *testing.T) {
	t.Parallel()
	ctx, url := context.Background(), testenv.EmptyDatabase(t)
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	db := stdlib.OpenDB(*cfg)
	defer func() { _ = db.Close() }()
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files)
	require.NoError(t, err)
	_, err = p.UpTo(ctx, 7)
	require.NoError(t, err)

	pool, err := pg.Open(ctx, url, 4)
	require.NoError(t, err)
	defer pool.Close()
	e := &testenv.Env{T: t, Pool: pool, Clock: clock.NewFake(testenv.Epoch)}
	tenant := e.Tenant()
	old, young := e.Account(tenant, "old"), e.Account(tenant, "young")
	var groups []uuid.UUID
	for i := range 3 {
		groups = append(groups, uuid.Must(uuid.NewV7()))
		e.Exec(`INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
			VALUES ($1, $2, $3, $4::int, 'credit', 10, 'provisional', $1, $4::int * 10, $5)`, groups[i], tenant, old, i+1, e.Clock.Now())
	}
	e.Exec(`UPDATE ledger_balances SET total_credits = 30, provisional_credits = 30, last_seq = 3 WHERE account_id = $1`, old)
	e.Exec(`UPDATE ledger_entries SET status = 'needs_review' WHERE seq = 1`)
	e.Exec(`UPDATE ledger_balances SET total_credits = 20, provisional_credits = 20 WHERE account_id = $1`, old)

	_, err = migrations.Up(ctx, url)
	require.NoError(t, err)
	pool.Reset()
	require.Equal(t, int64(4), testenv.Value[int64](e, `SELECT chain_from FROM ledger_balances WHERE account_id = $1`, old))
	require.Equal(t, int64(1), testenv.Value[int64](e, `SELECT chain_from FROM ledger_balances WHERE account_id = $1`, young))
	whole := func() {
		t.Helper()
		found, err := ledger.Verify(ctx, pool)
		require.NoError(t, err)
		require.Empty(t, found)
	}
	whole()
	require.NoError(t, pg.InTx(ctx, pool, func(tx pg.Tx) error {
		var moves []ledger.Move
		for i, ev := range []ledger.Event{ledger.EventReverse, ledger.EventConfirm, ledger.EventHold} {
			moves = append(moves, ledger.Move{TransactionGroupID: groups[i], Direction: ledger.Credit, Event: ev})
		}
		_, err := ledger.MoveEntries(ctx, tx, e.Clock.Now(), moves)
		return err
	}))
	for _, account := range []uuid.UUID{old, young} {
		require.NoError(t, pg.InTx(ctx, pool, func(tx pg.Tx) error {
			_, err := ledger.PostCredits(ctx, tx, e.Clock.Now(), []ledger.Posting{{AccountID: account, Amount: money.Must("5.00"), TransactionGroupID: uuid.New()}})
			return err
		}))
	}
	whole()
}
