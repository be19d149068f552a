package webhook

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/retention"
	"ajo/internal/testenv"
)

func never() bool { return false }

// hear is what the tenant hears behind the place; nobody waits.
func (b *bundle) hear(tenant uuid.UUID, place string) ([]FeedEvent, string) {
	b.T.Helper()
	heard, next, err := b.Listen(b.ctx, tenant, place, 0, never)
	require.NoError(b.T, err)
	return heard, next
}

// happen lets an event of the bundle's account happen, as posting and confirming publish it.
func (b *bundle) happen(t Type) uuid.UUID {
	b.T.Helper()
	group := uuid.Must(uuid.NewV7())
	b.publish(b.of(t, group))
	return group
}

// From the first call on all six types are shown, without a URL and unchosen, once each and in
// their order; never another's.
func TestListening(t *testing.T) {
	b := setup(t)
	stranger := b.Tenant()
	_, theirs := b.hear(stranger, "")
	b.happen(PaymentConfirmed)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM listen_events`), "another listens")
	heard, place := b.hear(b.tenant, "")
	require.Empty(t, heard)
	var groups []uuid.UUID
	for _, typ := range Types {
		groups = append(groups, b.happen(typ))
	}
	heard, next := b.hear(b.tenant, place)
	require.Len(t, heard, len(Types))
	for i, h := range heard {
		require.Equal(t, []any{Types[i], messageID(Types[i], groups[i])}, []any{h.EventType, h.ID})
		require.True(t, h.CreatedAt.Equal(b.Clock.Now()))
		require.Contains(t, h.Body, `"transactionGroupId":"`+groups[i].String()+`"`)
		require.Contains(t, h.Body, `"accountRef":"customer-1"`)
	}
	again, _ := b.hear(b.tenant, place)
	require.Equal(t, heard, again, "a lost answer is given again")
	rest, last := b.hear(b.tenant, next)
	require.Empty(t, rest)
	require.Equal(t, next, last)
	fromNow, _ := b.hear(b.tenant, "")
	require.Empty(t, fromNow)
	heard, _ = b.hear(stranger, theirs)
	require.Empty(t, heard, "another tenant's")
	_, _, err := b.Listen(b.ctx, stranger, place, 0, never)
	require.ErrorIs(t, err, page.ErrCursor, "another tenant's, by its place")
	require.Zero(t, b.deliveries())
	_, _, err = b.Listen(b.ctx, b.tenant, page.ID(page.Accounts, uuid.New()), 0, never)
	require.ErrorIs(t, err, page.ErrCursor)
}

// A place that the database has not reached, as it was restored since, is refused: the events of
// now have lower numbers, so none would come.
func TestListeningAfterARestore(t *testing.T) {
	b := setup(t)
	_, _ = b.hear(b.tenant, "")
	b.happen(PaymentConfirmed)
	_, place := b.hear(b.tenant, "")
	_, _, err := b.Listen(b.ctx, b.tenant, place, 0, never)
	require.NoError(t, err)
	b.Exec(`DELETE FROM listen_events`)
	_, _, err = b.Listen(b.ctx, b.tenant, place, 0, never)
	require.NoError(t, err, "its events are removed after an hour")
	seq, err := page.ParseSeq(page.Feed, b.tenant, place)
	require.NoError(t, err)
	_, _, err = b.Listen(b.ctx, b.tenant, page.Seq(page.Feed, b.tenant, seq+1), 0, never)
	require.ErrorIs(t, err, page.ErrCursor)
}

// What is delivered is shown too, by the same bytes and the same id.
func TestListeningBesideAURL(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(200))
	b.Exec(`UPDATE tenants SET webhook_url = $2, webhook_events = '{payment.reversed}' WHERE id = $1`, b.tenant, r.URL)
	b.setSecret(secretText)
	_, place := b.hear(b.tenant, "")
	id := b.publish(b.of(PaymentReversed, uuid.Must(uuid.NewV7())))[0]
	require.NoError(t, b.Deliver(b.ctx, id))
	heard, _ := b.hear(b.tenant, place)
	require.Len(t, heard, 1)
	require.Equal(t, string(r.seen()[0].body), heard[0].Body)
	require.Equal(t, r.seen()[0].header.Get("Webhook-Id"), heard[0].ID.String())
}

// A call counts for a minute, whether or not another follows; what it would have shown afterwards
// is not kept.
func TestListeningEnds(t *testing.T) {
	b := setup(t)
	_, place := b.hear(b.tenant, "")
	b.Clock.Advance(50 * time.Second)
	_, _ = b.hear(b.tenant, place) // the minute begins anew
	b.Clock.Advance(59 * time.Second)
	b.happen(PaymentConfirmed)
	b.Clock.Advance(time.Second)
	b.happen(PaymentReversed)
	heard, _ := b.hear(b.tenant, place)
	require.Len(t, heard, 1)
	require.Equal(t, PaymentConfirmed, heard[0].EventType)
}

// Each row is a minute's worth of writing at most once in a quarter of it.
func TestListeningWritesSeldom(t *testing.T) {
	b := setup(t)
	version := func() string {
		return testenv.Value[string](b.Env, `SELECT xmin::text FROM tenants WHERE id = $1`, b.tenant)
	}
	_, place := b.hear(b.tenant, "")
	first := version()
	b.Clock.Advance(15 * time.Second)
	b.hear(b.tenant, place)
	require.Equal(t, first, version())
	b.Clock.Advance(time.Second)
	b.hear(b.tenant, place)
	require.NotEqual(t, first, version())
}

// Two transactions of a tenant that listens are numbered in the order of their commits, whichever
// began first: a reader that has seen the later number has missed nothing.
func TestListeningMissesNoLateCommit(t *testing.T) {
	b := setup(t)
	_, place := b.hear(b.tenant, "")
	done := make(chan struct{})
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(early pg.Tx) error {
		_, err := Publish(b.ctx, early, b.Clock.Now(), []NewDelivery{b.of(PaymentConfirmed, uuid.Must(uuid.NewV7()))})
		require.NoError(t, err)
		go func() { defer close(done); b.happen(PaymentReversed) }()
		testenv.Eventually(t, 10*time.Second, "the second one waits", func() bool {
			return testenv.Value[bool](b.Env, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory')`)
		})
		heard, _ := b.hear(b.tenant, place)
		require.Empty(t, heard)
		return nil
	}))
	<-done
	heard, _ := b.hear(b.tenant, place)
	require.Len(t, heard, 2)
	require.Equal(t, []Type{PaymentConfirmed, PaymentReversed}, []Type{heard[0].EventType, heard[1].EventType})
}

// Where a tenant begins to listen does not depend on another's events: these may have a later
// number than one of its own that is about to be committed.
func TestListeningBeginsAtTheTenantsOwnEvents(t *testing.T) {
	b := setup(t)
	_, _ = b.hear(b.tenant, "")
	var place string
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(early pg.Tx) error {
		_, err := Publish(b.ctx, early, b.Clock.Now(), []NewDelivery{b.of(PaymentConfirmed, uuid.Must(uuid.NewV7()))})
		require.NoError(t, err)
		b.Exec(`INSERT INTO listen_events (tenant_id, id, event_type, body, created_at) VALUES ($1, gen_random_uuid(), 'payment.confirmed', '{}', $2)`, b.Tenant(), b.Clock.Now())
		_, place = b.hear(b.tenant, "")
		return nil
	}))
	heard, _ := b.hear(b.tenant, place)
	require.Len(t, heard, 1)
}

// Batches of the same tenants at once, in any order, do not wait for one another for ever.
func TestListeningLocksInOneOrder(t *testing.T) {
	b := setup(t)
	var events []NewDelivery
	for range 8 {
		tenant := b.Tenant()
		account := b.Account(tenant, "customer-1")
		b.hear(tenant, "")
		e := b.of(PaymentConfirmed, uuid.Nil)
		e.AccountID = account
		events = append(events, e)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				batch := slices.Clone(events)
				rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
				assert.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
					_, err := Publish(b.ctx, tx, b.Clock.Now(), batch)
					return err
				}))
			}
		})
	}
	all.Wait()
	require.Equal(t, 4*20*8, testenv.Value[int](b.Env, `SELECT count(*) FROM listen_events`))
}

// A call waits for the first event, and no longer than it asked for; a process that stops does not
// wait.
func TestListeningWaits(t *testing.T) {
	b := setup(t)
	_, place := b.hear(b.tenant, "")
	start := time.Now()
	heard, _, err := b.Listen(b.ctx, b.tenant, place, 300*time.Millisecond, never)
	require.NoError(t, err)
	require.Empty(t, heard)
	require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
	_, _, err = b.Listen(b.ctx, b.tenant, place, time.Hour, func() bool { return true })
	require.NoError(t, err)
	got := make(chan []FeedEvent, 1)
	go func() {
		heard, _, _ := b.Listen(b.ctx, b.tenant, place, time.Minute, never)
		got <- heard
	}()
	b.happen(SettlementSucceeded)
	require.Len(t, <-got, 1)
}

// More than one answer holds comes in several, and what is an hour old goes.
func TestListeningIsBounded(t *testing.T) {
	b := setup(t)
	_, place := b.hear(b.tenant, "")
	var many []NewDelivery
	for range listenMax + 20 {
		many = append(many, b.of(PaymentConfirmed, uuid.Must(uuid.NewV7())))
	}
	b.publish(many...)
	b.happen(PaymentReversed)
	seen := map[uuid.UUID]bool{}
	for range 2 {
		var heard []FeedEvent
		heard, place = b.hear(b.tenant, place)
		require.LessOrEqual(t, len(heard), listenMax)
		for _, h := range heard {
			seen[h.ID] = true
		}
	}
	require.Len(t, seen, listenMax+21)
	count := func() int { return testenv.Value[int](b.Env, `SELECT count(*) FROM listen_events`) }
	purge := func() { require.NoError(t, retention.Purge(b.ctx, b.Pool, retention.Keep{}, b.Clock.Now(), 50)) }
	purge()
	require.Equal(t, listenMax+21, count())
	b.Clock.Advance(time.Hour + time.Second)
	purge()
	require.Zero(t, count())
}

// The hour begins when an event comes into the feed: one that waited for longer before, as on the
// spool while Postgres was away, is not removed unread.
func TestListeningToALateEvent(t *testing.T) {
	b := setup(t)
	_, place := b.hear(b.tenant, "")
	late := b.of(PaymentReceived, uuid.Must(uuid.NewV7()))
	late.CreatedAt = b.Clock.Now().Add(-2 * time.Hour)
	b.publish(late)
	require.NoError(t, retention.Purge(b.ctx, b.Pool, retention.Keep{}, b.Clock.Now(), 50))
	heard, _ := b.hear(b.tenant, place)
	require.Len(t, heard, 1)
	require.True(t, heard[0].CreatedAt.Equal(b.Clock.Now()))
}

// An event that is not committed was not shown.
func TestListeningGoesWithItsTransaction(t *testing.T) {
	b := setup(t)
	_, place := b.hear(b.tenant, "")
	require.ErrorIs(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		_, err := Publish(b.ctx, tx, b.Clock.Now(), []NewDelivery{b.of(PaymentConfirmed, uuid.Must(uuid.NewV7()))})
		require.NoError(t, err)
		return ErrNotFound // any error
	}), ErrNotFound)
	heard, _ := b.hear(b.tenant, place)
	require.Empty(t, heard)
}
