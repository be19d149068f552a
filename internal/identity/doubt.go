package identity

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
)

// manyNoSuch is how many NINs may in a row be nobody's before that is not believed any more.
const manyNoSuch = 5

// Doubting is a [Checker] that does not believe that every NIN is nobody's: one such answer may be
// true, many in a row are more likely a service that finds nothing. Then they are [ErrUnavailable],
// and a person looks, until a NIN is found again.
type Doubting struct {
	Checker
	Log     *slog.Logger
	Observe func(kind string) // called with each answer that was not believed; nil: nothing is

	noSuch atomic.Int64 // in a row
}

// CheckNIN is the checker's, but for a doubted [NoSuch].
func (d *Doubting) CheckNIN(ctx context.Context, nin, name string) (Result, error) {
	r, err := d.Checker.CheckNIN(ctx, nin, name)
	switch {
	case err != nil:
		return r, err
	case r != NoSuch:
		d.noSuch.Store(0)
		return r, nil
	case d.noSuch.Add(1) < manyNoSuch:
		return r, nil
	}
	if d.Observe != nil {
		d.Observe("nin")
	}
	d.Log.ErrorContext(ctx, "the identity service finds none of many numbers in a row: ignored", slog.String("alert", "not_found_doubted"), slog.String("kind", "nin"))
	return 0, fmt.Errorf("identity: %d numbers in a row are nobody's: %w", manyNoSuch, ErrUnavailable)
}
