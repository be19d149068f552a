package ledger_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// amounts reads the filtered statement through its pages, and by Lines, which must be the same.
func (b *books) amounts(f ledger.Filter, limit int) (out []string) {
	b.T.Helper()
	for r := (page.Request{Limit: limit}); ; {
		s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, f, r)
		require.NoError(b.T, err)
		for _, l := range s.Lines {
			out = append(out, l.Entry.Amount.String())
		}
		if !s.Pagination.HasMore {
			break
		}
		require.Len(b.T, s.Lines, limit)
		r.After = *s.Pagination.NextCursor
	}
	var whole []string
	for l, err := range ledger.Lines(b.ctx, b.Pool, b.account, f, 1000) {
		require.NoError(b.T, err)
		whole = append(whole, l.Entry.Amount.String())
	}
	require.Equal(b.T, out, whole)
	return out
}

func TestStatementFilter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begin := b.Clock.Now()
	for i := range 6 { // 1.00 to 6.00, a day apart
		e := b.credit(fmt.Sprintf("%d.00", i+1))
		switch i {
		case 1:
			b.move(e, ledger.EventConfirm)
		case 2:
			b.move(e, ledger.EventHold)
		case 4:
			b.move(e, ledger.EventReverse)
		}
		b.Clock.Advance(24 * time.Hour)
	}
	_, err := b.debit("7.00")
	require.NoError(t, err)
	day := func(n int) time.Time { return begin.Add(time.Duration(n) * 24 * time.Hour) }
	for _, c := range []struct {
		f    ledger.Filter
		want []string
	}{
		{ledger.Filter{}, []string{"1.00", "2.00", "3.00", "4.00", "5.00", "5.00", "6.00", "7.00"}},
		{ledger.Filter{From: day(2)}, []string{"3.00", "4.00", "5.00", "5.00", "6.00", "7.00"}},
		{ledger.Filter{From: day(2).Add(time.Microsecond)}, []string{"4.00", "5.00", "5.00", "6.00", "7.00"}},
		{ledger.Filter{To: day(2)}, []string{"1.00", "2.00"}},
		{ledger.Filter{To: day(2).Add(time.Microsecond)}, []string{"1.00", "2.00", "3.00"}},
		{ledger.Filter{From: day(1), To: day(4)}, []string{"2.00", "3.00", "4.00"}},
		{ledger.Filter{From: day(9)}, nil},
		{ledger.Filter{To: day(-9)}, nil},
		{ledger.Filter{Direction: ledger.Debit}, []string{"5.00", "7.00"}},
		{ledger.Filter{Status: ledger.Reversed}, []string{"5.00", "5.00"}},
		{ledger.Filter{Status: ledger.NeedsReview}, []string{"3.00"}},
		{ledger.Filter{Status: ledger.Confirmed, From: day(1)}, []string{"2.00"}},
		{ledger.Filter{Status: ledger.Provisional, Direction: ledger.Credit, To: day(5)}, []string{"1.00", "4.00"}},
	} {
		for _, limit := range []int{1, 2, 100} {
			require.Equal(t, c.want, b.amounts(c.f, limit), "%+v", c.f)
		}
	}
	s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, ledger.Filter{From: day(9)}, page.Request{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "6.00 12.00", fmt.Sprint(s.ClosingBalance.String(), " ", s.TotalDebits), "the totals stay those of the whole history")

	for at, want := range map[int]string{-1: "0.00", 0: "0.00", 1: "1.00", 2: "3.00", 5: "7.00", 9: "6.00"} {
		got, err := ledger.BalanceAt(b.ctx, b.Pool, b.account, day(at))
		require.NoError(t, err)
		require.Equal(t, want, got.String(), at)
	}
}

func TestStatementFilterRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		f    ledger.Filter
		want error
	}{{ledger.Filter{Direction: "in"}, ledger.ErrDirection}, {ledger.Filter{Status: "Confirmed"}, ledger.ErrStatus}} {
		_, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, c.f, page.Request{Limit: 1})
		require.ErrorIs(t, err, c.want)
		for _, err := range ledger.Lines(b.ctx, b.Pool, b.account, c.f, 1) {
			require.ErrorIs(t, err, c.want)
		}
	}
	for range 3 {
		b.credit("1.00")
	}
	n := 0
	for _, err := range ledger.Lines(b.ctx, b.Pool, b.account, ledger.Filter{}, 2) {
		n++
		require.Equal(t, "the statement has more than 2 lines: narrow it by from and to", errs.As(err).Msg)
		require.Equal(t, errs.Unprocessable, errs.As(err).Kind)
	}
	require.Equal(t, 1, n)
	for _, err := range ledger.Lines(b.ctx, b.Pool, b.account, ledger.Filter{}, 3) {
		n++
		require.NoError(t, err)
	}
	require.Equal(t, 1+3, n, "as many as the limit are none too many")
	next, stop := iter.Pull2(ledger.Lines(b.ctx, b.Pool, b.account, ledger.Filter{}, 3))
	_, err, ok := next()
	require.NoError(t, err)
	require.True(t, ok)
	stop() // a reader may go, and the connection is free again
	require.Zero(t, b.Pool.Stat().AcquiredConns())
}

// Entries whose times are not quite in order, as clocks differ, are all found.
func TestFilterFindsEntriesOfClocksThatDiffer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tenant := b.tenant()
	rapid.Check(t, func(r *rapid.T) {
		b.account = b.Account(tenant, uuid.NewString())
		n := rapid.IntRange(0, 40).Draw(r, "entries")
		at := testenv.Epoch
		var times []time.Time
		for i := range n {
			at = at.Add(time.Duration(rapid.IntRange(0, 90).Draw(r, "minutes")) * time.Minute)
			off := time.Duration(rapid.IntRange(-29, 29).Draw(r, "off")) * time.Minute
			times = append(times, at.Add(off))
			b.Exec(`INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
				VALUES ($1, $2, $3, $4::int, 'credit', 1, 'provisional', $1, $4::int, $5)`, uuid.New(), tenant, b.account, i+1, times[i])
		}
		b.Exec(`UPDATE ledger_balances SET total_credits = $2::int, last_seq = $2::int WHERE account_id = $1`, b.account, n)
		f := ledger.Filter{From: testenv.Epoch.Add(time.Duration(rapid.IntRange(-60, 2000).Draw(r, "from")) * time.Minute)}
		f.To = f.From.Add(time.Duration(rapid.IntRange(0, 2000).Draw(r, "length")) * time.Minute)
		want := 0
		for _, at := range times {
			if !at.Before(f.From) && at.Before(f.To) {
				want++
			}
		}
		if got := len(b.amounts(f, 100)); got != want {
			r.Fatalf("%d of %d found", got, want)
		}
	})
}

// Callers come to an account's lock in another order than their clocks say. Each day adds up all
// the same, and begins with what the one before it ended with.
func TestDaysAddUpWhereClocksDiffer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	midnight, err := clock.ParseDay("2026-03-01")
	require.NoError(t, err)
	var first ledger.Entry
	for i, off := range []time.Duration{-2 * time.Second, 300 * time.Millisecond, -300 * time.Millisecond, 200 * time.Millisecond} {
		b.Clock.Set(midnight.Add(off))
		if e := b.credit(fmt.Sprintf("%d.00", 1<<i)); i == 0 {
			first = e
		}
	}
	b.Clock.Set(midnight.Add(-time.Second))
	b.move(first, ledger.EventReverse)
	b.Clock.Set(midnight.Add(time.Hour))
	day := func(f ledger.Filter) (opening, closing string) {
		begin, err := ledger.BalanceAt(b.ctx, b.Pool, b.account, f.From)
		require.NoError(t, err)
		var lines []ledger.Line
		sum := begin
		for l, err := range ledger.Lines(b.ctx, b.Pool, b.account, f, 100) {
			require.NoError(t, err)
			if lines = append(lines, l); l.Entry.Direction == ledger.Credit {
				sum = sum.Add(l.Entry.Amount)
			} else {
				sum = sum.Sub(l.Entry.Amount)
			}
		}
		end, err := f.Closing(b.ctx, b.Pool, b.account, begin, lines, b.Clock.Now())
		require.NoError(t, err)
		require.Equal(t, sum.String(), end.String(), "the lines of %+v", f)
		return begin.String(), end.String()
	}
	_, ended := day(ledger.Filter{To: midnight})
	begun, _ := day(ledger.Filter{From: midnight})
	require.Equal(t, ended, begun)
	require.Equal(t, "14.00", b.balance())
	b.verify()

	// a clock that was hours ahead, and set right, takes no entry along
	b.Clock.Advance(-3 * time.Hour)
	require.Equal(t, b.Clock.Now(), b.credit("1.00").CreatedAt)
}

// A period that has ended closes with its last line's balance, whatever has gone under review
// since; one that has not, with the balance of now.
func TestClosingAfterAReview(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 4 { // the neighbour has a fifth entry under review, too
		b.credit("1.00")
	}
	reviewed := b.credit("2.00")
	b.Clock.Advance(time.Hour)
	b.move(reviewed, ledger.EventHold)
	now := b.Clock.Now()
	soon := now.Add(time.Microsecond)
	for _, c := range []struct {
		f    ledger.Filter
		want string
	}{
		{ledger.Filter{To: now}, "6.00"},
		{ledger.Filter{From: now.Add(-time.Minute), To: now}, "6.00"},
		{ledger.Filter{To: soon}, "4.00"},
		{ledger.Filter{}, "4.00"},
		{ledger.Filter{From: now, To: soon}, "4.00"},
		{ledger.Filter{From: now}, "4.00"},
	} {
		opening, err := ledger.BalanceAt(b.ctx, b.Pool, b.account, c.f.From)
		require.NoError(t, err)
		var lines []ledger.Line
		for l, err := range ledger.Lines(b.ctx, b.Pool, b.account, c.f, 100) {
			require.NoError(t, err)
			lines = append(lines, l)
		}
		closing, err := c.f.Closing(b.ctx, b.Pool, b.account, opening, lines, now)
		require.NoError(t, err)
		require.Equal(t, c.want, closing.String(), "%+v", c.f)
	}
}

// From the end the pages hold the same lines, each once, turned round.
func TestStatementNewestFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 5 {
		b.credit(fmt.Sprintf("%d.00", i+1))
		b.Clock.Advance(24 * time.Hour)
	}
	read := func(f ledger.Filter, limit int) (out []string) {
		for r := (page.Request{Limit: limit}); ; {
			s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, f, r)
			require.NoError(t, err)
			for _, l := range s.Lines {
				out = append(out, l.Entry.Amount.String())
			}
			if !s.Pagination.HasMore {
				return out
			}
			r.After = *s.Pagination.NextCursor
		}
	}
	for _, limit := range []int{1, 2, 5, 100} {
		require.Equal(t, []string{"5.00", "4.00", "3.00", "2.00", "1.00"}, read(ledger.Filter{NewestFirst: true}, limit))
		require.Equal(t, []string{"3.00", "2.00"}, read(ledger.Filter{NewestFirst: true, From: testenv.Epoch.Add(24 * time.Hour), To: testenv.Epoch.Add(72 * time.Hour)}, limit))
	}
}

// A filter's pages end where a page has looked at its share of a long history. They miss no line
// and show none twice, from either end, wherever the lines are.
func TestPagesOfAFilterThatLooksAtALongHistory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 2*pg.ScanLimit + 1
	at := []int{1, 2, pg.ScanLimit, pg.ScanLimit + 1, pg.ScanLimit + 2, 2 * pg.ScanLimit, n}
	b.ExecUnguarded(`
		INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
		SELECT gen_random_uuid(), a.tenant_id, a.id, n, 'credit', n, CASE WHEN n = ANY($2) THEN 'provisional' ELSE 'confirmed' END, gen_random_uuid(), n, $3
		FROM accounts a, generate_series(1, $4::int) n WHERE a.id = $1`, b.account, at, testenv.Epoch, n)
	b.Exec(`UPDATE ledger_balances SET total_credits = $2::int, last_seq = $2::int WHERE account_id = $1`, b.account, n)
	var want []string
	for _, seq := range at {
		want = append(want, fmt.Sprintf("%d.00", seq))
	}
	for _, newestFirst := range []bool{false, true} {
		for _, limit := range []int{1, 2, 3, 100} {
			var got []string
			r := page.Request{Limit: limit, Total: true}
			for more := true; more; {
				s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, ledger.Filter{Status: ledger.Provisional, NewestFirst: newestFirst}, r)
				require.NoError(t, err)
				require.False(t, s.Pagination.Total.Exact, "not all lines were looked at")
				require.Equal(t, 4, s.Pagination.Total.Count, "of the first 10,001")
				for _, l := range s.Lines {
					got = append(got, l.Entry.Amount.String())
				}
				if more = s.Pagination.HasMore; more {
					r.After = *s.Pagination.NextCursor
				}
			}
			require.Equal(t, want, got, "newest first: %v, limit %d", newestFirst, limit)
		}
		slices.Reverse(want)
	}
}

// So do the pages of a tenant's payments, also of more with one time than a page looks at: as long
// as the clock is behind an account's last entry, its entries have that one's time.
func TestPagesOfPaymentsOfOneTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = pg.ScanLimit + 2
	many := func(account uuid.UUID) {
		require.NoError(t, b.tx(func(tx pg.Tx) error {
			if _, err := tx.Exec(b.ctx, `SET LOCAL session_replication_role = replica`); err != nil { // entries begin as provisional
				return err
			}
			_, err := tx.Exec(b.ctx, `
				INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
				SELECT gen_random_uuid(), a.tenant_id, a.id, n, 'credit', n, CASE WHEN n IN (1, 2, $3) THEN 'provisional' ELSE 'confirmed' END, gen_random_uuid(), n,
					$2::timestamptz + interval '1 hour' * CASE n WHEN 1 THEN -1 WHEN $3 THEN 1 ELSE 0 END
				FROM accounts a, generate_series(1, $3::int) n WHERE a.id = $1`, account, testenv.Epoch, n)
			return err
		}))
	}
	pages := func(limit int, s page.Sort) (got [][]string) {
		for _, list := range testenv.Pages(t, 10, func(r page.Request) ([]ledger.Payment, page.Info, error) {
			r.Limit, r.Sort = limit, s
			return ledger.Payments(b.ctx, b.Pool, b.tenant(), ledger.PaymentFilter{Status: ledger.Provisional}, r)
		}) {
			var amounts []string
			for _, p := range list {
				amounts = append(amounts, p.Amount.String())
			}
			got = append(got, amounts)
		}
		return got
	}
	orders := []page.Sort{{}, {Ascending: true}}
	many(b.Account(b.Tenant(), "another tenant's"))
	for _, s := range orders {
		require.Equal(t, [][]string{nil}, pages(100, s), "another tenant's are not looked at; oldest first: %v", s.Ascending)
	}
	many(b.account)
	for _, s := range orders {
		for _, limit := range []int{1, 100} {
			got := slices.Concat(pages(limit, s)...)
			if !s.Ascending {
				slices.Reverse(got)
			}
			require.Equal(t, []string{"1.00", "2.00", "10002.00"}, got, "oldest first: %v, limit %d", s.Ascending, limit)
		}
	}
}

// However the statement is read, the payer's name is the entry's own: the event may be archived.
func TestStatementNeedsNoEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, sql := range map[string]string{"page": ledger.PageSQL, "newest first": ledger.NewestFirstSQL, "lines": ledger.LinesSQL} {
		plan := b.BatchPlan(sql)
		require.Contains(t, plan, "ledger_entries_seq", "%s: %s", name, plan)
		require.NotContains(t, plan, "inbound_events", "%s: %s", name, plan)
	}
}

// A file whose filter lets hardly anything through does not look for it in a whole history: it is
// refused, like one of too many lines, until a time narrows it.
func TestFilesLookAtABoundedPart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const limit, n = 2, 2*ledger.ScanPerLine + 1
	b.ExecUnguarded(`
		INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
		SELECT gen_random_uuid(), a.tenant_id, a.id, n, 'credit', n, CASE WHEN n = 1 THEN 'provisional' ELSE 'confirmed' END, gen_random_uuid(), n, $2::timestamptz + n * interval '1 day'
		FROM accounts a, generate_series(1, $3::int) n WHERE a.id = $1`, b.account, testenv.Epoch, n)
	b.Exec(`UPDATE ledger_balances SET total_credits = $2::int, last_seq = $2::int WHERE account_id = $1`, b.account, n)
	lines := func(f ledger.Filter) (amounts []string, err error) {
		for l, err := range ledger.Lines(b.ctx, b.Pool, b.account, f, limit) {
			if err != nil {
				return nil, err
			}
			amounts = append(amounts, l.Entry.Amount.String())
		}
		return amounts, nil
	}
	payments := func(f ledger.PaymentFilter) func(time.Time) ([]string, error) {
		return func(to time.Time) (amounts []string, err error) {
			f.To = to
			err = ledger.EachPayment(b.ctx, b.Pool, b.tenant(), f, limit, func(p ledger.Payment) error {
				amounts = append(amounts, p.Amount.String())
				return nil
			})
			return amounts, err
		}
	}
	one := money.Must("1.00")
	for what, read := range map[string]func(time.Time) ([]string, error){
		"lines":                              func(to time.Time) ([]string, error) { return lines(ledger.Filter{Status: ledger.Provisional, To: to}) },
		"an account's payments":              payments(ledger.PaymentFilter{AccountID: b.account, Status: ledger.Provisional}),
		"an account's payments of an amount": payments(ledger.PaymentFilter{AccountID: b.account, Amount: &one}),
		"a tenant's payments":                payments(ledger.PaymentFilter{Status: ledger.Provisional}),
		"a tenant's payments of an amount":   payments(ledger.PaymentFilter{Amount: &one}),
	} {
		_, err := read(time.Time{})
		require.ErrorIs(t, err, ledger.ErrWide, what)
		got, err := read(testenv.Epoch.AddDate(0, 0, n-1))
		require.NoError(t, err, what)
		require.Equal(t, []string{"1.00"}, got, what)
	}
	_, err := lines(ledger.Filter{From: testenv.Epoch})
	require.Equal(t, "the statement has more than 2 lines: narrow it by from and to", errs.As(err).Msg, "it drops none in between")
	for what, f := range map[string]ledger.Filter{
		"what is before a time is not looked at": {Status: ledger.Provisional, From: testenv.Epoch.AddDate(0, 0, 2)},
		"an index finds no reversal":             {Status: ledger.Reversed},
		"an index finds no review":               {Status: ledger.NeedsReview},
		"an index finds no debit":                {Direction: ledger.Debit},
	} {
		got, err := lines(f)
		require.NoError(t, err, what)
		require.Empty(t, got, what)
	}
}
