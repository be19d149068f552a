package migrations_test

import (
	"context"
	"testing"
	"time"

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

// A database that has entries when the days' sums come: those of the last month are in them, and
// what follows is added.
func TestDaysOfOldEntries(t *testing.T) {
	t.Parallel()
	ctx, url := context.Background(), testenv.EmptyDatabase(t)
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	db := stdlib.OpenDB(*cfg)
	defer func() { _ = db.Close() }()
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files)
	require.NoError(t, err)
	_, err = p.UpTo(ctx, 12)
	require.NoError(t, err)

	pool, err := pg.Open(ctx, url, 4)
	require.NoError(t, err)
	defer pool.Close()
	// ids have the machine's time in them
	e := &testenv.Env{T: t, Pool: pool, Clock: clock.NewFake(time.Now().UTC().Truncate(24 * time.Hour).Add(9 * time.Hour))}
	tenant := e.Tenant()
	account := e.Account(tenant, "old")
	for i, daysAgo := range []int{40, 29, 1, 0} {
		at := e.Clock.Now().AddDate(0, 0, -daysAgo)
		var id uuid.UUID
		for j, ms := 5, at.UnixMilli(); j >= 0; j, ms = j-1, ms>>8 {
			id[j] = byte(ms)
		}
		id[15] = byte(i)
		e.Exec(`INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
			VALUES ($1, $2, $3, $4::int, 'credit', $4::int, 'provisional', $1, 10, $5)`, id, tenant, account, i+1, at)
	}
	e.Exec(`UPDATE ledger_entries SET status = 'needs_review' WHERE seq = 3`)
	e.Exec(`UPDATE ledger_balances SET total_credits = 7, provisional_credits = 7, last_seq = 4 WHERE account_id = $1`, account)

	_, err = migrations.Up(ctx, url)
	require.NoError(t, err)
	pool.Reset()
	read := func() (out []string) {
		o, err := ledger.ReadOverview(ctx, pool, tenant, e.Clock.Now())
		require.NoError(t, err)
		for _, i := range []int{0, 28, 29} {
			out = append(out, o.Days[i].MoneyIn.String())
		}
		return append(out, o.MoneyIn.String(), o.NeedsReview.Amount.String())
	}
	require.Equal(t, []string{"2.00", "0.00", "4.00", "6.00", "3.00"}, read())
	require.NoError(t, pg.InTx(ctx, pool, func(tx pg.Tx) error {
		_, err := ledger.PostCredits(ctx, tx, e.Clock.Now(), []ledger.Posting{{AccountID: account, Amount: money.Must("5.00"), TransactionGroupID: uuid.New()}})
		return err
	}))
	require.Equal(t, []string{"2.00", "0.00", "9.00", "11.00", "3.00"}, read())
}
