package ledger_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// lived makes an account with a bit of everything: a confirmed credit, a reversed one with its
// reversal, one that went under review and came back, one that is under review still, one that was
// reversed out of it, a debit, and a refunded one.
func (b *books) lived() {
	b.T.Helper()
	b.move(b.credit("1000.00"), ledger.EventConfirm)
	b.move(b.credit("20.00"), ledger.EventReverse)
	back := b.credit("30.00")
	b.move(back, ledger.EventHold)
	b.credit("40.00")
	b.move(back, ledger.EventConfirm)
	gone := b.credit("50.00")
	b.move(gone, ledger.EventHold)
	b.move(gone, ledger.EventReverse)
	b.move(b.credit("60.00"), ledger.EventHold)
	_, err := b.debit("70.00")
	require.NoError(b.T, err)
	paid, err := b.debit("80.00")
	require.NoError(b.T, err)
	b.move(paid, ledger.EventConfirm)
	b.move(paid, ledger.EventRefund)
	b.credit("90.00")
	b.verify()
}

// damage is one way to break an account that has [books.lived]. Its numbers count from there.
var damage = map[string]struct {
	sql   string
	check string
	entry int // the number of the entry that is named; 0: the account, -1: any
}{
	"total credits":          {`UPDATE ledger_balances SET total_credits = total_credits + 1`, ledger.CheckTotals, 0},
	"total debits":           {`UPDATE ledger_balances SET total_debits = total_debits + 1`, ledger.CheckTotals, 0},
	"the book":               {`UPDATE ledger_balances SET total_debits = total_debits + 1`, ledger.CheckBook, -1},
	"provisional credits":    {`UPDATE ledger_balances SET provisional_credits = provisional_credits + 1`, ledger.CheckTotals, 0},
	"last number":            {`UPDATE ledger_balances SET last_seq = last_seq + 1`, ledger.CheckTotals, 0},
	"amount":                 {`UPDATE ledger_entries SET amount = amount + 1 WHERE seq = 1`, ledger.CheckRunning, 1},
	"amount in the chain":    {`UPDATE ledger_entries SET amount = amount + 1 WHERE seq = 1`, ledger.CheckChain, 1},
	"amount and totals":      {`WITH x AS (UPDATE ledger_entries SET amount = amount + 1 WHERE seq = 5) UPDATE ledger_balances SET total_credits = total_credits + 1`, ledger.CheckRunning, 5},
	"running balance":        {`UPDATE ledger_entries SET running_balance = running_balance + 1 WHERE seq = 5`, ledger.CheckRunning, 5},
	"running balance, first": {`UPDATE ledger_entries SET running_balance = running_balance + 1 WHERE seq = 1`, ledger.CheckRunning, 1},
	"both totals":            {`UPDATE ledger_balances SET total_credits = total_credits + 1, total_debits = total_debits + 1`, ledger.CheckTotals, 0},
	"balance of the entries": {`UPDATE ledger_entries SET status = 'reversed' WHERE seq = 1`, ledger.CheckTotals, 0},
	"credits, not balance":   {`WITH x AS (UPDATE ledger_entries SET status = 'reversed' WHERE seq = 1) UPDATE ledger_balances SET total_credits = total_credits - 1000`, ledger.CheckTotals, 0},
	"debits, not balance":    {`WITH x AS (UPDATE ledger_entries SET status = 'reversed' WHERE seq = 9) UPDATE ledger_balances SET total_debits = total_debits - 70`, ledger.CheckTotals, 0},
	"a gap":                  {`DELETE FROM ledger_entries WHERE seq = 4`, ledger.CheckSequence, 5},
	"a gap, and totals":      {`WITH x AS (DELETE FROM ledger_entries WHERE seq = 4) UPDATE ledger_balances SET total_credits = total_credits - 30`, ledger.CheckTotals, 0},
	"the first is gone":      {`DELETE FROM ledger_entries WHERE seq = 1`, ledger.CheckSequence, 2},
	"the newest is gone":     {`DELETE FROM ledger_entries WHERE seq = 12`, ledger.CheckTotals, 0},
	"the newest, chain":      {`WITH x AS (DELETE FROM ledger_entries WHERE seq = 12) UPDATE ledger_balances SET last_seq = 11, total_credits = total_credits - 90, provisional_credits = provisional_credits - 90`, ledger.CheckChain, 0},
	"status":                 {`UPDATE ledger_entries SET status = 'confirmed' WHERE seq = 5`, ledger.CheckTotals, 0},
	"reversed alone":         {`UPDATE ledger_entries SET status = 'reversed' WHERE seq = 5`, ledger.CheckReversed, 5},
	"reversal is gone":       {`DELETE FROM ledger_entries WHERE seq = 3`, ledger.CheckReversed, 2},
	"reversal differs":       {`UPDATE ledger_entries SET amount = amount + 1 WHERE seq = 3`, ledger.CheckMirrors, 3},
	"reversal's group":       {`UPDATE ledger_entries SET transaction_group_id = gen_random_uuid() WHERE seq = 3`, ledger.CheckMirrors, 3},
	"released, it says":      {`UPDATE ledger_entries SET review_to_seq = review_from_seq WHERE seq = 8`, ledger.CheckReviews, 8},
	"hold at another time":   {`UPDATE ledger_entries SET review_from_seq = review_from_seq + 1 WHERE seq = 4`, ledger.CheckRunning, 5},
	"review out of nothing":  {`UPDATE ledger_entries SET review_from_seq = 5, review_to_seq = 6 WHERE seq = 5`, ledger.CheckReviews, 5},
	"another tenant":         {`UPDATE ledger_entries SET tenant_id = gen_random_uuid() WHERE seq = 5`, ledger.CheckOwner, 5},
	"payer":                  {`UPDATE ledger_entries SET sender_name = 'somebody else' WHERE seq = 5`, ledger.CheckChain, 5},
	"narration":              {`UPDATE ledger_entries SET narration = 'salary' WHERE seq = 5`, ledger.CheckChain, 5},
	"fee":                    {`UPDATE ledger_entries SET fee = fee + 1 WHERE seq = 5`, ledger.CheckChain, 5},
	"time":                   {`UPDATE ledger_entries SET created_at = created_at + interval '1 second' WHERE seq = 5`, ledger.CheckChain, 5},
	"bank's reference":       {`UPDATE ledger_entries SET provider_txn_ref = 'X' WHERE seq = 5`, ledger.CheckChain, 5},
	"transfer":               {`UPDATE ledger_entries SET transfer_ref = 'X' WHERE seq = 9`, ledger.CheckChain, 9},
	"id":                     {`UPDATE ledger_entries SET id = gen_random_uuid() WHERE seq = 5`, ledger.CheckChain, 5},
	"hash":                   {`UPDATE ledger_entries SET hash = sha256('') WHERE seq = 5`, ledger.CheckChain, 5},
	"no hash":                {`UPDATE ledger_entries SET hash = NULL WHERE seq = 5`, ledger.CheckChain, 5},
	"head":                   {`UPDATE ledger_balances SET chain_head = sha256('')`, ledger.CheckChain, 0},
	"no head":                {`UPDATE ledger_balances SET chain_head = NULL`, ledger.CheckChain, 0},
	"a day's sum":            {`UPDATE ledger_days SET money_in = money_in + 1`, ledger.CheckDays, -1},
	"a day is gone":          {`DELETE FROM ledger_days WHERE money_out > 0`, ledger.CheckDays, -1},
	"all gone":               {`DELETE FROM ledger_entries`, ledger.CheckChain, 0},
	"balance is gone":        {`DELETE FROM ledger_balances`, ledger.CheckTotals, 0},
}

// A check that cannot fail shows nothing: each kind of damage is named, and by the check that is
// meant for it. Above a checkpoint the next run names it, below one the next run of all; and as
// long as it is there no checkpoint moves.
func TestVerifyNamesDamage(t *testing.T) {
	t.Parallel()
	for name, d := range damage {
		for where, below := range map[string]int{"no checkpoint": 0, "above": 3, "below": 0} {
			t.Run(name+", "+where, func(t *testing.T) {
				t.Parallel()
				b := alone(t)
				for range below {
					b.move(b.credit("5.00"), ledger.EventConfirm)
				}
				if where == "above" {
					require.Empty(t, b.resume().Findings)
				}
				b.lived()
				if where == "below" {
					require.Empty(t, b.resume().Findings)
				}
				entry := func(n int) string {
					return testenv.Value[uuid.UUID](b.Env, `SELECT id FROM ledger_entries WHERE seq = $1`, n+below).String()
				}
				want := b.account.String()
				if d.entry > 0 {
					want = entry(d.entry)
				}
				b.tamper(numbered.ReplaceAllStringFunc(d.sql, func(s string) string {
					n, err := strconv.Atoi(s[len("seq = "):])
					require.NoError(t, err)
					return fmt.Sprintf("seq = %d", n+below)
				}))
				if name == "id" {
					want = entry(5)
				}
				for range 2 {
					before := b.checkpoints()
					r := b.read(where == "below")
					require.NoError(t, r.Save(b.ctx, b.Pool))
					require.Equal(t, before, b.checkpoints())
					require.Equal(t, where != "above" || name == "balance is gone", r.All)
					require.True(t, slices.ContainsFunc(r.Findings, func(f ledger.Finding) bool {
						return f.Check == d.check && (d.entry < 0 || f.Subject == want)
					}), "%s at %s: %v", d.check, want, r.Findings)
					chains := 0
					for _, f := range r.Findings {
						if f.Check == ledger.CheckChain {
							chains++
						}
					}
					require.LessOrEqual(t, chains, 1, "only the first entry that does not fit is named")
				}
			})
		}
	}
}

// What is above the checkpoints is read alone unless it is both many entries and more than a
// quarter of the book.
func TestVerifyChoosesWhatItReads(t *testing.T) {
	t.Parallel()
	b := alone(t)
	b.credit("1.00")
	require.True(t, b.resume().All, "there is no checkpoint")
	for _, c := range []struct {
		total, below int
		all          bool
	}{
		{20_000, 10_000, false}, {20_000, 9_999, true}, {40_004, 30_003, false}, {40_004, 30_002, true}, {1, 1, false},
	} {
		b.Exec(`UPDATE ledger_balances SET last_seq = $1::int`, c.total)
		b.Exec(`UPDATE ledger_checkpoints SET seq = $1::int`, c.below)
		require.Equal(t, c.all, b.read(false).All, "%d of %d are below the checkpoint", c.below, c.total)
	}
}

// Who verifies hears each ten thousand entries how many there are to read.
func TestVerifyTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	b := alone(t)
	b.credit("1.00")
	require.Empty(t, b.resume().Findings)
	const n = 10_001
	b.ExecUnguarded(`
		INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
		SELECT gen_random_uuid(), a.tenant_id, a.id, n, 'credit', 1, 'provisional', gen_random_uuid(), n, $2
		FROM accounts a, generate_series(2, $3::int) n WHERE a.id = $1`, b.account, testenv.Epoch, n)
	b.Exec(`UPDATE ledger_balances SET total_credits = $2::int, last_seq = $2::int WHERE account_id = $1`, b.account, n)
	for all, of := range map[bool]int64{true: n, false: n - 1} {
		var told [][2]int64
		require.NoError(t, pg.Snapshot(b.ctx, b.Pool, func(tx pg.Tx) error {
			_, err := ledger.Read(b.ctx, tx, ledger.Reading{All: all, Progress: func(read, of int64) { told = append(told, [2]int64{read, of}) }})
			return err
		}))
		require.Equal(t, [][2]int64{{10_000, of}}, told, "all: %v", all)
	}
}

// numbered are the numbers of entries in a damage's SQL.
var numbered = regexp.MustCompile(`seq = \d+`)

// tamper changes rows that nothing may change.
func (b *books) tamper(sql string) {
	b.T.Helper()
	b.Exec(`ALTER TABLE ledger_entries DISABLE TRIGGER ALL`)
	b.Exec(`ALTER TABLE ledger_balances DISABLE TRIGGER USER`)
	b.Exec(sql)
}

func TestChainHeadIsInTheStatement(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Empty(t, b.statement(page.Request{Limit: 1}).ChainHead)
	e := b.credit("10.00")
	first := b.statement(page.Request{Limit: 1}).ChainHead
	require.Regexp(t, "^[0-9a-f]{64}$", first)
	b.move(e, ledger.EventConfirm)
	require.Equal(t, first, b.statement(page.Request{Limit: 1}).ChainHead, "a status is not covered")
	b.credit("20.00")
	second := b.statement(page.Request{Limit: 1})
	require.NotEqual(t, first, second.ChainHead, "the head is that of the whole history on every page")
	require.True(t, second.Pagination.HasMore)
}

// Whoever writes SQL by hand moves a review's numbers with the status, or not at all.
func TestReviewNumbersMoveWithTheStatus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.credit("10.00")
	for _, sql := range []string{
		`UPDATE ledger_entries SET review_from_seq = 1 WHERE id = $1`,
		`UPDATE ledger_entries SET status = 'confirmed', review_from_seq = 1 WHERE id = $1`,
		`UPDATE ledger_entries SET hash = sha256('') WHERE id = $1`,
		`UPDATE ledger_entries SET status = 'confirmed', hash = NULL WHERE id = $1`,
	} {
		_, err := b.Pool.Exec(b.ctx, sql, e.ID)
		require.Equal(t, "23514", pg.Code(err), sql)
	}
}
