package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/errs"
	"ajo/internal/fsm"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/ledger"
)

func init() { testenv.FewChecks() }

// books is one account under test.
type books struct {
	*testenv.Env
	ctx       context.Context
	account   uuid.UUID
	neighbour uuid.UUID
}

// setup has a neighbour beside the account: another tenant's, with an entry of each status and with
// the same numbers as the account's will have, with holds and with limits. No test changes its
// rows.
func setup(t testing.TB) *books {
	b := alone(t)
	own := b.account
	b.account = b.Account(b.Tenant(), "neighbour")
	b.fill()
	b.neighbour, b.account = b.account, own
	b.Untouched(b.neighbour.String())
	return b
}

// alone is setup for tests of the books as a whole.
func alone(t testing.TB) *books {
	e := testenv.New(t)
	return &books{Env: e, ctx: context.Background(), account: e.Account(e.Tenant(), "customer-1")}
}

// fill posts an entry of each status, places holds and sets limits.
func (b *books) fill() {
	b.T.Helper()
	for i, event := range []ledger.Event{"", ledger.EventConfirm, ledger.EventReverse, ledger.EventHold} {
		e := b.credit(fmt.Sprintf("7%d00.00", i))
		if event != "" {
			b.move(e, event)
		}
	}
	_, err := b.debit("70.00")
	require.NoError(b.T, err)
	now := b.Clock.Now()
	for _, until := range []*time.Time{nil, new(now.Add(time.Second)), new(now.AddDate(1, 0, 0))} {
		_, err := b.placeHold("7.00", until)
		require.NoError(b.T, err)
	}
	b.setLimits(b.account, 1, now.Add(-time.Second), "0.00", "0.00", "0.00")
}

func (b *books) tx(fn func(tx pg.Tx) error) error { return pg.InTx(b.ctx, b.Pool, fn) }

func (b *books) credit(amount string) ledger.Entry {
	b.T.Helper()
	var out []ledger.Entry
	require.NoError(b.T, b.tx(func(tx pg.Tx) (err error) {
		out, err = ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{posting(b.account, amount)})
		return err
	}))
	return out[0]
}

func (b *books) debit(amount string) (ledger.Entry, error) {
	var out []ledger.Posted
	require.NoError(b.T, b.tx(func(tx pg.Tx) (err error) {
		out, err = ledger.PostDebits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{posting(b.account, amount)})
		return err
	}))
	return out[0].Entry, out[0].Err
}

// connections opens pools of one connection until two begin with the same row of a day's sums.
func (b *books) connections() (same []*pg.Pool) {
	b.T.Helper()
	slots := map[int]*pg.Pool{}
	for range 33 {
		pool, err := pg.Open(b.ctx, b.DatabaseURL, 1)
		require.NoError(b.T, err)
		b.T.Cleanup(pool.Close)
		var slot int
		require.NoError(b.T, pool.QueryRow(b.ctx, `SELECT pg_backend_pid() % 32`).Scan(&slot))
		if slots[slot] != nil {
			return []*pg.Pool{slots[slot], pool}
		}
		slots[slot] = pool
	}
	b.T.Fatal("33 connections have 33 of 32 slots")
	return nil
}

// A transaction has its own rows of the sums by day, whatever else it still has to wait for:
// another that posts for the same tenants does not wait for them.
func TestNobodyWaitsForTheDays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	second := b.Account(testenv.Value[uuid.UUID](b.Env, `SELECT tenant_id FROM accounts WHERE id = $1`, b.account), "customer-2")
	post := func(tx pg.Tx, account uuid.UUID) error {
		_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{posting(account, "100.00")})
		return err
	}
	pools := b.connections()
	require.NoError(t, pg.InTx(b.ctx, pools[0], func(tx pg.Tx) error {
		if err := post(tx, b.account); err != nil {
			return err
		}
		return pg.InTx(b.ctx, pools[1], func(other pg.Tx) error {
			if err := testenv.Runs(`SET LOCAL lock_timeout = '1ms'`)(other); err != nil {
				return err
			}
			return post(other, second)
		})
	}))
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
}

// Entries of many tenants and days leave the balance in one transaction, and those of other
// accounts of the same tenants in another at the same moment. Where all slots are taken they meet
// on the sums by day, and must lock these in one order.
func TestMovesOfManyDaysDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slots, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	_, err = slots.Exec(b.ctx, `SELECT pg_advisory_xact_lock('ledger_days'::regclass::oid::integer, i) FROM generate_series(0, 31) AS i`)
	require.NoError(t, err)
	const tenants, days, rounds = 12, 2, 15
	accounts := make([][]uuid.UUID, 2)
	for range tenants {
		tenant := b.Tenant()
		for side := range accounts {
			accounts[side] = append(accounts[side], b.Account(tenant, fmt.Sprint("customer-", side)))
		}
	}
	pools := b.connections()
	for range rounds {
		moves := make([][]ledger.Move, len(pools))
		for side := range moves {
			for day := range days {
				postings := make([]ledger.Posting, tenants)
				for i, id := range accounts[side] {
					postings[i] = posting(id, "100.00")
					moves[side] = append(moves[side], ledger.Move{TransactionGroupID: postings[i].TransactionGroupID, Direction: ledger.Credit})
				}
				require.NoError(t, b.tx(func(tx pg.Tx) error {
					_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now().Add(time.Duration(day)*24*time.Hour), postings)
					return err
				}))
			}
		}
		// out of the balance, and back
		for _, event := range []ledger.Event{ledger.EventHold, ledger.EventConfirm} {
			var wg sync.WaitGroup
			start := make(chan struct{})
			for side, pool := range pools {
				for i := range moves[side] {
					moves[side][i].Event = event
				}
				wg.Go(func() {
					<-start
					move := pg.NewBatcher(pool, pg.BatchOptions[ledger.Move]{Name: "test", Max: days * tenants}, func(ctx context.Context, tx pg.Tx, all []ledger.Move) ([]ledger.Moved, error) {
						return ledger.MoveEntries(ctx, tx, b.Clock.Now(), all)
					})
					defer move.Close()
					for _, o := range move.Together(b.ctx, moves[side]) {
						if o.Err != nil {
							t.Error(o.Err)
						}
					}
				})
			}
			close(start)
			wg.Wait()
		}
	}
	require.NoError(t, slots.Rollback(b.ctx))
	for _, pool := range pools {
		pool.Close() // and with that the server counts what it saw
	}
	require.Zero(t, testenv.Value[int](b.Env, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`))
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
}

func (b *books) move(e ledger.Entry, ev ledger.Event) ledger.Moved {
	b.T.Helper()
	if ev == ledger.EventRecall { // the schema asks for the recall
		b.Exec(`INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at)
			SELECT $1, tenant_id, account_id, 'event', 'open', 0, now() FROM ledger_balances WHERE account_id = $2 ON CONFLICT DO NOTHING`, e.TransactionGroupID, b.account)
	}
	var out []ledger.Moved
	require.NoError(b.T, b.tx(func(tx pg.Tx) (err error) {
		out, err = ledger.MoveEntries(b.ctx, tx, b.Clock.Now(), []ledger.Move{{TransactionGroupID: e.TransactionGroupID, Direction: e.Direction, Event: ev}})
		return err
	}))
	return out[0]
}

func (b *books) statement(r page.Request) ledger.Statement {
	b.T.Helper()
	s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, ledger.Filter{}, r)
	require.NoError(b.T, err)
	return s
}

func (b *books) balance() string {
	b.T.Helper()
	v, err := ledger.ReadBalance(b.ctx, b.Pool, b.account)
	require.NoError(b.T, err)
	return v.Balance.String()
}

func (b *books) verify() {
	b.T.Helper()
	testenv.FindsNothing(b.T, b.Pool, ledger.Verify)
	require.Empty(b.T, testenv.Value[[]string](b.Env, `
		SELECT coalesce(array_agg(direction || ' ' || status || ' ' || amount), '{}') FROM ledger_entries
		WHERE (confirmed_at IS NOT NULL) <> (direction = 'credit' AND kind = '' AND reversal_of IS NULL AND status = 'confirmed') AND NOT (status = 'reversed' AND direction = 'credit')`), "the time of the confirmation is of credits alone")
}

func posting(account uuid.UUID, amount string) ledger.Posting {
	return ledger.Posting{
		AccountID: account, Amount: money.Must(amount), Narration: "rent", ProviderTxnRef: "T-" + uuid.NewString(),
		TransactionGroupID: uuid.Must(uuid.NewV7()),
	}
}

func TestStatementShowsReversalPairAndReview(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.entry.reversed.entry", "endpoint.statement.credits", "endpoint.statement.debits", "endpoint.statement.closing")
	b := setup(t)
	first, second, third := b.credit("1000.00"), b.credit("250.50"), b.credit("40.00")
	require.Equal(t, ledger.Confirmed, b.move(first, ledger.EventConfirm).Status)
	require.Equal(t, ledger.Reversed, b.move(second, ledger.EventReverse).Status)
	require.Equal(t, ledger.NeedsReview, b.move(third, ledger.EventHold).Status)
	_, err := b.debit("300.00")
	require.NoError(t, err)

	s := b.statement(page.Request{Limit: 50})
	var got []string
	for _, l := range s.Lines {
		got = append(got, fmt.Sprintf("%s %s %s %s", l.Entry.Direction, l.Entry.Amount, l.Entry.Status, l.RunningBalance))
	}
	require.Equal(t, []string{
		"credit 1000.00 confirmed 1000.00",
		"credit 250.50 reversed 1250.50",
		"credit 40.00 needs_review 1290.50",
		"debit 250.50 reversed 1040.00",
		"debit 300.00 provisional 700.00",
	}, got)
	require.Equal(t, second.ID, *s.Lines[3].Entry.ReversalOf)
	require.Equal(t, "0.00", s.OpeningBalance.String())
	require.Equal(t, "1250.50", s.TotalCredits.String())
	require.Equal(t, "550.50", s.TotalDebits.String())
	require.Equal(t, "700.00", s.ClosingBalance.String())
	require.Equal(t, "700.00", b.balance())
	b.verify()

	require.Equal(t, ledger.Confirmed, b.move(third, ledger.EventConfirm).Status)
	require.Equal(t, "740.00", b.balance())
	b.verify()
}

// What stood before a time by what is known now is without what has gone under review since, and
// with what has come back from review since.
func TestStandingIsOfWhatIsKnownNow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	under, back, stays := b.credit("1.00"), b.credit("20.00"), b.credit("300.00")
	b.credit("4000.00")
	b.move(back, ledger.EventHold)
	b.move(stays, ledger.EventHold)
	b.credit("50000.00")
	b.Clock.Advance(time.Hour)
	at := b.Clock.Now()
	standing := func(account uuid.UUID, at time.Time) string {
		sum, err := ledger.StandingAt(b.ctx, b.Pool, account, at)
		require.NoError(t, err)
		return sum.String()
	}
	require.Equal(t, "54001.00", standing(b.account, at))
	require.Equal(t, "0.00", standing(b.account, at.Add(-2*time.Hour)))
	b.move(under, ledger.EventHold)
	b.move(back, ledger.EventConfirm)
	b.credit("600000.00")
	require.Equal(t, "54020.00", standing(b.account, at))
	require.Equal(t, b.balance(), standing(b.account, at.Add(time.Hour)))
}

func TestStatementPages(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "endpoint.statement.order", "endpoint.statement.aggregates")
	b := setup(t)
	empty := b.statement(page.Request{Limit: 2})
	require.Empty(t, empty.Lines)
	require.False(t, empty.Pagination.HasMore)
	require.Nil(t, empty.Pagination.NextCursor)
	for i := 1; i <= 5; i++ {
		b.credit(fmt.Sprintf("%d.00", i))
	}
	var amounts []string
	r := page.Request{Limit: 2}
	for {
		s := b.statement(r)
		for _, l := range s.Lines {
			amounts = append(amounts, l.Entry.Amount.String())
		}
		require.Equal(t, "15.00", s.ClosingBalance.String(), "the totals cover the whole history on every page")
		if !s.Pagination.HasMore {
			break
		}
		r.After = *s.Pagination.NextCursor
	}
	require.Equal(t, []string{"1.00", "2.00", "3.00", "4.00", "5.00"}, amounts)
	_, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, ledger.Filter{}, page.Request{Limit: 2, After: "nonsense"})
	require.ErrorIs(t, err, page.ErrCursor)
}

// Every status × event pair: the table decides, a refused move changes nothing.
func TestEveryTransition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	path := map[ledger.Status][]ledger.Event{
		ledger.Provisional: {},
		ledger.Confirmed:   {ledger.EventConfirm},
		ledger.Reversed:    {ledger.EventReverse},
		ledger.NeedsReview: {ledger.EventHold},
	}
	for from, events := range path {
		for _, ev := range ledger.Transitions.Events()[1:] {
			e := b.credit("10.00")
			for _, step := range events {
				require.NoError(t, b.move(e, step).Err)
			}
			before := b.balance()
			moved := b.move(e, ev)
			if want, ok := ledger.Transitions.Next(from, ev); ok && ev != ledger.EventRefund {
				require.NoError(t, moved.Err, "%s on %s", ev, from)
				require.Equal(t, want, moved.Status)
			} else {
				require.ErrorIs(t, moved.Err, ledger.ErrMove, "%s on %s", ev, from)
				require.Equal(t, from, moved.Status)
				require.Equal(t, before, b.balance())
			}
			b.verify()
		}
	}
}

// The schema allows exactly the moves of the table, whoever writes.
func TestSchemaAllowsOnlyTheTablesMoves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	setStatus := `UPDATE ledger_entries SET status = $2::text, review_from_seq = CASE $2::text WHEN 'needs_review' THEN seq ELSE review_from_seq END WHERE id = $1`
	path := map[ledger.Status]ledger.Event{ledger.Confirmed: ledger.EventConfirm, ledger.Reversed: ledger.EventReverse, ledger.NeedsReview: ledger.EventHold}
	for _, from := range ledger.Transitions.States() {
		for _, to := range ledger.Transitions.States() {
			if from == to {
				continue
			}
			e := b.credit("10.00")
			if ev, ok := path[from]; ok {
				b.move(e, ev)
			}
			_, err := b.Pool.Exec(b.ctx, setStatus, e.ID, to)
			allowed := false
			for _, m := range ledger.Transitions.Moves() {
				allowed = allowed || m == [2]string{string(from), string(to)}
			}
			// a confirmed credit is final, but for a recall
			if allowed = allowed && from != ledger.Confirmed; allowed {
				require.NoError(t, err, "%s>%s", from, to)
			} else {
				require.Equal(t, "23514", pg.Code(err), "%s>%s", from, to)
			}
		}
	}
}

func TestSchemaKeepsEntriesAsTheyAre(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.credit("10.00")
	const into = `INSERT INTO ledger_entries (id, tenant_id, account_id, contra, seq, direction, amount, fee, currency, status, narration,
		provider_txn_ref, transaction_group_id, transfer_ref, reversal_of, running_balance, created_at) `
	for _, sql := range []string{
		`UPDATE ledger_entries SET amount = 11 WHERE id = $1`,
		`UPDATE ledger_entries SET running_balance = 11 WHERE id = $1`,
		`UPDATE ledger_entries SET created_at = now() WHERE id = $1`,
		`UPDATE ledger_entries SET status = 'confirmed', fee = 1 WHERE id = $1`,
		`DELETE FROM ledger_entries WHERE id = $1`,
		`DELETE FROM ledger_balances WHERE account_id = (SELECT account_id FROM ledger_entries WHERE id = $1)`,
		into + `SELECT gen_random_uuid(), tenant_id, account_id, contra, 99, direction, amount, fee, currency, 'confirmed', narration,
			provider_txn_ref, gen_random_uuid(), transfer_ref, reversal_of, running_balance, created_at FROM ledger_entries WHERE id = $1`,
		into + `SELECT gen_random_uuid(), tenant_id, account_id, contra, 99, direction, 'NaN', fee, currency, status, narration,
			provider_txn_ref, gen_random_uuid(), transfer_ref, reversal_of, running_balance, created_at FROM ledger_entries WHERE id = $1`,
		into + `SELECT gen_random_uuid(), tenant_id, account_id, contra, 99, direction, 1.005, fee, currency, status, narration,
			provider_txn_ref, gen_random_uuid(), transfer_ref, reversal_of, running_balance, created_at FROM ledger_entries WHERE id = $1`,
		into + `SELECT gen_random_uuid(), tenant_id, account_id, contra, 99, 'debit', amount, fee, currency, 'reversed', narration,
			provider_txn_ref, transaction_group_id, transfer_ref, id, running_balance, created_at FROM ledger_entries WHERE id = $1`,
	} {
		_, err := b.Pool.Exec(b.ctx, sql, e.ID)
		require.Equal(t, "23514", pg.Code(err), sql)
	}
	_, err := b.Pool.Exec(b.ctx, `TRUNCATE ledger_entries`)
	require.Equal(t, "23514", pg.Code(err))
	b.verify()
}

func TestSameGroupPostsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := posting(b.account, "10.00")
	post := func() error {
		return b.tx(func(tx pg.Tx) error {
			_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{p})
			return err
		})
	}
	require.NoError(t, post())
	require.True(t, pg.IsUnique(post(), "ledger_entries_group"))
	require.Equal(t, "10.00", b.balance())
	b.verify()
}

// A move waits for its own account only: another account's lock is nobody's business.
func TestMovesLockTheirOwnAccounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	entry := b.credit("10.00")
	other := b.Account(b.Tenant(), "customer-2")
	mine := b.account
	b.account = other
	b.credit("10.00")
	b.account = mine
	require.NoError(t, b.tx(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `SELECT FROM ledger_balances WHERE account_id = $1 FOR UPDATE`, other)
		require.NoError(t, err)
		return b.tx(func(tx pg.Tx) error {
			_, err := tx.Exec(b.ctx, `SET LOCAL lock_timeout = '2s'`)
			require.NoError(t, err)
			moved, err := ledger.MoveEntries(b.ctx, tx, b.Clock.Now(), []ledger.Move{{TransactionGroupID: entry.TransactionGroupID, Direction: ledger.Credit, Event: ledger.EventConfirm}})
			require.NoError(t, err)
			return moved[0].Err
		})
	}))
	b.verify()
}

// Debits are confirmed beside a transaction that has the account's balance; all that are named, or
// none: each is a provisional debit.
func TestConfirmDebits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	credit := b.credit("100.00")
	var groups []uuid.UUID
	for range 3 {
		e, err := b.debit("10.00")
		require.NoError(t, err)
		groups = append(groups, e.TransactionGroupID)
	}
	confirm := func(groups ...uuid.UUID) error {
		return b.tx(func(tx pg.Tx) error {
			_, err := tx.Exec(b.ctx, `SET LOCAL lock_timeout = '2s'`)
			require.NoError(t, err)
			return ledger.ConfirmDebits(b.ctx, tx, groups)
		})
	}
	statuses := func() []string {
		return testenv.Value[[]string](b.Env, `SELECT array_agg(status ORDER BY seq) FROM ledger_entries WHERE account_id = $1`, b.account)
	}
	require.NoError(t, confirm())
	require.NoError(t, b.tx(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `SELECT FROM ledger_balances WHERE account_id = $1 FOR UPDATE`, b.account)
		require.NoError(t, err)
		return confirm(groups[:2]...)
	}))
	require.Equal(t, []string{"provisional", "confirmed", "confirmed", "provisional"}, statuses())
	for name, group := range map[string]uuid.UUID{"confirmed": groups[0], "a credit": credit.TransactionGroupID, "of nothing": uuid.New()} {
		require.ErrorIs(t, confirm(groups[2], group), ledger.ErrMove, name)
	}
	b.move(ledger.Entry{TransactionGroupID: groups[2], Direction: ledger.Debit}, ledger.EventReverse)
	require.ErrorIs(t, confirm(groups[2]), ledger.ErrMove, "reversed")
	require.Equal(t, []string{"provisional", "confirmed", "confirmed", "reversed", "reversed"}, statuses())
	require.Equal(t, "80.00", b.balance())
	b.verify()
}

// Fifty debits at once against money for ten: ten stand.
func TestConcurrentDebitsDoNotOverdraw(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credit("100.00")
	var wg sync.WaitGroup
	results := make(chan error, 50)
	for range 50 {
		wg.Go(func() {
			_, err := b.debit("10.00")
			results <- err
		})
	}
	wg.Wait()
	close(results)
	accepted := 0
	for err := range results {
		if err == nil {
			accepted++
			continue
		}
		require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
		require.Equal(t, errs.Invalid, errs.KindOf(err))
	}
	require.Equal(t, 10, accepted)
	require.Equal(t, "0.00", b.balance())
	b.verify()
}

// Batches over several accounts, at once and in opposite order, neither deadlock nor lose a
// posting.
func TestConcurrentBatchesOverManyAccounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tenant := b.Tenant()
	var accounts []uuid.UUID
	for i := range 8 {
		accounts = append(accounts, b.Account(tenant, fmt.Sprintf("many-%d", i)))
	}
	var wg sync.WaitGroup
	fail := make(chan error, 64)
	for w := range 6 {
		wg.Go(func() {
			for i := range 10 {
				var ps []ledger.Posting
				for k := range accounts {
					a := accounts[(k*7+w+i)%len(accounts)]
					ps = append(ps, posting(a, "1.00"), posting(a, "2.00"))
				}
				if err := b.tx(func(tx pg.Tx) error {
					_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), ps)
					return err
				}); err != nil {
					fail <- err
				}
			}
		})
	}
	wg.Wait()
	close(fail)
	for err := range fail {
		require.NoError(t, err)
	}
	for _, a := range accounts {
		v, err := ledger.ReadBalance(b.ctx, b.Pool, a)
		require.NoError(t, err)
		require.Equal(t, "180.00", v.Balance.String())
	}
	b.verify()
}

// Any sequence of postings and moves keeps balance = statement = sum over the entries, and the book
// at zero.
func TestLedgerProperties(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tenant := b.Tenant()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		run := &books{Env: b.Env, ctx: b.ctx, account: b.Account(tenant, fmt.Sprintf("run-%d", n))}
		var entries []ledger.Entry
		status := map[uuid.UUID]ledger.Status{}
		amount := rapid.Custom(func(rt *rapid.T) string {
			return money.FromKobo(rapid.Int64Range(1, 1_000_000_00).Draw(rt, "kobo")).String()
		})
		move := func(ev ledger.Event) func(*rapid.T) {
			return func(rt *rapid.T) {
				if len(entries) == 0 {
					rt.Skip("no entry yet")
				}
				e := rapid.SampledFrom(entries).Draw(rt, "entry")
				moved := run.move(e, ev)
				want, ok := ledger.Transitions.Next(status[e.ID], ev)
				ok = ok && ((ev != ledger.EventHold && ev != ledger.EventRecall) || e.Direction == ledger.Credit) && (ev != ledger.EventRefund || e.Direction == ledger.Debit)
				if ok != (moved.Err == nil) {
					rt.Fatalf("%s on %s %s: %v", ev, status[e.ID], e.Direction, moved.Err)
				}
				if ok {
					status[e.ID] = want
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"credit": func(rt *rapid.T) {
				e := run.credit(amount.Draw(rt, "amount"))
				entries, status[e.ID] = append(entries, e), e.Status
			},
			"debit": func(rt *rapid.T) {
				before := run.balance()
				a := amount.Draw(rt, "amount")
				e, err := run.debit(a)
				if covered := money.Must(before).Cmp(money.Must(a)) >= 0; covered != (err == nil) {
					rt.Fatalf("debit of %s from %s: %v", a, before, err)
				}
				if err == nil {
					entries, status[e.ID] = append(entries, e), e.Status
				}
			},
			"confirm": move(ledger.EventConfirm),
			"reverse": move(ledger.EventReverse),
			"hold":    move(ledger.EventHold),
			"refund":  move(ledger.EventRefund),
			"": func(rt *rapid.T) {
				s, sum := run.statement(page.Request{Limit: 10_000}), money.Zero
				for _, l := range s.Lines {
					if l.Entry.Status != ledger.Provisional && l.Entry.Status != ledger.Confirmed {
						continue
					}
					if l.Entry.Direction == ledger.Credit {
						sum = sum.Add(l.Entry.Amount)
					} else {
						sum = sum.Sub(l.Entry.Amount)
					}
				}
				if !s.ClosingBalance.Equal(sum) || run.balance() != sum.String() {
					rt.Fatalf("statement %s, balance %s, entries %s", s.ClosingBalance, run.balance(), sum)
				}
			},
		})
	})
	b.verify()
}

// A payout that the bank gives back after all: the confirmed debit is reversed, and the money is
// there again.
func TestRefundOfAConfirmedDebit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.move(b.credit("100.00"), ledger.EventConfirm)
	d, err := b.debit("60.00")
	require.NoError(t, err)
	require.ErrorIs(t, b.move(d, ledger.EventHold).Err, ledger.ErrMove, "a debit is never held")
	require.NoError(t, b.move(d, ledger.EventConfirm).Err)
	require.Equal(t, "40.00", b.balance())
	require.NoError(t, b.move(d, ledger.EventRefund).Err)
	require.ErrorIs(t, b.move(d, ledger.EventRefund).Err, ledger.ErrMove)
	require.Equal(t, "100.00", b.balance())
	b.verify()
}

func TestTransitionsDrawn(t *testing.T) {
	require.Contains(t, ledger.Transitions.Mermaid(), "provisional --> confirmed: confirm")
	require.Equal(t, []string{"provisional", "needs_review"}, ledger.Transitions.From(ledger.EventConfirm))
	_, ok := ledger.Transitions.Next(fsm.Start, ledger.EventConfirm)
	require.False(t, ok)
}

// A posting waits for nobody who has another account.
func TestPostingBesideAnotherAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, post := range []func(tx pg.Tx) error{
		func(tx pg.Tx) error {
			_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{posting(b.account, "5.00")})
			return err
		},
		func(tx pg.Tx) error {
			_, err := ledger.PostDebits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{posting(b.account, "1.00")})
			return err
		},
	} {
		require.NoError(t, b.Beside(func(tx pg.Tx) error {
			_, err := tx.Exec(b.ctx, `SELECT FROM ledger_balances WHERE account_id = $1 FOR UPDATE`, b.neighbour)
			return err
		}, func() error { return b.tx(post) }))
	}
}

// A status that somebody changes without the account's lock, while it is being moved, is not
// overwritten: the whole transaction fails.
func TestMoveOfWhatHasChangedMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.credit("1000.00")
	err := b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `UPDATE ledger_entries SET status = 'confirmed', confirmed_at = $2 WHERE id = $1`, e.ID, b.Clock.Now())
		return err
	}, func() error {
		return b.tx(func(tx pg.Tx) error {
			_, err := ledger.MoveEntries(b.ctx, tx, b.Clock.Now(), []ledger.Move{{TransactionGroupID: e.TransactionGroupID, Direction: ledger.Credit, Event: ledger.EventConfirm}})
			return err
		})
	})
	require.ErrorContains(t, err, "0 of 1 entries moved")
	require.Equal(t, "1000.00", testenv.Value[string](b.Env, `SELECT provisional_credits::text FROM ledger_balances WHERE account_id = $1`, b.account))
}
