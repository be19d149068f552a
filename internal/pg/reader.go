package pg

import "context"

type readerKey struct{}

// WithReader returns a context in which [Reader] returns the result of choose, or the primary if
// that is nil.
func WithReader(ctx context.Context, choose func(context.Context) Querier) context.Context {
	return context.WithValue(ctx, readerKey{}, choose)
}

// Reader returns the database to read a list, a statement or an export from: the read replica if
// the request may use it and it has everything that was committed when the request came (package
// replica), else the primary. Everything else is read from the primary: whatever decides about
// money, and whatever a use case reads before it writes.
func Reader(ctx context.Context, primary *Pool) Querier {
	if choose, ok := ctx.Value(readerKey{}).(func(context.Context) Querier); ok {
		if q := choose(ctx); q != nil {
			return q
		}
	}
	return primary
}
