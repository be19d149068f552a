package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// tenant is a developer's side of the API: a client with a key, and perhaps a session.
type tenant struct {
	w                   *world
	id, email, password string
	key, session        string
}

// answer is what the API answered.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) into(t testing.TB, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.body, v), "%s", a.body)
}

// send makes a request with the tenant's key under /v1, and with the session elsewhere.
func (c *tenant) send(method, path string, body any) answer {
	c.w.t.Helper()
	header := http.Header{}
	switch {
	case strings.HasPrefix(path, "/v1/"), c.session == "":
		header.Set("X-API-Key", c.key)
	default:
		header.Set("Cookie", "service_session="+c.session)
	}
	return c.w.send(method, path, body, header)
}

// want makes a request that must be answered with the status.
func (c *tenant) want(status int, method, path string, body any) answer {
	c.w.t.Helper()
	a := c.send(method, path, body)
	require.Equal(c.w.t, status, a.status, "%s %s: %s", method, path, a.body)
	return a
}

// send makes one request to the API.
func (w *world) send(method, path string, body any, header http.Header) answer {
	w.t.Helper()
	a, err := request(method, w.apiURL+path, body, header)
	require.NoError(w.t, err)
	return a
}

func request(method, url string, body any, header http.Header) (answer, error) {
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		payload = bytes.NewReader(b)
		header.Set("Content-Type", "application/json")
	}
	req, err := http.NewRequest(method, url, payload)
	if err != nil {
		return answer{}, err
	}
	req.Header = header
	got, err := testenv.Send(http.DefaultClient, req)
	return answer{got.Status, got.Header, []byte(got.Body)}, err
}

// signUp registers a tenant, verifies its e-mail with the code from its mail, and gives it an
// endpoint.
func (w *world) signUp(e *endpoint) *tenant {
	w.t.Helper()
	c := &tenant{w: w, email: "dev-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "@tenant.example", password: "correct horse battery"}
	w.keepSecret("password", c.password)
	var registered struct {
		TenantID string `json:"tenantId"`
	}
	c.want(201, "POST", "/register", map[string]string{"name": "Ada Stores", "email": c.email, "password": c.password}).into(w.t, &registered)
	c.id = registered.TenantID
	code := w.codeFor(c.email)
	w.keepSecret("one-time code", code)
	var verified struct {
		APIKey  string `json:"apiKey"`
		Warning string `json:"warning"`
	}
	w.eventually("the e-mail to be verified", func() bool { // a database that has just started may be late for a request
		a := c.send("POST", "/auth/verify-email", map[string]string{"tenantId": c.id, "otp": code})
		if a.status >= 500 {
			return false
		}
		require.Equal(w.t, 200, a.status, "%s", a.body)
		a.into(w.t, &verified)
		return true
	})
	require.NotEmpty(w.t, verified.Warning)
	c.key = verified.APIKey
	w.keepSecret("API key", c.key)
	if e == nil {
		return c
	}
	var set struct {
		WebhookURL string `json:"webhookUrl"`
	}
	c.want(200, "POST", "/auth/webhook-url", map[string]string{"url": e.URL}).into(w.t, &set)
	require.Equal(w.t, e.URL, set.WebhookURL)
	var signing struct {
		WebhookSecret string `json:"webhookSecret"`
	}
	c.want(200, "POST", "/auth/webhook-secret", nil).into(w.t, &signing)
	e.learn(signing.WebhookSecret)
	w.keepSecret("webhook secret", signing.WebhookSecret)
	return c
}

var codeForm = regexp.MustCompile(`(?m)^\s*([0-9]{6})\s*$`)

// codeFor waits for the mail to the address and reads the one-time code in it.
func (w *world) codeFor(email string) string {
	w.t.Helper()
	var code string
	w.eventually("the mail with the one-time code", func() bool {
		files, err := filepath.Glob(filepath.Join(w.settings["AJO_MAIL_DIR"], "*.eml"))
		require.NoError(w.t, err)
		for _, f := range files {
			b, err := os.ReadFile(f)
			require.NoError(w.t, err)
			head, text, _ := bytes.Cut(b, []byte("\r\n\r\n"))
			if m := codeForm.FindSubmatch(text); m != nil && bytes.Contains(head, []byte(email)) {
				code = string(m[1])
			}
		}
		return code != ""
	})
	return code
}

// account is a virtual account as the API shows it.
type account struct {
	ID, TenantID, CustomerID, AccountRef, Provider, BankAccountNumber, BankAccountName, BankName, Currency, Status, Type string
	CallbackURL, ExpiresAt                                                                                               *string
	ExpectedAmount                                                                                                       *json.Number
	CreatedAt, UpdatedAt                                                                                                 time.Time
}

// open provisions a dedicated virtual account and returns its number.
func (c *tenant) open(ref string) account {
	c.w.t.Helper()
	var a account
	c.want(201, "POST", "/v1/accounts", map[string]string{"externalRef": ref, "name": "Ada Obi", "bvn": bvn}).into(c.w.t, &a)
	require.Regexp(c.w.t, `^[0-9]{10}$`, a.BankAccountNumber)
	return a
}

// bvn is the bank verification number of every holder in these tests.
const bvn = "22987654321"

// balance is the account's balance as the API says it.
func (c *tenant) balance(ref string) string {
	c.w.t.Helper()
	var b struct {
		AccountRef string `json:"accountRef"`
		Balance    string `json:"balance"`
		Currency   string `json:"currency"`
	}
	c.want(200, "GET", "/v1/accounts/"+ref+"/balance", nil).into(c.w.t, &b)
	require.Equal(c.w.t, ref, b.AccountRef)
	return b.Balance
}

// statement is a statement as the API shows it.
type statement struct {
	VirtualAccount account `json:"virtualAccount"`
	Lines          []struct {
		Entry          entry  `json:"entry"`
		RunningBalance string `json:"runningBalance"`
	} `json:"lines"`
	OpeningBalance string `json:"openingBalance"`
	TotalCredits   string `json:"totalCredits"`
	TotalDebits    string `json:"totalDebits"`
	ClosingBalance string `json:"closingBalance"`
	Pagination     struct {
		Limit      int     `json:"limit"`
		NextCursor *string `json:"nextCursor"`
		HasMore    bool    `json:"hasMore"`
	} `json:"pagination"`
}

// entry is a ledger entry as the API shows it.
type entry struct {
	ID, Direction, Amount, Fee, Currency, Status, Narration, ProviderTxnRef, TransactionGroupID string
	TransferRef, ReversalOf                                                                     *string
	CreatedAt                                                                                   time.Time
}

func (c *tenant) statement(ref string) statement {
	c.w.t.Helper()
	var s statement
	c.want(200, "GET", "/v1/accounts/"+ref+"/statement", nil).into(c.w.t, &s)
	return s
}

// hook is a delivery as the tenant's endpoint received it.
type hook struct {
	at        time.Time
	header    http.Header
	body      []byte
	badReason string // why the endpoint would refuse it; empty: it is genuine
	event     paymentReceived
}

// paymentReceived is the specification's outbound event.
type paymentReceived struct {
	EventType          string `json:"eventType"`
	TransactionGroupID string `json:"transactionGroupId"`
	AccountRef         string `json:"accountRef"`
	Amount             string `json:"amount"`
	GrossAmount        string `json:"gross_amount"`
	ProviderFee        string `json:"provider_fee"`
	Currency           string `json:"currency"`
	SenderName         string `json:"senderName"`
	Narration          string `json:"narration"`
	Status             string `json:"status"`
}

// endpoint is a tenant's webhook receiver. It answers 200 unless reply says otherwise.
type endpoint struct {
	t   testing.TB
	URL string

	mu     sync.Mutex
	secret string
	hooks  []hook
	// the status of the number-th call, from 1; it may hold the call as long as it likes
	reply func(number int) int
}

func newEndpoint(t testing.TB) *endpoint {
	e := &endpoint{t: t}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	e.URL = s.URL + "/hook"
	return e
}

// ServeHTTP keeps the delivery and answers it.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h := hook{at: time.Now(), header: r.Header, body: body}
	e.mu.Lock()
	h.badReason = refusal(e.secret, r.Header.Get("X-Service-Signature"), body, h.at)
	if err := json.Unmarshal(body, &h.event); err != nil {
		h.badReason = err.Error()
	}
	e.hooks = append(e.hooks, h)
	number, reply := len(e.hooks), e.reply
	e.mu.Unlock()
	if reply != nil {
		w.WriteHeader(reply(number))
	}
}

// refusal is the receiver's check, written from the specification's words alone ("Outbound event",
// 5): the header is t=<unix_seconds>,v1=<hex_hmac>; the signed payload is <t>, a dot, and the raw
// body; HMAC-SHA256, lowercase hex, compared in constant time; a timestamp more than 300 seconds
// away is refused.
func refusal(key, header string, body []byte, now time.Time) string {
	t, v1, ok := strings.Cut(header, ",v1=")
	t, isTime := strings.CutPrefix(t, "t=")
	seconds, err := strconv.ParseInt(t, 10, 64)
	if !ok || !isTime || err != nil {
		return fmt.Sprintf("the signature header is %q", header)
	}
	if d := now.Unix() - seconds; d > 300 || d < -300 {
		return fmt.Sprintf("the signature is %d seconds old", d)
	}
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "%s.%s", t, body)
	if !hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(v1)) {
		return "the signature does not hold"
	}
	return ""
}

func (e *endpoint) learn(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secret = key
}

// answers sets what calls are answered from now on.
func (e *endpoint) answers(reply func(number int) int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reply = reply
}

func (e *endpoint) received() []hook {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]hook(nil), e.hooks...)
}

// groups are the payments whose events the endpoint got.
func (e *endpoint) groups() map[string]bool {
	set := map[string]bool{}
	for _, h := range e.received() {
		set[h.event.TransactionGroupID] = true
	}
	return set
}

// checkAll fails the test when a delivery was not genuine, or came again with other bytes.
func (e *endpoint) checkAll() {
	e.t.Helper()
	bodies := map[string]string{}
	for _, h := range e.received() {
		require.Empty(e.t, h.badReason)
		if first, again := bodies[h.event.TransactionGroupID]; again {
			require.Equal(e.t, first, string(h.body))
		}
		bodies[h.event.TransactionGroupID] = string(h.body)
	}
}
