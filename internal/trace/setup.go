package trace

import (
	"context"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Options say where spans go.
type Options struct {
	Endpoint string // of the collector, OTLP over HTTP, without /v1/traces; empty: tracing is off
	Every    int    // one request in so many is traced, at least 1
	Version  string // of the program
	Log      *slog.Logger
}

// Setup switches tracing on for this process. The returned function exports what waits, until its
// context ends, and switches it off. A collector that is away loses spans and holds nothing up.
func Setup(ctx context.Context, o Options) (stop func(context.Context) error, err error) {
	if o.Endpoint == "" {
		return func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimSuffix(o.Endpoint, "/")+"/v1/traces"))
	if err != nil {
		return nil, err
	}
	about := resource.NewSchemaless(attribute.String("service.name", "ajo"), attribute.String("service.version", o.Version))
	// Every span that begins is kept: Begin has decided.
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithResource(about))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Warn("spans were lost", slog.Any("err", err)) }))
	t := &tracing{tracer: provider.Tracer("ajo"), every: o.Every}
	current.Store(t)
	return func(ctx context.Context) error {
		current.CompareAndSwap(t, nil)
		return provider.Shutdown(ctx)
	}, nil
}
