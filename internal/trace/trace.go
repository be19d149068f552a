// Package trace follows one payment or settlement from its first request through the queues to its
// end, with OpenTelemetry.
//
// What always holds: whether something is traced is decided once, by this process's own dice, where
// a request comes in ([Begin]); later steps go on from the traceparent that the row carries
// ([Resume]). What is not traced has no span, no traceparent on its row or task, and costs no
// allocation. Attributes are ids, counts and outcomes: never money, accounts, names or URLs.
package trace

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Header is the W3C name of the header, and of the key of a task's headers.
const Header = "traceparent"

// tracing is what [Setup] switched on; nil while tracing is off.
type tracing struct {
	tracer trace.Tracer
	every  int
}

var current atomic.Pointer[tracing]

// Span is one step of a trace; the zero Span, of what is not traced, takes everything and does
// nothing.
type Span struct{ s trace.Span }

// Begin throws the dice for a request that came in at the given time, and begins its trace when
// they say so: under the caller's own traceparent, if it sent one that reads, else as a new one.
// That the caller traces decides nothing here.
func Begin(ctx context.Context, name, traceparent string, at time.Time) (context.Context, Span) {
	t := current.Load()
	if t == nil || rand.N(t.every) != 0 {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(withParent(ctx, traceparent), name, trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindServer))
	return ctx, Span{s}
}

// Resume begins a step of the trace that a row carries, at the given time. A row without one is not
// traced.
func Resume(ctx context.Context, name, traceparent string, at time.Time) (context.Context, Span) {
	t := current.Load()
	if t == nil || traceparent == "" {
		return ctx, Span{}
	}
	ctx = withParent(ctx, traceparent)
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindConsumer))
	return ctx, Span{s}
}

// Step begins a part of the step that ctx belongs to, if that is traced.
func Step(ctx context.Context, name string) (context.Context, Span) {
	t := current.Load()
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name)
	return ctx, Span{s}
}

// Of returns the span that ctx belongs to.
func Of(ctx context.Context) Span {
	if current.Load() == nil {
		return Span{}
	}
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		return Span{s}
	}
	return Span{}
}

// Parent is the traceparent of ctx, for a row, a task or a request of ours; "" when ctx is not
// traced.
func Parent(ctx context.Context) string {
	if current.Load() == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[Header]
}

// Within returns a context for the log lines about a row that carries the traceparent, when ctx has
// no trace of its own.
func Within(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" || current.Load() == nil || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return withParent(ctx, traceparent)
}

// ID is the trace id of ctx, for a log line; "" when ctx is not traced.
func ID(ctx context.Context) string {
	if current.Load() == nil {
		return ""
	}
	if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// withParent makes ctx belong to a remote span; a traceparent that does not read leaves it as it
// is.
func withParent(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{Header: traceparent})
}

// Text adds an attribute.
func (s Span) Text(key, value string) {
	if s.s != nil {
		s.s.SetAttributes(attribute.String(key, value))
	}
}

// Number adds an attribute.
func (s Span) Number(key string, value int) {
	if s.s != nil {
		s.s.SetAttributes(attribute.Int(key, value))
	}
}

// Traced reports whether the span is kept; for what is worth doing only then.
func (s Span) Traced() bool { return s.s != nil }

// Fail marks the step as failed. Why is in the log, under the trace's id: an error's text may name
// what attributes must not.
func (s Span) Fail() {
	if s.s != nil {
		s.s.SetStatus(codes.Error, "")
	}
}

// End ends the step; only then is it exported.
func (s Span) End() {
	if s.s != nil {
		s.s.End()
	}
}
