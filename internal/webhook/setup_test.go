package webhook

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/config"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// bundle is one tenant with one account, and a service that delivers to receivers on loopback.
type bundle struct {
	*testenv.Env
	*Service
	ctx     context.Context
	box     *secret.Box
	tenant  uuid.UUID
	account uuid.UUID
}

// setup has a neighbour beside the tenant: another one, with an account of the same reference, with
// deliveries that are no work, and with everything that a tenant says of its events. No test
// changes its rows.
func setup(t testing.TB) *bundle {
	t.Helper()
	b := alone(t)
	b.in(Dead)
	b.in(Delivered)
	b.setSecret("whsec_bmVpZ2hib3Vy")
	b.Endpoint(b.tenant, "https://neighbour.example/two", "{settlement.failed}")
	b.Exec(`UPDATE tenants SET webhook_url = 'https://neighbour.example/', webhook_events = $2, event_log = true, listening_until = $3 WHERE id = $1`,
		b.tenant, Types[1:], b.Clock.Now().AddDate(1, 0, 0))
	b.Exec(`UPDATE accounts SET callback_url = 'https://neighbour.example/account' WHERE id = $1`, b.account)
	b.Untouched(b.tenant.String())
	b.tenant = b.Env.Tenant()
	b.account = b.Env.Account(b.tenant, "customer-1")
	return b
}

// Deliver makes the attempt that is due for one delivery.
func (s *Service) Deliver(ctx context.Context, id uuid.UUID) error {
	return s.Attempt(ctx, s.Claim(ctx, []uuid.UUID{id})[0])
}

// alone is setup for tests of all tenants' deliveries.
func alone(t testing.TB) *bundle {
	t.Helper()
	return setupWith(t, Options{Version: "test"}, safehttp.Options{})
}

func setupWith(t testing.TB, o Options, h safehttp.Options) *bundle {
	t.Helper()
	if tt, ok := t.(*testing.T); ok {
		tt.Parallel()
	}
	e := testenv.New(t)
	box, err := secret.ParseKeys(secret.NewKey("k1").Reveal())
	require.NoError(t, err)
	b := &bundle{Env: e, ctx: context.Background(), box: box, tenant: e.Tenant()}
	b.account = e.Account(b.tenant, "customer-1")
	b.Service = b.another(o, h)
	return b
}

// another is a second process on the same table.
func (b *bundle) another(o Options, h safehttp.Options) *Service {
	h.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	h.Timeout = cmp.Or(h.Timeout, time.Minute) // a test holds calls for as long as it needs
	client := safehttp.New(h)
	o.Pool, o.Clock, o.Box, o.Client, o.Delays = b.Pool, b.Clock, b.box, client, config.Defaults().DeliveryDelays
	s := New(o)
	b.T.Cleanup(func() {
		s.Close()
		client.Close()
	})
	return s
}

// payment is a delivery of the bundle's account to url.
func (b *bundle) payment(url string) NewDelivery {
	return NewDelivery{
		Type: PaymentReceived, TenantID: b.tenant, AccountID: b.account, AccountRef: "customer-1", TransactionGroupID: uuid.Must(uuid.NewV7()),
		CallbackURL: url, CreatedAt: b.Clock.Now(),
		Payload: Payment{
			Amount: money.Must("4990.00"), GrossAmount: money.Must("5000"), ProviderFee: money.Must("10"),
			SenderName: "Bola <Ade> & Sons", Narration: "Rent \"May\"\x00\xff",
		},
	}
}

// queue returns the ids of the new deliveries.
func (b *bundle) queue(deliveries ...NewDelivery) []uuid.UUID {
	b.T.Helper()
	var ids []uuid.UUID
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) (err error) {
		ids, err = Queue(b.ctx, tx, b.Clock.Now(), deliveries)
		return err
	}))
	require.Len(b.T, ids, len(deliveries))
	return slices.DeleteFunc(ids, func(id uuid.UUID) bool { return id == uuid.Nil })
}

// queueOne queues a delivery to url and returns its id.
func (b *bundle) queueOne(url string) uuid.UUID {
	b.T.Helper()
	return b.queue(b.payment(url))[0]
}

// deliveries is how many the tenant has.
func (b *bundle) deliveries() int {
	b.T.Helper()
	return testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE tenant_id = $1`, b.tenant)
}

func (b *bundle) get(id uuid.UUID) Record {
	b.T.Helper()
	d, err := b.Get(b.ctx, id)
	require.NoError(b.T, err)
	return d
}

// attempts returns the delivery's attempts, the first one first.
func (b *bundle) attempts(id uuid.UUID) []Attempt {
	b.T.Helper()
	found, err := b.Attempts(b.ctx, id)
	require.NoError(b.T, err)
	for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
		found[i], found[j] = found[j], found[i]
	}
	return found
}

// setSecret gives the tenant a signing secret, or none.
func (b *bundle) setSecret(text string) {
	var sealed []byte
	if text != "" {
		sealed = b.box.Seal(secret.Place{Table: "tenants", Column: "webhook_secret", Row: b.tenant.String()}, []byte(text))
	}
	b.Exec(`UPDATE tenants SET webhook_secret = $2 WHERE id = $1`, b.tenant, sealed)
}

// call is a request as a receiver saw it.
type call struct {
	header http.Header
	body   []byte
}

// receiver is a tenant's endpoint.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

// receive starts an endpoint that keeps each call and then answers with fn.
func receive(t testing.TB, fn http.HandlerFunc) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.calls = append(r.calls, call{req.Header.Clone(), body})
		r.mu.Unlock()
		fn(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) seen() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]call(nil), r.calls...)
}

func answer(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// verify does what the specification asks of a receiver, from its words alone: the raw bytes, 300
// seconds either way, one matching signature, constant time.
func verify(c call, signingSecret string, now time.Time) error {
	var t string
	var signatures []string
	for part := range strings.SplitSeq(c.header.Get("X-Service-Signature"), ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			t = value
		case "v1":
			signatures = append(signatures, value)
		}
	}
	unix, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		return errors.New("no timestamp")
	}
	if away := now.Unix() - unix; away > 300 || away < -300 {
		return errors.New("timestamp too far away")
	}
	mac := hmac.New(sha256.New, []byte(signingSecret))
	mac.Write(append([]byte(t+"."), c.body...))
	want := []byte(hex.EncodeToString(mac.Sum(nil)))
	for _, s := range signatures {
		if hmac.Equal([]byte(s), want) {
			return nil
		}
	}
	return errors.New("no signature matches")
}

// verifyStandard does what a Standard Webhooks library does with the secret that it is given.
func verifyStandard(c call, signingSecret string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signingSecret, "whsec_"))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(c.header.Get("Webhook-Id") + "." + c.header.Get("Webhook-Timestamp") + "."))
	mac.Write(c.body)
	want := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for versioned := range strings.SplitSeq(c.header.Get("Webhook-Signature"), " ") {
		if version, s, _ := strings.Cut(versioned, ","); version == "v1" && hmac.Equal([]byte(s), []byte(want)) {
			return nil
		}
	}
	return errors.New("no signature matches")
}

// together does the items as one batch, and returns the results.
func together[T, R any](b *bundle, batcher *pg.Batcher[T, R], items ...T) []R {
	b.T.Helper()
	out := make([]R, len(items))
	for i, o := range batcher.Together(b.ctx, items) {
		require.NoError(b.T, o.Err)
		out[i] = o.Value
	}
	return out
}
