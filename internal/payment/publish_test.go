package payment_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

const (
	publishedReceived  = "payment.received provisional"
	publishedConfirmed = "payment.confirmed confirmed"
	publishedReversed  = "payment.reversed reversed"
)

// Each end of a payment, by a check and by a person, is published to who chose it, and to nobody
// else; a payment that needs review has no end yet.
func TestChosenEventsOfAPayment(t *testing.T) {
	t.Parallel()
	failed := func(x *fakebank.Transaction) { x.Status = "PAYMENT_FAILED" }
	differs := func(x *fakebank.Transaction) { x.Fee = x.Fee.Add(x.Fee) }
	confirm := func(b *bundle, id uuid.UUID) (payment.Reviewed, error) {
		return b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
	}
	reverse := func(b *bundle, id uuid.UUID) (payment.Reviewed, error) {
		return b.svc.DecideReview(b.ctx, id, ledger.EventReverse, byHand)
	}
	for name, c := range map[string]struct {
		chosen string
		change func(*fakebank.Transaction)
		decide func(*bundle, uuid.UUID) (payment.Reviewed, error)
		want   []string
	}{
		"nothing chosen, confirmed":       {chosen: "{}", want: []string{publishedReceived}},
		"nothing chosen, reversed":        {chosen: "{}", change: failed, want: []string{publishedReceived}},
		"confirmed":                       {chosen: "{payment.confirmed,payment.reversed}", want: []string{publishedReceived, publishedConfirmed}},
		"reversed":                        {chosen: "{payment.confirmed,payment.reversed}", change: failed, want: []string{publishedReceived, publishedReversed}},
		"the other chosen":                {chosen: "{payment.reversed,settlement.failed}", want: []string{publishedReceived}},
		"under review":                    {chosen: "{payment.confirmed,payment.reversed}", change: differs, want: []string{publishedReceived}},
		"confirmed by a person":           {chosen: "{payment.confirmed}", change: differs, decide: confirm, want: []string{publishedReceived, publishedConfirmed}},
		"reversed by a person":            {chosen: "{payment.reversed}", change: differs, decide: reverse, want: []string{publishedReceived, publishedReversed}},
		"nothing chosen, decided by hand": {chosen: "{}", change: differs, decide: confirm, want: []string{publishedReceived}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Subscribe(b.tenant, c.chosen)
			id, txn := b.paid()
			if c.change != nil {
				b.bank.SetTransaction(txn.ID, c.change)
			}
			require.Equal(t, time.Duration(-1), b.check(id))
			if c.decide != nil {
				_, err := c.decide(b, id)
				require.NoError(t, err)
				_, err = c.decide(b, id)
				require.ErrorIs(t, err, payment.ErrNotInReview)
			}
			require.NoError(t, b.svc.Confirm(b.ctx, id), "and again publishes nothing")
			require.Equal(t, c.want, b.Published(id))
			testenv.FindsNothing(t, b.Pool, invariant.Verify)
		})
	}
}

// The body is that of payment.received, but for the event and the status; the account's own URL
// goes before the tenant's; and its task comes after the commit.
func TestToldAsItWasReceived(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Subscribe(b.tenant, "{payment.confirmed}")
	id, _ := b.paid()
	var enqueued []uuid.UUID
	t.Cleanup(work.EnqueueWith(b.Pool, func(items []work.Item) {
		for _, m := range items {
			assert.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE id = $1`, m.ID))
			enqueued = append(enqueued, m.ID)
		}
	}))
	b.Exec(`UPDATE accounts SET callback_url = 'https://account.example/hook' WHERE id = $1`, b.account)
	require.Equal(t, time.Duration(-1), b.check(id))
	body := func(event string) string { return b.Delivered(`event_type = $1`, event)[0].Body }
	require.Equal(t, strings.NewReplacer("payment.received", "payment.confirmed", "provisional", "confirmed").Replace(body("payment.received")), body("payment.confirmed"))
	require.Contains(t, body("payment.confirmed"), `"senderName":"Bola Ade"`)
	require.Equal(t, []uuid.UUID{testenv.Value[uuid.UUID](b.Env, `
		SELECT id FROM deliveries WHERE event_type = 'payment.confirmed' AND callback_url = 'https://account.example/hook' AND created_at = $1`,
		b.Clock.Now())}, enqueued)
	require.True(t, b.Clock.Now().Equal(*b.DueAt(work.Deliver, enqueued[0])))
}

// Checks at once by two processes, a lost answer to the commit, and the checks after it: one event.
func TestConfirmationIsToldOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Subscribe(b.tenant, "{payment.confirmed}")
	b.openAtBank()
	lost, loss := b.LostCommits(), 0
	bank := testenv.BankWith{Bank: b.client(), BeforeTransaction: func(string) error { lost.LoseCommits(loss); return nil }}
	losing := payment.New(payment.Options{
		Pool: lost.Pool, Bank: bank, Clock: b.Clock, Log: b.svc.Log, ConfirmDelays: defaults.ConfirmDelays, ConfirmMisses: 3,
		ConfirmMinAge: 30 * time.Minute, ConfirmDeadline: 24 * time.Hour,
	})
	t.Cleanup(losing.Close)
	other := b.service(b.bank.URL())
	for round := range 3 {
		id, _ := b.paid()
		b.Clock.Advance(time.Minute)
		if round == 0 {
			loss = 1 // of the record, not of the claim before it
			require.Error(t, losing.Confirm(b.ctx, id))
			require.Zero(t, lost.CommitsLeft())
			require.Equal(t, []string{publishedReceived, publishedConfirmed}, b.Published(id), "it stands, though the answer was lost")
		}
		var all sync.WaitGroup
		for _, s := range []*payment.Service{b.svc, other, b.svc, other} {
			all.Go(func() { _ = s.Confirm(b.ctx, id) })
		}
		all.Wait()
		b.Clock.Advance(time.Hour)
		require.NoError(t, b.svc.Confirm(b.ctx, id))
		require.Equal(t, []string{publishedReceived, publishedConfirmed}, b.Published(id))
	}
}

// In one batch only subscribers get the event, each of its own payment.
func TestPublishInABatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Subscribe(b.tenant, "{payment.confirmed}")
	silent := *b
	silent.tenant = b.Tenant()
	silent.account = b.Account(silent.tenant, "customer-1")
	var subscribed, quiet []uuid.UUID
	for range 20 {
		id, _ := b.paid()
		subscribed = append(subscribed, id)
		id, _ = silent.paid()
		quiet = append(quiet, id)
	}
	confirmed := func() int {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE status = 'confirmed'`)
	}
	for range 5 { // a check that waits too long for the bank's list is due once more
		b.Clock.Advance(time.Minute)
		b.confirmDue(slices.Concat(subscribed, quiet), b.svc)
		if confirmed() == 40 {
			break
		}
	}
	for _, id := range subscribed {
		require.Equal(t, []string{publishedReceived, publishedConfirmed}, b.Published(id))
	}
	for _, id := range quiet {
		require.Empty(t, b.Published(id))
	}
	require.Equal(t, 40, confirmed())
}

// Who listens is shown everything, without a URL and without having chosen it; nothing is a
// delivery, and the next minute is nobody's business.
func TestListenersAreShownPayments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(`UPDATE tenants SET listening_until = $2 WHERE id = $1`, b.tenant, b.Clock.Now().Add(time.Minute))
	id, _ := b.paid()
	require.Equal(t, time.Duration(-1), b.check(id))
	shown := func() []string {
		return testenv.Value[[]string](b.Env, `SELECT array_agg(event_type || ' ' || (convert_from(body, 'UTF8')::json->>'transactionGroupId') ORDER BY seq) FROM listen_events WHERE tenant_id = $1`, b.tenant)
	}
	require.Equal(t, []string{"payment.received " + id.String(), "payment.confirmed " + id.String()}, shown())
	require.Empty(t, b.Published(id))
	b.Clock.Advance(time.Minute)
	later, _ := b.paid()
	require.Equal(t, time.Duration(-1), b.check(later))
	require.Len(t, shown(), 2)
}

// An endpoint gets what it wants, though its tenant has neither a URL nor chosen anything.
func TestEndpointsGetPayments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Endpoint(b.tenant, "https://tenant.example/hook", "{payment.received,payment.confirmed}")
	b.Endpoint(b.tenant, "https://tenant.example/2", "{payment.confirmed}")
	b.openAtBank()
	id, _ := b.paid()
	b.Clock.Advance(time.Minute)
	require.Equal(t, time.Duration(-1), b.check(id))
	require.Equal(t, []string{publishedReceived, publishedConfirmed, publishedConfirmed + " https://tenant.example/2"}, b.Published(id))
}

// A tenant that has chosen nothing costs no statement: posting and confirming send the same ones as
// before there was a choice.
func TestNoChoiceNoStatement(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool, sent := b.Recorded()
	o := b.svc.Options
	o.Pool = pool
	svc := payment.New(o)
	t.Cleanup(svc.Close)
	b.Subscribe(b.tenant, "{}")
	b.svc = svc
	cost := func() (post, confirm []testenv.Statement) {
		t.Helper()
		b.openAtBank()
		txn, err := b.bank.Pay(b.ctx, fakebank.Payment{AccountRef: b.account.String(), Amount: money.Must("5000.00"), Silent: true})
		require.NoError(t, err)
		r := b.receive(b.sign(b.bank.EventFor(txn)))
		sent()
		b.post(r.ID)
		post = sent()
		b.Clock.Advance(time.Minute)
		sent()
		require.NoError(t, svc.Confirm(b.ctx, r.ID))
		return post, sent()
	}
	post, confirm := cost()
	for _, s := range confirm {
		require.NotContains(t, s.SQL, "listen_events")
		require.NotContains(t, s.SQL, "deliveries")
	}
	b.Subscribe(b.tenant, "{payment.confirmed}")
	morePost, moreConfirm := cost()
	require.Len(t, morePost, len(post))
	require.Len(t, moreConfirm, len(confirm)+4, "the payments, the choices, the deliveries, and their items")
}
