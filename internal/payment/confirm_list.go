package payment

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"ajo/internal/batch"
	"ajo/internal/metrics"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/ledger"
)

// The bank answers some 75 questions a second, but shows 50 records on a page of its list: where
// many payments of about the same time wait to be confirmed, the list of that time is read instead
// of asking for each: of one second or of several (confirm_span.go). One worker reads it, once, and
// confirms the payments that it supports, for all workers. The list decides nothing else: a payment
// that is missing, in progress or different there is asked about by its own id, and so is a lone
// one.
const (
	// a list is read when at least this many payments wait
	listFrom = 16
	// of a list, two pages are read, and one more for each listWorth payments that waited for it or
	// were found in it
	listShare = 8
	listKept  = 10 * time.Second      // for how long a list that was read is not read again
	listQuiet = time.Minute           // for how long no list is read after a failure
	listLease = time.Minute           // how long a worker may take to read a list
	listMax   = 1000                  // checks in one batch
	listPause = 10 * time.Millisecond // how long the last few wait for company
	listsRead = 16                    // lists that one process reads at a time
	// how long a check waits for a list; meanwhile it keeps others waiting
	listWait  = 100 * time.Millisecond
	listAgain = 2 * time.Second // when it comes back to see what the list has confirmed
	// A page is small, and a commit costs the same for one record as for many, so this many records
	// are confirmed together, or those that came within this time.
	listBatch = 256
	listHeld  = 100 * time.Millisecond
)

// listing is the list of some seconds, while it is being read and a while after.
type listing struct {
	seconds []time.Time
	until   time.Time // the end of the lease
	done    chan struct{}
	// valid once done is closed
	cut  bool // given up in favour of shorter lists
	read time.Time

	mu      sync.Mutex
	waiting map[string]chan *provider.Transaction // checks of this process, by transaction id
	records map[string]provider.Transaction       // that nobody has asked for yet
	// payments that waited for it, or were found in it
	sought map[string]struct{}
}

// lists are the lists that this process reads or has recently read, by second. Only the writer of
// Service.listed uses the maps.
type lists struct {
	bySecond map[int64]*listing
	// by second, the payments that were lately asked about one by one: checks that come a few at a
	// time count together
	lone      map[int64]int
	loneSince time.Time

	slots   *semaphore.Weighted
	reading sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc

	mu     sync.Mutex
	quiet  time.Time // no list is read until then
	length int64     // of the longest span to be read, in seconds
}

func newLists() *lists {
	l := &lists{bySecond: map[int64]*listing{}, slots: semaphore.NewWeighted(listsRead), length: spanLongest}
	l.ctx, l.stop = context.WithCancel(provider.Patient(context.Background())) // listsRead bounds them
	return l
}

// stopReading ends the reading.
func (l *lists) stopReading() {
	l.stop()
	l.reading.Wait()
}

// longest is how many seconds a list may cover; zero: no list is read.
func (l *lists) longest(now time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.quiet) {
		return 0
	}
	return l.length
}

// lookup says where a check finds its answer: in the list that is being read, later from another
// worker's list, or (zero) by asking the bank.
type lookup struct {
	list  *listing
	later bool
}

// findLists finds lists for many checks, where reading a list takes fewer calls than asking about
// each. A small group waits for listPause, so that others can join it: its checks were due seconds
// ago, and only a busy writer forms larger batches.
func (s *Service) findLists(ctx context.Context, checks []*check) []batch.Outcome[lookup] {
	out := make([]batch.Outcome[lookup], len(checks))
	now := s.Clock.Now()
	waiting := map[int64][]int{}
	for i, c := range checks {
		if c.OccurredAt != nil {
			waiting[c.OccurredAt.Unix()] = append(waiting[c.OccurredAt.Unix()], i)
		}
	}
	maps.DeleteFunc(s.lists.bySecond, func(_ int64, l *listing) bool { return l.ended() && (l.cut || now.Sub(l.read) > listKept) })
	if now.Sub(s.lists.loneSince) > listKept {
		s.lists.lone, s.lists.loneSince = map[int64]int{}, now
	}
	counts := map[int64]int{}
	for second, which := range waiting {
		if s.lists.bySecond[second] == nil {
			counts[second] = s.lists.lone[second] + len(which)
		}
	}
	begun, others, err := s.claimLists(ctx, spansOf(counts, s.lists.longest(now)))
	for second, which := range waiting {
		l := s.lists.bySecond[second]
		if l == nil && !others[second] {
			s.lists.lone[second] += len(which)
		}
		for _, i := range which {
			out[i].Value, out[i].Err = lookup{list: l, later: l == nil && others[second]}, err
			if l != nil {
				l.wait(checks[i].TxnRef)
			}
		}
	}
	for _, l := range begun {
		s.lists.reading.Go(func() { s.readList(l) })
	}
	if len(checks) < listFrom && len(s.lists.bySecond) == 0 {
		time.Sleep(listPause)
	}
	return out
}

// listRow is a second in claimListsSQL.
type listRow struct {
	Second time.Time `pg:"second"`
}

var (
	claimListsSQL = `
		INSERT INTO confirm_lists AS l (second, leased_until)
		SELECT second, $1 FROM ` + pg.Unnest[listRow](4, "r") + `
		ON CONFLICT (second) DO UPDATE SET leased_until = excluded.leased_until, read_at = NULL
		WHERE (l.read_at IS NULL AND l.leased_until <= $2) OR l.read_at <= $3
		RETURNING second`
	otherListsSQL = `SELECT second FROM confirm_lists WHERE second = ANY($1) AND read_at IS NULL`
)

// claimLists claims the lists of these spans for this process, except for seconds that another
// process is reading or has just read, and returns them with the seconds that others are reading.
// Once this process reads as many lists as it may, the remaining spans count as later too.
func (s *Service) claimLists(ctx context.Context, spans []span) (begun []*listing, others map[int64]bool, err error) {
	others = map[int64]bool{}
	var rows []listRow
	var seconds []time.Time
	of := map[int64]*listing{} // by second
	now := s.Clock.Now()
	until := now.Add(listLease)
	for _, p := range spans {
		if !s.lists.slots.TryAcquire(1) {
			for second := p.from; second < p.to; second++ {
				others[second] = true
			}
			continue
		}
		l := &listing{until: until, done: make(chan struct{}), waiting: map[string]chan *provider.Transaction{}, records: map[string]provider.Transaction{}, sought: map[string]struct{}{}}
		begun = append(begun, l)
		for second := p.from; second < p.to; second++ {
			at := time.Unix(second, 0).UTC()
			rows, seconds, of[second] = append(rows, listRow{at}), append(seconds, at), l
		}
	}
	if len(rows) == 0 {
		return nil, others, nil
	}
	ours, err := pg.Collect(ctx, s.Pool, pgx.RowTo[time.Time], claimListsSQL, pg.Columns(rows, until, now, now.Add(-listKept))...)
	slices.SortFunc(ours, time.Time.Compare)
	for _, at := range ours {
		l := of[at.Unix()]
		l.seconds = append(l.seconds, at)
		s.lists.bySecond[at.Unix()] = l
	}
	begun = slices.DeleteFunc(begun, func(l *listing) bool {
		if len(l.seconds) == 0 {
			s.lists.slots.Release(1)
		}
		return len(l.seconds) == 0
	})
	if err != nil || len(ours) == len(rows) {
		return begun, others, err
	}
	reading, err := pg.Collect(ctx, s.Pool, pgx.RowTo[time.Time], otherListsSQL, seconds)
	for _, second := range reading {
		others[second.Unix()] = true
	}
	return begun, others, err
}

// wait notes that a check waits for the list.
func (l *listing) wait(ref string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sought[ref] = struct{}{}
	if l.waiting[ref] == nil {
		l.waiting[ref] = make(chan *provider.Transaction, 1)
	}
	if t, ok := l.records[ref]; ok {
		l.waiting[ref] <- &t
		delete(l.records, ref)
	}
}

func (l *listing) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// answer returns the list's record for a check, if it has one that agrees with it; later reports
// that the list has not been read to its end.
func (l *listing) answer(ctx context.Context, c *check) (t *provider.Transaction, later bool, err error) {
	l.mu.Lock()
	answer := l.waiting[c.TxnRef]
	l.mu.Unlock()
	timeout := time.NewTimer(listWait)
	defer timeout.Stop()
	select {
	case t = <-answer:
	case <-l.done:
		later = l.cut
	case <-timeout.C:
		later = true
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	l.mu.Lock()
	delete(l.waiting, c.TxnRef) // from here on it counts among the others
	l.mu.Unlock()
	if t == nil {
		select {
		case t = <-answer:
		default:
			return nil, later, nil
		}
	}
	if t.Status != provider.Success || c.Differs(*t) != "" {
		return nil, false, nil
	}
	return t, false, nil
}

// A list's rows are locked in the order in which others claim them.
const (
	ownListSQL   = `WITH own AS (SELECT second FROM confirm_lists WHERE second = ANY($1) AND leased_until = $2 ORDER BY second FOR UPDATE) `
	readListSQL  = ownListSQL + `UPDATE confirm_lists l SET read_at = $3 FROM own WHERE l.second = own.second`
	leaveListSQL = ownListSQL + `DELETE FROM confirm_lists l USING own WHERE l.second = own.second`
)

// readList reads a list while it is worth it, and confirms what it has found meanwhile. A list of
// several seconds that turns out to be long is given up in favour of shorter ones.
func (s *Service) readList(l *listing) {
	defer s.lists.slots.Release(1)
	defer close(l.done)
	ctx, cancel := context.WithTimeout(s.lists.ctx, listLease)
	defer cancel()
	parts, cursor, seen, failed := contiguous(l.seconds), "", false, false
	var others []provider.Transaction // that nobody has waited for yet
	var confirming errgroup.Group
	confirming.SetLimit(1)
	for pages, taken := 1, time.Now(); ; pages++ {
		page, err := s.Bank.Transactions(ctx, time.Unix(parts[0].from, 0), time.Unix(parts[0].to, 0), cursor)
		others = append(others, l.offer(page.Transactions)...)
		full := len(l.seconds) > 1 && pages >= spanPages
		seen = seen || len(page.Transactions) > 0
		read := page.Next == "" || seen && page.EndsLater // what follows is asked about by its own id
		last := err != nil || read && len(parts) == 1 || !s.Clock.Now().Before(l.until)
		stop := last || full || pages >= l.worth()
		if stop || len(others) >= listBatch || time.Since(taken) >= listHeld {
			records := others
			confirming.Go(func() error { return s.confirmOthers(ctx, l, records) })
			others, taken = nil, time.Now()
		}
		if stop {
			err = errors.Join(err, confirming.Wait())
		}
		last = last || pages >= l.worth() // with what these pages had
		l.cut = !last && full
		if failed = err != nil; failed {
			s.lists.mu.Lock()
			s.lists.quiet = s.Clock.Now().Add(listQuiet)
			s.lists.mu.Unlock()
			s.Log.Warn("the bank's list could not be read; payments are asked about one by one for a while", slog.Any("err", err))
			break
		}
		if last || l.cut {
			s.lists.learn(l, pages)
			break
		}
		if cursor = page.Next; read {
			parts, cursor, seen = parts[1:], "", false
		}
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer end()
	l.read = s.Clock.Now()
	sql, args := readListSQL, []any{l.seconds, l.until, l.read}
	if failed || l.cut { // another worker may have it
		sql, args = leaveListSQL, args[:2]
	}
	if _, err := s.Pool.Exec(ctx, sql, args...); err != nil {
		s.Log.Warn("the end of a list's reading was not recorded; others wait until its lease ends", slog.Any("err", err))
	}
}

// worth is how many pages of the list are worth reading, given the payments that waited for it or
// were found in it.
func (l *listing) worth() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 2 + len(l.sought)/listShare
}

// offer hands records to the checks that wait for them here, and returns the others that may
// confirm a payment.
func (l *listing) offer(records []provider.Transaction) (others []provider.Transaction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range records {
		if answer := l.waiting[t.ID]; answer != nil {
			select {
			case answer <- &t:
			default: // it has it
			}
		} else if t.Status == provider.Success {
			others = append(others, t)
		}
	}
	return others
}

// confirmOthers confirms the payments that nothing here waits for: those of other workers, and
// those that are due in a moment.
func (s *Service) confirmOthers(ctx context.Context, l *listing, records []provider.Transaction) error {
	others := map[string]provider.Transaction{}
	for _, t := range l.offer(records) { // some may be awaited by now
		others[t.ID] = t
	}
	if len(others) == 0 {
		return nil
	}
	checks, expected, err := s.checksOf(ctx, slices.Collect(maps.Keys(others)))
	if err != nil {
		return err
	}
	var findings []*finding
	for _, c := range checks {
		if t := others[c.TxnRef]; !c.recalled() && !c.decided() && c.Differs(t) == "" {
			if f := s.judge(c, t, nil); f.event == ledger.EventConfirm {
				findings = append(findings, f)
				delete(others, c.TxnRef)
			}
		}
	}
	l.mu.Lock()
	for _, ref := range expected {
		l.sought[ref] = struct{}{}
	}
	maps.Copy(l.records, others)
	l.mu.Unlock()
	for i, o := range s.record.DoAll(ctx, findings) {
		if o.Err != nil {
			return o.Err
		}
		metrics.Confirmations.Inc(findings[i].outcome())
	}
	return nil
}

// waitingOf is a row of waitingSQL: a payment that waits to be posted or confirmed.
type waitingOf struct {
	ID   uuid.UUID
	Ref  string // transaction id
	Free bool   // to be confirmed, and not leased
}

// The items are found by their ids, not by what is due (package pg, plans.go).
const waitingSQL = `
		SELECT e.id, e.provider_txn_ref, w.kind = 'confirm' AND coalesce(w.leased_until, '-infinity') <= $2
		FROM ` + eventsOf + ` JOIN work w ON w.id = ANY(ARRAY[e.id]) AND CASE WHEN w.kind IN ('confirm', 'ingest') THEN true ELSE false END`

// checksOf reads the payments of these transactions that wait to be confirmed and are not leased,
// and returns with them all transactions that a check is still to come for. They need not be due:
// others of the same second are, and the record is as old as theirs.
func (s *Service) checksOf(ctx context.Context, refs []string) (checks []*check, expected []string, err error) {
	now := s.Clock.Now()
	err = pg.Reading(ctx, s.Pool, func(tx pg.Tx) error {
		waiting, err := pg.Collect(ctx, tx, pgx.RowToStructByPos[waitingOf], waitingSQL, refs, now)
		var free []uuid.UUID
		for _, w := range waiting {
			expected = append(expected, w.Ref)
			if w.Free {
				free = append(free, w.ID)
			}
		}
		if err != nil || len(free) == 0 {
			return err
		}
		checks, err = s.readChecks(ctx, tx, free, now.Add(s.confirmDelay(len(s.ConfirmDelays))))
		return err
	})
	return slices.DeleteFunc(checks, func(c *check) bool { return c == nil }), expected, err
}
