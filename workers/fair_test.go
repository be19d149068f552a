package workers

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/payment"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/tasks"
)

// noisy is a noisy tenant with much open work of one kind, beside a quiet one.
type noisy struct {
	*delivering
	noisy account.Account
	many  int
}

func newNoisy(t *testing.T, kind tasks.Kind) *noisy {
	t.Helper()
	c := &noisy{delivering: newDelivering(t, 10*time.Second), many: fromEnv(t, "AJO_FAIR_ITEMS", 2500)}
	// few slots by default, so that little is much
	c.opts.Queues, c.opts.SweepEvery = map[tasks.Kind]int{kind: fromEnv(t, "AJO_FAIR_PLACES", 32)}, 15*time.Second
	p, err := c.opts.Accounts.Provision(c.ctx, c.Tenant(), account.NewAccount{ExternalRef: "noisy", Name: "Ada Obi"}, idempotency.Request{})
	require.NoError(t, err)
	c.noisy = p.Account
	return c
}

// copies stores n events of the noisy tenant's account like the given one, due for the kind of
// work, each paid at a time of its own.
func (c *noisy) copies(kind tasks.Kind, event uuid.UUID, n int) {
	c.T.Helper()
	for ; n > 2000; n -= 2000 {
		c.copies(kind, event, 2000)
	}
	columns := testenv.Value[string](c.Env, `
		SELECT string_agg(attname, ', ') FROM pg_attribute WHERE attrelid = 'inbound_events'::regclass AND attnum > 0 AND attgenerated = ''`)
	rows, err := c.Pool.Query(c.ctx, `
		WITH copied AS (SELECT gen_random_uuid() AS id FROM generate_series(1, $2::int)), stored AS (
			INSERT INTO inbound_events (`+columns+`) SELECT `+columns+` FROM (SELECT (jsonb_populate_record(e, jsonb_build_object('id', c.id, 'request_id', c.id, 'provider_txn_ref', c.id, 'session_id', c.id,
				'occurred_at', e.occurred_at - random() * interval '30 days'))).* FROM inbound_events e, copied c WHERE e.id = $1) AS r)
		INSERT INTO work (kind, id, tenant_id, due_at) SELECT $3, id, $4, now() FROM copied RETURNING id`, event, n, string(kind), c.noisy.TenantID)
	require.NoError(c.T, err)
	var items []work.Item
	for rows.Next() {
		m := work.Item{Kind: kind, TenantID: c.noisy.TenantID}
		require.NoError(c.T, rows.Scan(&m.ID))
		items = append(items, m)
	}
	require.NoError(c.T, rows.Err())
	c.KeyEvents()
	c.opts.Enqueuer.Enqueue(items)
	c.opts.Enqueuer.Flush()
}

// left counts the noisy tenant's items that are due and not done.
func (c *noisy) left(kind tasks.Kind) int {
	return testenv.Value[int](c.Env, `SELECT count(*) FROM work WHERE kind = $1 AND tenant_id = $2 AND due_at < now() + interval '10 minutes'`, string(kind), c.noisy.TenantID)
}

// beside has the quiet tenant's work done again and again, and reports how long it took and how
// much of the noisy tenant's was left after the first time.
func (c *noisy) beside(kind tasks.Kind, name string, done func()) {
	c.T.Helper()
	samples, every := fromEnv(c.T, "AJO_FAIR_SAMPLES", 5), time.Duration(fromEnv(c.T, "AJO_FAIR_EVERY_MS", 20))*time.Millisecond
	var all []time.Duration
	left := 0
	for i := range samples {
		begin := time.Now()
		done()
		all = append(all, time.Since(begin))
		if i == 0 {
			left = c.left(kind)
		}
		time.Sleep(time.Until(begin.Add(every)))
	}
	slices.Sort(all)
	c.T.Logf("%s: %d items of one tenant; another's %d: p50 %s, p99 %s, longest %s; %d of the first's were left after one",
		name, c.many, samples, quantile(all, 50), quantile(all, 99), all[len(all)-1].Round(time.Millisecond), left)
	require.Greater(c.T, left, c.many/4, "the quiet tenant's work was done before much of the noisy one's, which came first")
}

func (c *noisy) until(what, sql string, args ...any) {
	c.T.Helper()
	testenv.Eventually(c.T, 5*time.Minute, what, func() bool { return testenv.Value[bool](c.Env, sql, args...) })
}

// One tenant sends much to an endpoint that takes its time: another's deliveries go out as soon as
// ever. AJO_FAIR_ITEMS, AJO_FAIR_SAMPLES and AJO_FAIR_EVERY_MS measure at another size (make
// bench-fair).
func TestQuietTenantBesideANoisyEndpoint(t *testing.T) {
	for _, took := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(took.String(), func(t *testing.T) {
			c := newNoisy(t, tasks.Deliver)
			var calls atomic.Int64
			slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				calls.Add(1)
				time.Sleep(took)
			}))
			t.Cleanup(slow.Close)
			e := newReceiver(t)
			c.quick.url = e.URL
			c.start()
			c.queue(receiving{tenant: c.noisy.TenantID, account: c.noisy.ID, url: slow.URL}, c.many)
			begin := time.Now()
			c.beside(tasks.Deliver, fmt.Sprintf("deliver, endpoint takes %s", took), func() { <-e.of(c.queue(c.quick, 1)[0]) })
			t.Logf("the noisy endpoint was called %.0f times a second", float64(calls.Load())/time.Since(begin).Seconds())
		})
	}
}

// One tenant has many events to post.
func TestQuietTenantBesideManyEvents(t *testing.T) {
	c := newNoisy(t, tasks.Ingest)
	work.EnqueueWith(c.Pool, func([]work.Item) {})
	first := c.of(c.noisy, c.stored)
	work.EnqueueWith(c.Pool, c.opts.Enqueuer.Enqueue)
	c.copies(tasks.Ingest, first, c.many)
	c.start()
	c.beside(tasks.Ingest, "ingest", func() {
		id := c.stored()
		c.until("the event to be posted", `SELECT status = 'processed' FROM inbound_events WHERE id = $1`, id)
	})
}

// slowBank has every call of a group take so long.
func (c *noisy) slowBank(groups ...fakebank.Group) {
	for _, g := range groups {
		c.bank.Faults.Add(fakebank.Rule{On: g, Do: fakebank.Slow, Delay: time.Duration(fromEnv(c.T, "AJO_FAIR_BANK_MS", 50)) * time.Millisecond})
	}
}

// One tenant has many payments to be confirmed by a slow bank.
func TestQuietTenantBesideManyQuestions(t *testing.T) {
	c := newNoisy(t, tasks.Confirm)
	c.confirmOnce()
	first := c.of(c.noisy, c.posted)
	c.slowBank(fakebank.OnTransactions)
	c.copies(tasks.Confirm, first, c.many)
	c.start()
	c.beside(tasks.Confirm, "confirm", func() {
		id := c.posted()
		c.until("the payment to be confirmed", `SELECT count(*) = 1 FROM ledger_entries WHERE transaction_group_id = $1 AND status = 'confirmed'`, id)
	})
}

// confirmOnce has a payment that the bank does not know asked about once, and then after an hour.
func (c *noisy) confirmOnce() {
	o := c.opts.Payments.Options
	o.ConfirmDelays = []time.Duration{time.Millisecond, time.Hour}
	c.opts.Payments = payment.New(o)
	c.T.Cleanup(c.opts.Payments.Close)
}

// posted makes a payment and posts it.
func (b *bundle) posted() uuid.UUID {
	b.T.Helper()
	id := b.stored()
	_, err := b.opts.Payments.Post(b.ctx, id)
	require.NoError(b.T, err)
	return id
}

// funded makes a confirmed payment.
func (b *bundle) funded() uuid.UUID {
	b.T.Helper()
	id := b.posted()
	testenv.Eventually(b.T, 20*time.Second, "the payment to be confirmed", func() bool {
		_ = b.opts.Payments.Confirm(b.ctx, id)
		return testenv.Value[bool](b.Env, `SELECT count(*) = 1 FROM ledger_entries WHERE transaction_group_id = $1 AND status = 'confirmed'`, id)
	})
	return id
}

// One tenant pays many, at a slow bank.
func TestQuietTenantBesideManyPayouts(t *testing.T) {
	c := newNoisy(t, tasks.Settle)
	c.of(c.noisy, c.funded)
	c.funded()
	c.slowBank(fakebank.OnLookup, fakebank.OnPayouts)
	pay := func(a account.Account, key int) uuid.UUID {
		s, err := c.opts.Transfers.Settle(c.ctx, a.TenantID, a.AccountRef, transfer.Order{Amount: "0.10", BankCode: "058", AccountNumber: "0123456789"},
			idempotency.Request{})
		require.NoError(t, err, key)
		return s.TransferID
	}
	limit := make(chan struct{}, 64)
	for i := range c.many {
		limit <- struct{}{}
		go func() { pay(c.noisy, i); <-limit }()
	}
	for range cap(limit) {
		limit <- struct{}{}
	}
	c.start()
	c.beside(tasks.Settle, "settle", func() {
		id := pay(c.account, -1)
		c.until("the payout to be made", `SELECT status = 'success' FROM transfers WHERE id = $1`, id)
	})
}
