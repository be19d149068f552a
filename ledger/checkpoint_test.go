package ledger_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// read verifies the book, all of it or from the checkpoints on.
func (b *books) read(all bool) (r *ledger.Report) {
	b.T.Helper()
	require.NoError(b.T, pg.Snapshot(b.ctx, b.Pool, func(tx pg.Tx) (err error) {
		r, err = ledger.Read(b.ctx, tx, ledger.Reading{All: all})
		return err
	}))
	return r
}

// resume verifies the book from the checkpoints on, and moves these.
func (b *books) resume() *ledger.Report {
	b.T.Helper()
	r := b.read(false)
	require.NoError(b.T, r.Save(b.ctx, b.Pool))
	return r
}

// checkpoints is all that the table has, as a text.
func (b *books) checkpoints() string {
	b.T.Helper()
	return testenv.Value[string](b.Env, `SELECT coalesce(string_agg(c::text, E'\n' ORDER BY account_id), '') FROM ledger_checkpoints c`)
}

func TestResumeReadsWhatIsNewer(t *testing.T) {
	t.Parallel()
	b := alone(t)
	r := b.resume()
	require.Empty(t, r.Findings)
	require.Empty(t, b.checkpoints(), "an account without entries has none")
	for range 20 {
		b.move(b.credit("5.00"), ledger.EventConfirm)
	}
	require.True(t, b.resume().All, "a first run needs no checkpoint")
	require.Equal(t, int64(20), testenv.Value[int64](b.Env, `SELECT seq FROM ledger_checkpoints`))
	open := b.credit("7.00")
	b.credit("8.00")
	r = b.resume()
	require.Empty(t, r.Findings)
	require.False(t, r.All)
	require.Equal(t, []int64{20, 4, 1}, []int64{r.Below, r.Entries, r.Accounts}, "two that are new, and two to join them with")
	require.Contains(t, r.Groups, open.TransactionGroupID)
	require.Len(t, r.Groups, 2)
	require.Equal(t, []int64{21, 22}, testenv.Value[[]int64](b.Env, `SELECT open_seqs FROM ledger_checkpoints`))

	before := b.checkpoints()
	r = b.resume()
	require.Empty(t, r.Findings)
	require.Equal(t, before, b.checkpoints(), "nothing is newer: nothing is written")
	b.move(open, ledger.EventConfirm)
	require.Empty(t, b.resume().Findings)
	require.Equal(t, []int64{22}, testenv.Value[[]int64](b.Env, `SELECT open_seqs FROM ledger_checkpoints`))
	require.Empty(t, b.read(true).Findings)
}

// A run from the checkpoints on compares the days of system accounts too: with the other sides of
// what is in the balance, in either direction.
func TestResumeCountsOtherSides(t *testing.T) {
	t.Parallel()
	b := alone(t)
	b.credit("1.00")
	require.Empty(t, b.resume().Findings)
	b.move(b.charged(100_00, 3_00, 22), ledger.EventConfirm)
	b.move(b.charged(50_00, 2_00, 15), ledger.EventReverse)
	m := movement(ledger.BankFees, ledger.Credit, "20.00")
	m.Contra = ledger.PlatformRevenue
	b.moveMoney(m)
	r := b.resume()
	require.Empty(t, r.Findings)
	require.False(t, r.All)
}

// All that may happen to an entry below its account's checkpoint is no finding, at each step.
func TestEntriesBelowACheckpointMove(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]ledger.Event{
		"confirmed":                        {ledger.EventConfirm},
		"reversed":                         {ledger.EventReverse},
		"recalled":                         {ledger.EventConfirm, ledger.EventRecall},
		"reviewed, confirmed":              {ledger.EventHold, ledger.EventConfirm},
		"reviewed, reversed":               {ledger.EventHold, ledger.EventReverse},
		"reviewed, confirmed and recalled": {ledger.EventHold, ledger.EventConfirm, ledger.EventRecall},
		"debit reversed":                   {ledger.EventReverse},
		"debit refunded":                   {ledger.EventConfirm, ledger.EventRefund},
	} {
		for _, each := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.lived()
				e := b.credit("50.00")
				if strings.HasPrefix(name, "debit") {
					var err error
					e, err = b.debit("50.00")
					require.NoError(t, err)
				}
				b.credit("1.00")
				require.Empty(t, b.resume().Findings)
				for _, ev := range events {
					require.NoError(t, b.move(e, ev).Err)
					if each {
						b.credit("2.00")
						r := b.resume()
						require.Empty(t, r.Findings, ev)
						require.False(t, r.All)
					}
				}
				require.Empty(t, b.resume().Findings)
				require.Empty(t, b.resume().Findings)
				require.Empty(t, b.read(true).Findings)
			})
		}
	}
}

// What is altered of the last verified entry is seen by the next run, and so is that it, or the one
// before it, is gone. What is altered further down is seen by the next run if any sum tells, and
// else by a run of all.
func TestTamperedBelowACheckpoint(t *testing.T) {
	t.Parallel()
	const at, below, top = "at", "below", 14
	for _, d := range []struct {
		name, set string
		next      bool // the next run sees it below the checkpoint, too
	}{
		{"amount", `amount = amount + 1`, false},
		{"fee", `fee = fee + 1`, false},
		{"narration", `narration = 'salary'`, false},
		{"bank's reference", `provider_txn_ref = 'X'`, false},
		{"transfer", `transfer_ref = 'X'`, false},
		{"group", `transaction_group_id = gen_random_uuid()`, false},
		{"id", `id = gen_random_uuid()`, false},
		{"time", `created_at = created_at + interval '1 s'`, false},
		{"tenant", `tenant_id = gen_random_uuid()`, false},
		{"direction", `direction = 'debit'`, false},
		{"running balance", `running_balance = running_balance + 1`, false},
		{"hash", `hash = sha256('')`, false},
		{"no hash", `hash = NULL`, false},
		{"number", `seq = 1000`, true},
		{"account", `account_id = gen_random_uuid()`, true},
		{"reversal of another", `status = 'reversed', reversal_of = id`, true},
		{"reversed", `status = 'reversed'`, true},
		{"under review", `status = 'needs_review', review_from_seq = 20`, true},
		{"was under review", `review_from_seq = 14, review_to_seq = 15`, true},
	} {
		for _, where := range []string{at, below} {
			t.Run(d.name+", "+where, func(t *testing.T) {
				t.Parallel()
				b := alone(t)
				b.lived()
				for range 2 {
					b.move(b.credit("9.00"), ledger.EventConfirm)
				}
				require.Equal(t, int64(top), testenv.Value[int64](b.Env, `SELECT last_seq FROM ledger_balances`))
				require.Empty(t, b.resume().Findings)
				b.credit("3.00")
				seq := map[string]int64{at: top, below: 1}[where] // both confirmed
				b.Exec(`ALTER TABLE ledger_entries DISABLE TRIGGER ALL`)
				tag, err := b.Pool.Exec(b.ctx, `UPDATE ledger_entries SET `+d.set+` WHERE seq = $1`, seq)
				require.NoError(t, err)
				require.Equal(t, int64(1), tag.RowsAffected())
				before := b.checkpoints()
				r := b.resume()
				require.False(t, r.All)
				if where == at || d.next {
					require.NotEmpty(t, r.Findings)
					require.Equal(t, before, b.checkpoints())
				}
				require.NotEmpty(t, b.read(true).Findings)
			})
		}
	}
	for _, seq := range []int{13, 14} {
		b := alone(t)
		b.lived()
		for range 2 {
			b.move(b.credit("9.00"), ledger.EventConfirm)
		}
		require.Empty(t, b.resume().Findings)
		b.Exec(`ALTER TABLE ledger_entries DISABLE TRIGGER ALL`)
		b.Exec(`DELETE FROM ledger_entries WHERE seq = $1`, seq)
		require.NotEmpty(t, b.resume().Findings)
		require.NotEmpty(t, b.read(true).Findings)
	}
}

// A checkpoint that says what was not verified is seen; one that is gone is made anew.
func TestTamperedCheckpoints(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"rolled forward":              `UPDATE ledger_checkpoints SET seq = 14`,
		"rolled forward, with a hash": `UPDATE ledger_checkpoints SET seq = 14, hash = (SELECT hash FROM ledger_entries WHERE seq = 14)`,
		"rolled forward, with sums":   `UPDATE ledger_checkpoints SET seq = 14, hash = (SELECT hash FROM ledger_entries WHERE seq = 14), credits = credits + 12`,
		"rolled far forward":          `UPDATE ledger_checkpoints SET seq = 99`,
		"rolled back":                 `UPDATE ledger_checkpoints SET seq = 3, hash = (SELECT hash FROM ledger_entries WHERE seq = 3)`,
		"hash":                        `UPDATE ledger_checkpoints SET hash = sha256('')`,
		"credits":                     `UPDATE ledger_checkpoints SET credits = credits + 1`,
		"debits":                      `UPDATE ledger_checkpoints SET debits = debits + 1`,
		"settled credits":             `UPDATE ledger_checkpoints SET settled_credits = settled_credits + 1`,
		"settled debits":              `UPDATE ledger_checkpoints SET settled_debits = settled_debits + 1`,
		"both settled":                `UPDATE ledger_checkpoints SET settled_credits = settled_credits + 1, settled_debits = settled_debits + 1`,
		"reversed":                    `UPDATE ledger_checkpoints SET settled_reversed = settled_reversed + 1`,
		"open, forgotten":             `UPDATE ledger_checkpoints SET open_seqs = '{}'`,
		"open, one more":              `UPDATE ledger_checkpoints SET open_seqs = '{1,5,9,12}'`,
		"of a time to come":           `UPDATE ledger_checkpoints SET verified_at = now() + interval '1 day'`,
		"of no account":               `INSERT INTO ledger_checkpoints SELECT gen_random_uuid(), tenant_id, seq, hash, 0, 0, 0, 0, 0, '{}', verified_at FROM ledger_checkpoints`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := alone(t)
			b.lived()
			require.Empty(t, b.resume().Findings)
			b.credit("5.00")
			b.credit("7.00")
			b.Exec(sql)
			before := b.checkpoints()
			require.NotEmpty(t, b.resume().Findings)
			require.Equal(t, before, b.checkpoints())
			b.Exec(`DELETE FROM ledger_checkpoints`)
			r := b.resume()
			require.Empty(t, r.Findings)
			require.True(t, r.All)
		})
	}
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		b := alone(t)
		b.lived()
		other := b.Env.Account(b.Env.Tenant(), "other")
		require.NoError(t, b.tx(func(tx pg.Tx) error {
			_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{posting(other, "3.00")})
			return err
		}))
		require.Empty(t, b.resume().Findings)
		b.Exec(`DELETE FROM ledger_checkpoints WHERE account_id = $1`, b.account)
		b.tamper(`UPDATE ledger_entries SET narration = 'salary' WHERE seq = 2`)
		r := b.resume()
		require.False(t, r.All)
		require.NotEmpty(t, r.Findings, "the account is read from its first entry")
	})
	// All hashes made anew leave a chain that holds: only the checkpoint knows another.
	t.Run("of another history", func(t *testing.T) {
		t.Parallel()
		b := alone(t)
		b.lived()
		require.Empty(t, b.resume().Findings)
		b.Exec(`UPDATE ledger_checkpoints SET seq = 5, hash = sha256('')`)
		require.Contains(t, checksOf(b.read(true)), ledger.CheckCheckpoint)
		b.Exec(`UPDATE ledger_checkpoints SET hash = (SELECT hash FROM ledger_entries WHERE seq = 5)`)
		require.Contains(t, checksOf(b.read(true)), ledger.CheckCheckpoint, "its sums are others")
		b.Exec(`UPDATE ledger_checkpoints SET seq = 99`)
		require.Contains(t, checksOf(b.read(true)), ledger.CheckCheckpoint, "there is no such entry")
		for _, set := range []string{`hash = sha256('')`, `credits = credits + 1`, `debits = debits + 1`} {
			b.Exec(`DELETE FROM ledger_checkpoints`)
			require.Empty(t, b.resume().Findings)
			require.Empty(t, b.read(true).Findings)
			b.Exec(`UPDATE ledger_checkpoints SET ` + set)
			require.Equal(t, []string{ledger.CheckCheckpoint}, checksOf(b.read(true)), set)
		}
	})
}

func checksOf(r *ledger.Report) (names []string) {
	for _, f := range r.Findings {
		names = append(names, f.Check)
	}
	return names
}

// Of two runs at once the later moment's checkpoints stay, whichever is stored last.
func TestCheckpointsOfTwoRuns(t *testing.T) {
	t.Parallel()
	b := alone(t)
	b.credit("1.00")
	earlier := b.read(false)
	b.credit("2.00")
	later := b.read(false)
	require.NoError(t, later.Save(b.ctx, b.Pool))
	after := b.checkpoints()
	require.NoError(t, earlier.Save(b.ctx, b.Pool))
	require.Equal(t, after, b.checkpoints())
	require.Equal(t, int64(2), testenv.Value[int64](b.Env, `SELECT seq FROM ledger_checkpoints`))

	// a run that dies while it stores leaves the checkpoints as they were
	b.credit("3.00")
	r := b.read(false)
	dead, cancel := context.WithCancel(b.ctx)
	cancel()
	require.Error(t, r.Save(dead, b.Pool))
	require.Equal(t, after, b.checkpoints())
	require.Empty(t, b.resume().Findings)
}

// Postings and moves go on while several runs read and store.
func TestResumeBesidePostings(t *testing.T) {
	t.Parallel()
	b := alone(t)
	other := b.Env.Account(b.Env.Tenant(), "other")
	accounts := []uuid.UUID{b.account, other}
	stop := make(chan struct{})
	var posting sync.WaitGroup
	for i := range 2 {
		posting.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := postAndMove(b, accounts[(i+n)%2], n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var runs sync.WaitGroup
	for range 2 {
		runs.Go(func() {
			for range 10 {
				r := b.read(false)
				if len(r.Findings) > 0 || r.Save(b.ctx, b.Pool) != nil {
					t.Error(r.Findings)
					return
				}
			}
		})
	}
	runs.Wait()
	close(stop)
	posting.Wait()
	require.Empty(t, b.resume().Findings)
	require.Empty(t, b.read(true).Findings)
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_checkpoints`))
}

// postAndMove posts a credit and gives it one of its ends.
func postAndMove(b *books, account uuid.UUID, n int) error {
	p := posting(account, "3.00")
	if err := b.tx(func(tx pg.Tx) error {
		_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{p})
		return err
	}); err != nil {
		return err
	}
	ends := [][]ledger.Event{{}, {ledger.EventConfirm}, {ledger.EventReverse}, {ledger.EventHold}, {ledger.EventHold, ledger.EventConfirm}}
	for _, ev := range ends[n%len(ends)] {
		if err := b.tx(func(tx pg.Tx) error {
			_, err := ledger.MoveEntries(b.ctx, tx, b.Clock.Now(), []ledger.Move{{TransactionGroupID: p.TransactionGroupID, Direction: ledger.Credit, Event: ev}})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
