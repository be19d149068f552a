// Package payment owns the inbound events: storing them, posting them, and confirming them against
// the bank's records.
//
// What always holds: an event is answered only after it is stored; each authentic event is stored
// exactly once and posted at most once (its id is the entry's TransactionGroupID); forged events
// are exempt from uniqueness; a payment that the bank's own record does not support is taken out of
// the balance. (Specification, "Inbound event", "Ledger entry status"; decisions, "Inbound events",
// "Confirmation".)
//
// Which struct is which row of inbound_events:
//
//	[InboundEvent]  for people; [EventRecord] is the part of it that tenants see
//	eventRow        to be posted (in posting), or compared with a repeat (in original)
//	inbound         to be inserted (in keyed, with what other tables store of it)
//	[Known]         for package reconcile
//
// The credit that an event has brought, with what its event says: booked, which is in check (to be
// confirmed) and in [Entry] (for package reconcile), and [Credit], for people, which is in [Review]
// and [RecallRecord].
package payment

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"ajo/internal/batch"
	"ajo/internal/clock"
	"ajo/internal/fsm"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/secret"
	"ajo/internal/spool"
	"ajo/internal/work"
)

// Status is an event record's status.
type Status string

// The statuses (decisions, "Inbound events").
const (
	Received  Status = "received"  // stored, not posted yet
	Processed Status = "processed" // posted to the ledger
	Ignored   Status = "ignored"   // not a payment
	// forged, misdirected or not fit to post; an operator can assign a misdirected one
	Failed Status = "failed"
)

// Event is a transition of an event record.
type Event string

// The events.
const (
	EventStore  Event = "store"  // an authentic payment
	EventIgnore Event = "ignore" // authentic, another type
	EventForge  Event = "forge"  // the signature does not hold
	EventPost   Event = "post"   // an account was found and the ledger written
	EventRefuse Event = "refuse" // no account, or fields that cannot be posted
	EventAssign Event = "assign" // an operator names the account
	EventRepost Event = "repost" // what could not be posted is posted from the bank's own record
	// it comes from the bank's list, and may repeat a payment under another id
	EventDoubt Event = "doubt"
)

// Transitions is the event record's state machine.
var Transitions = fsm.New("Inbound event",
	fsm.Row[Status, Event]{From: fsm.Start, Event: EventStore, To: Received},
	fsm.Row[Status, Event]{From: fsm.Start, Event: EventIgnore, To: Ignored},
	fsm.Row[Status, Event]{From: fsm.Start, Event: EventForge, To: Failed},
	fsm.Row[Status, Event]{From: fsm.Start, Event: EventDoubt, To: Failed},
	fsm.Row[Status, Event]{From: Received, Event: EventPost, To: Processed},
	fsm.Row[Status, Event]{From: Received, Event: EventRefuse, To: Failed},
	fsm.Row[Status, Event]{From: Failed, Event: EventAssign, To: Processed},
	fsm.Row[Status, Event]{From: Failed, Event: EventRepost, To: Processed},
)

// RecallStatus is the state of a recall, the question whether the bank has taken a payment back.
type RecallStatus string

// The states of a recall.
const (
	RecallOpen     RecallStatus = "open"
	RecallReversed RecallStatus = "reversed"
	// the bank's record contradicts the report, so nothing is held, but the record may lag
	RecallWatched RecallStatus = "watched"
	RecallKept    RecallStatus = "kept"
)

// RecallEvent is what moves a recall.
type RecallEvent string

// The events of a recall.
const (
	// the bank's event, its list or an operator says that the payment was taken back
	EventRecalled RecallEvent = "recall"
	EventTaken    RecallEvent = "reverse" // the bank's record says so, or an operator
	EventDoubted  RecallEvent = "doubt"   // the bank's record says success
	EventKept     RecallEvent = "keep"    // it has said success for two weeks; or an operator says so
)

// RecallTransitions is the recall's state machine.
var RecallTransitions = fsm.New("Recall",
	fsm.Row[RecallStatus, RecallEvent]{From: fsm.Start, Event: EventRecalled, To: RecallOpen},
	fsm.Row[RecallStatus, RecallEvent]{From: RecallOpen, Event: EventTaken, To: RecallReversed},
	fsm.Row[RecallStatus, RecallEvent]{From: RecallOpen, Event: EventDoubted, To: RecallWatched},
	fsm.Row[RecallStatus, RecallEvent]{From: RecallOpen, Event: EventKept, To: RecallKept},
	fsm.Row[RecallStatus, RecallEvent]{From: RecallWatched, Event: EventRecalled, To: RecallOpen},
	fsm.Row[RecallStatus, RecallEvent]{From: RecallWatched, Event: EventTaken, To: RecallReversed},
	fsm.Row[RecallStatus, RecallEvent]{From: RecallWatched, Event: EventKept, To: RecallKept},
	fsm.Row[RecallStatus, RecallEvent]{From: RecallKept, Event: EventRecalled, To: RecallOpen},
)

// Category says what an event was found to be (specification, "Event categories").
type Category string

// The categories of the specification.
const (
	CategoryPayment         Category = "payment"
	CategoryMisdirected     Category = "misdirected"
	CategorySigInvalid      Category = "sig_invalid"
	CategoryNonPayment      Category = "non_payment_event"
	CategoryProcessingError Category = "processing_error"
)

// Options are what a Service needs.
type Options struct {
	Pool          *pg.Pool
	Bank          provider.Bank
	Clock         clock.Clock
	Log           *slog.Logger
	WebhookSecret secret.Redacted // the key of the bank's signatures
	// PreviousSecret is the previous key, valid until PreviousUntil; zero: there is none.
	PreviousSecret secret.Redacted
	PreviousUntil  time.Time
	// Spool keeps authentic events while Postgres is away; nil: there is none. Box seals its
	// records.
	Spool *spool.Spool
	Box   *secret.Box
	// ConfirmDelays are the gaps between checks against the bank's records; the last one repeats.
	ConfirmDelays []time.Duration
	// A payment that ConfirmMisses checks do not find, the last of them at least ConfirmMinAge
	// after posting, is reversed.
	ConfirmMisses int
	ConfirmMinAge time.Duration
	// SendBack refunds a confirmed payment (named by its event) to its sender, as its account's
	// policy says. It does so once: a repeat does nothing. nil: it is done, or declined for good;
	// an error: not yet.
	SendBack func(ctx context.Context, payment uuid.UUID) error
	// ExpeditePayouts makes the next steps of payouts (named by their merchantTxRef) due, in the
	// transaction that stores the bank's events about them. nil: nothing is expedited.
	ExpeditePayouts func(ctx context.Context, tx pg.Tx, merchantTxRefs []string) error
	// A payment without a clear answer by ConfirmDeadline after posting, to as many questions as
	// ConfirmDelays has gaps, needs review.
	ConfirmDeadline time.Duration
}

// The sizes of batches.
const (
	storeSize = 200
	// for work that no caller waits for; only a backlog makes batches this large
	workSize = 500
)

// Service has the use cases of inbound payments. Close it when its callers have stopped.
type Service struct {
	Options
	store  *pg.Batcher[*inbound, Receipt]
	post   *pg.Batcher[uuid.UUID, Posted]
	checks *pg.Batcher[uuid.UUID, *check]
	leases *pg.Batcher[*check, *work.Claim]
	listed *batch.Coalescer[*check, lookup]
	lists  *lists
	record *pg.Batcher[*finding, struct{}]
	forged forgedRoom
	// how many events without a valid signature are kept
	forgedMax int
	away      atomic.Int64 // unix nanoseconds until which Postgres is assumed to be away
}

// How many events without a valid signature are kept. Anyone who can reach the endpoint can send
// them, and they must not fill the disk. Those above the limit get the same answer, and are only
// counted (ajo_inbound_events_total).
const (
	forgedPerSecond = 50
	forgedBurst     = 1000
	forgedKept      = 30 * 24 * time.Hour
	forgedTotal     = 20_000 // of 4 KiB each
	// how often a process counts what is kept, so that all processes together keep little more
	forgedRecount = 10 * time.Second
)

// New starts the use cases.
func New(o Options) *Service {
	if len(o.ConfirmDelays) == 0 {
		panic("payment: Options.ConfirmDelays is missing")
	}
	s := &Service{Options: o, lists: newLists(), forgedMax: forgedTotal, forged: forgedRoom{rate: rate.NewLimiter(forgedPerSecond, forgedBurst)}}
	s.store = pg.NewBatcher(o.Pool, pg.BatchOptions[*inbound]{Name: "payment/store", Max: storeSize, Order: byTransaction}, s.storeBatch)
	s.post = pg.NewBatcher(o.Pool, pg.BatchOptions[uuid.UUID]{Name: "payment/post", Max: workSize, Order: pg.CompareIDs}, s.postBatch)
	s.checks = pg.NewBatcher(o.Pool, pg.BatchOptions[uuid.UUID]{Max: workSize}, func(ctx context.Context, tx pg.Tx, ids []uuid.UUID) ([]*check, error) {
		return s.readChecks(ctx, tx, ids, o.Clock.Now())
	})
	s.leases = pg.NewBatcher(o.Pool, pg.BatchOptions[*check]{Name: "payment/claim", Max: workSize, Order: pg.ByID((*check).id)}, s.leaseBatch)
	s.listed = batch.New(1, listMax, s.findLists)
	s.record = pg.NewBatcher(o.Pool, pg.BatchOptions[*finding]{Name: "payment/record", Max: workSize, Order: pg.ByID((*finding).id)}, s.recordBatch)
	return s
}

// Close finishes what was begun and stops the writers.
func (s *Service) Close() {
	s.store.Close()
	s.post.Close()
	s.checks.Close()
	s.leases.Close()
	s.listed.Close()
	s.lists.stopReading()
	s.record.Close()
}

// confirmDelay is the gap before check number n, counted from 0.
func (s *Service) confirmDelay(n int) time.Duration {
	return s.ConfirmDelays[min(n, len(s.ConfirmDelays)-1)]
}
