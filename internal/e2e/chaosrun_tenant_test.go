package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// mode is how a tenant's endpoint behaves when nothing is done to it.
type mode string

const (
	prompt   mode = "prompt"
	slow     mode = "slow"     // answers after 200 ms
	flapping mode = "flapping" // answers 503 for three seconds of eight
)

// testTenant is a tenant with its accounts and its endpoint.
type testTenant struct {
	*tenant
	name     string
	mode     mode
	accounts []testAccount
	record   *record
	signed   string // the webhook secret
	limited  bool   // there are limits on what it pays out
	fault    atomic.Int32

	mu   sync.Mutex
	once []testAccount // the one-time accounts so far
}

// all are the accounts of every kind.
func (h *testTenant) all() []testAccount {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Concat(h.accounts, h.once)
}

type testAccount struct{ ref, nuban, id string }

// What a fault makes of an endpoint.
const (
	answersWell     int32 = iota // as its mode is
	answersPromptly              // whatever its mode
	says503                      // to everything
	saysNothing
	cutsOff
)

// newTestTenant signs a tenant up, with an endpoint and accounts.
func (s *chaosRun) newTestTenant(name string, as mode, accounts int) *testTenant {
	e := newEndpoint(s.t)
	h := &testTenant{name: name, mode: as, record: s.record}
	server := httptest.NewServer(h)
	s.t.Cleanup(server.Close)
	e.URL = server.URL + "/hook"
	h.tenant = s.signUp(e)
	h.signed = e.secret
	for i := range accounts {
		ref := name + "-" + strconv.Itoa(i)
		a := h.open(ref)
		h.accounts = append(h.accounts, testAccount{ref, a.BankAccountNumber, a.ID})
	}
	return h
}

// ServeHTTP checks a delivery, notes it, and answers as the endpoint does at this moment. One that
// is not answered 2xx is noted too: the tenant has received it.
func (h *testTenant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	now := time.Now()
	as := h.mode
	switch h.fault.Load() {
	case answersPromptly:
		as = prompt
	case says503:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case saysNothing:
		select {
		case <-r.Context().Done():
		case <-time.After(12 * time.Second):
		}
		return
	case cutsOff:
		panic(http.ErrAbortHandler)
	}
	switch {
	case as == slow:
		time.Sleep(200 * time.Millisecond)
	case as == flapping && now.Unix()%8 < 3:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	no, group, odd := h.read(r.Header.Get("X-Service-Signature"), body, now)
	h.record.received(no, group, string(body), odd, now)
}

// read is the number of the payment that a delivery is about (0: none), the event's group, and what
// is wrong with the delivery.
func (h *testTenant) read(signature string, body []byte, now time.Time) (no int, group, odd string) {
	if odd = refusal(h.signed, signature, body, now); odd != "" {
		return 0, "", odd
	}
	var e paymentReceived
	if err := json.Unmarshal(body, &e); err != nil {
		return 0, "", err.Error()
	}
	text, _ := strings.CutPrefix(e.Narration, "payment ")
	no, err := strconv.Atoi(text)
	if err != nil {
		return 0, "", "the narration is " + strconv.Quote(e.Narration)
	}
	return no, e.TransactionGroupID, h.record.mismatch(no, e)
}

// mismatch says how an event differs from the payment that it is about; empty: not at all.
func (r *record) mismatch(no int, e paymentReceived) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if no < 1 || no > len(r.payments) {
		return "there is no such payment"
	}
	p := r.payments[no-1]
	net, gross := p.net(), p.gross
	// from the bank's list, if that was read first, or corrected
	if p.course == altered && e.GrossAmount != gross.String() {
		net, gross = net.Add(altering), gross.Add(altering)
	}
	if e.EventType != "payment.received" || e.AccountRef != p.account || e.Amount != net.String() || e.GrossAmount != gross.String() ||
		e.ProviderFee != p.fee.String() || e.Currency != "NGN" || e.TransactionGroupID == "" {
		return "it differs from the payment"
	}
	return ""
}

// A delivery is checked before it is believed: another secret, another byte, another sum are each
// named.
func TestChaosTenantChecks(t *testing.T) {
	t.Parallel()
	r := newRecord()
	p := r.draft("a-0", naira("5000.00"), naira("25.00"), arrives)
	e := paymentReceived{
		EventType: "payment.received", TransactionGroupID: "g", AccountRef: "a-0", Amount: "4975.00", GrossAmount: "5000.00", ProviderFee: "25.00",
		Currency: "NGN", Narration: p.narration(),
	}
	if odd := r.mismatch(p.no, e); odd != "" {
		t.Error(odd)
	}
	e.Amount = "4975.01"
	if r.mismatch(p.no, e) == "" || r.mismatch(p.no+1, e) == "" {
		t.Error("another sum, or another payment, is believed")
	}
	h := &testTenant{record: r, signed: "a secret"}
	if _, _, odd := h.read("t=1,v1=00", []byte(`{}`), time.Unix(1, 0)); odd == "" {
		t.Error("a false signature is believed")
	}
}
