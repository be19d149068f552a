package ledger_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/ledger"
)

func (b *books) tenant() uuid.UUID {
	return testenv.Value[uuid.UUID](b.Env, `SELECT tenant_id FROM ledger_balances WHERE account_id = $1`, b.account)
}

func (b *books) overview() ledger.Overview {
	b.T.Helper()
	o, err := ledger.ReadOverview(b.ctx, b.Pool, b.tenant(), b.Clock.Now(), ledger.OverviewDays)
	require.NoError(b.T, err)
	return o
}

// moved returns the days on which anything moved, as "date in out".
func moved(o ledger.Overview) (out []string) {
	for _, d := range o.Days {
		if d.MoneyIn.Sign() != 0 || d.MoneyOut.Sign() != 0 {
			out = append(out, fmt.Sprintf("%s %s %s", d.Date, d.MoneyIn, d.MoneyOut))
		}
	}
	return out
}

func TestOverview(t *testing.T) {
	t.Parallel()
	b := setup(t)
	empty := b.overview()
	require.Len(t, empty.Days, ledger.OverviewDays)
	require.Equal(t, "2026-02-01", empty.Days[0].Date)
	require.Equal(t, "2026-03-02", empty.Days[29].Date)
	require.Empty(t, moved(empty))

	first := b.credit("1000.00") // on 2 March
	b.Clock.Advance(13*time.Hour + 30*time.Minute)
	b.credit("200.00") // at 22:30 UTC, when it is 23:30 in Lagos
	b.Clock.Advance(time.Hour)
	late := b.credit("30.50") // at 00:30 of the 3rd
	paid, err := b.debit("100.00")
	require.NoError(t, err)
	b.move(first, ledger.EventConfirm)
	o := b.overview()
	require.Equal(t, []string{"2026-03-02 1200.00 0.00", "2026-03-03 30.50 100.00"}, moved(o))
	require.Equal(t, []string{"1130.50", "230.50", "1230.50", "100.00"},
		[]string{o.Balance.String(), o.Provisional.String(), o.MoneyIn.String(), o.MoneyOut.String()})

	// What leaves the balance leaves its own day, also when that is another day.
	b.Clock.Advance(5 * 24 * time.Hour)
	b.move(late, ledger.EventHold)
	b.move(paid, ledger.EventReverse)
	o = b.overview()
	require.Equal(t, []string{"2026-03-02 1200.00 0.00"}, moved(o))
	require.Equal(t, "1200.00", o.Balance.String())
	require.Equal(t, "1 30.50", fmt.Sprint(o.NeedsReview.Count, " ", o.NeedsReview.Amount))
	b.move(late, ledger.EventConfirm) // a person decides
	require.Equal(t, []string{"2026-03-02 1200.00 0.00", "2026-03-03 30.50 0.00"}, moved(b.overview()))
	require.Zero(t, b.overview().NeedsReview.Count)

	b.Clock.Advance(24 * 24 * time.Hour) // 1 April: the first day falls out
	o = b.overview()
	require.Equal(t, []string{"2026-03-03 30.50 0.00"}, moved(o))
	require.Equal(t, "1230.50", o.Balance.String())
}

// Another tenant's money is in no figure.
func TestOverviewIsOfOneTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mine := b.overview()
	other := &books{Env: b.Env, ctx: b.ctx, account: b.Account(b.Tenant(), "customer-1")}
	other.move(other.credit("5.00"), ledger.EventHold)
	other.credit("7.00")
	require.Equal(t, mine, b.overview())
	require.Equal(t, []string{"2026-03-02 7.00 0.00"}, moved(other.overview()))
}

// daySums compares the kept sums with the entries themselves.
func daySums(b *books) string {
	return testenv.Value[string](b.Env, `
		WITH kept AS (SELECT tenant_id, day, sum(money_in) AS i, sum(money_out) AS o FROM ledger_days GROUP BY 1, 2),
		counted AS (
			SELECT tenant_id, ((created_at AT TIME ZONE 'UTC') + interval '1 hour')::date AS day,
				coalesce(sum(amount) FILTER (WHERE direction = 'credit'), 0) AS i, coalesce(sum(amount) FILTER (WHERE direction = 'debit'), 0) AS o
			FROM ledger_entries WHERE status IN ('provisional', 'confirmed') GROUP BY 1, 2)
		SELECT coalesce(string_agg(concat_ws(' ', k.day, k.i, k.o, '!=', c.i, c.o), E'\n'), '') FROM kept k FULL JOIN counted c USING (tenant_id, day)
		WHERE coalesce(k.i, 0) <> coalesce(c.i, 0) OR coalesce(k.o, 0) <> coalesce(c.o, 0)`)
}

// Whatever is posted and moved, the kept sums are those of the entries.
func TestDaysAreTheSumsOfTheEntries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rapid.Check(t, func(r *rapid.T) {
		var entries []ledger.Entry
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			b.Clock.Advance(time.Duration(rapid.IntRange(0, 40).Draw(r, "hours")) * time.Hour)
			amount := money.FromKobo(int64(rapid.IntRange(1, 100_000).Draw(r, "kobo"))).String()
			switch {
			case len(entries) == 0 || rapid.Bool().Draw(r, "credit"):
				entries = append(entries, b.credit(amount))
			case rapid.Bool().Draw(r, "debit"):
				if e, err := b.debit(amount); err == nil {
					entries = append(entries, e)
				}
			default:
				events := []ledger.Event{ledger.EventConfirm, ledger.EventReverse, ledger.EventHold, ledger.EventRefund}
				b.move(rapid.SampledFrom(entries).Draw(r, "entry"), rapid.SampledFrom(events).Draw(r, "event"))
			}
		}
		if wrong := daySums(b); wrong != "" {
			r.Fatal(wrong)
		}
	})
	b.verify()
}

// Many who post and move at once, on several accounts of a tenant, lose nothing of the sums.
func TestDaysAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tenant := b.tenant()
	var wg sync.WaitGroup
	for i := range 8 {
		one := &books{Env: b.Env, ctx: b.ctx, account: b.Account(tenant, fmt.Sprintf("shop-%d", i))}
		wg.Go(func() {
			for range 20 {
				e := one.credit("10.00")
				one.move(e, ledger.EventHold)
				one.move(e, ledger.EventConfirm)
				if _, err := one.debit("4.00"); err != nil {
					b.T.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, daySums(b))
	require.Equal(t, []string{"2026-03-02 1600.00 640.00"}, moved(b.overview()))
}

// The overview reads sums and balances by their indexes, and no entry but those under review.
func TestOverviewReadsNoEntries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	plan := b.IndexPlan(ledger.OverviewSQL, b.tenant(), "2026-02-01", "2026-03-02")
	for _, index := range []string{"ledger_days_pkey", "ledger_balances_tenant", "ledger_entries_reviews"} {
		require.Contains(t, plan, index)
	}
	require.NotContains(t, plan, "Seq Scan")
}

// What could not go back is counted beside any number of holds that have ended.
func TestOverviewIsReadBesideManyHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const many = 3000
	b.ExecUnguarded(`
		INSERT INTO holds (id, tenant_id, account_id, amount, reason, source, entry_id, status, created_at, ended_at)
		SELECT gen_random_uuid(), $1, $2, 0.01, $5::text || 'x', 'policy', gen_random_uuid(), 'released', $3, $3 FROM generate_series(1, $4::int) n`,
		b.owner(), b.account, b.Clock.Now(), many, ledger.NotRefunded)
	b.Exec(`ANALYZE holds`)
	pool, asked := b.Recorded()
	o, err := ledger.ReadOverview(b.ctx, pool, b.tenant(), b.Clock.Now(), 7)
	require.NoError(t, err)
	require.Zero(t, o.NotRefunded.Count)
	looked := 0
	for _, s := range asked() {
		if strings.Contains(s.SQL, "FROM holds") {
			looked++
			most, plan := b.MostRows(s)
			require.Less(t, most, many/10, plan)
		}
	}
	require.Equal(t, 1, looked)
}
