// Package replica lets requests that only read use a standby of Postgres, without showing less than
// the primary would.
//
// Each such request asks the primary for its WAL position first, and reads at the standby only once
// that has replayed as much: whatever was answered or published before the request came is in its
// answer, whoever wrote it. Where the standby is not there soon enough the request reads at the
// primary, and so does one that fails at the standby. No clocks are compared, and a standby that
// receives nothing is behind as soon as the primary writes.
package replica

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ajo/internal/errs"
	"ajo/internal/metrics"
	"ajo/internal/pg"
)

const (
	// maxLag is how far behind the standby may be and still count as usable.
	maxLag = time.Second
	// catchUp is how long a request waits for the standby to replay what the primary has.
	catchUp = 100 * time.Millisecond
	// answerTime is what the primary's position, a connection and the first answer of the standby
	// may take together; then the request reads at the primary.
	answerTime = 500 * time.Millisecond
	checkEvery = 250 * time.Millisecond
	pollEvery  = 5 * time.Millisecond
)

// Why the standby is not used.
var (
	errBehind   = errors.New("it is behind the primary")
	errPromoted = errors.New("it is no standby")
	errSystem   = errors.New("it is a copy of another system, or another database")
	errTimeline = errors.New("it follows another timeline than the primary's")
	errSilent   = errors.New("it does not answer in time")
	errPrimary  = errors.New("the primary does not say its position in time")
)

// Options are what a replica needs.
type Options struct {
	PrimaryURL, URL string
	MaxConns        int32
	Log             *slog.Logger
}

// Replica is a standby that is read from while it is fresh. A nil Replica is none: everything is
// read at the primary.
type Replica struct {
	log     *slog.Logger
	primary *pg.Pool // for positions alone, so that they do not wait for the requests' connections
	pool    *pg.Pool
	checks  *pg.Pool // for the check alone, for the same reason
	stop    func()
	done    sync.WaitGroup

	mu   sync.Mutex
	next *answer // the next answer of the primary, if anybody waits for it
	wake chan struct{}

	usable atomic.Pointer[period] // nil: not usable
	behind atomic.Bool            // the last check waited in vain for the standby to catch up
	why    error                  // why it is not usable, as logged; the check's alone
}

// period is a time in which the standby is usable. What reads there is cancelled at its end.
type period struct {
	ctx context.Context
	end context.CancelFunc
}

// Open starts to check the standby. It need not answer: it is used when it does.
func Open(ctx context.Context, o Options) (_ *Replica, err error) {
	r := &Replica{log: o.Log, wake: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			r.closePools()
		}
	}()
	if r.pool, err = pg.OpenStandby(ctx, o.URL, o.MaxConns); err != nil {
		return nil, err
	}
	if r.checks, err = pg.OpenStandby(ctx, o.URL, 1); err != nil {
		return nil, err
	}
	if r.primary, err = pg.Open(ctx, o.PrimaryURL, 1); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.Background())
	r.stop = stop
	metrics.ReplicaChecked(false, 0)
	r.done.Go(func() { r.answer(running) })
	r.done.Go(func() { r.check(running) })
	return r, nil
}

// Close ends the checks and the connections. No request may read any more.
func (r *Replica) Close() {
	r.stop()
	r.done.Wait()
	r.closePools()
}

func (r *Replica) closePools() {
	for _, p := range []*pg.Pool{r.pool, r.checks, r.primary} {
		if p != nil {
			p.Close()
		}
	}
}

// Read runs fn, whose calls of [pg.Reader] get the standby while that is fresh. If fn fails there,
// other than by a refusal, it runs once more at the primary: it must have no effect but its result.
func (r *Replica) Read(ctx context.Context, fn func(context.Context) error) error {
	if r == nil {
		return fn(ctx)
	}
	p := r.usable.Load()
	if p == nil || r.behind.Load() {
		metrics.ReadPrimary.Inc()
		return fn(ctx)
	}
	used, cut, err := r.readIn(ctx, p, fn)
	failed := err != nil && (cut || used && errs.As(err) == nil) && ctx.Err() == nil
	switch {
	case failed:
		metrics.ReadAgain.Inc()
		r.log.WarnContext(ctx, "a read failed at the replica and is done at the primary", slog.Any("err", err))
		return fn(ctx)
	case used:
		metrics.ReadReplica.Inc()
	default:
		metrics.ReadPrimary.Inc()
	}
	return err
}

// readIn runs fn within the period, and reports whether fn used the standby, and whether the
// period's end has cut it off.
func (r *Replica) readIn(ctx context.Context, p *period, fn func(context.Context) error) (used, cut bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	s := &session{replica: r}
	defer s.end(ctx)
	err = fn(pg.WithReader(ctx, s.querier))
	return s.tx != nil, p.ctx.Err() != nil, err
}

// session is what one request does at the standby: a transaction that only reads, so that a pooler
// in between leaves all of it at one server. Its statements see what is replayed when they begin.
type session struct {
	replica *Replica
	asked   bool
	conn    *pgxpool.Conn
	tx      pgx.Tx
}

// querier begins with the first call; nil stands for the primary.
func (s *session) querier(ctx context.Context) pg.Querier {
	if !s.asked {
		s.asked = true
		s.begin(ctx)
	}
	if s.tx == nil {
		return nil
	}
	return s.tx
}

func (s *session) begin(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	at, err := s.replica.position(limited)
	if err != nil {
		return
	}
	if s.conn, err = s.replica.pool.Acquire(limited); err != nil {
		return
	}
	if s.tx, err = s.conn.BeginTx(limited, pgx.TxOptions{AccessMode: pgx.ReadOnly}); err == nil {
		_, err = reach(limited, s.tx, at)
	}
	if err == nil {
		return
	}
	if !errors.Is(err, errBehind) {
		_ = s.conn.Conn().Close(limited) // a new one may lead to another server
	}
	s.end(ctx)
}

// end gives the connection back. A transaction that does not end closes it.
func (s *session) end(ctx context.Context) {
	if s.conn == nil {
		return
	}
	if s.tx != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		_ = s.tx.Rollback(ctx) // it has only read
	}
	s.conn.Release()
	s.conn, s.tx = nil, nil
}
