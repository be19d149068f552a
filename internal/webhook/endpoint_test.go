package webhook

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// endpoint gives the tenant an endpoint with a secret of its own, which is returned.
func (b *bundle) endpoint(url, events string) (uuid.UUID, string) {
	b.T.Helper()
	id := b.Env.Endpoint(b.tenant, url, events)
	signing := secret.NewSigningSecret().Reveal()
	b.Exec(`UPDATE webhook_endpoints SET secret = $2 WHERE id = $1`, id,
		b.box.Seal(secret.Place{Table: "webhook_endpoints", Column: "secret", Row: id.String()}, []byte(signing)))
	return id, signing
}

// fanned is an event's payment of a tenant with endpoints.
func (b *bundle) fanned(url string) NewDelivery {
	p := b.payment(url)
	p.FanOut = true
	return p
}

// to is the id of the event's delivery to an endpoint.
func (b *bundle) to(p NewDelivery, endpoint uuid.UUID) uuid.UUID {
	b.T.Helper()
	return testenv.Value[uuid.UUID](b.Env, `SELECT id FROM deliveries WHERE transaction_group_id = $1 AND coalesce(endpoint_id, $3) = $2`, p.TransactionGroupID, endpoint, uuid.Nil)
}

// An event is delivered to the URL and to each endpoint that wants it, with one webhook-id and each
// with its own secret; the log has it once.
func TestEachEndpointGetsItsDelivery(t *testing.T) {
	spec.Shows(t, "event.out.once", "event.out.tenant-url")
	b := setup(t)
	b.logMargin = 0
	r := receive(t, answer(200))
	own := secret.NewSigningSecret().Reveal()
	b.setSecret(own)
	all, allSecret := b.endpoint(r.URL+"/all", "{payment.received,settlement.failed}")
	mine, mineSecret := b.endpoint(r.URL+"/mine", "{payment.received}")
	b.Exec(`UPDATE webhook_endpoints SET account_refs = '{customer-1,customer-9}' WHERE id = $1`, mine)
	others, _ := b.endpoint(r.URL+"/others", "{payment.received}")
	b.Exec(`UPDATE webhook_endpoints SET account_refs = '{customer-9}' WHERE id = $1`, others)
	b.endpoint(r.URL+"/failed", "{settlement.failed}")

	p := b.fanned(r.URL + "/own")
	first := b.queue(p)
	require.Len(t, first, 1)
	require.Equal(t, first[0], b.to(p, uuid.Nil))
	require.Equal(t, 3, b.deliveries())
	for endpoint, signing := range map[uuid.UUID]string{uuid.Nil: own, all: allSecret, mine: mineSecret} {
		before := len(r.seen())
		require.NoError(t, b.Deliver(b.ctx, b.to(p, endpoint)))
		c := r.seen()[before]
		require.NoError(t, verify(c, signing, b.Clock.Now()))
		require.Equal(t, p.TransactionGroupID.String(), c.header.Get("Webhook-Id"))
		require.Equal(t, r.seen()[0].body, c.body)
	}
	require.Equal(t, Delivered, b.get(b.to(p, mine)).Status)
	require.Eventually(t, func() bool { got, _, _ := b.logged("", 10); return len(got) == 1 }, 30*time.Second, time.Millisecond)

	for endpoint, want := range map[*uuid.UUID]int{nil: 3, new(uuid.Nil): 1, &all: 1, &mine: 1, &others: 0} {
		list, _, err := b.List(b.ctx, Filter{TenantID: b.tenant, Endpoint: endpoint}, page.Request{Limit: 10})
		require.NoError(t, err)
		require.Len(t, list, want, endpoint)
	}
	list, _, err := b.List(b.ctx, Filter{TenantID: uuid.New(), Endpoint: &all}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, list, "another tenant's")

	require.Empty(t, b.queue(p), "an event is queued once, to all of them")
	require.Equal(t, 3, b.deliveries())
}

// An account's own URL may be an endpoint's: an event comes there once, and both secrets sign it.
func TestAnEventComesToAURLOnce(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(200))
	own := secret.NewSigningSecret().Reveal()
	b.setSecret(own)
	books, booksSecret := b.endpoint(r.URL+"/books", "{payment.received}")
	b.endpoint(r.URL+"/other", "{payment.received}")
	b.Env.Endpoint(b.Env.Tenant(), r.URL+"/books", "{payment.received}") // another tenant's
	seen := func(p NewDelivery) call {
		before := len(r.seen())
		require.NoError(t, b.Deliver(b.ctx, b.to(p, uuid.Nil)))
		require.Len(t, r.seen(), before+1)
		return r.seen()[before]
	}
	p := b.fanned(r.URL + "/books")
	ids := b.queue(p)
	require.Equal(t, []uuid.UUID{b.to(p, uuid.Nil)}, ids)
	require.Equal(t, 2, b.deliveries(), "to the other endpoint, too")
	c := seen(p)
	require.NoError(t, verify(c, own, b.Clock.Now()))
	require.NoError(t, verify(c, booksSecret, b.Clock.Now()))

	paused := b.fanned(r.URL + "/books")
	b.Exec(`UPDATE webhook_endpoints SET paused_at = now() WHERE id = $1`, books)
	b.queue(paused)
	require.NoError(t, verify(seen(paused), own, b.Clock.Now()), "the account's URL is not paused")

	elsewhere := b.fanned(r.URL + "/own")
	b.queue(elsewhere)
	require.Error(t, verify(seen(elsewhere), booksSecret, b.Clock.Now()))

	removed := b.fanned(r.URL + "/books")
	b.queue(removed)
	b.Exec(`UPDATE webhook_endpoints SET removed_at = now(), secret = NULL WHERE id = $1`, books)
	c = seen(removed)
	require.NoError(t, verify(c, own, b.Clock.Now()))
	require.Error(t, verify(c, booksSecret, b.Clock.Now()))
}

// Without a URL the first endpoint's delivery stands for the event.
func TestEndpointWithoutAURL(t *testing.T) {
	b := setup(t)
	b.logMargin = 0
	first, _ := b.endpoint("https://example.com/1", "{payment.received}")
	b.endpoint("https://example.com/2", "{payment.received}")
	p := b.fanned("")
	ids := b.queue(p)
	require.Equal(t, []uuid.UUID{b.to(p, first)}, ids)
	require.Equal(t, 2, b.deliveries())
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM work WHERE kind = 'deliver'`))
	require.Empty(t, b.queue(p), "once")
	require.Equal(t, 2, b.deliveries())
	require.Eventually(t, func() bool {
		got, _, _ := b.logged("", 10)
		return slices.Equal(got, []uuid.UUID{p.TransactionGroupID})
	}, 30*time.Second, time.Millisecond)

	silent := b.fanned("")
	silent.Type, silent.Payload = SettlementFailed, Settlement{}
	require.Empty(t, b.queue(silent), "nobody wants it")
}

// An endpoint that answers nothing has its own slots: another on the same host is sent its events.
func TestBadEndpointDelaysNoOther(t *testing.T) {
	b := setupWith(t, Options{PerEndpoint: 1, PerTenant: 4}, safehttp.Options{})
	end := make(chan struct{})
	reached := make(chan struct{}, 1)
	r := receive(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/bad" {
			reached <- struct{}{}
			<-end
		}
		w.WriteHeader(200)
	})
	bad, _ := b.endpoint(r.URL+"/bad", "{payment.received}")
	good, _ := b.endpoint(r.URL+"/good", "{payment.received}")
	p, q := b.fanned(r.URL+"/own"), b.fanned("")
	b.queue(p, q)
	stuck := make(chan error, 1)
	go func() { stuck <- b.Deliver(context.Background(), b.to(p, bad)) }()
	<-reached
	for _, id := range []uuid.UUID{b.to(p, good), b.to(p, uuid.Nil), b.to(q, good)} {
		require.NoError(t, b.Deliver(b.ctx, id))
		require.Equal(t, Delivered, b.get(id).Status)
	}
	require.ErrorIs(t, b.Deliver(b.ctx, b.to(q, bad)), ErrBusy, "the bad one's own next waits")
	close(end)
	require.NoError(t, <-stuck)
}

// What waits for an endpoint that is removed becomes a dead letter, without a call, and cannot be
// sent again.
func TestRemovedEndpoint(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(500))
	e, _ := b.endpoint(r.URL, "{payment.received}")
	p, q := b.fanned(""), b.fanned("")
	ids := b.queue(p, q)
	b.Exec(`UPDATE webhook_endpoints SET removed_at = $2, secret = NULL WHERE id = $1`, e, b.Clock.Now())
	err := b.Deliver(b.ctx, ids[0])
	require.True(t, retry.IsExhausted(err))
	require.ErrorIs(t, err, errRemoved)
	require.NoError(t, b.Deliver(b.ctx, ids[0]), "it is done")
	d := b.get(ids[0])
	require.Equal(t, Dead, d.Status)
	require.Equal(t, "the endpoint was removed", d.LastError)
	require.Equal(t, 0, d.AttemptCount)
	require.Empty(t, r.seen())
	require.ErrorIs(t, b.Replay(b.ctx, ids[0], byHand), errEndpointRemoved)
	n, _, err := b.ReplaySince(b.ctx, b.tenant, time.Time{}, byHand)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Empty(t, b.queue(b.fanned("")), "no new event goes there")

	// two workers at once: one ends it
	s := b.another(Options{}, safehttp.Options{})
	now := b.Clock.Now()
	var ended int
	for _, svc := range []*Service{b.Service, s} {
		if retry.IsExhausted(svc.Deliver(b.ctx, ids[1])) {
			ended++
		}
	}
	require.Equal(t, 1, ended)
	require.True(t, now.Equal(b.Clock.Now()))
}

// A worker that comes back after its lease leaves a removed endpoint's delivery to who has it now.
func TestRemovedEndpointAfterTheLease(t *testing.T) {
	b := setup(t)
	e, _ := b.endpoint("https://example.com/own", "{payment.received}")
	ids := b.queue(b.fanned(""))
	b.Exec(`UPDATE webhook_endpoints SET removed_at = $2, secret = NULL WHERE id = $1`, e, b.Clock.Now())
	late := b.Claim(b.ctx, ids)[0]
	b.Clock.Advance(work.Term + time.Second)
	other := b.another(Options{}, safehttp.Options{})
	holder := other.Claim(b.ctx, ids)[0]
	require.NoError(t, b.Attempt(b.ctx, late))
	require.Equal(t, Pending, b.get(ids[0]).Status)
	require.ErrorIs(t, other.Attempt(b.ctx, holder), errRemoved)
	require.Equal(t, Dead, b.get(ids[0]).Status)
}

// An endpoint that gets another URL between two attempts is called there, and its delivery says so.
func TestEndpointMovesBetweenAttempts(t *testing.T) {
	b := setup(t)
	old, fresh := receive(t, answer(500)), receive(t, answer(200))
	e, _ := b.endpoint(old.URL, "{payment.received}")
	p := b.fanned("https://example.com/own")
	b.queue(p)
	id := b.to(p, e)
	require.Error(t, b.Deliver(b.ctx, id))
	b.Exec(`UPDATE webhook_endpoints SET url = $2 WHERE id = $1`, e, fresh.URL)
	require.Equal(t, old.URL, b.get(id).CallbackURL, "where the last attempt went")
	b.Clock.Advance(3 * time.Minute)
	require.NoError(t, b.Deliver(b.ctx, id))
	require.Len(t, old.seen(), 1)
	require.Len(t, fresh.seen(), 1)
	require.Equal(t, fresh.URL, b.get(id).CallbackURL)
	require.Equal(t, "https://example.com/own", b.get(b.to(p, uuid.Nil)).CallbackURL)
}

// Endpoints are in the same transaction as the fact: one that is rolled back leaves none of the
// deliveries.
func TestEndpointsGoWithTheTransaction(t *testing.T) {
	b := setup(t)
	b.endpoint("https://example.com/1", "{payment.received}")
	boom := http.ErrAbortHandler
	require.ErrorIs(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		_, err := Queue(b.ctx, tx, b.Clock.Now(), []NewDelivery{b.fanned("https://example.com/")})
		require.NoError(t, err)
		return boom
	}), boom)
	require.Zero(t, b.deliveries())
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM work`))
}

// An endpoint's previous secret signs beside the new one until its time.
func TestEndpointSecretsOverlap(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(200))
	e, signing := b.endpoint(r.URL, "{payment.received}")
	before := secret.NewSigningSecret().Reveal()
	b.Exec(`UPDATE webhook_endpoints SET secret_previous = $2, secret_previous_until = $3 WHERE id = $1`, e,
		b.box.Seal(secret.Place{Table: "webhook_endpoints", Column: "secret_previous", Row: e.String()}, []byte(before)), b.Clock.Now().Add(time.Hour))
	for i, both := range []bool{true, false} {
		require.NoError(t, b.Deliver(b.ctx, b.queue(b.fanned(""))[0]))
		require.NoError(t, verify(r.seen()[i], signing, b.Clock.Now()))
		require.Equal(t, both, verify(r.seen()[i], before, b.Clock.Now()) == nil)
		b.Clock.Advance(time.Hour)
	}
}
