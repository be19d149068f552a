package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/contract"
	"ajo/internal/fakebank"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// The contract fuzzer makes requests from the document, good ones and broken ones, and holds every
// answer to it: no 5xx, but 502 while the bank is told to fail; what the document does not allow is
// never let in; and what is refused leaves the books as they were. AJO_FUZZ_REQUESTS says how many
// (make fuzz-contract: 100,000), AJO_SEED repeats a run.
func TestContractFuzz(t *testing.T) {
	seed, count := uint64(time.Now().UnixNano()), 1500
	if v := os.Getenv("AJO_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		require.NoError(t, err)
		seed = n
	}
	if v := os.Getenv("AJO_FUZZ_REQUESTS"); v != "" {
		n, err := strconv.Atoi(v)
		require.NoError(t, err)
		count = n
	}
	w := setup(t)
	w.limits("1000000000-H", "1000000000-H")
	w.serve()
	f := &fuzzer{w: w, rnd: rand.New(rand.NewPCG(seed, 1)), statuses: map[string]int{}, found: map[string]bool{}, pool: map[string][]string{}}
	t.Cleanup(func() { t.Logf("AJO_SEED=%d: %s", seed, f.summary()) })
	f.open()
	for f.n = 1; f.n <= count && len(f.found) < 20; f.n++ {
		f.one()
		if f.n%1000 == 0 {
			f.verifyBooks()
		}
	}
	f.verifyBooks()
}

// fuzzer is one run.
type fuzzer struct {
	w                           *world
	rnd                         *rand.Rand
	n                           int // of the request
	member, stranger, suspended member
	// values that are known to the service, by the name of their field or parameter
	pool     map[string][]string
	statuses map[string]int // "getAccount 404" → how often
	found    map[string]bool
}

// shot is a request before it is sent.
type shot struct {
	op      *contract.Operation
	method  string
	target  string // path and query
	header  http.Header
	body    []byte
	bank    fakebank.Down
	mutated []string // what was broken
}

// open gives the run two tenants, and the first an account with money in it.
func (f *fuzzer) open() {
	w := f.w
	f.member, f.stranger, f.suspended = w.onboard(), w.onboard(), w.onboard()
	w.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, f.suspended.id)
	w.do("POST", "/v1/accounts", `{"externalRef":"theirs","name":"Ada Obi"}`, f.stranger.withKey()...).ok(201, nil)
	f.learn("accountRef", "theirs")
	f.learn("email", f.member.email)
	f.learn("email", f.stranger.email)
	f.learn("password", password)
	for i, ref := range []string{"rich", "poor", "50% of a/b?"} {
		ref = strings.ReplaceAll(ref, "/", "-")
		w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":%q,"name":"Ada Obi"}`, ref), f.member.withKey()...).ok(201, nil)
		f.learn("accountRef", ref)
		w.pay(event{fmt.Sprintf("r-%d", i), fmt.Sprintf("t-%d", i), ref, "900000000.00", "50"})
	}
}

func (f *fuzzer) learn(name, value string) {
	if p := f.pool[name]; len(p) < 200 {
		f.pool[name] = append(p, value)
	} else {
		p[f.rnd.IntN(len(p))] = value
	}
}

// rare are the operations that cost a password hash, and those that end a session: one in eight of
// their turns is taken.
var rare = []string{"register", "login", "logout", "rotateKey"}

// one makes a request, sends it, and judges the answer.
func (f *fuzzer) one() {
	ops := description().Operations
	op := ops[f.rnd.IntN(len(ops))]
	for slices.Contains(rare, op.ID) && f.rnd.IntN(8) > 0 {
		op = ops[f.rnd.IntN(len(ops))]
	}
	s := f.make(op)
	f.w.bank.Faults.SetDown(s.bank)
	before := f.books()
	req, a := f.send(s)
	f.w.bank.Faults.SetDown(fakebank.Up)
	f.judge(s, req, a)
	if a.Status >= 400 && f.books() != before {
		f.report(s, a, "the books have changed")
	}
	f.remember(op, a)
}

// send puts the request on the wire. A target that is no URL is sent as it is.
func (f *fuzzer) send(s *shot) (*http.Request, contract.Answer) {
	t := f.w.T
	req, err := http.NewRequest(s.method, f.w.url+"/", bytes.NewReader(s.body))
	require.NoError(t, err)
	if u, err := url.Parse(f.w.url + s.target); err == nil {
		req.URL = u
	} else {
		req.URL.Opaque = "//" + f.w.addr + s.target
	}
	req.Header = s.header
	resp, err := f.w.client.Do(req)
	require.NoError(t, err, "AJO request %d: %s", f.n, s)
	defer func() { _ = resp.Body.Close() }()
	body := resp.Body
	// asked for by name, so the client leaves it as it is
	if resp.Header.Get("Content-Encoding") == "gzip" {
		body, err = gzip.NewReader(resp.Body)
		require.NoError(t, err)
	}
	b, err := io.ReadAll(body)
	require.NoError(t, err)
	return req, contract.Answer{Status: resp.StatusCode, Header: resp.Header, Body: b}
}

func (f *fuzzer) judge(s *shot, req *http.Request, a contract.Answer) {
	op := description().Find(s.method, req.URL)
	name := "none"
	if op != nil && req.URL.Opaque == "" {
		name = op.ID
	}
	f.statuses[fmt.Sprintf("%s %d", name, a.Status)]++
	if a.Status >= 500 && (a.Status != http.StatusBadGateway || s.bank == fakebank.Up) {
		f.report(s, a, "a 5xx")
		return
	}
	if name == "none" {
		if err := description().CheckStray(s.method, a); err != nil {
			f.report(s, a, err.Error())
		}
		return
	}
	if err := op.CheckAnswer(s.method, a); err != nil {
		f.report(s, a, err.Error())
	}
	if a.Status < 300 && op.ID != "receiveEvent" {
		if err := op.CheckRequest(contract.Request{Request: req, Body: s.body}); err != nil {
			f.report(s, a, "it was let in: "+err.Error())
		}
	}
}

// remember takes what an answer names for later requests.
func (f *fuzzer) remember(op *contract.Operation, a contract.Answer) {
	if tag := a.Header.Get("ETag"); tag != "" {
		f.learn("If-None-Match", tag)
	}
	if a.Status >= 300 {
		return
	}
	var v struct {
		ID, CustomerID, AccountRef, MerchantTxRef, APIKey string
		Pagination                                        struct{ NextCursor string }
	}
	_ = json.Unmarshal(a.Body, &v)
	if v.CustomerID != "" {
		f.learn("accountRef", v.AccountRef)
		f.learn("id", v.CustomerID)
		f.learn("accountRef", v.ID)
	}
	if v.MerchantTxRef != "" {
		f.learn("merchantTxRef", v.MerchantTxRef)
	}
	if v.Pagination.NextCursor != "" {
		f.learn("after", v.Pagination.NextCursor)
	}
	switch op.ID {
	case "rotateKey":
		f.member.key = v.APIKey
	case "logout":
		f.member.cookie = f.freshSession()
	case "requireTOTP": // else this session is refused everything from now on
		f.w.Exec(`UPDATE tenants SET totp_required = false`)
	case "receiveEvent":
		f.post()
	}
}

// freshSession logs in from an address's point of view anew; the limit of an account is passed by a
// new tenant.
func (f *fuzzer) freshSession() string {
	if f.w.do("GET", "/auth/me", "", "Cookie", f.member.cookie).Status == http.StatusOK {
		return f.member.cookie
	}
	r := f.w.do("POST", "/auth/login", fmt.Sprintf(`{"email":%q,"password":%q}`, f.member.email, password))
	if r.Status == http.StatusOK {
		cookie, _, _ := strings.Cut(r.Header.Get("Set-Cookie"), ";")
		return cookie
	}
	m := f.w.onboard() // ten logins were had: another tenant goes on with the session
	f.member.email = m.email
	return m.cookie
}

// post posts what the bank's events have left to do, as the worker would.
func (f *fuzzer) post() {
	rows, err := f.w.Pool.Query(context.Background(), `SELECT id FROM inbound_events WHERE status = 'received'`)
	require.NoError(f.w.T, err)
	var ids []uuid.UUID
	for rows.Next() {
		var id uuid.UUID
		require.NoError(f.w.T, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(f.w.T, rows.Err())
	for _, id := range ids {
		_, err := f.w.opts.Payments.Post(context.Background(), id)
		require.NoError(f.w.T, err)
	}
}

// books says what a refused request must leave as it was.
func (f *fuzzer) books() string {
	return testenv.Value[string](f.w.Env, `
		SELECT concat_ws(' ', (SELECT count(*) FROM ledger_entries), (SELECT sum(balance) FROM ledger_balances), (SELECT count(*) FROM transfers),
			(SELECT count(*) FROM accounts WHERE status <> 'provisioning'), (SELECT count(*) FROM deliveries))`)
}

func (f *fuzzer) verifyBooks() {
	testenv.FindsNothing(f.w.T, f.w.Pool, ledger.Verify)
}

// report fails the test with the request that did it; the same finding is reported once.
func (f *fuzzer) report(s *shot, a contract.Answer, why string) {
	key := fmt.Sprintf("%s %d %s", s.op.ID, a.Status, why)
	if len(key) > 200 {
		key = key[:200]
	}
	if f.found[key] {
		return
	}
	f.found[key] = true
	f.w.T.Errorf("request %d: %s\n%s\nanswer: %d %.300s", f.n, why, s, a.Status, a.Body)
}

// String shows a request as it can be read in a log.
func (s *shot) String() string {
	return fmt.Sprintf("%v %s %.300s\nheader: %.600q\nbody (%d bytes): %.1000q\nbank: %q", s.mutated, s.method, s.target, fmt.Sprint(s.header), len(s.body), s.body, s.bank)
}

func (f *fuzzer) summary() string {
	var classes [6]int
	missing := []string{}
	for k, n := range f.statuses {
		classes[k[len(k)-3]-'0'] += n
	}
	for _, o := range description().Operations {
		for status := range o.Responses {
			if f.statuses[o.ID+" "+status] == 0 && status != "500" && status != "503" {
				missing = append(missing, o.ID+" "+status)
			}
		}
	}
	slices.Sort(missing)
	return fmt.Sprintf("%d requests: %d answered 2xx, %d 3xx, %d 4xx, %d 5xx; %d findings; not met: %v",
		f.n-1, classes[2], classes[3], classes[4], classes[5], len(f.found), missing)
}
