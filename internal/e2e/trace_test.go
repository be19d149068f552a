package e2e

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/testenv"
)

// traces is an OpenTelemetry collector: it decodes what it is sent, and keeps it.
type traces struct {
	t     testing.TB
	mu    sync.Mutex
	spans []*otlp.Span
}

// traced makes the world's processes trace every request, to a collector of its own.
func (w *world) traced() *traces {
	c := &traces{t: w.t}
	s := httptest.NewServer(c)
	w.t.Cleanup(s.Close)
	w.settings["OTEL_EXPORTER_OTLP_ENDPOINT"], w.settings["AJO_TRACE_EVERY"] = s.URL, "1"
	w.settings["OTEL_BSP_SCHEDULE_DELAY"] = "200" // milliseconds, and not five seconds
	return c
}

func (c *traces) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var sent collector.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &sent) != nil {
		c.t.Errorf("the collector was sent what is not OTLP, at %s", r.URL.Path)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range sent.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// about returns the spans of the trace whose span of the name has the attribute.
func (c *traces) about(name, key, value string) []*otlp.Span {
	for _, s := range named(c.all(), name) {
		if attribute(s, key) == value {
			return c.under(s)
		}
	}
	return nil
}

// under returns the spans of the same trace.
func (c *traces) under(s *otlp.Span) []*otlp.Span {
	return slices.DeleteFunc(c.all(), func(o *otlp.Span) bool { return string(o.TraceId) != string(s.TraceId) })
}

func (c *traces) all() []*otlp.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

func attribute(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// named are the spans of the name.
func named(spans []*otlp.Span, name string) (out []*otlp.Span) {
	for _, s := range spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// paths are the spans as root/…/name, sorted, each as often as it is there.
func paths(spans []*otlp.Span) (out []string) {
	byID := map[string]*otlp.Span{}
	for _, s := range spans {
		byID[string(s.SpanId)] = s
	}
	for _, s := range spans {
		path := s.Name
		for p := byID[string(s.ParentSpanId)]; p != nil; p = byID[string(p.ParentSpanId)] {
			path = p.Name + " > " + path
		}
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// tree is the trace for people: each step with its start after the first one's, and how long it
// took.
func tree(spans []*otlp.Span) string {
	slices.SortFunc(spans, func(a, b *otlp.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	var b strings.Builder
	var under func(parent []byte, indent string)
	under = func(parent []byte, indent string) {
		for _, s := range spans {
			if string(s.ParentSpanId) != string(parent) {
				continue
			}
			start, took := time.Duration(s.StartTimeUnixNano-spans[0].StartTimeUnixNano), time.Duration(s.EndTimeUnixNano-s.StartTimeUnixNano)
			fmt.Fprintf(&b, "%-36s +%-10s %s\n", indent+s.Name, start.Round(100*time.Microsecond), took.Round(10*time.Microsecond))
			under(s.SpanId, indent+"  ")
		}
	}
	under(nil, "")
	return b.String()
}

// eventOf is the id of the event of a transaction.
func (w *world) eventOf(tx fakebank.Transaction) string {
	return testenv.Value[string](w.Env, `SELECT id::text FROM inbound_events WHERE provider_txn_ref = $1 AND event_type = 'payment_success'`, tx.ID)
}

const webhookSpan = "POST /webhooks/provider"

// A payment is one trace from the bank's call to its confirmation, over three processes; the tenant
// is told of it, the bank is not; log lines name it; and no attribute holds what is secret or whose
// money it is.
func TestTraceOfAPayment(t *testing.T) {
	w := newWorld(t)
	w.settings["AJO_SWEEP_EVERY"] = "1h" // one that finds a row a moment late would be a step more
	c := w.traced()
	p := &paid{world: w}
	*p = *w.settle()
	p.startWorker("ingest,confirm,expire,settle")
	p.startWorker("deliver=128")
	tx := p.payAndTell(p.nuban, "5123.45")
	p.txs = append(p.txs, tx)
	p.waitForEnd(1)
	event := p.eventOf(tx)
	want := []string{
		webhookSpan,
		webhookSpan + " > receive",
		webhookSpan + " > receive > confirm",
		webhookSpan + " > receive > confirm > ask the bank",
		webhookSpan + " > receive > deliver",
		webhookSpan + " > receive > deliver > call the tenant",
		webhookSpan + " > receive > post",
	}
	var got []*otlp.Span
	p.eventually("the whole trace", func() bool {
		got = c.about("receive", "event", event)
		return slices.Equal(paths(got), want)
	})
	require.Empty(t, named(got, webhookSpan)[0].ParentSpanId)
	require.NotEmpty(t, attribute(named(got, webhookSpan)[0], "request_id"))
	t.Logf("the trace of a payment:\n%s", tree(got))

	trace := hex.EncodeToString(got[0].TraceId)
	call := named(got, "call the tenant")[0]
	require.Equal(t, "00-"+trace+"-"+hex.EncodeToString(call.SpanId)+"-01", p.endpoint.received()[0].header.Get("traceparent"))
	receive := "00-" + trace + "-" + hex.EncodeToString(named(got, "receive")[0].SpanId) + "-01"
	require.Equal(t, receive, testenv.Value[string](w.Env, `SELECT traceparent FROM inbound_events`))
	require.Equal(t, receive, testenv.Value[string](w.Env, `SELECT traceparent FROM deliveries`))
	p.checkBooks(p.endpoint)

	for _, s := range c.all() {
		for _, a := range s.Attributes {
			text := a.Value.String()
			for what, secret := range w.secrets {
				require.NotContains(t, text, secret, "%s has the %s", s.Name, what)
			}
			for _, private := range []string{p.nuban, "5123", "5,123", "Bola", "school", "shop-1", p.tenant.email, p.endpoint.URL, tx.ID} {
				require.NotContains(t, text, private, "attribute %s of %s", a.Key, s.Name)
			}
		}
	}
}

// What a worker logs about a payment names its trace.
func TestWorkersLogTheTrace(t *testing.T) {
	w := newWorld(t)
	w.traced()
	p := &paid{world: w}
	*p = *w.settle()
	tx := p.payAndTell(p.nuban, "5000.00")
	_, err := p.bank.Reverse(t.Context(), tx.ID)
	require.NoError(t, err)
	line := p.startWorker("").logged("a payment was reversed")
	require.Equal(t, strings.Split(testenv.Value[string](w.Env, `SELECT traceparent FROM inbound_events WHERE id::text = $1`, p.eventOf(tx)), "-")[1], line["trace_id"])
}

// Redis is emptied while the event waits, and again while its payment does: the sweeper's task goes
// on with the row's trace.
func TestTraceSurvivesAnEmptiedRedis(t *testing.T) {
	w := newWorld(t)
	c := w.traced()
	p := &paid{world: w}
	*p = *w.settle()
	tx := p.payAndTell(p.nuban, "5000.00")
	p.flush()
	p.startWorker("ingest")
	p.eventually("the posting", func() bool { return p.progress().posted == 1 })
	p.flush()
	p.startWorker("")
	p.waitForEnd(1)
	p.eventually("the whole trace", func() bool {
		got := paths(c.about("receive", "event", p.eventOf(tx)))
		for _, step := range []string{"post", "deliver", "confirm"} {
			if !slices.Contains(got, webhookSpan+" > receive > "+step) {
				return false
			}
		}
		return true
	})
}

// A settlement is one trace from the request to its last question, and goes on with the tenant's
// own.
func TestTraceOfASettlement(t *testing.T) {
	s := newSettler(t)
	c := s.traced()
	s.fund("shop-1", money.Must("1000.00"))
	s.startAPI()
	s.startWorker("")
	const ours = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	header := http.Header{"X-Api-Key": {s.key}, "Traceparent": {ours}}
	a := s.send("POST", "/v1/accounts/shop-1/settle", map[string]string{"amount": "100.00", "bankCode": "058", "accountNumber": "0123456789"}, header)
	require.Equal(t, http.StatusAccepted, a.status, "%s", a.body)
	s.eventually("the payout", func() bool { return s.count(`SELECT count(*) FROM transfers WHERE status = 'success'`) == 1 })
	id := testenv.Value[string](s.Env, `SELECT id::text FROM transfers`)
	const request = "POST /v1/accounts/:accountRef/settle"
	var got []*otlp.Span
	s.eventually("the trace of the settlement", func() bool {
		got = c.about("accept", "transfer", id)
		steps := named(got, "settle")
		all := paths(got)
		return len(steps) > 0 && slices.ContainsFunc(steps, func(s *otlp.Span) bool { return attribute(s, "outcome") == "paid" }) &&
			slices.Contains(all, request+" > accept > settle > look up the holder") && slices.Contains(all, request+" > accept > settle > pay")
	})
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", hex.EncodeToString(got[0].TraceId))
	require.Equal(t, "b7ad6b7169203331", hex.EncodeToString(named(got, request)[0].ParentSpanId))

	// The same header without a key, and from whoever says to be the bank, is not gone on with, and
	// what is forged is not kept.
	before := len(c.all())
	header = http.Header{"Traceparent": {"00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	require.Equal(t, http.StatusUnauthorized, s.send("GET", "/v1/accounts", nil, header.Clone()).status)
	require.Equal(t, http.StatusOK, s.send("POST", "/webhooks/provider", map[string]string{"event_type": "payment_success"}, header.Clone()).status)
	require.Equal(t, http.StatusOK, s.send("GET", "/health", nil, header.Clone()).status)
	s.api.Signal(syscall.SIGTERM) // exports what it still holds
	require.Zero(t, s.api.exit())
	for _, span := range c.all()[before:] {
		require.NotEqual(t, "1af7651916cd43dd8448eb211c80319c", hex.EncodeToString(span.TraceId))
	}
	for _, span := range named(c.all(), webhookSpan) { // the bank's own about the payout
		require.Contains(t, paths(c.under(span)), webhookSpan+" > receive", "a forged event was traced")
	}
	require.NotEmpty(t, named(c.all()[before:], "GET /health"), "the last spans are exported at the end")
	require.Zero(t, s.count(`SELECT count(*) FROM inbound_events WHERE NOT authentic AND traceparent <> ''`))
}

// Without a collector nothing is traced, stored, or sent; with one that is away payments go on.
func TestTracingOffAndAway(t *testing.T) {
	for name, endpoint := range map[string]string{"off": "", "away": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if endpoint != "" {
				w.settings["OTEL_EXPORTER_OTLP_ENDPOINT"], w.settings["AJO_TRACE_EVERY"] = endpoint, "1"
			}
			p := &paid{world: w}
			*p = *w.settle()
			p.startWorker("")
			p.txs = append(p.txs, p.payAndTell(p.nuban, "5000.00"))
			p.waitForEnd(1)
			p.checkBooks(p.endpoint)
			if endpoint == "" {
				require.Zero(t, p.count(`SELECT count(*) FROM inbound_events WHERE traceparent <> ''`))
				require.Zero(t, p.count(`SELECT count(*) FROM deliveries WHERE traceparent <> ''`))
				require.Empty(t, p.endpoint.received()[0].header.Get("traceparent"))
			}
			p.api.Signal(syscall.SIGTERM)
			require.Zero(t, p.api.exit())
		})
	}
}
