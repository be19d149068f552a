// Package webhook owns the outbound deliveries: the events about payments and settlements for their
// tenants, every attempt to deliver them, and the feed of a listening tenant. In the table tenants
// it owns webhook_events and listening_until.
//
// What always holds: each event has one delivery to each endpoint that wants it, queued in the
// transaction of its fact; besides received payments, only events that the tenant chose are
// published; the bytes that are signed and sent are the stored ones, the same in every attempt; no
// transaction is open while a receiver is called; an attempt is recorded only under its claim, so a
// delivery is sent at least once and each attempt is counted once; an endpoint and a tenant take a
// bounded share of the workers, and a dead endpoint takes one. (Specification, "Outbound event";
// decisions, "Outbound deliveries" and "Webhook endpoints".)
//
// Which struct is which row of deliveries:
//
//	[Delivery]   for its tenant; [Record] is the same for operators, [Detail] with its attempts
//	dueDelivery  to be attempted
//	queued       to be inserted: a [NewDelivery] on its way to one URL
//
// [DeadLetter] and [Logged] are lists of the specification and of the log, of the same rows.
package webhook

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/fsm"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
)

// Status is a delivery's status, as on the wire and in the table.
type Status string

// The statuses. The specification shows dead_letter only.
const (
	Pending   Status = "pending"
	Delivered Status = "delivered"
	Dead      Status = "dead_letter"
)

// Event is a transition of a delivery.
type Event string

// The events.
const (
	EventQueue   Event = "queue"
	EventSucceed Event = "succeed" // a 2xx answer
	EventFail    Event = "fail"    // anything else, with attempts left
	EventExhaust Event = "exhaust" // anything else, at the last attempt
	EventReplay  Event = "replay"  // an operator gives a dead letter a fresh set of attempts
)

// Transitions is the delivery's state machine.
var Transitions = fsm.New("Delivery",
	fsm.Row[Status, Event]{From: fsm.Start, Event: EventQueue, To: Pending},
	fsm.Row[Status, Event]{From: Pending, Event: EventSucceed, To: Delivered},
	fsm.Row[Status, Event]{From: Pending, Event: EventFail, To: Pending},
	fsm.Row[Status, Event]{From: Pending, Event: EventExhaust, To: Dead},
	fsm.Row[Status, Event]{From: Dead, Event: EventReplay, To: Pending},
)

// Refusals.
var (
	ErrNotFound      = errs.New(errs.NotFound, "delivery not found")
	ErrArchived      = errs.New(errs.NotFound, "deliveries of that time are archived: ask the operators to restore them")
	ErrNotDeadLetter = errs.New(errs.Conflict, "delivery is not a dead letter: it is pending or was delivered")
	// of a dead letter whose endpoint gets nothing
	errEndpointRemoved = errs.New(errs.Conflict, "its endpoint was removed")
	errEndpointPaused  = errs.New(errs.Conflict, "the endpoint is paused")
	ErrStatus          = errs.New(errs.Invalid, "status must be pending, delivered or dead_letter")
	errType            = errs.New(errs.Invalid, "eventType must be one of "+typeList)
	ErrEvents          = errs.New(errs.Invalid, "events must be of "+typeList)
	errNoURL           = errs.New(errs.Invalid, "url is required, as no webhook URL is set")
)

const defaultPerEndpoint = 32

// Options are what a Service needs, and how deliveries are tried.
type Options struct {
	Pool  *pg.Pool
	Clock clock.Clock
	Box   *secret.Box
	// Client makes the calls; nil: this process delivers nothing.
	Client *safehttp.Client
	// Delays are the waits after failed attempts, in order, each with 0–10 % added; there is one
	// attempt more than there are delays. Client needs them.
	Delays []time.Duration
	// PerEndpoint is how many calls one endpoint (a tenant's URLs on one host, or one of its
	// further endpoints) may have in flight in this process. Keep it well below the number of
	// workers: the rest is what a slow endpoint leaves for the others.
	PerEndpoint int
	// PerTenant is the same for all endpoints of a tenant together; 0: twice PerEndpoint.
	PerTenant int
	// Callbacks are the rules for a URL that a test event is sent to.
	Callbacks safehttp.Rules
	// Log gets a line when an endpoint is found to be dead, and when it is back; nil: none.
	Log *slog.Logger
	// Version is this program's, for the User-Agent.
	Version string
	// Test marks everything that is sent as test mode's.
	Test bool
}

// Service queues and sends deliveries. It is safe for concurrent use, and several processes may
// share the table.
type Service struct {
	pool    *pg.Pool
	clock   clock.Clock
	box     *secret.Box
	client  *safehttp.Client
	opts    Options
	limiter *limiter
	// of the log of events: log.go
	logMargin, onlyReads time.Duration

	claims    *pg.Batcher[uuid.UUID, *dueDelivery]
	postpones *pg.Batcher[later, bool]
	records   *pg.Batcher[attemptResult, bool]
}

// maxBatch is the size above which batches gain nothing (measured: about 100).
const maxBatch = 100

// New returns the service. [Service.Close] ends it.
func New(o Options) *Service {
	if o.Client != nil && len(o.Delays) == 0 {
		panic("webhook: Options.Delays is missing")
	}
	if o.PerEndpoint <= 0 {
		o.PerEndpoint = defaultPerEndpoint
	}
	if o.PerTenant <= 0 {
		o.PerTenant = 2 * o.PerEndpoint
	}
	o.Version = cmp.Or(o.Version, "dev")
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s := &Service{
		pool: o.Pool, clock: o.Clock, box: o.Box, client: o.Client, opts: o, limiter: newLimiter(o.PerEndpoint, o.PerTenant, o.Clock),
		logMargin: logMargin, onlyReads: pg.OnlyReads,
	}
	s.claims = pg.NewBatcher(o.Pool, pg.BatchOptions[uuid.UUID]{Name: "webhook/claim", Max: maxBatch}, s.claimDue)
	s.postpones = pg.NewBatcher(o.Pool, pg.BatchOptions[later]{Name: "webhook/postpone", Max: maxBatch}, s.postpone)
	s.records = pg.NewBatcher(o.Pool, pg.BatchOptions[attemptResult]{Name: "webhook/record", Max: maxBatch, Order: pg.ByID(attemptResult.id)}, s.record)
	return s
}

// Breakers returns to how many endpoints this process holds deliveries back, and since when the
// first of them has been failing; nil: none.
func (s *Service) Breakers() (open int, since *time.Time) { return s.limiter.openBreakers() }

// Close finishes the writes that were accepted and refuses new ones. Call it when no attempt is in
// progress any more.
func (s *Service) Close() {
	s.postpones.Close()
	s.claims.Close()
	s.records.Close()
}
