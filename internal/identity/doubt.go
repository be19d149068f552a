package identity

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"time"

	"ajo/internal/clock"
)

const (
	// manyNoSuch is how many people's NINs may be nobody's within noSuchFor before that is not
	// believed any more.
	manyNoSuch = 5
	noSuchFor  = time.Hour
)

// Doubting is a [Checker] that does not believe that every NIN is nobody's: one such answer may be
// true, those of many people within an hour are more likely a service that finds nothing. Then they
// are [ErrUnavailable], and a person looks, until a NIN is found again or the hour is over. One
// NIN, or one name, counts once: the typing errors of one customer raise no doubt about others.
type Doubting struct {
	Checker
	Clock   clock.Clock
	Log     *slog.Logger
	Observe func(kind string) // called with each answer that was not believed; nil: nothing is

	mu         sync.Mutex
	unknownNIN []unknownNIN // the newest that count, no two with one NIN or one name; oldest first
}

// unknownNIN is an answer that the NIN is nobody's. The NIN and the name are hashes.
type unknownNIN struct {
	nin, name uint64
	at        time.Time
}

var hashSeed = maphash.MakeSeed()

// CheckNIN is the checker's, but for a doubted [NoSuch].
func (d *Doubting) CheckNIN(ctx context.Context, nin, name string) (Result, error) {
	r, err := d.Checker.CheckNIN(ctx, nin, name)
	switch {
	case err != nil:
		return r, err
	case r != NoSuch:
		d.mu.Lock()
		d.unknownNIN = nil
		d.mu.Unlock()
		return r, nil
	case !d.suspicious(nin, name):
		return r, nil
	}
	if d.Observe != nil {
		d.Observe("nin")
	}
	d.Log.ErrorContext(ctx, "the identity service finds none of many people's numbers: ignored", slog.String("alert", "not_found_doubted"), slog.String("kind", "nin"))
	return 0, fmt.Errorf("identity: the numbers of %d people are nobody's: %w", manyNoSuch, ErrUnavailable)
}

// suspicious counts a [NoSuch], and reports whether it is one of many.
func (d *Doubting) suspicious(nin, name string) bool {
	n := unknownNIN{maphash.String(hashSeed, nin), maphash.String(hashSeed, name), d.Clock.Now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unknownNIN = slices.DeleteFunc(d.unknownNIN, func(o unknownNIN) bool { return n.at.Sub(o.at) >= noSuchFor })
	if !slices.ContainsFunc(d.unknownNIN, func(o unknownNIN) bool { return o.nin == n.nin || o.name == n.name }) {
		d.unknownNIN = append(d.unknownNIN, n)
		d.unknownNIN = d.unknownNIN[max(0, len(d.unknownNIN)-manyNoSuch):]
	}
	return len(d.unknownNIN) == manyNoSuch
}
