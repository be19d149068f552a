package fakebank

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// maxPage is the largest page of records, and the size of one when no limit is given.
const maxPage = 50

// listQuery is what a list of records is asked for.
type listQuery struct {
	from, to time.Time // both inclusive; zero: open
	after    *record   // the cursor: only records behind it
	limit    int
}

// listTransactions serves POST /v1/transactions/accounts: the records of the whole wallet, payouts
// too, oldest first. What is asked for stands in the query.
func (b *Bank) listTransactions(c *call) answer {
	query, err := parseList(c.URL.Query())
	if err != nil {
		return failed(http.StatusBadRequest, "02", err.Error())
	}
	switch c.plan.rule.Do {
	case NotFound, NotFoundCode:
		return refused("01", "No transactions found")
	case Empty:
		return good(nil)
	}
	b.books.mu.RLock()
	defer b.books.mu.RUnlock()
	found, next := page(b.books.lines, query, b.clock.Now())
	return good(struct {
		Results []wireRecord `json:"results"`
		Cursor  string       `json:"cursor"`
	}{found, next})
}

func (r *record) wire() wireRecord {
	if r.out != nil {
		return r.out.wire(asNumber)
	}
	return r.tx.wire(asNumber, false)
}

// page collects one page of ordered lines, without what the index does not have yet. next is empty
// at the end of them.
func page(lines []*record, q listQuery, now time.Time) (found []wireRecord, next string) {
	start, _ := slices.BinarySearchFunc(lines, q.from, func(r *record, from time.Time) int {
		return r.at.Truncate(time.Second).Compare(from)
	})
	if q.after != nil {
		behind, hit := slices.BinarySearchFunc(lines, q.after, (*record).compare)
		if hit {
			behind++
		}
		start = max(start, behind)
	}
	found = make([]wireRecord, 0, min(q.limit, len(lines)-start))
	var last *record
	for _, r := range lines[start:] {
		if !q.to.IsZero() && r.at.Truncate(time.Second).After(q.to) {
			break
		}
		if r.tx != nil && r.tx.Hidden || r.out != nil && r.out.hidden(now) {
			continue
		}
		if len(found) == q.limit {
			return found, cursorOf(last)
		}
		found, last = append(found, r.wire()), r
	}
	return found, ""
}

func parseList(asked url.Values) (q listQuery, err error) {
	if q.from, err = parseDate(asked.Get("dateFrom")); err != nil {
		return q, fmt.Errorf("dateFrom: %w", err)
	}
	if q.to, err = parseDate(asked.Get("dateTo")); err != nil {
		return q, fmt.Errorf("dateTo: %w", err)
	}
	if q.limit = maxPage; asked.Has("limit") {
		if q.limit, err = strconv.Atoi(asked.Get("limit")); err != nil || q.limit < 1 || q.limit > maxPage {
			return q, fmt.Errorf("limit must be 1 to %d", maxPage)
		}
	}
	if cursor := asked.Get("cursor"); cursor != "" {
		q.after, err = parseCursor(cursor)
	}
	return q, err
}

// parseDate reads a time in UTC; none is the zero time.
func parseDate(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse("2006-01-02T15:04:05", s)
}

func cursorOf(r *record) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", r.at.UnixMicro(), r.seq))
}

func parseCursor(s string) (*record, error) {
	var micro int64
	r := new(record)
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		_, err = fmt.Sscanf(string(raw), "%d.%d", &micro, &r.seq)
	}
	if err != nil {
		return nil, fmt.Errorf("cursor is not one of ours")
	}
	r.at = time.UnixMicro(micro).UTC()
	return r, nil
}
