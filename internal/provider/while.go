package provider

import "context"

type whileKey struct{}

// OnlyWhile lets an adapter call off the calls under the context at the last moment: it sends each
// only if stands returns nil once the call has its turn.
func OnlyWhile(ctx context.Context, stands func() error) context.Context {
	return context.WithValue(ctx, whileKey{}, stands)
}

// Stands tells why a call under the context must not be sent any more; nil: it may be.
func Stands(ctx context.Context) error {
	if stands, ok := ctx.Value(whileKey{}).(func() error); ok {
		return stands()
	}
	return nil
}
