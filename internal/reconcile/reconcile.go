// Package reconcile compares our books with the bank's own list, payments and payouts, and heals
// what the bank's record proves.
//
// What always holds: the list alone never takes money from a tenant; everything is written through
// the use cases of packages payment and transfer; a window that was not read to its end counts as
// not read; the bank is asked about each disagreement until bank and books agree, or a person
// dismisses it. (Decisions, "Confirmation", "Settlement".)
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/transfer"
)

// Refusals of a reconciliation.
var (
	ErrWindow        = errs.New(errs.Invalid, "the window must begin before it ends, and by now, and be at most 31 days long")
	ErrOtherAccount  = errs.New(errs.Invalid, "the window begins before the books came to this account at the bank (ajo wallet move): its list says nothing of them")
	ErrRunNotFound   = errs.New(errs.NotFound, "reconciliation not found")
	ErrRunUnfinished = errs.New(errs.Conflict, "a reconciliation has no report before it has finished")
	errLostRun       = errors.New("reconcile: the reconciliation has gone to another worker")
	errDiedRun       = errors.New("its process ended before it did: run it again")
	errUnlisted      = errors.New("the bank's list")
	errEndlessPages  = fmt.Errorf("%w does not end", errUnlisted)
)

const (
	maxWindow = 31 * 24 * time.Hour
	// maxQuestions bounds how many entries that the list lacks are asked about one by one.
	maxQuestions = 200
	// runLease is how long a run may go without a sign of life before another worker takes over its
	// window.
	runLease = 5 * time.Minute
	// listLag is how old a payment must be for a periodic run: until then its event may still come.
	listLag = 2 * time.Minute
)

// Options are what a Service needs.
type Options struct {
	Pool      *pg.Pool
	Bank      provider.Bank
	Payments  *payment.Service
	Transfers *transfer.Service
	Clock     clock.Clock
	Log       *slog.Logger
	// MinAge is how long the bank may take to list a payment or a payout that it has made.
	MinAge time.Duration
}

// Service has the reconciliation's use cases.
type Service struct {
	pool      *pg.Pool
	bank      provider.Bank
	payments  *payment.Service
	transfers *transfer.Service
	clock     clock.Clock
	log       *slog.Logger
	minAge    time.Duration

	sliceRecords int           // about how many records are compared at a time
	floatTime    time.Duration // that the float may take
}

// New returns the use cases. There is nothing to close.
func New(o Options) *Service {
	return &Service{
		pool: o.Pool, bank: o.Bank, payments: o.Payments, transfers: o.Transfers, clock: o.Clock, log: o.Log, minAge: o.MinAge,
		sliceRecords: sliceRecords, floatTime: floatTime,
	}
}

// comparison is a reconciliation in progress.
type comparison struct {
	*Service
	report Report
	part   *Report       // what is found now; it is added to the report when it is complete
	lease  time.Time     // until then the run is this process's
	since  time.Time     // when the books came to this account at the bank; zero: they have been of no other
	began  time.Time     // where this process began to read
	readTo time.Time     // how far it has come
	behind time.Duration // how long after a slice it is read again if the list was behind; 0: never

	perHour int64         // records of the last slice
	last    time.Duration // how long it was
	shorten bool          // slices may be shorter than sliceLeast
	longest time.Duration // how long they may be where the list cannot be read; 0: as ever
	failing *time.Time    // since when it cannot be read where the run has come to; nil: it can
	hole    *hole         // what cannot be read of it, and is to be named
	kept    []*slice      // the slice to be compared next, and its neighbours

	around  []slice              // lists beside the window that were read
	listed  marks                // the ids in them
	moved   []reversed           // reversed payments that the list says succeeded
	asked   map[string]int       // questions, by what for
	left    int                  // records of the books that are left to the next runs to ask about
	unheard int                  // questions in a row without a usable answer
	wallet  walletAt             // the newest known when the run began
	ended   map[string]time.Time // when the payouts were made that the books have under way and the bank does not

	open    []*item              // what earlier runs have left open
	before  map[subject]*item    // the same
	done    map[subject]struct{} // of these, and of what looks like another: what this run has come to a conclusion about
	items   map[subject]*item    // what is to be remembered
	settled map[subject]struct{} // where bank and books agree, and did not before
}

// The kinds of runs.
const (
	kindPeriodic = "periodic"
	kindAgain    = "again" // where the bank's list was behind
	kindDaily    = "daily"
	kindManual   = "manual"
)

// Run compares the payments that the bank dates from (inclusive) to (exclusive), or until now, with
// the books, at a person's request, and stores the report. Successful payments whose event never
// came are stored and posted, even if there is an error: what was stored stays, but a window that
// was not read to its end counts as not read. [provider.ErrNotSet], [ErrWindow], [ErrOtherAccount],
// or the bank's error. It ends with its context; a full page takes one call.
func (s *Service) Run(ctx context.Context, from, to time.Time) (Report, error) {
	if s.bank == nil {
		return Report{}, provider.ErrNotSet
	}
	from, to = from.UTC().Truncate(time.Second), to.UTC().Add(time.Second-1).Truncate(time.Second)
	to = earlier(to, s.clock.Now().Truncate(time.Second).Add(time.Second))
	if !from.Before(to) || to.Sub(from) > maxWindow {
		return Report{}, ErrWindow
	}
	since, err := transfer.WalletSince(ctx, s.pool)
	if err != nil {
		return Report{}, err
	}
	if from.Before(since) {
		return Report{}, fmt.Errorf("%w: begin at %s", ErrOtherAccount, since.Format(time.RFC3339))
	}
	r := s.newRun(kindManual)
	r.report.From, r.report.To, r.readTo = from, to, from
	if err := r.begin(ctx); err != nil {
		return r.report, err
	}
	err = r.work(ctx)
	return r.report, err
}

// RunDue does the periodic run that is due, unless somebody has done it or is doing it: from where
// the last finished run ended, or at first from window ago, to the newest multiple of every. It
// does one window at a time; more reports that there is another to do at once. So each record of
// the list is read once. A time in which the books had payments that the list did not have yet is
// read once more, window later. A run that failed, or whose worker died, continues where it
// stopped.
func (s *Service) RunDue(ctx context.Context, every, window time.Duration) (r Report, ran, more bool, err error) {
	r, ran, failed := s.runAgain(ctx)
	tick := s.clock.Now().Add(-min(every, listLag)).Truncate(every)
	run := s.newRun(kindPeriodic)
	run.behind = window
	claimed, err := run.claim(ctx, func(last *time.Time) (from, to time.Time) {
		if last == nil {
			return tick.Add(-window), tick
		}
		from, to = *last, tick
		if oldest := tick.Add(-maxWindow); from.Before(oldest) {
			from = oldest
		}
		if end := from.Add(window); end.Before(to) {
			to = end
		}
		return from, to
	})
	if err != nil || !claimed {
		return r, ran, false, errors.Join(failed, err)
	}
	err = run.work(ctx)
	return run.report, true, err == nil && run.report.To.Before(tick), errors.Join(failed, err)
}

// runAgain reads the times again in which the list was behind. If it fails, that does not stop the
// periodic run.
func (s *Service) runAgain(ctx context.Context) (r Report, ran bool, err error) {
	for {
		run := s.newRun(kindAgain)
		if claimed, err := run.resume(ctx); err != nil || !claimed {
			return r, ran, err
		}
		err = run.work(ctx)
		if r, ran = run.report, true; err != nil {
			return r, ran, err
		}
	}
}

// day is how often the run of the day is made; it begins with the UTC day.
const day = 24 * time.Hour

// RunDaily does the run of the day that is due, unless somebody has done it or is doing it. It
// reads one day of the list once more, the one that began back before the newest day's beginning,
// when nothing is listed late any more. It finds what the bank listed too late for the periodic
// runs, and what it has changed since. After a time without runs it begins where the last one
// ended. A run that failed continues where it stopped.
func (s *Service) RunDaily(ctx context.Context, back time.Duration) (r Report, ran bool, err error) {
	today := s.clock.Now().Add(-listLag).Truncate(day)
	run := s.newRun(kindDaily)
	claimed, err := run.claim(ctx, func(last *time.Time) (from, to time.Time) {
		from, to = today.Add(-back), today.Add(-max(0, back-day))
		if last != nil && last.After(today.Add(-maxWindow)) {
			from = *last
		}
		return from, to
	})
	if err != nil || !claimed {
		return r, false, err
	}
	err = run.work(ctx)
	return run.report, true, err
}

func (s *Service) newRun(kind string) *comparison {
	r := &comparison{
		Service: s, listed: marks{}, asked: map[string]int{}, ended: map[string]time.Time{}, before: map[subject]*item{}, done: map[subject]struct{}{},
		items: map[subject]*item{}, settled: map[subject]struct{}{}, report: newReport(),
	}
	r.report.ID, r.report.Kind, r.report.StartedAt = uuid.Must(uuid.NewV7()), kind, s.clock.Now()
	return r
}

// work reads both sides, compares them, and keeps the report. No transaction is open while the bank
// is asked.
func (r *comparison) work(ctx context.Context) error {
	err := r.compare(ctx)
	if err == nil {
		err = r.finish(ctx)
	}
	if err != nil {
		for _, s := range r.kept { // what was found before it stopped, for the caller
			r.report.add(s.report)
		}
		return errors.Join(err, r.fail(err))
	}
	r.logResult()
	return nil
}

func (r *comparison) compare(ctx context.Context) (err error) {
	if r.since, err = transfer.WalletSince(ctx, r.pool); err != nil {
		return err
	}
	if err = r.loadItems(ctx); err != nil {
		return err
	}
	if err = r.skipUnread(ctx); err != nil {
		return err
	}
	if r.wallet, err = r.newestWallet(ctx); err != nil {
		return err
	}
	if r.perHour, err = r.recentPerHour(ctx); err != nil {
		return err
	}
	if err = r.readSlices(ctx); err != nil {
		return err
	}
	rest := newSlice(r.report.To, r.report.To)
	r.part = &r.report
	for _, step := range []func(context.Context, *slice) error{r.askItems, r.conclude, r.nameHeld} {
		if err = step(ctx, rest); err != nil {
			return err
		}
	}
	return r.compareFloat(ctx)
}

// skipUnread names what is not read: the time between the last run of the kind and this one, and
// what of the window was made when the books were of another account at the bank.
func (r *comparison) skipUnread(ctx context.Context) (err error) {
	r.part = &r.report
	from := r.readTo
	if follows := r.report.Kind == kindPeriodic || r.report.Kind == kindDaily; follows && from.Equal(r.report.From) {
		if err := r.pool.QueryRow(ctx, `
			SELECT coalesce(max(window_to), $2) FROM reconciliations WHERE kind = $1 AND status = 'finished' AND window_to <= $2`,
			r.report.Kind, from).Scan(&from); err != nil {
			return err
		}
	}
	if r.readTo.Before(r.since) {
		r.readTo = earlier(r.since, r.report.To)
	}
	r.began = r.readTo
	if !from.Before(r.readTo) {
		return nil
	}
	var accounts bool // before the first, nothing is at the bank
	if err := r.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM accounts WHERE created_at < $1)`, r.readTo).Scan(&accounts); err == nil && accounts {
		r.nameNotRead(from.UTC(), r.readTo, "run ajo reconcile over it")
	}
	return err
}

// nameNotRead reports a time that is not read, in pieces that a person's run can read. It is open
// until one has, or a person dismisses it.
func (r *comparison) nameNotRead(from, to time.Time, why string) {
	for from.Before(to) {
		start, end := from, earlier(to, from.Add(maxWindow))
		if start.Before(r.since) {
			end, why = earlier(end, r.since), provider.ErrOtherAccount.Error()
		}
		what := "no run has read"
		if r.report.Kind == kindDaily || r.report.Kind == kindAgain {
			what = "no run has read again, for what the bank lists late,"
		}
		period := [2]string{start.Format(time.RFC3339), end.Format(time.RFC3339)}
		x := Exception{Kind: NotRead, From: &start, To: &end, Detail: fmt.Sprintf("%s %s to %s: %s", what, period[0], period[1], why)}
		r.unsettled(item{subject: subject{aboutList, period[0] + "/" + period[1]}, exception: &x})
		from = end
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// mayAsk reports whether the run may ask one more question of a kind.
func (r *comparison) mayAsk(what string) bool {
	r.asked[what]++
	return r.asked[what] <= maxQuestions
}

// askAbsent asks the bank, one by one, about the entries that its list does not have: the list uses
// the bank's times, the slice's entries the events', and at the edges the two may differ.
func (r *comparison) askAbsent(ctx context.Context, s *slice, absent []payment.Entry) error {
	for _, e := range absent {
		if r.clock.Now().Sub(e.PostedAt) < r.minAge {
			r.part.Young++
			s.young = true
			continue
		}
		if !r.mayAsk("absent") {
			r.leave(subject{aboutPayment, e.TxnRef}, notAsked(&e))
			continue
		}
		t, err := r.askTransaction(ctx, e.TxnRef)
		switch {
		case errors.Is(err, provider.ErrUnknown):
			r.lostPayment(&e, unknownByID)
		case err != nil:
			if err := r.unclear(ctx, subject{aboutPayment, e.TxnRef}, ofEntry(&e, Unreadable, ""), err); err != nil {
				return err
			}
		default:
			r.part.Elsewhere++
			r.compareEntry(t, &e)
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	return nil
}

// notAsked reports an entry that the list lacks, if there are too many to ask about each.
func notAsked(e *payment.Entry) Exception {
	return ofEntry(e, UnknownAtBank, unasked)
}

// logResult logs the result of the run.
func (r *comparison) logResult() {
	log := r.log.With(slog.String("reconciliation", r.report.ID.String()), slog.Time("from", r.report.From), slog.Time("to", r.report.To))
	log.Info("the books were compared with the bank's list", slog.Int("bank", r.report.Bank.Success.Count),
		slog.Int("books", r.report.Books.counted().Count), slog.Int("stored", r.report.Counts[MissingEvent]), slog.Int("exceptions", r.report.ExceptionCount()))
	if n := r.report.Counts[MissingEvent]; n > 0 {
		log.Warn("payments whose event never came were found in the bank's list", slog.String("alert", "missing_events"), slog.Int("count", n))
	}
	if n := r.report.Suspicious(); n > 0 {
		log.Error("bank and books disagree", slog.String("alert", "reconciliation"), slog.Int("count", n), slog.Any("kinds", r.report.Counts))
	}
}
