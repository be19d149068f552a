package webhook

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/retry"
	"ajo/internal/spec"
)

// A delivered event is sent once more, to an endpoint or to the URL of now: the same body and
// webhook-id, with a header that says so. The log has it once, and whoever asked is on record.
func TestResend(t *testing.T) {
	b := setup(t)
	b.logMargin = 0
	r := receive(t, answer(200))
	b.setSecret("s")
	e, signing := b.endpoint(r.URL+"/e", "{settlement.failed}")
	b.Exec(`UPDATE tenants SET webhook_url = $2 WHERE id = $1`, b.tenant, r.URL+"/now")
	p := b.payment(r.URL + "/then")
	require.NoError(t, b.Deliver(b.ctx, b.queue(p)[0]))
	require.Empty(t, r.seen()[0].header.Get(Resent))
	for i, endpoint := range []*uuid.UUID{nil, &e} {
		d, err := b.Resend(b.ctx, b.tenant, p.TransactionGroupID, PaymentReceived, endpoint, byHand)
		require.NoError(t, err)
		require.True(t, d.Resent)
		require.Equal(t, endpoint, d.EndpointID)
		require.Equal(t, Pending, d.Status)
		require.Equal(t, []string{r.URL + "/now", r.URL + "/e"}[i], d.CallbackURL)
		require.NoError(t, b.Deliver(b.ctx, d.ID))
		c := r.seen()[i+1]
		require.Equal(t, "true", c.header.Get(Resent))
		require.Equal(t, r.seen()[0].body, c.body)
		require.Equal(t, p.TransactionGroupID.String(), c.header.Get("Webhook-Id"))
		require.NoError(t, verify(c, []string{"s", signing}[i], b.Clock.Now()))
		require.Equal(t, Delivered, b.get(d.ID).Status)
	}
	require.Eventually(t, func() bool {
		got, _, _ := b.logged("", 10)
		return slices.Equal(got, []uuid.UUID{p.TransactionGroupID})
	}, 30*time.Second, time.Millisecond)
	log, _, err := audit.List(b.ctx, b.Pool, audit.Filter{}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, log, 2)
	require.Equal(t, "deliveries.resend", log[0].Action)
}

func TestResendRefusals(t *testing.T) {
	b := setup(t)
	e, _ := b.endpoint("https://example.com/e", "{payment.received}")
	gone, _ := b.endpoint("https://example.com/gone", "{payment.received}")
	b.Exec(`UPDATE webhook_endpoints SET removed_at = $2, secret = NULL WHERE id = $1`, gone, b.Clock.Now())
	others := b.Env.Endpoint(b.Tenant(), "https://example.com/", "{payment.received}")
	p := b.payment("https://example.com/then")
	b.queue(p)
	resend := func(tenant, group uuid.UUID, event Type, endpoint *uuid.UUID) error {
		_, err := b.Resend(b.ctx, tenant, group, event, endpoint, byHand)
		return err
	}
	require.ErrorIs(t, resend(b.tenant, p.TransactionGroupID, "test", &e), errType)
	require.ErrorIs(t, resend(b.tenant, p.TransactionGroupID, PaymentReversed, &e), ErrEventNotFound)
	require.ErrorIs(t, resend(b.tenant, uuid.New(), PaymentReceived, &e), ErrEventNotFound)
	require.ErrorIs(t, resend(b.Tenant(), p.TransactionGroupID, PaymentReceived, nil), ErrEventNotFound, "another tenant's event")
	require.ErrorIs(t, resend(b.tenant, p.TransactionGroupID, PaymentReceived, &gone), ErrEndpointNotFound)
	require.ErrorIs(t, resend(b.tenant, p.TransactionGroupID, PaymentReceived, &others), ErrEndpointNotFound)
	require.ErrorIs(t, resend(b.tenant, p.TransactionGroupID, PaymentReceived, nil), errNoResendURL)
	require.Equal(t, 1, b.deliveries())
}

// An endpoint that wants retries for a day gets ten attempts in 24 hours.
func TestRetriesForADay(t *testing.T) {
	spec.Shows(t, "field.deadletter.attempts", "event.out.attempts", "limit.delivery.delays")
	b := setup(t)
	r := receive(t, answer(503))
	e, _ := b.endpoint(r.URL, "{payment.received}")
	b.Exec(`UPDATE webhook_endpoints SET retries = 'day' WHERE id = $1`, e)
	id := b.queue(b.fanned(""))[0]
	begun := b.Clock.Now()
	for _, delay := range slices.Concat(b.opts.Delays, dayDelays) {
		err := b.Deliver(b.ctx, id)
		require.EqualError(t, err, "HTTP 503")
		next, ok := retry.When(err)
		require.True(t, ok)
		require.WithinRange(t, next, b.Clock.Now().Add(delay), b.Clock.Now().Add(delay+delay/10))
		b.Clock.Advance(next.Sub(b.Clock.Now()))
	}
	require.WithinRange(t, b.Clock.Now(), begun.Add(24*time.Hour), begun.Add(24*time.Hour+24*time.Hour/10))
	require.True(t, retry.IsExhausted(b.Deliver(b.ctx, id)))
	require.Equal(t, 10, b.get(id).AttemptCount)
	require.Equal(t, Dead, b.get(id).Status)

	// what was tried by another schedule takes nothing from the fresh set of a replay
	for i, delays := range [][]time.Duration{b.opts.Delays, slices.Concat(b.opts.Delays, dayDelays)} {
		b.Exec(`UPDATE webhook_endpoints SET retries = $2 WHERE id = $1`, e, []string{"standard", "day"}[i])
		tried := b.get(id).AttemptCount
		if i == 0 {
			require.NoError(t, b.Replay(b.ctx, id, byHand))
		} else {
			n, _, err := b.ReplaySince(b.ctx, b.tenant, time.Time{}, byHand)
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		for _, delay := range delays {
			next, ok := retry.When(b.Deliver(b.ctx, id))
			require.True(t, ok)
			require.WithinRange(t, next, b.Clock.Now().Add(delay), b.Clock.Now().Add(delay+delay/10))
			b.Clock.Set(next)
		}
		require.True(t, retry.IsExhausted(b.Deliver(b.ctx, id)))
		require.Equal(t, tried+len(delays)+1, b.get(id).AttemptCount)
	}
}
