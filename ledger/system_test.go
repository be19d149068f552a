package ledger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

func (b *books) moveMoney(movements ...ledger.Movement) {
	b.T.Helper()
	require.NoError(b.T, b.tx(func(tx pg.Tx) error { return ledger.PostMovements(b.ctx, tx, b.Clock.Now(), movements) }))
}

func movement(a ledger.SystemAccount, d ledger.Direction, amount string) ledger.Movement {
	return ledger.Movement{
		Account: a, Direction: d, Amount: money.Must(amount), Kind: ledger.KindMove, Narration: "by hand",
		TransactionGroupID: uuid.Must(uuid.NewV7()),
	}
}

// trial is the trial balance at the end of a day, by account, the debits below zero.
func (b *books) trial(at time.Time) map[string]string {
	b.T.Helper()
	t, err := ledger.ReadTrialBalance(b.ctx, b.Pool, at.In(clock.Lagos).Format(time.DateOnly))
	require.NoError(b.T, err)
	require.Equal(b.T, "0.00", t.Total.String())
	out, sum := map[string]string{}, money.Zero
	for _, l := range t.Accounts {
		out[l.Account] = l.Credit.Sub(l.Debit).String()
		sum = sum.Add(l.Credit).Sub(l.Debit)
	}
	require.Equal(b.T, "0.00", sum.String())
	require.Len(b.T, out, len(ledger.SystemAccounts)+1)
	return out
}

// The ids and names in Go are those of the table.
func TestSystemAccountsAreTheTables(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, a := range ledger.SystemAccounts {
		require.Equal(t, a.ID(), testenv.Value[uuid.UUID](b.Env, `SELECT id FROM system_accounts WHERE name = $1`, string(a)))
		got, err := ledger.ParseSystemAccount(string(a))
		require.NoError(t, err)
		require.Equal(t, a, got)
	}
	require.Equal(t, len(ledger.SystemAccounts), testenv.Value[int](b.Env, `SELECT count(*) FROM system_accounts`))
	_, err := ledger.ParseSystemAccount("customer-1")
	require.ErrorIs(t, err, ledger.ErrSystemAccount)
	_, err = b.Pool.Exec(b.ctx, `DELETE FROM system_accounts`)
	require.Equal(t, "23514", pg.Code(err))
	_, err = b.Pool.Exec(b.ctx, `INSERT INTO ledger_balances (account_id, tenant_id) SELECT gen_random_uuid(), gen_random_uuid()`)
	require.Equal(t, "23503", pg.Code(err), "a balance is an account's")
	_, err = b.Pool.Exec(b.ctx, `DELETE FROM accounts WHERE id = $1`, b.account)
	require.Equal(t, "23503", pg.Code(err), "an account with a balance stays")
}

// Every movement has two sides, and each account's statement shows it from its own.
func TestTrialBalanceAndStatements(t *testing.T) {
	t.Parallel()
	b := alone(t)
	first := b.Clock.Now()
	b.credit("1000.00")
	b.moveMoney(movement(ledger.Suspense, ledger.Credit, "250.00"), movement(ledger.BankFees, ledger.Debit, "20.00"), movement(ledger.Taxes, ledger.Debit, "1.50"))
	want := map[string]string{"provider_float": "-1228.50", "tenants": "1000.00", "bank_fees": "-20.00", "taxes": "-1.50", "platform_revenue": "0.00", "suspense": "250.00"}
	require.Equal(t, want, b.trial(first))

	b.Clock.Advance(24 * time.Hour)
	m := movement(ledger.Suspense, ledger.Debit, "100.00") // between system accounts
	m.Contra = ledger.PlatformRevenue
	b.moveMoney(m)
	fee := posting(b.account, "30.00") // a tenant's entry whose other side is a system account
	fee.Contra, fee.Kind = ledger.PlatformRevenue, ledger.KindFee
	require.NoError(t, b.tx(func(tx pg.Tx) error {
		_, err := ledger.PostDebits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{fee})
		return err
	}))
	require.Equal(t, want, b.trial(first), "the day before is as it was")
	now := map[string]string{"provider_float": "-1228.50", "tenants": "970.00", "bank_fees": "-20.00", "taxes": "-1.50", "platform_revenue": "130.00", "suspense": "150.00"}
	require.Equal(t, now, b.trial(b.Clock.Now()))
	b.verify()

	lines := func(a ledger.SystemAccount, from, to time.Time) (out []string) {
		r := page.Request{Limit: 1}
		for {
			list, info, err := ledger.ReadSystemStatement(b.ctx, b.Pool, a, from, to, r)
			require.NoError(t, err)
			for _, l := range list {
				out = append(out, fmt.Sprint(l.Direction, " ", l.Amount, " ", l.Kind, " ", l.Other, " ", l.AccountID != nil))
			}
			if !info.HasMore {
				return out
			}
			r.After = *info.NextCursor
		}
	}
	var none time.Time
	require.Equal(t, []string{"credit 30.00 fee tenant true", "credit 100.00 move suspense false"}, lines(ledger.PlatformRevenue, none, none))
	require.Equal(t, []string{"debit 100.00 move platform_revenue false", "credit 250.00 move provider_float false"}, lines(ledger.Suspense, none, none))
	require.Equal(t, []string{"credit 250.00 move provider_float false"}, lines(ledger.Suspense, first, b.Clock.Now()))
	require.Equal(t, []string{"debit 100.00 move platform_revenue false"}, lines(ledger.Suspense, b.Clock.Now(), none))
	require.Len(t, lines(ledger.ProviderFloat, none, none), 4)

	// the tenant's statement says what it is
	s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, ledger.Filter{}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, ledger.KindFee, s.Lines[1].Entry.Kind)
	require.Empty(t, s.Lines[0].Entry.Kind)

	// a reversal gives it back on both sides
	require.NoError(t, b.tx(func(tx pg.Tx) error {
		_, err := ledger.MoveEntries(b.ctx, tx, b.Clock.Now(), []ledger.Move{{TransactionGroupID: fee.TransactionGroupID, Direction: ledger.Debit, Event: ledger.EventReverse}})
		return err
	}))
	now["tenants"], now["platform_revenue"] = "1000.00", "100.00"
	require.Equal(t, now, b.trial(b.Clock.Now()))
	b.verify()
}

// A page of a system account's lines ends where it has looked at its share of them: the next one
// goes on there. It looks at no other account's.
func TestSystemLinesBehindManyOthers(t *testing.T) {
	t.Parallel()
	b := alone(t)
	b.moveMoney(movement(ledger.Suspense, ledger.Credit, "250.00"))
	own := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM ledger_entries`)
	end := b.Clock.Now().Add(time.Second)
	many := func(a ledger.SystemAccount) {
		require.NoError(t, b.tx(func(tx pg.Tx) error {
			if _, err := tx.Exec(b.ctx, `SET LOCAL session_replication_role = replica`); err != nil { // no guards: they take their time
				return err
			}
			_, err := tx.Exec(b.ctx, `
				INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at, contra, kind)
				SELECT `+testenv.IDsAfter(own)+`, $1, $1, n + 1, 'credit', 1, 'confirmed', gen_random_uuid(), n, $2, 'taxes', 'move' FROM generate_series(1, $3::int) n`,
				a.ID(), end, pg.ScanLimit)
			return err
		}))
	}
	pages := func(a ledger.SystemAccount) (out [][]uuid.UUID) {
		for _, lines := range testenv.Pages(t, 10, func(r page.Request) ([]ledger.SystemLine, page.Info, error) {
			return ledger.ReadSystemStatement(b.ctx, b.Pool, a, time.Time{}, end, r)
		}) {
			var ids []uuid.UUID
			for _, l := range lines {
				ids = append(ids, l.ID)
			}
			out = append(out, ids)
		}
		return out
	}
	many(ledger.PlatformRevenue)
	require.Equal(t, [][]uuid.UUID{{own}}, pages(ledger.Suspense))
	require.Equal(t, [][]uuid.UUID{{own}}, pages(ledger.ProviderFloat))
	many(ledger.Suspense)
	require.Equal(t, [][]uuid.UUID{nil, {own}}, pages(ledger.Suspense))
	require.Equal(t, [][]uuid.UUID{nil, nil, nil}, pages(ledger.Taxes), "the other side of all of them")
}

// After years the sums of all days take longer to read than a statement may otherwise take.
func TestTrialBalanceTakesItsTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.Pool.Config()
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = "500"
	pool, err := pgxpool.NewWithConfig(b.ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	done := make(chan error, 1)
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(b.ctx, `LOCK TABLE ledger_days`); err != nil {
			return err
		}
		go func() {
			_, err := ledger.ReadTrialBalance(b.ctx, pool, "2026-03-02")
			done <- err
		}()
		testenv.Eventually(t, time.Minute, "the sums to be waited for", func() bool { return b.LockWaits() == 1 })
		_, err := tx.Exec(b.ctx, `SELECT pg_sleep(1)`)
		return err
	}))
	require.NoError(t, <-done)
}

// A book whose balances are not what its days say does not sum to zero.
func TestTrialBalanceShowsWhatDoesNotAddUp(t *testing.T) {
	t.Parallel()
	b := alone(t)
	b.credit("1000.00")
	b.moveMoney(movement(ledger.BankFees, ledger.Debit, "20.00"))
	read := func() [3]string {
		t.Helper()
		trial, err := ledger.ReadTrialBalance(b.ctx, b.Pool, b.Clock.Now().In(clock.Lagos).Format(time.DateOnly))
		require.NoError(t, err)
		return [3]string{trial.Debits.String(), trial.Credits.String(), trial.Total.String()}
	}
	require.Equal(t, [3]string{"1000.00", "1000.00", "0.00"}, read())
	b.tamper(`UPDATE ledger_balances SET total_credits = total_credits + 7 WHERE tenant_id <> account_id`)
	require.Equal(t, [3]string{"1000.00", "1007.00", "-7.00"}, read())
}

// A movement is posted once, whoever repeats it.
func TestMovementIsPostedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m := movement(ledger.BankFees, ledger.Debit, "20.00")
	m.TransactionGroupID = ledger.GroupOf(ledger.KindFee, ledger.BankFees, b.account)
	b.moveMoney(m)
	err := b.tx(func(tx pg.Tx) error { return ledger.PostMovements(b.ctx, tx, b.Clock.Now(), []ledger.Movement{m}) })
	require.Equal(t, "23505", pg.Code(err))
	require.NotEqual(t, m.TransactionGroupID, ledger.GroupOf(ledger.KindFee, ledger.Taxes, b.account))
	require.Equal(t, "-20.00", b.trial(b.Clock.Now())["bank_fees"])
}

// What the entries of system accounts say is verified as any account's, from the checkpoints too.
func TestVerifyFindsAlteredSystemAccounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credit("1000.00")
	m := movement(ledger.Suspense, ledger.Credit, "250.00")
	n := movement(ledger.BankFees, ledger.Debit, "20.00")
	n.Contra = ledger.PlatformRevenue
	b.moveMoney(m, n)
	b.verify()
	b.Exec(`ALTER TABLE ledger_entries DISABLE TRIGGER USER`)
	undone := errors.New("undone")
	for _, sql := range []string{
		`UPDATE ledger_entries SET contra = 'taxes' WHERE contra = 'platform_revenue'`,
		`UPDATE ledger_entries SET kind = 'fee' WHERE kind = 'move'`,
		`UPDATE ledger_days SET money_in = money_in + 1 WHERE tenant_id = (SELECT id FROM system_accounts WHERE name = 'platform_revenue')`,
		`UPDATE ledger_balances SET total_debits = total_debits + 1 WHERE tenant_id = account_id AND total_debits > 0`,
	} {
		var found []ledger.Finding
		err := b.tx(func(tx pg.Tx) error {
			if _, err := tx.Exec(b.ctx, sql); err != nil {
				return err
			}
			r, err := ledger.Read(b.ctx, tx, ledger.Reading{All: true})
			if err == nil {
				found, err = r.Findings, undone
			}
			return err
		})
		require.ErrorIs(t, err, undone, sql)
		require.NotEmpty(t, found, sql)
	}
}

// Whatever is posted, moved and reversed, the accounts are what a sum over the movements says, and
// all of them sum to zero.
func TestSystemAccountsSumToZero(t *testing.T) {
	t.Parallel()
	b := alone(t)
	own := ledger.SystemAccounts[1:]
	sums := map[string]money.Amount{}
	rapid.Check(t, func(r *rapid.T) {
		a, contra := rapid.SampledFrom(own).Draw(r, "account"), rapid.SampledFrom(ledger.SystemAccounts).Draw(r, "contra")
		d := rapid.SampledFrom([]ledger.Direction{ledger.Credit, ledger.Debit}).Draw(r, "direction")
		amount := money.FromKobo(rapid.Int64Range(1, 1_000_000_00).Draw(r, "kobo"))
		if a == contra {
			return
		}
		signed := amount
		if d == ledger.Debit {
			signed = amount.Neg()
		}
		if rapid.Bool().Draw(r, "tenant's") {
			p := posting(b.account, amount.String())
			p.Contra, p.Kind = contra, ledger.KindFee
			require.NoError(b.T, b.tx(func(tx pg.Tx) error {
				_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{p})
				return err
			}))
			sums["tenants"], signed = sums["tenants"].Add(amount), amount
		} else {
			b.moveMoney(ledger.Movement{Account: a, Contra: contra, Direction: d, Amount: amount, Kind: ledger.KindMove, TransactionGroupID: uuid.Must(uuid.NewV7())})
			sums[string(a)] = sums[string(a)].Add(signed)
		}
		sums[string(contra)] = sums[string(contra)].Sub(signed)
	})
	for name, sum := range b.trial(b.Clock.Now()) {
		require.Equal(t, sums[name].String(), sum, name)
	}
	b.verify()
}
