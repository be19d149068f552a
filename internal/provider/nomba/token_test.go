package nomba

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var banksAnswer = always(200, good(`[{"code":"058","name":"GTBank"}]`))

func TestTokenIsIssuedOnceForAllCallers(t *testing.T) {
	t.Parallel()
	c, w := setup(t, banksAnswer)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := c.Banks(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, w.tokens())
	require.Len(t, w.got(), 50)
}

func TestTokenIsRenewedEarlyInTheBackground(t *testing.T) {
	t.Parallel()
	c, w := setup(t, banksAnswer)
	_, err := c.Banks(t.Context())
	require.NoError(t, err)
	w.clock.Advance(25*time.Minute - time.Second)
	_, err = c.Banks(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, w.tokens(), "not yet due")

	hold := make(chan struct{})
	w.answerTokens(func(rw http.ResponseWriter, r *http.Request) { <-hold; w.issue(rw, r) })
	w.clock.Advance(time.Second)
	for range 5 { // served with the old token while the new one is on its way
		_, err = c.Banks(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Bearer token-seeded-1", w.last().Header.Get("Authorization"))
	}
	close(hold)
	require.EventuallyWithT(t, func(now *assert.CollectT) {
		_, err := c.Banks(t.Context())
		require.NoError(now, err)
		require.Equal(now, "Bearer token-seeded-2", w.last().Header.Get("Authorization"))
	}, 30*time.Second, time.Millisecond, "the new token is used")
	require.Equal(t, 2, w.tokens())
}

func TestEarlyRenewalThatFailsIsPausedAndTheTokenServesToItsEnd(t *testing.T) {
	t.Parallel()
	c, w := setup(t, banksAnswer)
	_, err := c.Banks(t.Context())
	require.NoError(t, err)

	var asked atomic.Int64
	w.answerTokens(func(rw http.ResponseWriter, r *http.Request) { asked.Add(1); say(rw, 400, `{"code":"02"}`) })
	w.clock.Advance(26 * time.Minute)
	_, err = c.Banks(t.Context())
	require.NoError(t, err)
	require.EventuallyWithT(t, func(now *assert.CollectT) {
		c.mu.Lock()
		defer c.mu.Unlock()
		require.False(now, c.nextTo.IsZero(), "asked for a token %d times", asked.Load())
	}, 30*time.Second, time.Millisecond, "the renewal has failed")
	for range 5 {
		_, err = c.Banks(t.Context())
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, asked.Load())

	w.clock.Advance(4 * time.Minute) // its end
	_, err = c.Banks(t.Context())
	require.ErrorContains(t, err, "no access token")
	w.answerTokens(nil)
	_, err = c.Banks(t.Context())
	require.NoError(t, err)
}

func TestUnauthorizedRenewsOnceAndRepeatsOnce(t *testing.T) {
	t.Parallel()
	for name, call := range everyCall {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, w := setup(t, always(200, good(goodData[name])))
			_, err := c.token(t.Context())
			require.NoError(t, err)
			w.refuse(1)
			_, err = call(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, 2, w.tokens())
			require.Len(t, w.got(), 2)
		})
		t.Run(name+", for ever", func(t *testing.T) {
			t.Parallel()
			c, w := setup(t, always(401, `{"code":"05","description":"no"}`))
			s, err := call(t.Context(), c)
			require.Equal(t, "E", class(s, err), "%v", err)
			posts := 0
			for _, g := range w.got() {
				if !strings.HasPrefix(g, "GET") {
					posts++
				}
			}
			require.LessOrEqual(t, posts, 2)
		})
	}
}

func TestManyUnauthorizedCallsShareOneRenewal(t *testing.T) {
	t.Parallel()
	c, w := setup(t, banksAnswer)
	_, err := c.token(t.Context())
	require.NoError(t, err)
	w.refuse(1)
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			if _, err := c.Banks(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 2, w.tokens())
}

func TestTokenOutlivesTheCallerWhoAskedForIt(t *testing.T) {
	t.Parallel()
	c, w := setup(t, banksAnswer)
	asked, hold := make(chan struct{}), make(chan struct{})
	w.answerTokens(func(rw http.ResponseWriter, r *http.Request) { close(asked); <-hold; w.issue(rw, r) })
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := c.Banks(ctx); first <- err }()
	<-asked
	go func() { _, err := c.Banks(t.Context()); second <- err }()
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	close(hold)
	require.NoError(t, <-second)
	require.Equal(t, 1, w.tokens())
}

func TestTokenRetriesAndForms(t *testing.T) {
	t.Parallel()
	issue := func(data string) http.HandlerFunc { return always(200, good(data)) }
	for label, tt := range map[string]struct {
		token http.HandlerFunc
		life  time.Duration // zero: no token
	}{
		"busy first":       {inTurn(always(503, ``), always(429, ``), issue(`{"access_token":"x","expiresAt":"2026-11-20T12:20:00Z"}`)), 20 * time.Minute},
		"no end":           {issue(`{"access_token":"x"}`), 30 * time.Minute},
		"unreadable end":   {issue(`{"access_token":"x","expiresAt":"soon"}`), 30 * time.Minute},
		"end without zone": {issue(`{"access_token":"x","expiresAt":"2026-11-20T12:30:00"}`), 30 * time.Minute},
		"end long past":    {issue(`{"access_token":"x","expiresAt":"2020-01-01T00:00:00Z"}`), time.Minute},
		"end far away":     {issue(`{"access_token":"x","expiresAt":"2099-01-01T00:00:00Z"}`), 30 * time.Minute},
		"an error in 200":  {always(200, `{"code":"05","description":"Invalid client credentials"}`), 0},
		"no token in it":   {issue(`{"expiresAt":"2026-11-20T12:20:00Z"}`), 0},
		"no data":          {always(200, `{"code":"00"}`), 0},
		"garbage":          {always(200, `<html>`), 0},
		"401":              {always(401, `{"code":"05"}`), 0},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c, w := setup(t, banksAnswer)
			w.answerTokens(tt.token)
			_, err := c.Banks(t.Context())
			if tt.life == 0 {
				require.Equal(t, "E", class("", err))
				require.Empty(t, w.got())
				return
			}
			require.NoError(t, err)
			require.Equal(t, start.Add(tt.life), c.held.end)
		})
	}
}
