package trace_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/trace"
)

const remote = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// step is what a request and a step of a row ask of this package.
func step(ctx context.Context, at time.Time, traceparent string) {
	ctx, request := trace.Begin(ctx, "request", "", at)
	ctx, part := trace.Step(ctx, "part")
	part.Text("key", "value")
	_ = trace.Parent(ctx)
	part.End()
	request.End()
	_, s := trace.Resume(trace.Within(ctx, traceparent), "step", traceparent, at)
	s.Number("rows", 3)
	s.Fail()
	s.End()
}

// start switches tracing on, to a collector that takes everything.
func start(t testing.TB, every int) {
	taken := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(taken.Close)
	stop, err := trace.Setup(t.Context(), trace.Options{Endpoint: taken.URL, Every: every, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop(context.Background())) })
}

// Off, and on for what the dice leave out, tracing allocates nothing.
func TestWhatIsNotTracedAllocatesNothing(t *testing.T) {
	ctx, at := context.Background(), time.Now()
	require.Zero(t, testing.AllocsPerRun(100, func() { step(ctx, at, remote) }), "off")
	start(t, 1<<40)
	require.Zero(t, testing.AllocsPerRun(100, func() { step(ctx, at, "") }), "on, not traced")
}

// A caller's trace is gone on with whatever it says of sampling; what does not read begins a new
// one.
func TestOnlyOurDiceDecide(t *testing.T) {
	start(t, 1)
	for traceparent, id := range map[string]string{
		remote: "0af7651916cd43dd8448eb211c80319c", remote[:53] + "00": "0af7651916cd43dd8448eb211c80319c", "": "", "00-zz-zz-01": "", "00-" + remote: "",
	} {
		ctx, span := trace.Begin(t.Context(), "request", traceparent, time.Now())
		require.True(t, span.Traced())
		require.Len(t, trace.Parent(ctx), 55)
		require.Equal(t, "01", trace.Parent(ctx)[53:], "what is traced says so to the next")
		if id != "" {
			require.Equal(t, id, trace.ID(ctx))
		}
		span.End()
	}
	_, span := trace.Resume(t.Context(), "step", remote[:53]+"00", time.Now())
	require.False(t, span.Traced(), "a row of a trace that is not kept")
}

func TestOneInSoMany(t *testing.T) {
	start(t, 10)
	var traced int
	for range 10_000 {
		_, span := trace.Begin(t.Context(), "request", remote, time.Now())
		if span.Traced() {
			traced++
		}
	}
	require.InDelta(t, 1000, traced, 200) // seven standard deviations
}

// The cost of one payment's worth of calls: off, one in a hundred, and each.
func BenchmarkStep(b *testing.B) {
	ctx := context.Background()
	b.Run("off", func(b *testing.B) {
		for b.Loop() {
			step(ctx, time.Time{}, "")
		}
	})
	for name, every := range map[string]int{"one in 100": 100, "each": 1} {
		b.Run(name, func(b *testing.B) {
			start(b, every)
			var n atomic.Int64
			for b.Loop() {
				traceparent := ""
				if n.Add(1)%int64(every) == 0 {
					traceparent = remote
				}
				step(ctx, time.Now(), traceparent)
			}
		})
	}
}
