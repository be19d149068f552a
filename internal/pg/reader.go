package pg

import "context"

type readerKey struct{}

// WithReader returns a context in which [Reader] is what choose returns, or the primary where that
// is nil.
func WithReader(ctx context.Context, choose func(context.Context) Querier) context.Context {
	return context.WithValue(ctx, readerKey{}, choose)
}

// Reader returns what a list, a statement or an export is read by: the read replica if the request
// may use it and it has all that was committed when the request came (package replica), else the
// primary. All else is read by the primary: what decides about money, and what a use case reads
// before it writes.
func Reader(ctx context.Context, primary *Pool) Querier {
	if choose, ok := ctx.Value(readerKey{}).(func(context.Context) Querier); ok {
		if q := choose(ctx); q != nil {
			return q
		}
	}
	return primary
}
