package ledger

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// Payments returns a page of the payments of a tenant, or of its account that the filter names:
// newest first, or by time or gross amount. A bad cursor is [page.ErrCursor]; [ErrStatus],
// [page.ErrSort].
func Payments(ctx context.Context, q pg.Querier, tenant uuid.UUID, f PaymentFilter, r page.Request) (list []Payment, info page.Info, err error) {
	if err := f.ofAccount(r.Sort).check(); err != nil {
		return nil, page.Info{}, err
	}
	switch {
	case r.Sort.By == page.Amount:
		list, info, err = paymentsByAmount(ctx, q, tenant, f, r)
	case f.AccountID != uuid.Nil:
		list, info, err = paymentsOfAccount(ctx, q, tenant, f, r)
	default:
		list, info, err = paymentsOfTenant(ctx, q, tenant, f, r)
	}
	if err == nil && r.Total {
		sql, args, all, err := f.whole(ctx, q, tenant)
		if err != nil {
			return nil, page.Info{}, err
		}
		if info.Total, err = pg.Total(ctx, q, all, sql, args); err != nil {
			return nil, page.Info{}, err
		}
	}
	return list, info, err
}

func paymentsOfTenant(ctx context.Context, q pg.Querier, tenant uuid.UUID, f PaymentFilter, r page.Request) ([]Payment, page.Info, error) {
	at, id, ok, err := page.ParseSortedDue(page.Payments, r.Sort, r.After)
	if err != nil {
		return nil, page.Info{}, err
	}
	args := f.args(tenant, r)
	sql, cutSQL, step, past := ofTenantSQL+paymentEnds+ofTenantOrder, tenantCutSQL, -time.Microsecond, uuid.Max
	switch {
	case r.Sort.Ascending:
		sql, cutSQL, step, past = fromTheFirstSQL+paymentEnds+fromTheFirstOrder, firstCutSQL, time.Microsecond, uuid.Nil
		if !ok {
			at = Filter{}.from()
		}
	case !ok:
		at, id = Filter{}.to(), uuid.Max
	}
	args["at"], args["id"] = at, id
	cut, err := f.lastLookedAt(ctx, q, cutSQL, args, pg.ScanLimit-1)
	if err != nil {
		return nil, page.Info{}, err
	}
	args["floor"], args["ceiling"] = cut, Filter{}.to()
	if !cut.IsZero() {
		args["ceiling"] = cut
	}
	list, err := pg.Collect(ctx, q, scanPayment, paymentSQL+sql, args)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, info := page.Cut(list, r, func(p Payment) string { return page.SortedDue(page.Payments, r.Sort, p.CreatedAt, p.ID) })
	if !info.HasMore && !cut.IsZero() {
		// behind all of that time, which the next page would count again
		next := page.SortedDue(page.Payments, r.Sort, cut.Add(step), past)
		info.NextCursor, info.HasMore = &next, true
	}
	return list, info, nil
}

// lastLookedAt is the time of the oldest of the tenant's payments that a page reads; the zero time
// if there are fewer, or if the filter drops none.
func (f PaymentFilter) lastLookedAt(ctx context.Context, q pg.Querier, sql string, args pgx.NamedArgs, last int) (at time.Time, err error) {
	if !f.narrow() {
		return at, nil
	}
	args = maps.Clone(args)
	args["last"] = last
	err = q.QueryRow(ctx, sql, args).Scan(&at)
	return at.UTC(), pg.OrNone(err, nil)
}

func paymentsOfAccount(ctx context.Context, q pg.Querier, tenant uuid.UUID, f PaymentFilter, r page.Request) ([]Payment, page.Info, error) {
	after, err := page.ParseSeq(page.Payments, f.counted(r.Sort), r.After)
	if err != nil {
		return nil, page.Info{}, err
	}
	lines := f.ofAccount(r.Sort)
	begin, end, err := lines.span(ctx, q, f.AccountID)
	if err != nil {
		return nil, page.Info{}, err
	}
	sql := ofAccountSQL + paymentEnds + ofAccountOrder
	switch {
	case r.Sort.Ascending:
		sql, begin = upAccountSQL+paymentEnds+upAccountOrder, max(after, begin)
	case after > 0:
		end = min(after-1, end)
	}
	begin, end, cut, err := lines.window(ctx, q, f.AccountID, begin, end, pg.ScanLimit)
	if err != nil {
		return nil, page.Info{}, err
	}
	args := f.args(tenant, r)
	args["begin"], args["end"] = begin, end
	list, err := pg.Collect(ctx, q, scanPayment, paymentSQL+sql, args)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, info := page.Cut(list, r, func(p Payment) string { return page.Seq(page.Payments, f.counted(r.Sort), p.seq) })
	if !info.HasMore && cut > 0 {
		next := page.Seq(page.Payments, f.counted(r.Sort), cut)
		info.NextCursor, info.HasMore = &next, true
	}
	return list, info, nil
}

// counted is the scope of the cursors of an account's payments: the account, in one order.
func (f PaymentFilter) counted(s page.Sort) uuid.UUID {
	if s.Ascending {
		return uuid.NewSHA1(f.AccountID, []byte("oldest first"))
	}
	return f.AccountID
}

// paymentsByAmount reads a page of payments by their gross amount, of so many as a total counts.
func paymentsByAmount(ctx context.Context, q pg.Querier, tenant uuid.UUID, f PaymentFilter, r page.Request) ([]Payment, page.Info, error) {
	value, id, ok, err := page.ParseSorted(page.Payments, r.Sort, r.After)
	if err != nil {
		return nil, page.Info{}, err
	}
	sql, args, all, err := f.whole(ctx, q, tenant)
	if err != nil {
		return nil, page.Info{}, err
	}
	total, err := pg.Total(ctx, q, all, sql, args)
	if err != nil {
		return nil, page.Info{}, err
	}
	if !total.Exact {
		return nil, page.Info{}, page.ErrSort
	}
	chosen, order := largestFirstSQL, largestFirstOrder
	if r.Sort.Ascending {
		chosen, order = smallestFirstSQL, smallestFirstOrder
	}
	args["first"], args["value"], args["rows"], args["row"] = !ok, money.FromKobo(value), r.Limit+1, id
	list, err := pg.Collect(ctx, q, scanPayment, paymentSQL+`SELECT * FROM (`+sql+`)`+chosen+paymentEnds+order, args)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, info := page.Cut(list, r, func(p Payment) string {
		return page.Sorted(page.Payments, r.Sort, p.GrossAmount.Kobo().Int64(), p.ID)
	})
	return list, info, nil
}

// whole is the statement that reads all payments of the filter, newest first, as far as a total
// counts; all reports that there are none beyond that.
func (f PaymentFilter) whole(ctx context.Context, q pg.Querier, tenant uuid.UUID) (sql string, args pgx.NamedArgs, all bool, err error) {
	args = f.args(tenant, page.Request{Limit: page.CountLimit})
	if f.AccountID != uuid.Nil {
		lines := f.ofAccount(page.Sort{})
		begin, end, err := lines.span(ctx, q, f.AccountID)
		if err != nil {
			return "", nil, false, err
		}
		begin, end, cut, err := lines.window(ctx, q, f.AccountID, begin, end, page.CountLimit+1)
		args["begin"], args["end"] = begin, end
		return ofAccountSQL, args, cut == 0, err
	}
	args["at"], args["id"] = Filter{}.to(), uuid.Max
	floor, err := f.lastLookedAt(ctx, q, tenantCutSQL, args, page.CountLimit)
	args["floor"] = floor
	return ofTenantSQL, args, floor.IsZero(), err
}

// PaymentSums are the totals of the payments of a filter.
type PaymentSums struct {
	Count int  `json:"count"` // at most [page.CountLimit]
	Exact bool `json:"exact"` // false: there are at least Count, and no sums
	// of all of them, whatever their status; nil: there are too many
	GrossAmount *money.Amount `json:"grossAmount"`
	Fee         *money.Amount `json:"fee"`
	Amount      *money.Amount `json:"amount"`
	ByStatus    []StatusSums  `json:"byStatus"` // no status that none has; empty where there are too many
}

// StatusSums are those of one status.
type StatusSums struct {
	Status      Status       `json:"status"`
	Count       int          `json:"count"`
	GrossAmount money.Amount `json:"grossAmount"`
	Fee         money.Amount `json:"fee"`
	Amount      money.Amount `json:"amount"`
}

// SumPayments sums up all pages of [Payments], if they have no more rows than a total counts.
// [ErrStatus].
func SumPayments(ctx context.Context, q pg.Querier, tenant uuid.UUID, f PaymentFilter) (PaymentSums, error) {
	s := PaymentSums{ByStatus: []StatusSums{}}
	if err := f.ofAccount(page.Sort{}).check(); err != nil {
		return s, err
	}
	sql, args, all, err := f.whole(ctx, q, tenant)
	if err != nil {
		return s, err
	}
	found, err := pg.Collect(ctx, q, pgx.RowToStructByPos[StatusSums], `
		SELECT status, count(*), sum(amount + fee), sum(fee), sum(amount) FROM (`+sql+`) e GROUP BY status ORDER BY status`, args)
	if err != nil {
		return s, err
	}
	var gross, fee, net money.Amount
	for _, x := range found {
		s.Count += x.Count
		gross, fee, net = gross.Add(x.GrossAmount), fee.Add(x.Fee), net.Add(x.Amount)
	}
	total := page.NewTotal(s.Count, all)
	if s.Count, s.Exact = total.Count, total.Exact; s.Exact {
		s.GrossAmount, s.Fee, s.Amount = &gross, &fee, &net
		s.ByStatus = append(s.ByStatus, found...)
	}
	return s, nil
}

// EachPayment reads all payments that [Payments] lists, in its order and in one statement. If there
// are more than limit, or the filter would look for them among more than [ScanPerLine] times as
// many, it returns a refusal that says so.
func EachPayment(ctx context.Context, q pg.Querier, tenant uuid.UUID, f PaymentFilter, limit int, each func(Payment) error) error {
	lines := f.ofAccount(page.Sort{})
	if err := lines.check(); err != nil {
		return err
	}
	args := f.args(tenant, page.Request{Limit: limit})
	args["at"], args["id"], args["floor"] = Filter{}.to(), uuid.Max, time.Time{}
	sql := paymentSQL + ofTenantSQL + paymentEnds + ofTenantOrder
	if f.AccountID != uuid.Nil {
		begin, end, err := lines.span(ctx, q, f.AccountID)
		if err != nil {
			return err
		}
		if err := lines.bounded(ctx, q, f.AccountID, begin, end, limit); err != nil {
			return err
		}
		args["begin"], args["end"] = begin, end
		sql = paymentSQL + ofAccountSQL + paymentEnds + ofAccountOrder
	} else if last, err := f.lastLookedAt(ctx, q, tenantCutSQL, args, limit*ScanPerLine); err != nil {
		return err
	} else if !last.IsZero() {
		return ErrWide
	}
	rows := pg.Rows(ctx, q, sql, args)
	defer rows.Close()
	for n := 0; rows.Next(); n++ {
		if n == limit {
			return errs.New(errs.Unprocessable, fmt.Sprintf("there are more than %d payments: narrow them by from and to", limit))
		}
		p, err := scanPayment(rows)
		if err == nil {
			err = each(p)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}
