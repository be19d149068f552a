package workers

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/idempotency"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/tasks"
)

// of makes what the test does with b.account happen with another account.
func (b *bundle) of(a account.Account, do func() uuid.UUID) uuid.UUID {
	b.account, a = a, b.account
	defer func() { b.account = a }()
	return do()
}

// withoutBalance takes an account's balance away, which nothing can: whatever is to be written to
// its books fails.
func (b *bundle) withoutBalance(id uuid.UUID) {
	b.Exec(`ALTER TABLE ledger_balances DISABLE TRIGGER USER`)
	b.Exec(`DELETE FROM ledger_balances WHERE account_id = $1`, id)
}

// finds lists what a first step of a sweep finds of a kind.
func (w *Workers) finds(k tasks.Kind) ([]uuid.UUID, error) {
	s := sweeper{Workers: w, found: map[tasks.Kind]found{}}
	q := s.checkQueue(context.Background(), k)
	items, err := work.Overdue(context.Background(), w.Pool, w.Clock.Now(), []work.Span{q.span}, w.page())
	ids := make([]uuid.UUID, len(items))
	for i, m := range items {
		ids[i] = m.ID
	}
	return ids, err
}

// Work that always fails waits longer each time, whatever its kind, and so it does not fill the
// sweeper's page: what comes behind it is found.
func TestWorkThatAlwaysFailsWaitsLongerEachTime(t *testing.T) {
	t.Parallel()
	delivery := func(b *bundle) uuid.UUID {
		id := uuid.Must(uuid.NewV7())
		b.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at)
			VALUES ($1, $2, $3, $1, 'payment.received', 'http://127.0.0.1:1', '{}', 'pending', now())`, id, b.tenant, b.account.ID)
		return id
	}
	transfer := func(b *bundle) uuid.UUID {
		id := uuid.Must(uuid.NewV7())
		b.Exec(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, created_at, updated_at, debit_seq, debits_to)
			VALUES ($1, $2, $3, $1::uuid::text, 'pending', 10, '058', '0123456789', now(), now(), 1, 10)`, id, b.tenant, b.account.ID)
		return id
	}
	posted := func(b *bundle) uuid.UUID {
		id := b.stored()
		_, err := b.opts.Payments.Post(b.ctx, id)
		require.NoError(b.T, err)
		return id
	}
	for kind, makes := range map[tasks.Kind]struct {
		good   func(*bundle) uuid.UUID
		poison func(*bundle, uuid.UUID) // makes the row fail for ever
	}{
		tasks.Ingest:  {(*bundle).stored, func(b *bundle, _ uuid.UUID) { b.withoutBalance(b.account.ID) }},
		tasks.Confirm: {posted, func(b *bundle, _ uuid.UUID) { b.withoutBalance(b.account.ID) }},
		tasks.Settle:  {transfer, func(b *bundle, _ uuid.UUID) { b.withoutBalance(b.account.ID) }},
		tasks.Deliver: {delivery, func(b *bundle, _ uuid.UUID) { b.Exec(`UPDATE tenants SET webhook_secret = 'no sealed value'`) }},
		tasks.Expire: {func(b *bundle) uuid.UUID {
			p, err := b.opts.Accounts.Provision(b.ctx, b.tenant, account.NewAccount{ExternalRef: uuid.NewString(), Name: "Ada Obi"}, idempotency.Request{})
			require.NoError(b.T, err)
			return p.ID
		}, func(*bundle, uuid.UUID) {}}, // it is active and due, and has no deadline
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, err := b.opts.Accounts.Provision(b.ctx, b.tenant, account.NewAccount{ExternalRef: "poison", Name: "Ada Obi"}, idempotency.Request{})
			require.NoError(t, err)
			good := makes.good(b)
			poison := b.of(p.Account, func() uuid.UUID {
				id := makes.good(b)
				makes.poison(b, id)
				return id
			})
			due := func(id uuid.UUID, ago string) {
				if b.DueAt(kind, id) == nil {
					b.Schedule(kind, id, time.Now())
				}
				b.Exec(`UPDATE work SET due_at = now() - $2::interval, leased_until = NULL WHERE id = $1`, id, ago)
			}
			due(good, "1 hour")
			b.opts.SweepPage = 1
			w := &Workers{Options: b.opts}
			handler := w.handle(newDispatcher(kind, 1, w.work(kind), w.Clock, w.Log), false)
			payload, err := json.Marshal(map[string][]uuid.UUID{"ids": {poison}})
			require.NoError(t, err)
			// how long a failure makes the item wait, at least and at most: its handler takes time
			var least, most time.Duration
			for i := range 12 {
				due(poison, "2 hours")
				found, err := w.finds(kind)
				require.NoError(t, err)
				require.Equal(t, []uuid.UUID{poison}, found, "the oldest first")
				begin := time.Now()
				err = handler.ProcessTask(b.ctx, asynq.NewTask(string(kind), payload))
				require.Error(t, err)
				end, at := time.Now(), testenv.Value[time.Time](b.Env, `SELECT due_at FROM work WHERE id = $1`, poison)
				most = at.Sub(begin)
				if i < 9 {
					require.Greater(t, most, least+least/2, "failure %d: %v", i+1, err)
				}
				least = at.Sub(end)
				require.Less(t, least, time.Hour+time.Minute)
				found, err = w.finds(kind)
				require.NoError(t, err)
				require.Equal(t, []uuid.UUID{good}, found, "it is not starved")
			}
			require.Greater(t, most, 50*time.Minute)
			if kind == tasks.Ingest || kind == tasks.Confirm {
				e, err := b.opts.Payments.InboundEvent(b.ctx, poison)
				require.NoError(t, err)
				require.NotEmpty(t, e.LastError, "operators see why")
			}
			require.NotEmpty(t, testenv.Value[string](b.Env, `SELECT last_error FROM work WHERE id = $1`, poison))
		})
	}
}

// A handler that panics is one row's failure; the others of its task, and the process, go on.
func TestPanicIsOneRowsFailure(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good, poison := uuid.New(), uuid.New()
	var did []uuid.UUID
	d := newDispatcher(tasks.Expire, 2, each(func(_ context.Context, id uuid.UUID) error {
		if id == poison {
			panic("a bug")
		}
		did = append(did, id)
		return nil
	}), b.opts.Clock, b.opts.Log)
	require.Equal(t, 2, d.admit(b.tenant, 2))
	failed := make([]error, 2)
	d.do(b.ctx, b.tenant, []taskItem{{0, poison}, {1, good}}, func(i int, err error) { failed[i] = err })
	require.ErrorContains(t, failed[0], "a bug")
	require.NoError(t, failed[1])
	require.Equal(t, []uuid.UUID{good}, did)
}
