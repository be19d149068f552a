package e2e

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/api"
	"ajo/internal/fakebank"
	"ajo/internal/metrics"
	"ajo/internal/money"
)

// watched runs a role, and returns the address of its operations listener.
func (w *world) watched(start func()) (ops string) {
	w.t.Helper()
	others := len(w.procs)
	start()
	return w.procs[others].ops()
}

// scrape reads a role's metrics; empty when it does not answer.
func scrape(ops string) string {
	resp, err := http.Get("http://" + ops + "/metrics")
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		return ""
	}
	return string(b)
}

// sample is the value of a series, by its name and labels as a scrape writes them; -1 when it is
// not there.
func sample(text, series string) int {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			f, _ := strconv.ParseFloat(v, 64)
			return int(f)
		}
	}
	return -1
}

// A run of everything shows every metric that is declared, with the values that the run must have;
// labels are few, and nothing in them is a tenant's.
func TestMetricsOfARun(t *testing.T) {
	w := newWorld(t)
	w.settings["AJO_IDENTITY_URL"], w.settings["AJO_IDENTITY_APP_ID"], w.settings["AJO_IDENTITY_KEY"] = w.settings["AJO_PROVIDER_URL"], "test", "an-identity-key-of-this-test"
	w.keepSecret("identity key", "an-identity-key-of-this-test")
	var p *paid
	apiOps := w.watched(func() { p = w.settle() })
	workerOps := w.watched(func() { w.startWorker("") })
	p.arrive()
	forged := p.genuine()
	p.sends(forged.body, headersWith("no signature", "now"))
	w.send("GET", "/no/such/path", nil, http.Header{})
	w.bank.AddPerson(nin, fakebank.Person{FirstName: "Ada", LastName: "Obi"})
	p.tenant.want(200, "POST", "/v1/customers/"+p.tenant.open("shop-2").CustomerID+"/kyc", map[string]string{"nin": nin})
	w.keepSecret("NIN", nin)
	w.waitForEnd(some)
	p.tenant.want(202, "POST", "/v1/accounts/shop-1/settle", map[string]string{"amount": "100.00", "bankCode": "058", "accountNumber": "0123456789"})
	w.eventually("the payout's end", func() bool { return w.count(`SELECT count(*) FROM transfers WHERE status = 'success'`) == 1 })
	var api, worker string
	const webhooks = `ajo_http_requests_total{class="2xx",method="POST",route="/webhooks/provider"}`
	w.eventually("gauges that have seen it", func() bool {
		api, worker = scrape(apiOps), scrape(workerOps)
		return sample(worker, `ajo_queue_tasks{queue="confirm",state="active"}`) == 0 && sample(worker, "ajo_reconcile_read_until_timestamp_seconds") > 0 &&
			sample(worker, `ajo_transfers_ended_total{status="success"}`) == 1 && sample(api, `ajo_inbound_events_total{outcome="stored"}`) > some &&
			sample(api, webhooks) == some+2
	})
	for series, want := range map[string]int{
		`ajo_inbound_events_total{outcome="stored"}`: some + 1, `ajo_inbound_events_total{outcome="forged"}`: 1,
		webhooks: some + 2, // and the payout's event
		`ajo_http_requests_total{class="4xx",method="",route="none"}`: 1,
		`ajo_nin_checks_total{outcome="match"}`:                       1, "ajo_postgres_up": 1, "ajo_redis_up": 1, "ajo_spool_records": 0,
		"ajo_postgres_connections_max": 6, `ajo_bank_calls_total{operation="create_account",outcome="ok"}`: 2,
		`ajo_queue_oldest_due_seconds{queue="ingest"}`: 0, "ajo_ratelimit_fallback": 0,
	} {
		require.Equal(t, want, sample(api, series), series)
	}
	for series, want := range map[string]int{
		`ajo_payments_total{category="payment"}`: some, `ajo_payment_posting_seconds_count`: some, `ajo_confirmations_total{outcome="confirmed"}`: some,
		`ajo_delivery_attempts_total{outcome="delivered"}`: some, `ajo_delivery_latency_seconds_count`: some,
		`ajo_queue_workers{queue="deliver"}`: 256, `ajo_queue_tasks{queue="ingest",state="pending"}`: 0, `ajo_bank_calls_total{operation="pay",outcome="ok"}`: 1,
		"ajo_invariant_violations": 0, "ajo_delivery_breakers_open": 0, "ajo_clock_offset_seconds": 0, "ajo_reconcile_exceptions": 0,
	} {
		require.Equal(t, want, sample(worker, series), series)
	}
	// more where the sweep has enqueued a row once more, which then finds it done
	require.GreaterOrEqual(t, sample(worker, `ajo_queue_rows_total{outcome="done",queue="ingest"}`), some)
	for _, m := range metrics.Declared() {
		require.True(t, regexp.MustCompile(`(?m)^`+m.Name+`(_count)?[{ ]`).MatchString(api+worker), "%s has no sample", m.Name)
	}
	for _, text := range []string{api, worker} {
		checkLabels(t, text)
		require.NotContains(t, text, p.tenant.id)
		require.NotContains(t, text, p.nuban)
		require.NotContains(t, text, w.txRef())
		w.checkText("a scrape", []byte(text))
	}
}

// txRef is a reference of the bank's that must not be in a label.
func (w *world) txRef() string {
	return w.payment(fakebank.Payment{Amount: money.Must("1.00"), NUBAN: w.bank.Transactions()[0].NUBAN, Silent: true}).ID
}

var (
	idForm    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-|://|@|[0-9]{10}|shop-`)
	labelForm = regexp.MustCompile(`\{(.*)\} `)
)

// checkLabels looks at the labels of every series of ours: none is anybody's, and no metric has
// many.
func checkLabels(t *testing.T, text string) {
	t.Helper()
	series := map[string]int{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "ajo_") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ = strings.Cut(name, "{")
		if strings.HasSuffix(name, "_bucket") {
			continue
		}
		series[name]++
		if l := labelForm.FindString(line); l != "" && !strings.HasPrefix(line, "ajo_build_info") {
			require.NotRegexp(t, idForm, l)
		}
	}
	require.Greater(t, len(series), 60)
	for name, n := range series {
		// a route, or none, by the class of the answer
		require.LessOrEqual(t, n, 4*(len(api.Routes)+1), "%s has %d series", name, n)
	}
}
