package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// Finding is one disagreement in the books, named by the row that is wrong.
type Finding struct {
	Check   string // what does not hold
	Subject string // the account or entry
	Detail  string // what is stored, and what the entries say
}

// maxFindings bounds what one check reports.
const maxFindings = 1000

// The checks of [Verify].
const (
	CheckTotals     = "totals equal the entries"
	CheckSequence   = "entries are numbered without a gap"
	CheckRunning    = "running balances follow from the entries"
	CheckReviews    = "reviews are recorded"
	CheckReversed   = "reversed entries have one reversal"
	CheckMirrors    = "reversals mirror their originals"
	CheckOwner      = "entries are their account's tenant's"
	CheckDays       = "the sums of days equal the entries"
	CheckChain      = "the hash chain holds"
	CheckCheckpoint = "what was verified is as it was"
	CheckHolds      = "what is held is what the open holds say"
	CheckSplits     = "the parts of a payment sum to it"
	CheckBook       = "the book sums to zero"
)

// Reading says what one verification reads.
type Reading struct {
	// All reads every entry, and compares the checkpoints with them. Otherwise each account is read
	// from its checkpoint, unless there is none, or much of the book is newer than the checkpoints.
	All bool
	// Timeout is how long one statement may take; zero: as long as the connection allows.
	Timeout time.Duration
	// Progress is called with the number of entries read so far, and the total to be read.
	Progress func(read, of int64)
}

// Report is what a verification read and found.
type Report struct {
	Findings []Finding
	All      bool       // every entry was read
	Since    *time.Time // what the newest of the checkpoints verified; nil: there were none
	At       time.Time  // the moment that was verified
	Accounts int64
	Entries  int64 // that were read
	Below    int64 // entries below the checkpoints, which were not
	// Groups are, unless All, the groups of the entries that are new or may have changed since the
	// checkpoints. The payments and payouts that they belong to must be checked too.
	Groups map[uuid.UUID]struct{}

	clock time.Time // after the moment: another run's checkpoint may be newer than At
	moved []checkpoint
	named map[string]int // findings of each check
	pairs []uuid.UUID    // unless All: reversed entries that are new or may have changed
	days  map[uuid.UUID]*tenantSum
	book  money.Amount // the stored balances less what the entries say
}

// tenantSum is what the entries of a tenant's accounts that are in the balance add up to.
type tenantSum struct {
	Tenant uuid.UUID    `pg:"tenant_id"`
	In     money.Amount `pg:"money_in,numeric"`
	Out    money.Amount `pg:"money_out,numeric"`
}

// Verify recomputes the books from all entries as of one moment, and returns what does not agree,
// at most 1,000 findings a check. For tests: [Read] can resume from the checkpoints.
func Verify(ctx context.Context, pool *pg.Pool) (found []Finding, err error) {
	err = pg.Snapshot(ctx, pool, func(tx pg.Tx) error {
		r, err := Read(ctx, tx, Reading{All: true})
		if err == nil {
			found = r.Findings
		}
		return err
	})
	return found, err
}

// Read recomputes the books from the entries: totals, numbers, running balances, reviews,
// reversals, the sums of days, the hash chain, and the sum of the book. tx must see one moment
// ([pg.Snapshot]); its planner settings and statement_timeout are set here.
//
// Of an account with a checkpoint it reads the entries above, and those below that may change: the
// provisional ones, and all that ever were under review. For the others below it relies on the
// checkpoint's sums, and on the number of reversed entries. It does not notice an entry below that
// was altered without changing any sum or the two newest verified entries; reading all does.
func Read(ctx context.Context, tx pg.Tx, reading Reading) (*Report, error) {
	r := &Report{All: reading.All, named: map[string]int{}, days: map[uuid.UUID]*tenantSum{}}
	total, err := r.begin(ctx, tx, reading)
	if err != nil {
		return nil, err
	}
	if err := r.readAccounts(ctx, tx, func() {
		if reading.Progress != nil {
			reading.Progress(r.Entries, max(total-r.Below, r.Entries))
		}
	}); err != nil {
		return nil, err
	}
	var ids []uuid.UUID // NULL: all
	if !r.All {
		ids = append([]uuid.UUID{}, r.pairs...)
	}
	for _, c := range pairs {
		if err := r.run(ctx, tx, c.name, c.sql, ids); err != nil {
			return nil, err
		}
	}
	if err := r.run(ctx, tx, CheckReviews, reviewsSQL); err != nil {
		return nil, err
	}
	if r.All {
		err = r.run(ctx, tx, CheckDays, allDaysSQL)
	} else {
		sums := make([]*tenantSum, 0, len(r.days))
		for _, s := range r.days {
			sums = append(sums, s)
		}
		err = r.run(ctx, tx, CheckDays, tenantDaysSQL, pg.Columns(sums)...)
	}
	if err == nil {
		err = r.run(ctx, tx, CheckTotals, strayedSQL)
	}
	if err == nil {
		err = r.run(ctx, tx, CheckHolds, holdsSQL)
	}
	if err == nil {
		err = r.run(ctx, tx, CheckSplits, splitsSQL)
	}
	if r.book.Sign() != 0 {
		r.name(CheckBook, "book", "it sums to "+r.book.String())
	}
	return r, err
}

// Up to fewEntries are read one by one, whatever share of the book they are.
const fewEntries = 10_000

// begin chooses between all entries and those above the checkpoints, and returns how many entries
// there are.
func (r *Report) begin(ctx context.Context, tx pg.Tx, reading Reading) (total int64, err error) {
	if reading.Timeout > 0 {
		if err := pg.SetTimeout(ctx, tx, reading.Timeout); err != nil {
			return 0, err
		}
	}
	var below int64
	err = tx.QueryRow(ctx, `
		SELECT count(*), coalesce(sum(b.last_seq), 0)::bigint, coalesce(sum(least(c.seq, b.last_seq)), 0)::bigint, max(c.verified_at), now(), clock_timestamp()
		FROM ledger_balances b LEFT JOIN ledger_checkpoints c USING (account_id)`).Scan(&r.Accounts, &total, &below, &r.Since, &r.At, &r.clock)
	if err != nil {
		return 0, err
	}
	if above := total - below; r.Since == nil || above > fewEntries && above > total/4 {
		r.All = true
	}
	settings := `SET LOCAL cursor_tuple_fraction = 1`
	if r.All {
		// Join whole tables. Without statistics the server would go row by row, which takes
		// minutes.
		settings += `; SET LOCAL enable_nestloop = off`
	} else {
		r.Below, r.Groups = below, map[uuid.UUID]struct{}{}
	}
	_, err = tx.Conn().PgConn().Exec(ctx, settings).ReadAll()
	return total, err
}

// Query runs one check: a query that returns (subject, detail) of each row that is wrong.
func Query(ctx context.Context, q pg.Querier, check, sql string, args ...any) ([]Finding, error) {
	found, err := pg.Collect(ctx, q, func(r pgx.CollectableRow) (Finding, error) {
		f := Finding{Check: check}
		return f, r.Scan(&f.Subject, &f.Detail)
	}, sql+fmt.Sprintf(" LIMIT %d", maxFindings), args...)
	if err != nil {
		err = fmt.Errorf("%s: %w", check, err)
	}
	return found, err
}

func (r *Report) run(ctx context.Context, q pg.Querier, check, sql string, args ...any) error {
	found, err := Query(ctx, q, check, sql, args...)
	for _, f := range found {
		r.name(f.Check, f.Subject, f.Detail)
	}
	return err
}

func (r *Report) name(check, subject, detail string) {
	if r.named[check]++; r.named[check] <= maxFindings {
		r.Findings = append(r.Findings, Finding{Check: check, Subject: subject, Detail: detail})
	}
}
