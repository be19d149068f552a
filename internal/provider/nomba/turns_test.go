package nomba

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"ajo/internal/provider"
)

// waitersOf is the calls of a tenant that wait.
func (q *turns) waitersOf(tenant uuid.UUID) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines[0].waiting[tenant]) + len(q.lines[1].waiting[tenant])
}

// Calls are served by urgency, then tenant by tenant, each tenant's in the order in which they
// came; and no line starves.
func TestTurnsAreFair(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, came, served string // capitals are urgent; the letter is the tenant
	}{
		{"one tenant", "a1 a2 a3", "a1 a2 a3"},
		{"one tenant that asks for much", "a1 a2 a3 a4 b1 c1 b2", "a1 b1 c1 a2 b2 a3 a4"},
		{"a tenant that comes again", "a1 b1 a2 b2 b3", "a1 b1 a2 b2 b3"},
		{"urgent ones first", "a1 b1 A1 B1", "A1 B1 a1 b1"},
		{"urgent ones of one tenant", "A1 A2 A3 A4 B1", "A1 B1 A2 A3 A4"},
		{"the others do not starve", "a1 a2 A1 A2 A3 A4 A5 A6 A7", "A1 A2 A3 a1 A4 A5 A6 a2 A7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := newTurns(rate.NewLimiter(1, 1))
			names := map[*turn]string{}
			for _, name := range strings.Fields(c.came) {
				w := &turn{granted: make(chan error, 1)}
				names[w] = name
				l := &q.lines[1]
				if name[0] < 'a' {
					l = &q.lines[0]
				}
				l.push(uuid.UUID{name[0] | 0x20}, w)
			}
			var served []string
			for w := q.next(); w != nil; w = q.next() {
				served = append(served, names[w])
			}
			require.Equal(t, c.served, strings.Join(served, " "))
			for _, l := range q.lines {
				require.Empty(t, l.order)
				require.Empty(t, l.waiting)
			}
		})
	}
}

// Whoever leaves, or cannot be served before its deadline, gives its place up at once.
func TestTurnsOfThoseWhoLeave(t *testing.T) {
	t.Parallel()
	q := newTurns(rate.NewLimiter(rate.Every(time.Hour), 1))
	tenant := uuid.New()
	ctx := provider.ForTenant(t.Context(), tenant)
	require.NoError(t, q.wait(ctx, false))
	short, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	require.ErrorIs(t, q.wait(short, true), errNoTurn, "an hour is more than a minute")
	leaving, leave := context.WithCancel(ctx)
	left := make(chan error)
	for range maxWaiting {
		go func() { left <- q.wait(leaving, false) }()
	}
	require.EventuallyWithT(t, func(now *assert.CollectT) { require.Equal(now, maxWaiting, q.waitersOf(tenant)) }, 30*time.Second, time.Millisecond, "they wait")
	require.ErrorIs(t, q.wait(ctx, false), provider.ErrBusy, "no more of one tenant's wait")
	leave()
	for range maxWaiting {
		require.ErrorIs(t, <-left, context.Canceled)
	}
	require.Zero(t, q.waitersOf(tenant))

	late := newTurns(rate.NewLimiter(1, 1))
	late.serving = true // by nobody: as if the machine were too busy to give out the next turn
	ended, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	require.ErrorIs(t, late.wait(ended, true), provider.ErrBusy, "it had no turn, and nobody was asked")

	never := newTurns(rate.NewLimiter(1, 0))
	require.ErrorIs(t, never.wait(t.Context(), true), errNoTurn)
	require.NoError(t, newTurns(limiter(-1)).wait(t.Context(), false), "no limit")
}

// A worker's look-ups are never turned away: it bounds them itself, and nobody waits for them.
func TestTurnsOfThePatient(t *testing.T) {
	t.Parallel()
	q := newTurns(rate.NewLimiter(rate.Every(time.Hour), 1))
	tenant := uuid.New()
	ctx, leave := context.WithCancel(provider.Patient(provider.ForTenant(t.Context(), tenant)))
	defer leave()
	require.NoError(t, q.wait(ctx, false))
	left := make(chan error)
	for range 2 * maxWaiting {
		go func() { left <- q.wait(ctx, false) }()
	}
	require.EventuallyWithT(t, func(now *assert.CollectT) { require.Equal(now, 2*maxWaiting, q.waitersOf(tenant)) }, 30*time.Second, time.Millisecond, "they wait")
	require.ErrorIs(t, q.wait(provider.ForTenant(t.Context(), tenant), false), provider.ErrBusy)
	leave()
	for range 2 * maxWaiting {
		require.ErrorIs(t, <-left, context.Canceled)
	}
}

// Also where the limit allows a worker's questions later than a call may take: who is patient has
// its answer then, and is not put off with an error that says nothing about the bank.
func TestThePatientWaitLongerThanACall(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(context.Context, *Client) error{
		"look-up": func(ctx context.Context, c *Client) error {
			_, err := c.Lookup(ctx, "058", "0554772814")
			return err
		},
		"question": func(ctx context.Context, c *Client) error {
			_, err := c.Payout(ctx, ref)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := setup(t, func(rw http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					say(rw, 200, good(`{"id":"p-1","status":"SUCCESS","amount":1,"merchantTxRef":"`+ref+`"}`))
					return
				}
				say(rw, 200, good(`{"accountName":"ADA OBI"}`))
			}, func(o *Options) { o.Timeout = 5 * time.Second })
			require.NoError(t, ask(t.Context(), c), "it has a token now")
			next := func(in time.Duration) { // is the next turn
				for _, q := range []**turns{&c.posts, &c.all} {
					limit := rate.NewLimiter(rate.Every(in), 1)
					require.True(t, limit.Allow())
					*q = newTurns(limit)
				}
			}
			next(time.Hour)
			require.ErrorContains(t, ask(t.Context(), c), "no turn in time")
			next(8 * time.Second)
			require.NoError(t, ask(provider.Patient(t.Context()), c))
		})
	}
}

// A page of a list answers many questions, so it does not wait behind them.
func TestAListGoesBeforeQuestions(t *testing.T) {
	t.Parallel()
	c, _ := setup(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			say(rw, 200, good(`{"results":[],"cursor":""}`))
			return
		}
		say(rw, 200, good(`{"id":"p-1","status":"SUCCESS","amount":1,"merchantTxRef":"`+ref+`"}`))
	}, func(o *Options) { o.RequestsPerSec, o.Timeout = 1, time.Minute })
	waiting := func() int {
		c.all.mu.Lock()
		defer c.all.mu.Unlock()
		return len(c.all.lines[1].order)
	}
	_, err := c.token(t.Context())
	require.NoError(t, err)
	c.all.mu.Lock()
	c.all.serving = true // by nobody, until all wait, however long a busy machine takes for that
	c.all.mu.Unlock()
	done := make(chan error)
	for range maxWaiting {
		go func() {
			_, err := c.Payout(provider.Patient(provider.ForTenant(t.Context(), uuid.New())), ref)
			done <- err
		}()
	}
	require.EventuallyWithT(t, func(now *assert.CollectT) { require.Equal(now, maxWaiting, waiting()) },
		30*time.Second, time.Millisecond, "all wait")
	go c.all.serve()
	_, err = c.Transactions(t.Context(), start, start.Add(time.Second), "")
	require.NoError(t, err)
	require.Greater(t, waiting(), maxWaiting/2, "the questions still wait")
	c.all.limit.SetLimit(rate.Inf)
	for range maxWaiting {
		require.NoError(t, <-done)
	}
}

// A tenant that asks for more than may wait is turned away, and that is no failure of the bank.
func TestWhatIsTurnedAwayIsNotObserved(t *testing.T) {
	t.Parallel()
	var got []string
	c, _ := setup(t, always(200, `{"code":"02","description":"refused"}`), func(o *Options) {
		o.PostsPerSec = 1
		o.Observe = func(call, outcome string, _ time.Duration) { got = append(got, call+" "+outcome) }
	})
	tenant := uuid.New()
	c.posts.limit.SetLimit(rate.Every(time.Hour))
	require.True(t, c.posts.limit.Allow())
	for range 2 { // seconds' worth of calls; a third one's would not be answered in time
		c.posts.lines[1].push(tenant, &turn{granted: make(chan error, 1)})
	}
	_, err := c.Lookup(provider.ForTenant(t.Context(), tenant), "058", "0554772814")
	require.ErrorIs(t, err, provider.ErrBusy)
	_, err = c.CreateAccount(provider.ForTenant(t.Context(), tenant), provider.NewAccount{Ref: ref, Name: "Ada Obi"})
	require.ErrorIs(t, err, provider.ErrBusy, "an hour is more than a call may take")
	require.Equal(t, []string{"token ok"}, got)

	// a payout that was refused and cannot be asked about was made
	c.posts, c.all = newTurns(limiter(-1)), newTurns(rate.NewLimiter(rate.Every(time.Hour), 1))
	_, err = c.Pay(t.Context(), payOf(ref))
	require.Error(t, err)
	require.Equal(t, []string{"token ok", "pay error"}, got)
}

// A bank that fails is seen to fail, although the repeat of the question has no turn: with as many
// questions waiting as there are while it fails, no repeat has one.
func TestARepeatWithoutATurnHidesNoFailure(t *testing.T) {
	t.Parallel()
	var got []string
	c, _ := setup(t, always(503, ``), func(o *Options) {
		o.Observe = func(call, outcome string, _ time.Duration) { got = append(got, call+" "+outcome) }
	})
	c.all = newTurns(rate.NewLimiter(rate.Every(time.Hour), 2)) // the question's and the token's
	_, err := c.Payout(provider.Patient(t.Context()), ref)
	require.ErrorContains(t, err, "503")
	require.NotErrorIs(t, err, provider.ErrBusy)
	require.Equal(t, []string{"token ok", "payout error"}, got)
}

// Over HTTP: a tenant that floods the bank with look-ups does not hold up another's look-up, nor a
// payout.
func TestOneTenantsLookupsHoldUpNobody(t *testing.T) {
	t.Parallel()
	c, w := setup(t, func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/") {
			say(rw, 200, good(`{"id":"p-1","status":"SUCCESS","amount":1,"meta":{"merchantTxRef":"`+ref+`"}}`))
			return
		}
		say(rw, 200, good(`{"accountName":"ADA OBI"}`))
	}, func(o *Options) { o.PostsPerSec, o.Timeout = 1, time.Minute })
	c.posts.mu.Lock()
	c.posts.serving = true // by nobody, until all wait, however long a busy machine takes for that
	c.posts.mu.Unlock()
	greedy, other := uuid.New(), uuid.New()
	done := make(chan error)
	for i := range maxWaiting {
		go func() {
			_, err := c.Lookup(provider.Patient(provider.ForTenant(t.Context(), greedy)), "058", "05547728"+strconv.Itoa(10+i))
			done <- err
		}()
	}
	require.EventuallyWithT(t, func(now *assert.CollectT) { require.Equal(now, maxWaiting, c.posts.waitersOf(greedy)) },
		30*time.Second, time.Millisecond, "all wait")
	go c.posts.serve()
	_, err := c.Lookup(provider.ForTenant(t.Context(), other), "058", "0554772814")
	require.NoError(t, err)
	_, err = c.Pay(provider.ForTenant(t.Context(), greedy), payOf(ref))
	require.NoError(t, err)
	require.Greater(t, c.posts.waitersOf(greedy), maxWaiting/2, "the others still wait")
	require.Less(t, len(w.got()), maxWaiting/2)
	c.posts.limit.SetLimit(rate.Inf)
	for range maxWaiting {
		require.NoError(t, <-done)
	}
}
