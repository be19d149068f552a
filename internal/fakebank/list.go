package fakebank

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
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
	keep     func(*record) bool
	now      time.Time // what the index does not have by now is left out
}

// listAccountTransactions serves GET /v1/transactions/virtual: the records of one account, oldest
// first.
func (b *Bank) listAccountTransactions(c *call) answer {
	q := c.URL.Query()
	number := q.Get("virtual_account")
	if number == "" {
		return failed(http.StatusBadRequest, "02", "virtual_account is required")
	}
	query, err := parseList(q.Get("dateFrom"), q.Get("dateTo"), q.Get("cursor"), q.Get("limit"))
	if err != nil {
		return failed(http.StatusBadRequest, "02", err.Error())
	}
	b.books.mu.RLock()
	var lines []*record
	if a := b.books.numbers[number]; a != nil {
		lines = a.records
	}
	found, next := page(lines, query)
	b.books.mu.RUnlock()
	return listAnswer(c, found, next)
}

// listTransactions serves POST /v1/transactions/accounts: the records of the whole wallet, payouts
// too, oldest first. Filters are read from the body or, as some callers send them, from the query.
func (b *Bank) listTransactions(c *call) answer {
	var in struct {
		DateFrom, DateTo, Cursor                                    string
		Limit                                                       int
		Status, Type, TransactionRef, MerchantTxRef, VirtualAccount string
	}
	if len(c.body) > 0 {
		if a, ok := c.decode(&in); !ok {
			return a
		}
	}
	q := c.URL.Query()
	limit := q.Get("limit")
	if in.Limit != 0 {
		limit = strconv.Itoa(in.Limit)
	}
	query, err := parseList(cmp.Or(in.DateFrom, q.Get("dateFrom")), cmp.Or(in.DateTo, q.Get("dateTo")),
		cmp.Or(in.Cursor, q.Get("cursor")), limit)
	if err != nil {
		return failed(http.StatusBadRequest, "02", err.Error())
	}
	query.keep = func(r *record) bool {
		w := r.wire()
		return is(in.Status, w.Status) && is(in.Type, w.Type) && is(in.TransactionRef, w.ID) &&
			is(in.MerchantTxRef, w.MerchantTxRef) && is(in.VirtualAccount, w.Recipient)
	}
	if in.Status+in.Type+in.TransactionRef+in.MerchantTxRef+in.VirtualAccount == "" {
		query.keep = nil
	}
	query.now = b.clock.Now()
	b.books.mu.RLock()
	found, next := page(b.books.lines, query)
	b.books.mu.RUnlock()
	return listAnswer(c, found, next)
}

// is reports whether a filter lets a value through.
func is(filter, value string) bool { return filter == "" || filter == value }

func (r *record) wire() wireRecord {
	if r.out != nil {
		return r.out.wire(asNumber)
	}
	return r.tx.wire(asNumber, false)
}

func listAnswer(c *call, found []wireRecord, next string) answer {
	switch c.plan.rule.Do {
	case NotFound, NotFoundCode:
		return refused("01", "No transactions found")
	case Empty:
		return good(nil)
	}
	return good(struct {
		Results []wireRecord `json:"results"`
		Cursor  string       `json:"cursor"`
	}{found, next})
}

// page collects one page of ordered lines. next is empty at the end of them.
func page(lines []*record, q listQuery) (found []wireRecord, next string) {
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
		if r.tx != nil && r.tx.Hidden || r.out != nil && r.out.hidden(q.now) || q.keep != nil && !q.keep(r) {
			continue
		}
		if len(found) == q.limit {
			return found, cursorOf(last)
		}
		found, last = append(found, r.wire()), r
	}
	return found, ""
}

func parseList(from, to, cursor, limit string) (q listQuery, err error) {
	if q.from, _, err = parseDate(from); err != nil {
		return q, fmt.Errorf("dateFrom: %w", err)
	}
	var wholeDay bool
	if q.to, wholeDay, err = parseDate(to); err != nil {
		return q, fmt.Errorf("dateTo: %w", err)
	}
	if wholeDay {
		q.to = q.to.Add(24*time.Hour - time.Second)
	}
	if q.limit = maxPage; limit != "" {
		if q.limit, err = strconv.Atoi(limit); err != nil || q.limit < 1 || q.limit > maxPage {
			return q, fmt.Errorf("limit must be 1 to %d", maxPage)
		}
	}
	if cursor != "" {
		if q.after, err = parseCursor(cursor); err != nil {
			return q, err
		}
	}
	return q, nil
}

// dateForms are the forms of a date that callers of the live bank are known to use; without a zone
// they are UTC.
var dateForms = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly}

func parseDate(s string) (t time.Time, wholeDay bool, err error) {
	if s == "" {
		return time.Time{}, false, nil
	}
	for _, form := range dateForms {
		if t, err = time.Parse(form, s); err == nil {
			return t.UTC(), form == time.DateOnly, nil
		}
	}
	return time.Time{}, false, fmt.Errorf("%q is not a date", s)
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
