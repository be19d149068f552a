package fakebank

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxBody is the largest request body that is read, in bytes.
const maxBody = 1 << 20

// envelope is what every answer of the provider's wire comes in. Status is false in good answers
// too: a quirk of the wire.
type envelope struct {
	Code        string `json:"code"`
	Description string `json:"description"`
	Data        any    `json:"data,omitempty"`
	Status      bool   `json:"status"`
}

// answer is an HTTP answer before it is written.
type answer struct {
	status int
	body   any
}

func good(data any) answer {
	return answer{http.StatusOK, envelope{Code: "00", Description: "Success", Data: data}}
}

// refused is an error in the provider's manner: HTTP 200 with a code.
func refused(code, description string) answer {
	return answer{http.StatusOK, envelope{Code: code, Description: description}}
}

// failed is an error with an HTTP status of its own.
func failed(status int, code, description string) answer {
	return answer{status, envelope{Code: code, Description: description}}
}

// call is one request under way: its body is read, and the rules have been asked.
type call struct {
	*http.Request
	body []byte
	plan plan
	bare bool // of the NIN service, which has no envelope
}

// trouble is an error that a rule wants, in the manner of the service that was called.
func (c *call) trouble(status int, code string) answer {
	const text = "Could not be processed at the moment"
	if c.bare {
		return answer{status, ninError{text}}
	}
	return failed(status, code, text)
}

// does reports whether the rules decided on this action.
func (c *call) does(a Action) bool { return c.plan.rule.Do == a }

// decode reads the body, and answers what is wrong with it.
func (c *call) decode(into any) (answer, bool) {
	if err := json.Unmarshal(c.body, into); err != nil {
		return failed(http.StatusBadRequest, "02", "Request body is not valid JSON for this endpoint"), false
	}
	return answer{}, true
}

// endpoint is one row of the wire: its pattern, the group whose rules strike it, who may call it,
// and what it does.
type endpoint struct {
	pattern string
	group   Group
	open    bool // without a token
	do      func(*Bank, *call) answer
}

// wire is everything that the provider and the NIN service serve.
var wire = []endpoint{
	{"POST /v1/auth/token/issue", OnToken, true, (*Bank).issueToken},
	{"POST /v1/accounts/virtual", OnAccounts, false, (*Bank).createAccount},
	{"GET /v1/accounts/virtual/{accountRef}", OnAccounts, false, (*Bank).getAccount},
	{"DELETE /v1/accounts/virtual/{accountRef}", OnAccounts, false, (*Bank).closeAccount},
	{"GET /v1/transactions/accounts/single", OnTransactions, false, (*Bank).getTransaction},
	{"POST /v1/transactions/accounts", OnTransactions, false, (*Bank).listTransactions},
	{"GET /v1/transfers/banks", OnBanks, false, (*Bank).listBanks},
	{"POST /v1/transfers/bank/lookup", OnLookup, false, (*Bank).lookup},
	{"POST /v2/transfers/bank", OnPayouts, false, (*Bank).submitPayout},
	{"GET /api/v1/kyc/nin", OnNIN, true, (*Bank).checkNIN},
}

func (b *Bank) routes() http.Handler {
	mux := http.NewServeMux()
	b.calls = make(map[string]*atomic.Int64, len(wire))
	for _, e := range wire {
		n := new(atomic.Int64)
		b.calls[e.pattern] = n
		mux.HandleFunc(e.pattern, func(w http.ResponseWriter, r *http.Request) {
			n.Add(1)
			b.serve(w, r, e)
		})
	}
	b.controlRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		write(w, failed(http.StatusNotFound, "404", "No such endpoint"))
	})
	return mux
}

// serve is the whole course of a call: down, due work, the rules before acting, the token, the act,
// the rules after.
func (b *Bank) serve(w http.ResponseWriter, r *http.Request, e endpoint) {
	switch b.Faults.Down() {
	case DownClose:
		cut()
	case DownAnswer:
		write(w, failed(http.StatusServiceUnavailable, "01", "Service unavailable"))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		write(w, failed(http.StatusBadRequest, "02", "Request body could not be read"))
		return
	}
	b.due.run()
	c := &call{Request: r, body: body, bare: e.group == OnNIN}
	group := e.group
	if group == OnTransactions && r.URL.Query().Has("merchantTxRef") {
		group = OnPayoutStatus
	}
	c.plan = b.Faults.strike(group, c.refs)
	if !pause(r.Context(), c.plan.before, c.plan.until) {
		cut()
	}
	if b.before(w, c) {
		return
	}
	if !e.open {
		if a, ok := b.authorise(r); !ok {
			write(w, a)
			return
		}
	}
	a := e.do(b, c)
	pause(r.Context(), c.plan.after, c.plan.until)
	switch rule := c.plan.rule; {
	case rule.Do == DropAfter:
		cut()
	case rule.Do == FailAfter || rule.Do == Lagging && rule.Status != 0:
		write(w, c.trouble(cmp.Or(rule.Status, http.StatusInternalServerError), "01"))
	default:
		write(w, a)
	}
}

// before does what the rules want done instead of acting, and reports whether the call has been
// answered so.
func (b *Bank) before(w http.ResponseWriter, c *call) bool {
	rule := c.plan.rule
	switch rule.Do {
	case Drop:
		cut()
	case Fail:
		write(w, c.trouble(cmp.Or(rule.Status, http.StatusInternalServerError), "01"))
	case Refuse:
		write(w, c.trouble(http.StatusOK, cmp.Or(rule.Code, "01")))
	case Garbage:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body><h1>Just a moment…</h1></body></html>")
	case Gateway:
		body := gatewayAnswers[cmp.Or(rule.Value, "text")]
		w.Header().Set("Content-Type", body.kind)
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, body.text)
	default:
		return false
	}
	return true
}

// gatewayAnswers are the 404s of gateways that have lost their way to the bank. None is the bank's
// word on anything.
var gatewayAnswers = map[string]struct{ kind, text string }{
	"text":   {"text/plain", "default backend - 404"},
	"empty":  {"text/plain", ""},
	"html":   {"text/html", "<html><head><title>404 Not Found</title></head><body></body></html>"},
	"kong":   {"application/json", `{"message":"no Route matched with those values"}`},
	"spring": {"application/json", `{"timestamp":"2026-11-22T03:00:00Z","status":404,"error":"Not Found","path":"/v1"}`},
	"number": {"application/json", `{"code":404,"message":"HTTP 404 Not Found"}`},
}

// GatewayBodies are the names of the bodies that a rule with [Gateway] can ask for, in alphabetical
// order.
func GatewayBodies() []string { return slices.Sorted(maps.Keys(gatewayAnswers)) }

// refs are the references that the call is about: a rule's Match is compared to each.
func (c *call) refs() []string {
	q := c.URL.Query()
	refs := []string{c.PathValue("accountRef"), q.Get("transactionRef"), q.Get("merchantTxRef"), q.Get("nin")}
	var in struct{ AccountRef, AccountNumber, MerchantTxRef, TransactionRef string }
	if json.Unmarshal(c.body, &in) == nil {
		refs = append(refs, in.AccountRef, in.AccountNumber, in.MerchantTxRef, in.TransactionRef)
	}
	return refs
}

// cut ends the handler and its connection without an answer.
func cut() { panic(http.ErrAbortHandler) }

// pause waits in real time, whatever the bank's clock, and reports whether the caller is still
// there.
func pause(ctx context.Context, d time.Duration, until <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-until:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// write sends an answer as JSON.
func write(w http.ResponseWriter, a answer) {
	buf := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buf)
	buf.Reset()
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(a.body); err != nil {
		http.Error(w, "fakebank: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = w.Write(buf.Bytes())
}
