package api

import (
	"fmt"
	"net/netip"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/internal/webhook"
)

var (
	loopback        = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	money5000       = money.Must("5000.00")
	regexpDuration  = regexp.MustCompile(`"durationMs":[0-9]+`)
	regexpSignature = regexp.MustCompile(`t=[0-9]+`)
)

// heard is the answer of a call.
type heardPage struct {
	Events []webhook.FeedEvent
	Next   string
}

func (m member) listen(w *world, after string, wait int) (out heardPage) {
	w.T.Helper()
	w.do("POST", "/auth/listen", fmt.Sprintf(`{"after":%q,"wait":%d}`, after, wait), m.withSession()...).ok(200, &out)
	return out
}

// A developer without a URL hears all six types, in their order; another tenant hears nothing of
// it, whatever place it names.
func TestListenOverHTTP(t *testing.T) {
	w := setup(t)
	m, stranger := w.onboard(), w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
	place := m.listen(w, "", 0).Next
	theirs := stranger.listen(w, "", 0).Next
	w.everyEnd(m)
	var types []string
	got := m.listen(w, place, 0)
	for _, h := range got.Events {
		types = append(types, string(h.EventType))
		require.Contains(t, h.Body, fmt.Sprintf(`{"eventType":%q,`, h.EventType))
	}
	require.Equal(t, []string{
		"payment.received", "payment.received", "payment.confirmed", "payment.reversed", "settlement.succeeded", "settlement.failed", "settlement.refunded",
	}, types)
	require.Zero(t, testenv.Value[int](w.Env, `SELECT count(*) FROM deliveries`), "there is no URL")
	for _, after := range []string{"", theirs} {
		require.Empty(t, stranger.listen(w, after, 0).Events)
	}
	for _, after := range []string{place, got.Next} {
		w.do("POST", "/auth/listen", fmt.Sprintf(`{"after":%q}`, after), stranger.withSession()...).refused(400, "invalid cursor")
	}
	require.Empty(t, m.listen(w, got.Next, 0).Events)
	w.Clock.Advance(time.Minute)
	w.pay(event{"r-1", "t-1", "shop-1", "5000.00", "10.5"})
	require.Empty(t, m.listen(w, got.Next, 0).Events, "nobody listened any more")
	w.pay(event{"r-2", "t-2", "shop-1", "5000.00", "10.5"})
	golden(t, "listen", w.do("POST", "/auth/listen", fmt.Sprintf(`{"after":%q}`, got.Next), m.withSession()...).ok(200, nil))
}

func TestListenIsRefused(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	for body, text := range map[string]string{
		``:                        "invalid JSON body",
		`{"wait":26}`:             "wait must be a whole number from 0 to 25",
		`{"wait":-1}`:             "wait must be a whole number from 0 to 25",
		`{"wait":1.5}`:            "wait must be a whole number from 0 to 25",
		`{"wait":1e1}`:            "wait must be a whole number from 0 to 25",
		`{"wait":"5"}`:            "wait must be a whole number from 0 to 25",
		`{"after":"x"}`:           "invalid cursor",
		`{"after":5}`:             "after must be a string",
		`{"after":"","AFTER":""}`: `duplicate field "AFTER"`,
	} {
		w.do("POST", "/auth/listen", body, m.withSession()...).refused(400, text)
	}
	w.do("POST", "/auth/listen", `{}`, m.withKey()...).refused(401, "unauthorized")
	w.do("POST", "/auth/listen", `{}`, append(m.withSession(), "Origin", "https://evil.example")...).refused(403, "cross-site request refused")
}

// A call waits until something happens; of one tenant so many wait at once, and of another as many
// beside them; and a process that is told to stop lets all go. A member who is removed meanwhile
// hears nothing any more.
func TestListenWaits(t *testing.T) {
	var stopping atomic.Bool
	w := setup(t, func(o *Options) { o.Stopping = stopping.Load })
	m, stranger := w.onboard(), w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
	var all sync.WaitGroup
	var served atomic.Int32
	const removed = -1
	wait := func(m member, place string, want int) {
		all.Go(func() {
			var got heardPage
			var r reply
			// whoever looks below may have it for a moment
			testenv.Eventually(t, 10*time.Second, "a place", func() bool {
				r = w.do("POST", "/auth/listen", fmt.Sprintf(`{"after":%q,"wait":25}`, place), m.withSession()...)
				return r.Status != 429
			})
			if want == removed {
				r.refused(401, "unauthorized")
				return
			}
			r.ok(200, &got)
			served.Add(1)
			if len(got.Events) != want {
				t.Errorf("%d events: %s", len(got.Events), r.Body)
			}
		})
	}
	gone := w.joins(m, tenant.Developer)
	id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM members WHERE email = $1`, gone.email)
	place := m.listen(w, "", 0).Next
	wait(gone, place, removed)
	for range listenPerTenant - 1 {
		wait(m, place, 1)
	}
	var refused reply
	testenv.Eventually(t, 10*time.Second, "all places are taken", func() bool {
		refused = w.do("POST", "/auth/listen", `{}`, m.withSession()...)
		return refused.Status == 429
	})
	requireLimited(t, refused)
	stranger.listen(w, "", 0)
	require.Zero(t, served.Load())
	w.do("POST", "/auth/members/"+id.String()+"/remove", "", m.withSession()...).ok(200, nil)
	w.pay(event{"r-1", "t-1", "shop-1", "5000.00", "10.5"})
	all.Wait()
	m.listen(w, "", 0)
	start := time.Now()
	wait(stranger, "", 0)
	stopping.Store(true)
	all.Wait()
	require.Less(t, time.Since(start), listenWait*time.Second)
}
