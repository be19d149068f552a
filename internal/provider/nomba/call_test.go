package nomba

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"ajo/internal/config"
)

func TestRetriesOfCallsWithoutEffect(t *testing.T) {
	t.Parallel()
	list := always(200, good(`[{"code":"058","name":"GTBank"}]`))
	for label, tt := range map[string]struct {
		do    http.HandlerFunc
		calls int
		want  string
	}{
		"429, then good":     {inTurn(always(429, ``), list), 2, "O"},
		"503 thrice, good":   {inTurn(always(503, ``), always(500, `{"code":"01"}`), always(502, `<html>`), list), 4, "O"},
		"code 01, then good": {inTurn(always(200, `{"code":"01"}`), list), 2, "O"},
		"cut, then good":     {inTurn(hangUp, list), 2, "O"},
		"500 for ever":       {always(500, `{"code":"01"}`), 4, "E"},
		// and more, where net/http finds a reused connection closed
		"cut for ever":     {hangUp, -4, "E"},
		"refused":          {always(200, `{"code":"02"}`), 1, "E"},
		"unknown code":     {always(200, `{"code":"99"}`), 1, "E"},
		"garbage":          {always(200, `<html>`), 1, "E"},
		"404":              {always(404, ``), 1, "E"},
		"code 00 in a 500": {inTurn(always(500, ``), always(500, good(`[{"code":"058","name":"GTBank"}]`))), 2, "O"},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c, w := setup(t, tt.do)
			_, err := c.Banks(t.Context())
			require.Equal(t, tt.want, class("", err), "%v", err)
			if tt.calls < 0 {
				require.GreaterOrEqual(t, len(w.got()), -tt.calls)
				return
			}
			require.Len(t, w.got(), tt.calls)
		})
	}
}

func TestRetryAfterBeyondTheCallsTime(t *testing.T) {
	t.Parallel()
	c, w := setup(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "3600")
		say(rw, 429, ``)
	})
	_, err := c.Banks(t.Context())
	require.Equal(t, "E", class("", err))
	require.Len(t, w.got(), 1, "it does not wait an hour, nor comes earlier than asked")
}

func TestNoRetriesWhenTurnedOff(t *testing.T) {
	t.Parallel()
	c, w := setup(t, always(503, ``), func(o *Options) { o.Retries = -1 })
	_, err := c.Banks(t.Context())
	require.Error(t, err)
	require.Len(t, w.got(), 1)
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	short := func(o *Options) { o.Timeout, o.PayTimeout = 50*time.Millisecond, 50*time.Millisecond }
	for name, call := range everyCall {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var outcomes []string
			c, w := setup(t, silent, short, func(o *Options) {
				o.Observe = func(call, outcome string, _ time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					outcomes = append(outcomes, call+" "+outcome)
				}
			})
			s, err := call(t.Context(), c)
			require.Equal(t, "E", class(s, err))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			mu.Lock()
			defer mu.Unlock()
			require.Contains(t, outcomes, name+" timeout")
			posts := slices.DeleteFunc(w.got(), func(c string) bool { return strings.HasPrefix(c, "GET") })
			require.LessOrEqual(t, len(posts), 1)
		})
	}
}

func TestCallerWhoLeaves(t *testing.T) {
	t.Parallel()
	for name, call := range everyCall {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			c, w := setup(t, func(rw http.ResponseWriter, r *http.Request) {
				cancel()
				silent(rw, r)
			})
			s, err := call(ctx, c)
			require.Equal(t, "E", class(s, err))
			require.ErrorIs(t, err, context.Canceled)
			require.Len(t, w.got(), 1)
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	c, _ := setup(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"code":"00","data":[`)
		row := []byte(strings.Repeat(`{"code":"058","name":"GTBank"},`, 1000))
		for range 200 {
			if _, err := w.Write(row); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `{"code":"058","name":"GTBank"}]}`)
	})
	_, err := c.Banks(t.Context())
	require.ErrorContains(t, err, "larger than 1 MiB")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	c, _ := setup(t, always(200, good(`[{"code":"058","name":"GTBank"}]`)))
	limits := config.Defaults()
	require.InDelta(t, 75, float64(limiter(limits.ProviderRate).Limit()), 0)
	require.Equal(t, 15, limiter(limits.ProviderRate).Burst())
	require.InDelta(t, 15, float64(limiter(limits.ProviderPostRate).Limit()), 0)

	// A limit that lets one call pass, and the next only after the call's time is up.
	c.posts = newTurns(rate.NewLimiter(0.001, 1))
	_, err := c.Lookup(t.Context(), "058", "0554772814")
	require.NotContains(t, err.Error(), "no turn in time")
	_, err = c.Pay(t.Context(), payOf(ref))
	require.ErrorContains(t, err, "no turn in time")
	require.Equal(t, "E", class("", err))
	_, err = c.Banks(t.Context())
	require.NoError(t, err, "a GET is not a POST")
	c.all = newTurns(rate.NewLimiter(0.001, 0))
	_, err = c.Banks(t.Context())
	require.ErrorContains(t, err, "no turn in time")
}

// What bounds the calls is the limits and not the connections: a slow bank has as many at once as a
// worker confirms and settles.
func TestCallsDoNotWaitForConnections(t *testing.T) {
	t.Parallel()
	var arrived sync.WaitGroup
	arrived.Add(384 + 64)
	c, _ := setup(t, func(w http.ResponseWriter, r *http.Request) {
		there := make(chan struct{})
		go func() { arrived.Done(); arrived.Wait(); close(there) }()
		select { // each answer comes when all calls are there
		case <-there:
			say(w, 200, good(`[{"code":"058","name":"GTBank"}]`))
		case <-r.Context().Done():
		}
	}, func(o *Options) { o.Retries, o.Timeout = -1, 2*time.Minute })
	var all errgroup.Group
	for range 384 + 64 {
		all.Go(func() error {
			_, err := c.Banks(t.Context())
			return err
		})
	}
	require.NoError(t, all.Wait())
}
