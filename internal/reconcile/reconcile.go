// Package reconcile compares our books with the bank's own list, payments and payouts, and heals
// what the bank's record proves.
//
// What always holds: the list alone is believed in nothing that takes money from a tenant; whatever
// is written goes through the use cases of packages payment and transfer; a window that was not
// read to its end counts as not read; what bank and books disagree about is asked about until they
// agree, or a person has taken note. (Decisions, "Confirmation", "Settlement".)
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
	"ajo/internal/failpoint"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/transfer"
)

// Refusals of a reconciliation.
var (
	ErrWindow       = errs.New(errs.Invalid, "the window must begin before it ends, end by now, and be at most 31 days long")
	ErrTooMany      = errs.New(errs.Unprocessable, "the window has more than a million records; choose a shorter one")
	ErrRunNotFound  = errs.New(errs.NotFound, "reconciliation not found")
	errLostRun      = errors.New("reconcile: the reconciliation has gone to another worker")
	errEndlessPages = errors.New("reconcile: the bank's list does not end")
)

const (
	maxWindow  = 31 * 24 * time.Hour
	maxRecords = 1_000_000
	maxPages   = maxRecords/10 + 1000 // the bank's filter may leave pages short
	// maxQuestions bounds how many entries that the list lacks are asked for one by one.
	maxQuestions = 200
	// runLease is how long a run may go without a word before another worker takes its window over.
	runLease = 5 * time.Minute
	// listLag is how old a payment must be for a periodic run: its event is on its way till then.
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
}

// New returns the use cases. There is nothing to close.
func New(o Options) *Service {
	return &Service{pool: o.Pool, bank: o.Bank, payments: o.Payments, transfers: o.Transfers, clock: o.Clock, log: o.Log, minAge: o.MinAge}
}

// comparison is a reconciliation under way.
type comparison struct {
	*Service
	report Report
	lease  time.Time           // zero: a person's run, which nobody takes over
	seen   map[string]struct{} // the ids in the list so far
	absent []payment.Entry     // entries of the window that are not in the list

	seenPayouts map[string]struct{} // the references in the list so far
	// when the payouts were made whose end the bank knows, by reference
	payoutEnds map[string]time.Time
	around     int                 // lists beside the window that were read
	doubted    map[string]struct{} // their ids
	// payments that may be repeats of others; decided when the list has been read to its end
	doubtful []posting

	// payments that are reversed, and that the list says succeeded, by their ids
	wronglyReversed map[string]reversed
	unheard         int // questions in a row without a usable answer

	open    []*item              // what earlier runs have left open
	before  map[subject]*item    // the same
	items   map[subject]*item    // what this run leaves open
	settled map[subject]struct{} // where bank and books agree
}

// The kinds of runs.
const (
	kindPeriodic = "periodic"
	kindDaily    = "daily"
	kindManual   = "manual"
)

// Run compares the payments that the bank dates from (inclusive) to (exclusive) with the books, at
// a person's word, and keeps the report. Successful payments whose event never came are stored
// and posted, also when there is an error: what was stored stays, but a window that was not read to
// its end counts as not read. [provider.ErrNotSet], [ErrWindow], [ErrTooMany], or the bank's error.
// It ends with its context; a full page takes one call.
func (s *Service) Run(ctx context.Context, from, to time.Time) (Report, error) {
	if s.bank == nil {
		return Report{}, provider.ErrNotSet
	}
	from, to = from.UTC().Truncate(time.Second), to.UTC().Add(time.Second-1).Truncate(time.Second)
	if !from.Before(to) || to.Sub(from) > maxWindow || from.After(s.clock.Now()) {
		return Report{}, ErrWindow
	}
	r := s.newRun(kindManual, from, to)
	if err := r.begin(ctx); err != nil {
		return r.report, err
	}
	return r.report, r.work(ctx)
}

// RunDue does the periodic run that is due, if nobody has done it or is doing it: the last
// window before the newest multiple of every. After a time without runs it begins where the last
// finished one ended, a window at a time, so that nothing is left out; more tells that there is
// another to do at once. A run that failed is due again.
func (s *Service) RunDue(ctx context.Context, every, window time.Duration) (r Report, ran, more bool, err error) {
	tick := s.clock.Now().Add(-min(every, listLag)).Truncate(every)
	from, to, gap, err := s.dueWindow(ctx, tick, every, window)
	if err != nil {
		return r, false, false, err
	}
	run := s.newRun(kindPeriodic, from, to)
	if claimed, err := run.claim(ctx); err != nil || !claimed {
		return r, false, false, err
	}
	if gap != "" {
		run.report.except(Exception{Kind: NotRead, Detail: gap})
	}
	err = run.work(ctx)
	return run.report, true, err == nil && to.Before(tick), err
}

// day is how often the long look back is taken; it begins with the UTC day.
const day = 24 * time.Hour

// RunDaily does the run of the day that is due, if nobody has done it or is doing it: the
// time of back before the newest day's beginning. It finds what the bank listed later than the
// periodic runs look. A run that failed is due again.
func (s *Service) RunDaily(ctx context.Context, back time.Duration) (r Report, ran bool, err error) {
	to := s.clock.Now().Add(-listLag).Truncate(day)
	run := s.newRun(kindDaily, to.Add(-back), to)
	if claimed, err := run.claim(ctx); err != nil || !claimed {
		return r, false, err
	}
	err = run.work(ctx)
	return run.report, true, err
}

func (s *Service) newRun(kind string, from, to time.Time) *comparison {
	return &comparison{
		Service: s, seen: map[string]struct{}{}, seenPayouts: map[string]struct{}{}, payoutEnds: map[string]time.Time{},
		before: map[subject]*item{}, items: map[subject]*item{}, settled: map[subject]struct{}{}, doubted: map[string]struct{}{}, wronglyReversed: map[string]reversed{}, report: Report{
			ID: uuid.Must(uuid.NewV7()), Kind: kind, From: from, To: to, StartedAt: s.clock.Now(), Counts: map[ExceptionKind]int{}, Exceptions: []Exception{},
		},
	}
}

// work reads both sides, compares them, and keeps the report. No transaction is open while the bank
// is asked.
func (r *comparison) work(ctx context.Context) error {
	err := r.compare(ctx)
	if err == nil {
		err = r.openListed(ctx)
	}
	if err == nil {
		err = r.finish(ctx)
	}
	if err != nil {
		return errors.Join(err, r.fail(err))
	}
	r.logResult()
	return nil
}

func (r *comparison) compare(ctx context.Context) error {
	if err := r.loadItems(ctx); err != nil {
		return err
	}
	if err := r.readBank(ctx); err != nil {
		return fmt.Errorf("the bank's list: %w", err)
	}
	for _, step := range []func(context.Context) error{
		r.readEntries, r.askAbsent, r.readPayouts, r.askItems, r.restoreReversed, r.decideDoubtful, r.compareFloat,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readBank reads the bank's list to its end. What is missing on our side is stored page by page.
func (r *comparison) readBank(ctx context.Context) error {
	cursor := ""
	for {
		page, err := r.list(ctx, r.report.From, r.report.To, cursor)
		if err != nil {
			return err
		}
		r.report.Bank.Pages++
		if err := errors.Join(r.matchPage(ctx, page), r.matchPayouts(ctx, page.Payouts)); err != nil {
			return err
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
		switch {
		case len(r.seen) > maxRecords:
			return ErrTooMany
		case r.report.Bank.Pages >= maxPages:
			return errEndlessPages
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
}

func (r *comparison) list(ctx context.Context, from, to time.Time, cursor string) (provider.Page, error) {
	failpoint.At("reconcile/before-list")
	page, err := r.bank.Transactions(ctx, from, to, cursor)
	failpoint.At("reconcile/after-list")
	return page, err
}

// askAbsent asks the bank, one by one, about the entries that its list does not have: the list goes
// by the bank's time, the window's entries by the event's, and at its edges the two may differ.
func (r *comparison) askAbsent(ctx context.Context) error {
	asked := 0
	for _, e := range r.absent {
		if r.clock.Now().Sub(e.PostedAt) < r.minAge {
			r.report.Young++
			continue
		}
		if asked++; asked > maxQuestions {
			r.report.except(ofEntry(&e, UnknownAtBank, "the bank does not list it; not asked for by its id: there are too many"))
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
			r.report.Elsewhere++
			r.compareEntry(t, &e)
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	return nil
}

// logResult logs what came of the run.
func (r *comparison) logResult() {
	log := r.log.With(slog.String("reconciliation", r.report.ID.String()), slog.Time("from", r.report.From), slog.Time("to", r.report.To))
	log.Info("the books were compared with the bank's list", slog.Int("bank", r.report.Bank.Success.Count),
		slog.Int("books", r.report.Books.counted().Count), slog.Int("stored", len(r.report.ToPost)), slog.Int("exceptions", r.report.ExceptionCount()))
	if n := len(r.report.ToPost); n > 0 {
		log.Warn("payments whose event never came were found in the bank's list", slog.String("alert", "missing_events"), slog.Int("count", n))
	}
	if n := r.report.Suspicious(); n > 0 {
		log.Error("bank and books disagree", slog.String("alert", "reconciliation"), slog.Int("count", n), slog.Any("kinds", r.report.Counts))
	}
}
