package reconcile

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"ajo/internal/failpoint"
	"ajo/internal/payment"
	"ajo/internal/provider"
)

// A window is read in slices, so that memory does not depend on the size of the window. The run
// keeps the ids that the bank lists in a slice until it has read the next slice, which has records
// that the bank dates a moment later than their events. Then the slice is compared, its results are
// added to the report, and a run that is interrupted continues after it.
const (
	// sliceRecords is about how many records a slice has. Only where a second has more than
	// sliceMost times that, a slice has more.
	sliceRecords = 100_000
	sliceMost    = 3
	// sliceGrowth is how much longer a slice may be than the one before.
	sliceGrowth = 8
	// sliceLeast is how long a slice is at least, so that its neighbours have all payments that may
	// be the same as one of its own; sliceLong is the longest.
	sliceLeast = 2 * payment.AlikeWithin
	sliceLong  = 24 * time.Hour
	// listReaders is how many parts of a slice's list are read at a time, each of at least
	// readerRecords: within a part, the bank gives a page only after the one before.
	listReaders   = 16
	readerRecords = 1000
	// matchPages is how many pages are compared with the books in one statement.
	matchPages = 20
	// storeRecords is how many missing payments are searched for and stored at a time.
	storeRecords = 5000
	// maxIdlePages is how many pages in a row may bring nothing new before a list is given up: the
	// bank's filter may leave pages short.
	maxIdlePages = 1000
	// maxWaiting bounds the entries of a slice that the bank is asked about, and maxDoubtful its
	// payments that wait to be told apart.
	maxWaiting  = 10_000
	maxDoubtful = 20_000
)

// errDense says that a slice has more records than can be kept: it is read again in shorter slices.
var errDense = errors.New("reconcile: too many records in a slice")

// marks is a set of ids. It keeps a hash of each id, with a seed of the process: two of a million
// ids collide once in 30 million sets, and each record is read by two runs.
type marks map[uint64]struct{}

var seed = maphash.MakeSeed()

func (m marks) has(id string) bool {
	_, ok := m[maphash.String(seed, id)]
	return ok
}

func (m marks) add(id string) { m[maphash.String(seed, id)] = struct{}{} }

// slice is a part of the window.
type slice struct {
	from, to time.Time
	listed   marks // the transaction ids in the bank's list
	// of these, those of payments that failed or were given back
	listedBack marks
	payouts    marks // the references of payouts in it
	// of these, with the bank's ids; and the references of those whose money has left
	payoutRecords, paidPayouts marks
	tries                      []provider.Payout // that failed or came back, by the list
	report                     Report
	missing                    []posting // to be stored
	// payments that may repeat others; decided when the neighbours have been read
	doubtful []posting
	young    bool // the books have entries that are too new for the bank to have listed them
}

func newSlice(from, to time.Time) *slice {
	return &slice{from: from, to: to, listed: marks{}, listedBack: marks{}, payouts: marks{}, payoutRecords: marks{}, paidPayouts: marks{}, report: newReport()}
}

// readSlices compares the window, from where an earlier run stopped.
func (r *comparison) readSlices(ctx context.Context) error {
	for from := r.readTo; from.Before(r.report.To); {
		s := newSlice(from, from.Add(r.length(from)))
		r.part, r.kept = &s.report, append(r.kept, s)
		err := r.readList(ctx, s)
		if errors.Is(err, errDense) {
			r.perHour, r.shorten = max(16*r.perHour, 16*perHour(r.sliceRecords, s.to.Sub(s.from))), true
			r.kept = r.kept[:len(r.kept)-1]
			r.report.addDone(s.report)
			continue
		}
		if r.maySkip(ctx, err) {
			r.kept = r.kept[:len(r.kept)-1]
			r.report.addDone(s.report)
			from = r.skip(ctx, s, err)
			continue
		}
		if err != nil {
			return err
		}
		r.longest = 0
		r.nameHole()
		r.perHour = perHour(len(s.listed)+len(s.payouts), s.to.Sub(s.from))
		if n := len(r.kept); n > 1 {
			if err := r.compareSlice(ctx, r.kept[n-2]); err != nil {
				return err
			}
		}
		r.kept = r.kept[max(0, len(r.kept)-2):]
		from, r.last = s.to, s.to.Sub(s.from)
	}
	r.part = &r.report
	r.nameHole()
	if n := len(r.kept); n > 0 {
		return r.compareSlice(ctx, r.kept[n-1])
	}
	return nil
}

// perHour is the number of records an hour if d has n.
func perHour(n int, d time.Duration) int64 { return int64(n) * 3600 / max(1, seconds(d)) }

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// length returns how long the next slice is, from the recent number of records an hour.
func (r *comparison) length(from time.Time) time.Duration {
	long, least := sliceLong, sliceLeast
	if r.shorten {
		least = time.Second
	}
	if r.perHour > 0 {
		long = min(long, time.Duration(int64(r.sliceRecords)*3600/r.perHour)*time.Second)
	}
	if r.last > 0 {
		long = min(long, sliceGrowth*r.last)
	}
	if r.longest > 0 {
		long = min(long, r.longest)
	}
	return min(max(long, least), r.report.To.Sub(from))
}

// parts are the periods whose lists are read concurrently for a slice.
func (r *comparison) parts(s *slice) (out []slice) {
	long := seconds(s.to.Sub(s.from))
	n := min(max(1, r.perHour*long/3600/readerRecords), listReaders)
	each := time.Duration((long+n-1)/n) * time.Second
	for from := s.from; from.Before(s.to); from = from.Add(each) {
		to := from.Add(each)
		if to.After(s.to) {
			to = s.to
		}
		out = append(out, slice{from: from, to: to})
	}
	return out
}

// fetched is a page of the bank's list, or why there is none.
type fetched struct {
	page provider.Page
	err  error
}

// readList reads the bank's list of a slice to its end, and compares each page with what is stored.
// Payments that are missing on our side are stored, even if the list ends with an error.
func (r *comparison) readList(ctx context.Context, s *slice) (err error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	pages := make(chan fetched)
	var readers sync.WaitGroup
	for _, p := range r.parts(s) {
		readers.Go(func() { r.fetch(reading, p.from, p.to, pages) })
	}
	go func() { readers.Wait(); close(pages) }()
	idle := 0
	for f := range pages {
		batch, failed := gather(f, pages)
		before := len(s.listed) + len(s.payouts)
		if err = errors.Join(err, failed, r.match(ctx, s, batch)); len(s.listed)+len(s.payouts) > before {
			idle = 0
		}
		switch idle += len(batch); {
		case err != nil:
		case idle > maxIdlePages:
			err = errEndlessPages
		case len(s.listed)+len(s.payouts) > sliceMost*r.sliceRecords && s.to.Sub(s.from) > time.Second:
			err = errDense
		}
		if err != nil {
			stop()
		}
	}
	return errors.Join(err, r.postMissing(ctx, s))
}

// gather collects the pages that have been read, and the error if one is missing.
func gather(f fetched, pages <-chan fetched) (batch []provider.Page, err error) {
	for {
		if f.err == nil {
			batch = append(batch, f.page)
		} else if err == nil {
			err = f.err
		}
		if len(batch) >= matchPages {
			return batch, err
		}
		var more bool
		select {
		case f, more = <-pages:
		default:
		}
		if !more {
			return batch, err
		}
	}
}

// fetch reads the list of a period, page by page.
func (r *comparison) fetch(ctx context.Context, from, to time.Time, pages chan<- fetched) {
	for cursor := ""; ; {
		page, err := r.list(ctx, from, to, cursor)
		pages <- fetched{page, err} // the receiver takes them all
		if cursor = page.Next; err != nil || cursor == "" {
			return
		}
	}
}

func (r *comparison) list(ctx context.Context, from, to time.Time, cursor string) (provider.Page, error) {
	failpoint.At("reconcile/before-list")
	page, err := r.bank.Transactions(ctx, from, to, cursor)
	failpoint.At("reconcile/after-list")
	if err != nil {
		err = fmt.Errorf("%w: %w", errUnlisted, err)
	}
	return page, err
}

// match compares pages of a slice's list with what is stored.
func (r *comparison) match(ctx context.Context, s *slice, pages []provider.Page) error {
	var all provider.Page
	for _, p := range pages {
		all.Transactions, all.Payouts = append(all.Transactions, p.Transactions...), append(all.Payouts, p.Payouts...)
		all.Unreadable = append(all.Unreadable, p.Unreadable...)
	}
	s.report.Bank.Pages += len(pages)
	if err := errors.Join(r.matchPage(ctx, s, all), r.matchPayouts(ctx, s, all.Payouts)); err != nil {
		return err
	}
	if len(s.missing) < storeRecords {
		return r.extend(ctx)
	}
	return r.postMissing(ctx, s)
}

// isKept reports whether one of the slices that are kept lists the id.
func (r *comparison) isKept(id string, of func(*slice) marks) bool {
	return slices.ContainsFunc(r.kept, func(s *slice) bool { return of(s).has(id) })
}

func (s *slice) ids() marks   { return s.listed }
func (s *slice) backs() marks { return s.listedBack }
func (s *slice) refs() marks  { return s.payouts }

func (s *slice) records() marks { return s.payoutRecords }
func (s *slice) gone() marks    { return s.paidPayouts }

// conclude makes the decisions that were deferred, and remembers what stays open.
func (r *comparison) conclude(ctx context.Context, s *slice) error {
	if err := r.restoreReversed(ctx); err != nil {
		return err
	}
	if err := r.decideDoubtful(ctx, s); err != nil {
		return err
	}
	if err := r.openListed(ctx); err != nil {
		return err
	}
	return r.storeItems(ctx)
}

// compareSlice compares the books with the list of a slice whose neighbours have been read, and
// adds what came of it to the report.
func (r *comparison) compareSlice(ctx context.Context, s *slice) error {
	r.part = &s.report
	for _, step := range []func(context.Context, *slice) error{r.readEntries, r.readMisdirected, r.readPayouts, r.conclude} {
		if err := step(ctx, s); err != nil {
			return err
		}
	}
	r.report.add(s.report)
	s.report = newReport()
	s.doubtful = nil
	r.readTo = s.to
	return r.checkpoint(ctx, s)
}
