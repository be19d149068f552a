package api

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/config"
	"ajo/internal/customer"
	"ajo/internal/fakebank"
	"ajo/internal/fee"
	"ajo/internal/idempotency"
	"ajo/internal/identity/dojah"
	"ajo/internal/limit"
	"ajo/internal/mail"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider/nomba"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
	"ajo/internal/work"
	"ajo/ratelimit"
	"ajo/tasks"
)

// world is one test's service on a real socket.
type world struct {
	*testenv.Env
	opts    Options
	url     string
	addr    string
	events  string // where the bank's events go; "": to url
	client  *http.Client
	mails   *mailbox
	bank    *fakebank.Bank
	bankURL string
	log     *testenv.Log

	signatureHeader, timestampHeader string // of the bank's events

	firstFilled int64 // the time in the ids of fillLists, in milliseconds; 0: years ago
}

const (
	webhookSecret = "test secret of the bank"
	password      = "correct horse"
)

// defaults are the settings' defaults.
var defaults = config.Defaults()

// setup serves the application on a socket of its own. Limits are wide unless a test narrows them.
func setup(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	t.Parallel()
	return newWorld(t, change...)
}

// newWorld is setup for a test that has several.
func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	w := &world{Env: testenv.New(t), mails: &mailbox{}, log: testenv.NewLog(t)}
	w.signatureHeader, w.timestampHeader = "provider-signature", "provider-timestamp"
	box, err := secret.ParseKeys(secret.NewKey("test").Reveal())
	require.NoError(t, err)
	log := slog.New(LogHandler(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	bank, nins := w.startBank(log)
	w.opts = Options{
		Pool: w.Pool, Clock: w.Clock,
		Tenants: tenant.New(tenant.Options{Pool: w.Pool, Clock: w.Clock, Box: box, Mail: w.mails, Log: log}),
		Accounts: account.New(account.Options{Pool: w.Pool, Bank: bank, Box: box, Clock: w.Clock, EnsureSecret: func(ctx context.Context, tx pg.Tx, id uuid.UUID) error {
			return tenant.EnsureWebhookSecret(ctx, tx, box, w.Clock.Now(), id)
		}}),
		Payments: payment.New(payment.Options{
			Pool: w.Pool, Bank: bank, Clock: w.Clock, Log: log, WebhookSecret: secret.Redact(webhookSecret),
			ConfirmDelays: defaults.ConfirmDelays, ConfirmMisses: 3, ConfirmMinAge: 30 * time.Minute, ConfirmDeadline: 24 * time.Hour,
		}),
		TenantLimits: &limit.Service{Pool: w.Pool, Clock: w.Clock},
		Prices:       &fee.Prices{Pool: w.Pool, Clock: w.Clock},
		Webhooks:     w.webhooks(box, safehttp.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, webhook.Options{}),
		Ready:        func(context.Context) []Check { return []Check{{Name: "postgres"}, {Name: "redis"}} },
		Log:          log,
	}
	w.opts.Customers = customer.New(customer.Options{Pool: w.Pool, Box: box, Clock: w.Clock, Identity: nins, CheckTimeout: time.Minute, Log: log})
	w.opts.Enqueuer = tasks.NewEnqueuer(w.Redis(), w.Clock, log)
	t.Cleanup(work.EnqueueWith(w.Pool, w.opts.Enqueuer.Enqueue))
	w.opts.Banks = transfer.NewBankList(bank, "bank.example", w.Redis(), w.Clock, log)
	require.NoError(t, w.opts.Fees.UnmarshalText([]byte(defaults.FeeTiers)))
	w.opts.Transfers = transfer.New(transfer.Options{
		Pool: w.Pool, Bank: bank, Banks: w.opts.Banks, Clock: w.Clock, Log: log, Delays: defaults.SettleDelays, Rechecks: defaults.SettleRechecks, Fees: w.opts.Fees,
	})
	w.opts.Payments.ExpeditePayouts = w.opts.Transfers.ExpediteTx
	w.opts.Answers = idempotency.NewCache(w.Redis(), box, w.Pool, time.Minute)
	w.limits("100000-M", "100000-M")
	t.Cleanup(func() {
		_ = w.opts.Tenants.Close(context.Background())
		w.opts.Enqueuer.Close()
		w.opts.Payments.Close()
		w.opts.Transfers.Close()
		w.opts.Answers.Close()
		w.opts.Webhooks.Close()
	})
	for _, f := range change {
		f(&w.opts)
	}
	w.serve()
	return w
}

// webhooks are the deliveries' use cases, with a client that knows no names: nobody outside is
// asked or called.
func (w *world) webhooks(box *secret.Box, h safehttp.Options, o webhook.Options) *webhook.Service {
	h.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("there is no DNS here")
	}}
	h.Timeout = cmp.Or(h.Timeout, time.Minute) // a busy machine is no slow receiver
	client := safehttp.New(h)
	w.T.Cleanup(client.Close)
	o.Pool, o.Clock, o.Box, o.Client, o.Delays = cmp.Or(o.Pool, w.Pool), w.Clock, box, client, defaults.DeliveryDelays
	return webhook.New(o)
}

// limits sets other rate limits, in this process only.
func (w *world) limits(perKey, open string) {
	w.T.Helper()
	l, err := ratelimit.New(ratelimit.Options{PerTenant: perKey, Open: open, Log: slog.New(slog.DiscardHandler)})
	require.NoError(w.T, err)
	w.opts.Limits = l
}

// serve puts the application, as the options now stand, on a socket.
func (w *world) serve() {
	w.T.Helper()
	app := New(w.opts)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.T, err)
	go func() { _ = app.Listener(ln) }()
	w.addr = ln.Addr().String()
	w.url = "http://" + w.addr
	w.T.Cleanup(func() { _ = app.ShutdownWithTimeout(5 * time.Second) })
	w.client = testenv.HTTPClient(w.T) // its connections end before the server does
}

// reply is an answer that was read to its end.
type reply struct {
	t      testing.TB
	Status int
	Header http.Header
	Body   string
}

// header is a list of names and values.
type header []string

// do sends a request. A body that is not empty is sent as JSON unless the headers say otherwise.
func (w *world) do(method, path, body string, headers ...string) reply {
	w.T.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	require.NoError(w.T, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	got, err := testenv.Send(w.client, req)
	require.NoError(w.T, err)
	r := reply{w.T, got.Status, got.Header, got.Body}
	w.holdToDocument(req, body, r)
	return r
}

// ok requires a status and decodes the body into v.
func (r reply) ok(status int, v any) reply {
	r.t.Helper()
	require.Equal(r.t, status, r.Status, r.Body)
	if v != nil {
		require.NoError(r.t, json.Unmarshal([]byte(r.Body), v), r.Body)
	}
	return r
}

// refused requires an error answer: its status, its body to the byte, and the headers of every
// answer.
func (r reply) refused(status int, text string) reply {
	r.t.Helper()
	want, err := json.Marshal(text)
	require.NoError(r.t, err)
	require.Equal(r.t, status, r.Status, r.Body)
	require.Equal(r.t, `{"error":`+string(want)+`}`, r.Body)
	require.Equal(r.t, "application/json", r.Header.Get("Content-Type"))
	require.NotEmpty(r.t, r.Header.Get("X-Request-ID"))
	require.Equal(r.t, "nosniff", r.Header.Get("X-Content-Type-Options"))
	require.Equal(r.t, "no-store", r.Header.Get("Cache-Control"))
	require.Empty(r.t, r.Header.Get("Server"))
	return r
}

// member is an onboarded tenant.
type member struct {
	id     uuid.UUID
	email  string
	key    string
	cookie string
	test   bool // the key is one of test mode, and the session asks for it
}

func (m member) withKey() header { return header{"X-API-Key", m.key} }

func (m member) withSession() header {
	h := header{"Cookie", m.cookie}
	if m.test {
		h = append(h, "X-Ajo-Mode", "test")
	}
	return h
}

// onboard registers, verifies and logs in a tenant, all over HTTP.
func (w *world) onboard() member {
	w.T.Helper()
	m := member{email: uuid.NewString() + "@example.com"}
	var registered struct{ TenantID uuid.UUID }
	w.do("POST", "/register", fmt.Sprintf(`{"name":"Ada Stores","email":%q,"password":%q}`, m.email, password)).ok(201, &registered)
	m.id = registered.TenantID
	var verified struct{ APIKey string }
	w.do("POST", "/auth/verify-email", fmt.Sprintf(`{"tenantId":%q,"otp":%q}`, m.id, w.mails.code(w.T, m.email))).ok(200, &verified)
	m.key = verified.APIKey
	m.cookie = w.login(m.email)
	return m
}

func (w *world) login(email string) string {
	w.T.Helper()
	r := w.do("POST", "/auth/login", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)).ok(200, nil)
	cookie, _, _ := strings.Cut(r.Header.Get("Set-Cookie"), ";")
	return cookie
}

// event is a payment event as the bank sends it, signed.
type event struct {
	requestID, txn, alias, amount, fee string
}

func (w *world) send(e event) reply {
	w.T.Helper()
	at := w.Clock.Now().Format(time.RFC3339)
	body := fmt.Sprintf(`{"event_type":"payment_success","requestId":%q,"data":{"merchant":{"userId":"u","walletId":"w","walletBalance":1},
		"transaction":{"transactionId":%q,"type":"vact_transfer","time":%q,"responseCode":"","transactionAmount":%s,"fee":%s,"currency":"NGN",
		"aliasAccountReference":%q,"narration":"Rent & more"},"customer":{"senderName":"Bayo","accountNumber":"0123456789","bankName":"Bank"}}}`,
		e.requestID, e.txn, at, e.amount, e.fee, e.alias)
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	_, _ = fmt.Fprintf(mac, "payment_success:%s:u:w:%s:vact_transfer:%s::%s", e.requestID, e.txn, at, at)
	to := *w
	to.url = cmp.Or(w.events, w.url)
	return to.do("POST", "/webhooks/provider", body, w.signatureHeader, base64.StdEncoding.EncodeToString(mac.Sum(nil)), w.timestampHeader, at)
}

// pay sends an event and posts it, as the ingest worker would.
func (w *world) pay(e event) {
	w.T.Helper()
	w.send(e).ok(200, nil)
	id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE request_id = $1`, e.requestID)
	_, err := w.opts.Payments.Post(context.Background(), id)
	require.NoError(w.T, err)
}

// mailbox keeps the mails that were sent.
type mailbox struct {
	mu   sync.Mutex
	sent []mail.Message
}

func (l *mailbox) Send(_ context.Context, m mail.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, m)
	return nil
}

var codeForm = regexp.MustCompile(`\b[0-9]{6}\b`)

// code waits for a mail to the address and returns the code in it.
func (l *mailbox) code(t testing.TB, to string) (code string) {
	t.Helper()
	testenv.Eventually(t, 10*time.Second, "a mail with a code", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, m := range l.sent {
			if m.To == to {
				code = codeForm.FindString(m.Text)
			}
		}
		return code != ""
	})
	return code
}

// about returns the texts of the mails to the address with the subject.
func (l *mailbox) about(to, subject string) (texts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.sent {
		if m.To == to && m.Subject == subject {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

// The numbers that the NIN service is asked for here; any other is nobody's.
const (
	ninOfAda   = "70123456789"
	ninUnclear = "70000000000" // the service does not answer
)

// bankClient speaks with the bank, with so many POST calls a second; -1: as many as there are.
func (w *world) bankClient(log *slog.Logger, posts int) *nomba.Client {
	w.T.Helper()
	bank, err := nomba.New(nomba.Options{
		URL: w.bankURL, AccountID: fakebank.DefaultAccountID, ClientID: fakebank.DefaultClientID, ClientSecret: fakebank.DefaultClientSecret,
		Clock: w.Clock, Log: log, RequestsPerSec: -1, PostsPerSec: posts, RetryWait: time.Millisecond, Timeout: time.Minute,
	})
	require.NoError(w.T, err)
	return bank
}

// startBank plays the bank and the NIN service over real HTTP, and returns what speaks with them.
func (w *world) startBank(log *slog.Logger) (*nomba.Client, *dojah.Checker) {
	w.T.Helper()
	w.bank = w.Bank(fakebank.Options{Seed: 1, WebhookSecret: webhookSecret})
	w.bank.AddPerson(ninOfAda, fakebank.Person{FirstName: "ADA", LastName: "OBI"})
	w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnNIN, Do: fakebank.Fail, Match: ninUnclear})
	w.bankURL = w.bank.URL()
	bank := w.bankClient(log, -1)
	nins, err := dojah.New(dojah.Options{URL: w.bankURL, AppID: "app", Key: "key", Timeout: time.Minute})
	require.NoError(w.T, err)
	return bank, nins
}

// readyWith is a Ready that answers for postgres and redis.
func readyWith(postgres, redis error) func(context.Context) []Check {
	return func(context.Context) []Check {
		return []Check{{Name: "postgres", Err: postgres}, {Name: "redis", Err: redis}}
	}
}
