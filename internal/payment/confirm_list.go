package payment

import (
	"context"
	"log/slog"
	"time"

	"ajo/internal/batch"
	"ajo/internal/provider"
)

// The bank answers some 75 questions a second, but shows 50 records on a page of its list: where
// many payments of the same second wait to be confirmed, the list of that second is read instead of
// asking for each. What it shows can confirm a payment and nothing else. Whatever is missing, under
// way or different there is asked about by its own id, as is a lone one.
const (
	// so many waiting payments of one second are worth reading its list
	listFrom = 16
	// of a list no more pages are read than two and one for so many payments that waited for it
	listShare = 8
	listKept  = 10 * time.Second      // how long what was read is believed
	listQuiet = time.Minute           // how long no list is read after one could not be
	listMax   = 1000                  // checks in one batch
	listPause = 10 * time.Millisecond // how long the last few wait for company
)

// listing is what has been read of the bank's list of one second.
type listing struct {
	records map[string]provider.Transaction // by transaction id
	cursor  string
	ended   bool
	pages   int
	sought  int // payments that were looked for in it
	begun   time.Time
}

// lists has what was read of late, by the second. One writer alone uses it.
type lists struct {
	bySecond map[int64]*listing
	quiet    time.Time // no list is read until then
}

// lookUp finds the records of many checks in the bank's list, where that takes fewer questions than
// checks. Nil: ask singly. A few are held for listPause, in which others may come; they were due
// seconds ago, and what makes a batch is a busy writer.
func (s *Service) lookUp(ctx context.Context, checks []*check) []batch.Outcome[*provider.Transaction] {
	out := make([]batch.Outcome[*provider.Transaction], len(checks))
	now := s.Clock.Now()
	waiting := map[int64][]int{}
	for i, c := range checks {
		if c.OccurredAt != nil {
			waiting[c.OccurredAt.Unix()] = append(waiting[c.OccurredAt.Unix()], i)
		}
	}
	for second, l := range s.lists.bySecond {
		if now.Sub(l.begun) > listKept {
			delete(s.lists.bySecond, second)
		}
	}
	if len(checks) < listFrom && len(s.lists.bySecond) == 0 {
		time.Sleep(listPause)
		return out
	}
	for second, which := range waiting {
		l := s.lists.bySecond[second]
		if l == nil {
			if len(which) < listFrom {
				continue
			}
			l = &listing{records: map[string]provider.Transaction{}, begun: now}
			s.lists.bySecond[second] = l
		}
		l.sought += len(which)
		for left := l.take(checks, which, out); len(left) > 0 && s.readOn(ctx, l, second, now); {
			left = l.take(checks, left, out)
		}
	}
	return out
}

// take gives the checks of which the list shows that they are true their records, and returns the
// others.
func (l *listing) take(checks []*check, which []int, out []batch.Outcome[*provider.Transaction]) (left []int) {
	for _, i := range which {
		t, ok := l.records[checks[i].TxnRef]
		if !ok || t.Status != provider.Success || checks[i].Differs(t) != "" {
			left = append(left, i)
			continue
		}
		out[i].Value = &t
		delete(l.records, t.ID) // nobody else asks for it, and a backlog has many
	}
	return left
}

// readOn reads the next page of the list of a second; false when there is none, or it is not worth
// it.
func (s *Service) readOn(ctx context.Context, l *listing, second int64, now time.Time) bool {
	if l.ended || now.Before(s.lists.quiet) || l.pages >= 2+l.sought/listShare {
		return false
	}
	from := time.Unix(second, 0).UTC()
	page, err := s.Bank.Transactions(ctx, from, from.Add(time.Second), l.cursor)
	if err != nil {
		s.lists.quiet = now.Add(listQuiet)
		s.Log.Warn("the bank's list could not be read; payments are asked about one by one for a while", slog.Any("err", err))
		return false
	}
	for _, t := range page.Transactions {
		l.records[t.ID] = t
	}
	l.pages++
	l.cursor, l.ended = page.Next, page.Next == ""
	return true
}
