package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/clock"
	"ajo/internal/config"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/provider/nomba"
	"ajo/internal/reconcile"
	"ajo/internal/retry"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
	"ajo/internal/work"
	"ajo/ledger"
	"ajo/tasks"
)

// defaults are the settings' defaults.
var defaults = config.Defaults()

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// bundle is one whole back end on the real clock, with short schedules, and its workers not yet
// started.
type bundle struct {
	*testenv.Env
	ctx       context.Context
	bank      *fakebank.Bank
	redis     redis.UniversalClient
	opts      Options
	tenant    uuid.UUID
	account   account.Account
	delivered atomic.Int32
}

func setup(t *testing.T) *bundle {
	e := testenv.New(t)
	return setupOn(t, e, e.Redis())
}

// setupOn is setup with another Redis.
func setupOn(t *testing.T, e *testenv.Env, client redis.UniversalClient) *bundle {
	b := &bundle{Env: e, ctx: context.Background(), bank: testenv.StartBank(t, fakebank.Options{}), redis: client}
	bank := testenv.BankClient(t, b.bank, clock.System, func(o *nomba.Options) { o.Retries = nomba.DefaultRetries })
	box, err := secret.ParseKeys(secret.NewKey("test").Reveal())
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	b.opts = Options{
		Pool: e.Pool, Redis: b.redis, Clock: clock.System, Log: log, SweepEvery: 200 * time.Millisecond,
		Queues:   map[tasks.Kind]int{tasks.Ingest: 0, tasks.Confirm: 0, tasks.Settle: 0, tasks.Deliver: 0, tasks.Expire: 0},
		Enqueuer: tasks.NewEnqueuer(b.redis, clock.System, log),
		Payments: payment.New(payment.Options{
			Pool: e.Pool, Bank: bank, Clock: clock.System, Log: log, WebhookSecret: secret.Redact(fakebank.DefaultWebhookSecret),
			ConfirmDelays: []time.Duration{time.Millisecond}, ConfirmMisses: 3, ConfirmMinAge: time.Minute, ConfirmDeadline: time.Hour,
		}),
		Webhooks:  webhook.New(webhook.Options{Pool: e.Pool, Clock: clock.System, Box: box, Client: safehttp.New(safehttp.Options{Allow: loopback}), Delays: defaults.DeliveryDelays}),
		Accounts:  account.New(account.Options{Pool: e.Pool, Bank: bank, Box: box, Clock: clock.System}),
		Transfers: transfer.New(transfer.Options{Pool: e.Pool, Bank: bank, Clock: clock.System, Log: log, Delays: []time.Duration{time.Millisecond}, Rechecks: defaults.SettleRechecks}),
	}
	b.opts.Enqueuer.Patience(time.Minute)
	b.opts.Reconciler = reconcile.New(reconcile.Options{Pool: e.Pool, Bank: bank, Payments: b.opts.Payments, Transfers: b.opts.Transfers, Clock: clock.System, Log: log, MinAge: time.Minute})
	stop := work.EnqueueWith(e.Pool, b.opts.Enqueuer.Enqueue)
	t.Cleanup(func() {
		stop()
		b.opts.Payments.Close()
		b.opts.Transfers.Close()
		b.opts.Webhooks.Close()
		b.opts.Enqueuer.Close()
	})
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { b.delivered.Add(1) }))
	t.Cleanup(endpoint.Close)
	b.tenant = e.Tenant()
	b.Exec(`UPDATE tenants SET webhook_url = $1`, endpoint.URL)
	p, err := b.opts.Accounts.Provision(b.ctx, b.tenant, account.NewAccount{ExternalRef: "customer-1", Name: "Ada Obi"}, idempotency.Request{})
	require.NoError(t, err)
	b.account = p.Account
	return b
}

func (b *bundle) start() *Workers {
	b.T.Helper()
	w, err := Start(b.opts)
	require.NoError(b.T, err)
	b.T.Cleanup(w.Stop)
	return w
}

// stored makes a payment at the bank and stores its event; nothing enqueues it.
func (b *bundle) stored() uuid.UUID {
	b.T.Helper()
	txn, err := b.bank.Pay(b.ctx, fakebank.Payment{AccountRef: b.account.ID.String(), Amount: money.Must("5000.00"), Silent: true})
	require.NoError(b.T, err)
	body := b.bank.EventFor(txn)
	h, err := b.bank.SignedHeaders(body)
	require.NoError(b.T, err)
	r, err := b.opts.Payments.Receive(b.ctx, payment.InboundRequest{
		Body: body, Signature: h.Get(fakebank.DefaultSignatureHeader), Timestamp: h.Get(fakebank.DefaultTimestampHeader),
	})
	require.NoError(b.T, err)
	return r.ID
}

// enqueue makes tasks of rows that are due at once.
func (b *bundle) enqueue(k work.Kind, ids ...uuid.UUID) {
	b.T.Helper()
	items := make([]work.Item, len(ids))
	for i, id := range ids {
		items[i] = work.Item{Kind: k, ID: id}
	}
	b.opts.Enqueuer.Enqueue(items)
	b.opts.Enqueuer.Flush()
}

// unnoticed is stored where the commit enqueues nothing, as when Redis is away.
func (b *bundle) unnoticed() uuid.UUID {
	b.T.Helper()
	work.EnqueueWith(b.Pool, func([]work.Item) {})
	defer func() { work.EnqueueWith(b.Pool, b.opts.Enqueuer.Enqueue) }()
	return b.stored()
}

// taskOf names the task that the commit has enqueued for a stored payment.
func (b *bundle) taskOf(id uuid.UUID) string {
	b.T.Helper()
	b.opts.Enqueuer.Flush()
	return fmt.Sprintf("%s:%s:%d", tasks.Ingest, id, b.DueAt(work.Ingest, id).UnixMilli())
}

func (b *bundle) ended(payments int) {
	b.T.Helper()
	testenv.Eventually(b.T, 3*time.Minute, "all payments confirmed and delivered", func() bool {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE status = 'confirmed'`) == payments &&
			testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE status = 'delivered'`) == payments
	})
	testenv.FindsNothing(b.T, b.Pool, ledger.Verify)
}

// Nothing is enqueued: the sweep finds every stage by itself.
func TestSweepFindsWhatWasNotEnqueued(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 5 {
		b.unnoticed()
	}
	b.start()
	b.ended(5)
	require.GreaterOrEqual(t, b.delivered.Load(), int32(5))
}

// Everything in Redis is thrown away again and again while payments run: they end all the same.
func TestFlushWhilePaymentsRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	for i := range 40 {
		if i%2 == 0 {
			b.stored()
		} else {
			b.unnoticed()
		}
		if i%4 == 0 {
			require.NoError(t, b.redis.FlushDB(b.ctx).Err())
		}
	}
	b.ended(40)
}

// The row's task is archived, or deleted in the dashboard: its id stays taken, or it is gone; the
// sweep enqueues another.
func TestArchivedAndDeletedTasks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	archived, deleted := b.taskOf(b.stored()), b.taskOf(b.stored()) // one after the other: two at once share a task
	inspector := asynq.NewInspectorFromRedisClient(b.redis)
	require.NoError(t, inspector.ArchiveTask(string(tasks.Ingest), archived))
	require.NoError(t, inspector.DeleteTask(string(tasks.Ingest), deleted))
	b.start()
	b.ended(2)
}

// A row that waits behind a long queue is not enqueued over and over: overdue counts from the age
// of the queue's oldest task.
func TestBacklogIsNotEnqueuedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := &Workers{Options: b.opts}
	w.Clock = clock.NewFake(testenv.Epoch) // asynq reckons a task's age by a clock of its own
	before := func() time.Time {
		at, _ := w.overdue(string(tasks.Ingest))
		return at
	}
	require.Equal(t, testenv.Epoch.Add(-b.opts.SweepEvery/2), before())
	b.enqueue(tasks.Ingest, uuid.New())
	testenv.Eventually(t, 20*time.Second, "the task to be two seconds old", func() bool {
		return before().Before(testenv.Epoch.Add(-2 * time.Second))
	}, func() any { return testenv.Epoch.Sub(before()) })
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 9, 0, 0, 300_000_000, time.UTC)
	w := &Workers{Options: Options{Clock: clock.NewFake(now), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}}
	plain := errors.New("lost")
	require.NoError(t, w.verdict(t.Context(), tasks.Deliver, uuid.Nil, nil))
	require.ErrorIs(t, w.verdict(t.Context(), tasks.Deliver, uuid.Nil, retry.Exhausted(plain)), asynq.SkipRetry)
	later := retry.At(now.Add(time.Minute), plain)
	require.False(t, isFailure(w.verdict(t.Context(), tasks.Deliver, uuid.Nil, later)), "to be due later is no failure")
	require.True(t, isFailure(w.verdict(t.Context(), tasks.Deliver, uuid.Nil, plain)))
	require.Equal(t, time.Minute+700*time.Millisecond, w.delay(later), "rounded up to the second that asynq keeps")
	require.Equal(t, unexpectedDelay, w.delay(plain))
	require.Equal(t, time.Duration(0), w.delay(retry.At(now.Add(-time.Hour), plain)))
}

// Of a task of many items, those that are due again become tasks of their own, and the others are
// done with.
func TestItemsOfATaskAreEnqueuedAloneAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := &Workers{Options: b.opts}
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	at := time.Now().Add(time.Hour)
	payload, err := json.Marshal(map[string][]uuid.UUID{"ids": ids})
	require.NoError(t, err)
	h := w.handle(newDispatcher(tasks.Confirm, 8, each(func(_ context.Context, id uuid.UUID) error {
		switch id {
		case ids[0]:
			return nil
		case ids[1]:
			return retry.At(at, errors.New("later"))
		}
		return errors.New("unexpected")
	}), w.Clock, w.Log), false)
	require.NoError(t, h.ProcessTask(b.ctx, asynq.NewTask(string(tasks.Confirm), payload)))
	b.opts.Enqueuer.Flush()
	scheduled, err := asynq.NewInspectorFromRedisClient(b.redis).ListScheduledTasks(string(tasks.Confirm))
	require.NoError(t, err)
	require.Len(t, scheduled, 2)
	for _, s := range scheduled {
		got, err := tasks.Items(asynq.NewTask(s.Type, s.Payload))
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.NotEqual(t, ids[0], got[0].ID)
	}
}

// A stopped worker hands back what it has not begun, and what is left is done by the next one.
func TestStopHandsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w, err := Start(b.opts)
	require.NoError(t, err)
	for range 30 {
		b.stored()
	}
	w.Stop()
	b.start()
	b.ended(30)
}
