package metrics

import (
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func scrape(t *testing.T) string {
	t.Helper()
	r := httptest.NewRecorder()
	Handler().ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

// Names, types and labels keep to Prometheus's conventions.
func TestNames(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^ajo_[a-z0-9]+(_[a-z0-9]+)*$`)
	labels := []string{
		"method", "route", "class", "limit", "outcome", "queue", "state", "category", "status", "reason", "to", "operation", "kind", "version", "go_version", "role", "at", "table", "why",
	}
	seen := map[string]bool{}
	for _, m := range Declared() {
		require.Regexp(t, form, m.Name)
		require.False(t, seen[m.Name], m.Name)
		seen[m.Name] = true
		require.Equal(t, m.Type == "counter", strings.HasSuffix(m.Name, "_total"), "%s is a %s", m.Name, m.Type)
		if m.Type == "histogram" {
			require.Regexp(t, `_seconds$`, m.Name)
		}
		require.Regexp(t, `^[A-Z1].*\.$`, m.Help, m.Name)
		for _, l := range m.Labels {
			require.Contains(t, labels, l, "%s: whose values are bounded, and by what?", m.Name)
		}
	}
	require.Greater(t, len(seen), 60)
}

// Each kind of count lands where it is looked for; what nobody declared lands nowhere.
func TestCounts(t *testing.T) {
	h := NewHTTP("GET", "/test/:id")
	h.Answered(204, 3*time.Millisecond)
	h.Answered(503, 3*time.Second)
	h.Answered(101, 0)
	h.Answered(999, 0)
	NewQueue("test").Worked(Later, 20*time.Millisecond)
	BankCalled("pay", "timeout", 30*time.Second)
	BankCalled("pay", "a tenant's text", 0)
	BankCalled("no such call", "ok", 0)
	Confirmations.Inc("no such outcome")
	l := NewLimit("test")
	l.Decided(false, true)
	text := scrape(t)
	for _, line := range []string{
		`ajo_http_requests_total{class="2xx",method="GET",route="/test/:id"} 1`,
		`ajo_http_requests_total{class="5xx",method="GET",route="/test/:id"} 1`,
		`ajo_http_request_duration_seconds_bucket{method="GET",route="/test/:id",le="0.005"} 3`,
		`ajo_queue_rows_total{outcome="later",queue="test"} 1`,
		`ajo_bank_calls_total{operation="pay",outcome="timeout"} 1`,
		`ajo_bank_call_duration_seconds_count{operation="pay"} 1`,
		`ajo_ratelimit_decisions_total{limit="test",outcome="limited"} 1`,
		`ajo_ratelimit_local_decisions_total 1`,
		`ajo_postgres_connections_max 0`,
	} {
		require.True(t, strings.Contains(text, line+"\n"), line)
	}
	for _, unknown := range []string{`"no such call"`, `"no such outcome"`, "a tenant's text"} {
		require.False(t, strings.Contains(text, unknown), unknown)
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	now := time.Now()
	before, after := now.Add(-time.Minute), now.Add(time.Minute)
	require.Equal(t, []time.Duration{0, time.Minute, 0}, []time.Duration{Age(now, nil), Age(now, &before), Age(now, &after)})
}

const deploy = "../../deploy/"

func file(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(deploy + path)
	require.NoError(t, err)
	return string(b)
}

// What the rules and the dashboard ask for exists, and what is declared is asked for somewhere.
func TestRulesAndDashboardKnowTheMetrics(t *testing.T) {
	t.Parallel()
	rules, board := file(t, "prometheus/rules.yaml"), file(t, "grafana/ajo.json")
	recorded := regexp.MustCompile(`record: (\S+)`).FindAllStringSubmatch(rules, -1)
	known := map[string]bool{}
	for _, r := range recorded {
		known[r[1]] = true
	}
	for _, m := range Declared() {
		known[m.Name] = true
		if m.Type == "histogram" {
			known[m.Name+"_bucket"], known[m.Name+"_sum"], known[m.Name+"_count"] = true, true, true
		}
	}
	for _, doc := range []string{"runbook.md", "../docs/operations.md"} {
		for _, name := range regexp.MustCompile(`\bajo_[a-z]+_[a-z0-9_]+`).FindAllString(file(t, doc), -1) {
			require.True(t, known[name], "%s: nobody declares %s", doc, name)
		}
	}
	used := map[string]bool{}
	for _, text := range []string{rules, board} {
		for _, name := range regexp.MustCompile(`\bajo[_:][a-z0-9_:]+`).FindAllString(text, -1) {
			require.True(t, known[name], "nobody declares %s", name)
			used[name] = true
		}
	}
	for _, m := range Declared() {
		ok := used[m.Name] || m.Type == "histogram" && (used[m.Name+"_bucket"] || used[m.Name+"_sum"] || used[m.Name+"_count"])
		require.True(t, ok, "%s stands neither in the rules nor on the dashboard", m.Name)
	}
}

// Every alert has its paragraph in the runbook, and the runbook has none of an alert that is gone.
func TestRunbookHasEveryAlert(t *testing.T) {
	t.Parallel()
	var alerts []string
	rules := file(t, "prometheus/rules.yaml")
	for _, part := range strings.Split(rules, "- alert: ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		alerts = append(alerts, name)
		for _, field := range []string{"expr: ", "labels: {severity: ", "summary: ", "runbook_url: deploy/runbook.md#" + strings.ToLower(name) + "\n"} {
			require.Contains(t, rest, field, name)
		}
	}
	require.Greater(t, len(alerts), 30)
	var headings []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (Ajo[A-Z]\w+)$`).FindAllStringSubmatch(file(t, "runbook.md"), -1) {
		headings = append(headings, m[1])
	}
	slices.Sort(alerts)
	slices.Sort(headings)
	require.Equal(t, alerts, headings)
}

func BenchmarkHTTP(b *testing.B) {
	h := NewHTTP("GET", "/bench")
	for b.Loop() {
		h.Answered(200, 3*time.Millisecond)
	}
}

func BenchmarkQueueRow(b *testing.B) {
	q := NewQueue("bench")
	for b.Loop() {
		q.Worked(Done, 3*time.Millisecond)
	}
}

func BenchmarkPosted(b *testing.B) {
	for b.Loop() {
		Posted("payment", 3*time.Millisecond)
	}
}

func BenchmarkEvent(b *testing.B) {
	for b.Loop() {
		EventStored.Inc()
	}
}

func BenchmarkDelivery(b *testing.B) {
	for b.Loop() {
		Attempted("delivered", 3*time.Millisecond)
		DeliveryLatency.Observe((30 * time.Millisecond).Seconds())
	}
}

func BenchmarkBankCall(b *testing.B) {
	for b.Loop() {
		BankCalled("transaction", "ok", 3*time.Millisecond)
	}
}

func BenchmarkLimit(b *testing.B) {
	l := NewLimit("bench")
	for b.Loop() {
		l.Decided(true, false)
	}
}

func BenchmarkHTTPParallel(b *testing.B) {
	h := NewHTTP("GET", "/bench-parallel")
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			h.Answered(200, 3*time.Millisecond)
		}
	})
}
