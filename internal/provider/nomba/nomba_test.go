package nomba

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/provider"
)

const (
	testAccount = "acct-0001"
	testID      = "client-0001"
	testSecret  = "secret-seeded"
	ref         = "0198c0de-0000-7000-8000-000000000001"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// seen is a request that the wire got.
type seen struct {
	Method, Path, Query, Body string
	Header                    http.Header
}

// wire is a bank whose answers a test writes. It issues tokens by itself.
type wire struct {
	*httptest.Server
	clock *clock.Fake

	mu     sync.Mutex
	token  http.HandlerFunc // nil: issues
	calls  []seen
	issued int
	bad    map[string]bool // tokens that are refused
}

// setup returns a client whose calls, but for its token's, are answered by do. Its limits are
// lifted and its waits short.
func setup(t *testing.T, do http.HandlerFunc, change ...func(*Options)) (*Client, *wire) {
	t.Helper()
	w := &wire{clock: clock.NewFake(start), bad: map[string]bool{}}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.calls = append(w.calls, seen{r.Method, r.URL.Path, r.URL.RawQuery, string(body), r.Header})
		token := w.token
		refused := w.bad[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		w.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case r.URL.Path == tokenPath && token != nil:
			token(rw, r)
		case r.URL.Path == tokenPath:
			w.issue(rw, r)
		case refused:
			say(rw, 401, `{"code":"05","description":"expired"}`)
		default:
			do(rw, r)
		}
	}))
	t.Cleanup(w.Close)
	o := Options{
		URL: w.URL, AccountID: testAccount, ClientID: testID, ClientSecret: testSecret, Clock: w.clock,
		RetryWait: time.Microsecond, RequestsPerSec: -1, PostsPerSec: -1,
	}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(c.http.CloseIdleConnections)
	return c, w
}

func (w *wire) issue(rw http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		say(rw, 400, `{"code":"02","description":"no Authorization here"}`)
		return
	}
	w.mu.Lock()
	w.issued++
	n := w.issued
	w.mu.Unlock()
	say(rw, 200, fmt.Sprintf(`{"code":"00","description":"Success","data":{"access_token":"token-seeded-%d","expiresAt":%q}}`,
		n, w.clock.Now().Add(30*time.Minute).Format(time.RFC3339)))
}

// answerTokens says how tokens are answered from now on; nil: they are issued.
func (w *wire) answerTokens(h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.token = h
}

// refuse has the n-th token refused from now on.
func (w *wire) refuse(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad[fmt.Sprintf("token-seeded-%d", n)] = true
}

// got lists "METHOD path" of the calls so far, tokens left out.
func (w *wire) got() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, c := range w.calls {
		if c.Path != tokenPath {
			list = append(list, c.Method+" "+c.Path)
		}
	}
	return list
}

// last is the last call but for a token's.
func (w *wire) last() seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range slices.Backward(w.calls) {
		if c.Path != tokenPath {
			return c
		}
	}
	return seen{}
}

func (w *wire) tokens() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.issued
}

func say(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// always answers every call alike.
func always(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { say(w, status, body) }
}

// good is a good answer with this data, as the bank words it: status is false.
func good(data string) string {
	return `{"code":"00","description":"Success","data":` + data + `,"status":false}`
}

// inTurn answers call after call; the last answer stays.
func inTurn(handlers ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handlers[0]
		if len(handlers) > 1 {
			handlers = handlers[1:]
		}
		mu.Unlock()
		h(w, r)
	}
}

// hangUp cuts the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// silent answers nothing until the caller has gone.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func payOf(ref string) provider.NewPayout {
	return provider.NewPayout{
		Ref: ref, Amount: money.Must("5000.10"), BankCode: "058", AccountNumber: "0554772814",
		AccountName: "ADA OBI", SenderName: "Shop", Narration: "rent",
	}
}

// class is how a call ended: O value, P pending value, U not known, R rejection, E error.
func class(s provider.Status, err error) string {
	var rejection *provider.Rejection
	var e *Error
	switch {
	case err == nil && s == provider.Pending:
		return "P"
	case err == nil:
		return "O"
	case errors.Is(err, provider.ErrUnknown):
		return "U"
	case errors.As(err, &rejection):
		return "R"
	case errors.As(err, &e):
		return "E"
	default:
		return "?"
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	ok := Options{URL: "https://api.example.com/", AccountID: "a", ClientID: "b", ClientSecret: "c", RequestsPerSec: 75, PostsPerSec: 15}
	_, err := New(ok)
	require.NoError(t, err)
	for _, change := range []func(*Options){
		func(o *Options) { o.URL = "" },
		func(o *Options) { o.URL = "api.example.com" },
		func(o *Options) { o.URL = "ftp://x" },
		func(o *Options) { o.URL = "https://x/?a=b" },
		func(o *Options) { o.URL = "https://u:pw-seeded@x" },
		func(o *Options) { o.URL = "https://u:pw-seeded@x y" },
		func(o *Options) { o.AccountID = "" },
		func(o *Options) { o.ClientID = "" },
		func(o *Options) { o.ClientSecret = "" },
		func(o *Options) { o.RequestsPerSec = 0 },
		func(o *Options) { o.PostsPerSec = 0 },
	} {
		o := ok
		change(&o)
		_, err := New(o)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "pw-seeded")
	}
}

func TestDefaultHTTPClient(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	c := httpClient(nil)
	tr := c.Transport.(*http.Transport)
	require.Nil(t, tr.Proxy)
	require.Positive(t, tr.MaxConnsPerHost)
	require.False(t, tr.DisableKeepAlives)
	require.ErrorIs(t, c.CheckRedirect(nil, nil), http.ErrUseLastResponse)
	given := &http.Client{}
	require.NotSame(t, given, httpClient(given))
	require.Nil(t, given.CheckRedirect, "the given client is left as it was")
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var hit bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit = true }))
	t.Cleanup(other.Close)
	c, _ := setup(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	_, err := c.Pay(t.Context(), payOf(ref))
	require.Equal(t, "E", class("", err))
	require.False(t, hit)
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	c, w := setup(t, always(404, `{"code":"404"}`))
	_, _ = c.Pay(t.Context(), payOf(ref))
	token, pay := w.calls[0], w.calls[1]
	require.Equal(t, tokenPath, token.Path)
	require.Empty(t, token.Header.Get("Authorization"))
	require.Equal(t, testAccount, token.Header.Get("accountId"))
	require.JSONEq(t, `{"grant_type":"client_credentials","client_id":"client-0001","client_secret":"secret-seeded"}`, token.Body)
	require.Equal(t, "Bearer token-seeded-1", pay.Header.Get("Authorization"))
	require.Equal(t, testAccount, pay.Header.Get("accountId"))
	require.Equal(t, "application/json", pay.Header.Get("Content-Type"))
	require.Empty(t, pay.Header.Get("Idempotency-Key"), "net/http would repeat a POST that has one")
}

func TestNothingSecretIsSaid(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c, w := setup(t, always(500, `{"code":"01"}`), func(o *Options) { o.Log = log })
	var errs []error
	for _, call := range everyCall {
		_, err := call(t.Context(), c)
		errs = append(errs, err)
	}
	w.answerTokens(always(401, `{"code":"05","description":"Invalid client credentials"}`))
	w.refuse(1)
	_, err := c.Banks(t.Context())
	require.ErrorContains(t, err, "no access token")
	_, err2 := c.Pay(t.Context(), payOf(ref))
	quiet, _ := setup(t, hangUp)
	log.Error("all", "errors", errors.Join(append(errs, err, err2)...), "client", quiet)
	require.Contains(t, logged.String(), "no access token from the bank")
	for _, s := range []string{testSecret, "token-seeded"} {
		require.NotContains(t, logged.String(), s)
	}
	require.Equal(t, "E", class("", err2), "a token that is refused rejects no payout")
}

func TestObserve(t *testing.T) {
	t.Parallel()
	var got []string
	c, _ := setup(t, inTurn(always(404, `{"code":"404"}`), always(200, `{"code":"06"}`), always(200, `{"code":"99"}`),
		always(200, good(`[{"code":"058","name":"GTBank"}]`))),
		func(o *Options) {
			o.Observe = func(call, outcome string, d time.Duration) {
				if d < 0 {
					t.Error("a negative duration")
				}
				got = append(got, call+" "+outcome)
			}
		})
	_, _ = c.Transaction(t.Context(), "T-1")
	_, _ = c.Lookup(t.Context(), "058", "0554772814")
	_, _ = c.Payout(t.Context(), ref)
	_, _ = c.Banks(t.Context())
	require.Equal(t, []string{"token ok", "transaction unknown", "lookup rejected", "payout error", "banks ok"}, got)
}

// everyCall calls each method with good arguments. The name is the one that errors and metrics
// have.
var everyCall = map[string]func(context.Context, *Client) (provider.Status, error){
	"create_account": func(ctx context.Context, c *Client) (provider.Status, error) {
		_, err := c.CreateAccount(ctx, provider.NewAccount{Ref: ref, Name: "Ada Obi Stores"})
		return "", err
	},
	"close_account": func(ctx context.Context, c *Client) (provider.Status, error) { return "", c.CloseAccount(ctx, ref) },
	"find_account": func(ctx context.Context, c *Client) (provider.Status, error) {
		_, err := c.FindAccount(ctx, ref)
		return "", err
	},
	"transaction": func(ctx context.Context, c *Client) (provider.Status, error) {
		t, err := c.Transaction(ctx, "T-1")
		return t.Status, err
	},
	"transactions": func(ctx context.Context, c *Client) (provider.Status, error) {
		_, err := c.Transactions(ctx, start, start.Add(time.Hour), "")
		return "", err
	},
	"banks": func(ctx context.Context, c *Client) (provider.Status, error) { _, err := c.Banks(ctx); return "", err },
	"lookup": func(ctx context.Context, c *Client) (provider.Status, error) {
		_, err := c.Lookup(ctx, "058", "0554772814")
		return "", err
	},
	"pay": func(ctx context.Context, c *Client) (provider.Status, error) {
		p, err := c.Pay(ctx, payOf(ref))
		return p.Status, err
	},
	"payout": func(ctx context.Context, c *Client) (provider.Status, error) {
		p, err := c.Payout(ctx, ref)
		return p.Status, err
	},
}

// goodData is data that makes each call succeed.
var goodData = map[string]string{
	"create_account": `{"accountRef":"` + ref + `","accountName":"Ada Obi Stores","bankName":"Nombank MFB","bankAccountNumber":"9391076543","bankAccountName":"Nomba/Ada Obi Stores","currency":"NGN","expired":false}`,
	"find_account":   `{"accountRef":"` + ref + `","accountName":"Ada Obi Stores","bankName":"Nombank MFB","bankAccountNumber":"9391076543","bankAccountName":"Nomba/Ada Obi Stores","currency":"NGN","expired":false}`,
	"close_account":  `{"expired":true}`,
	"transaction":    `{"id":"T-1","status":"SUCCESS","amount":"100.0","fixedCharge":"0.5","type":"vact_transfer","currency":"NGN","virtualAccount":"9391076543","timeCreated":"2026-11-20T11:31:35.017Z"}`,
	"transactions":   `{"results":[],"cursor":""}`,
	"banks":          `[{"code":"058","name":"GTBank"}]`,
	"lookup":         `{"accountNumber":"0554772814","accountName":"ADA OBI"}`,
	"pay":            `{"id":"P-1","status":"SUCCESS","amount":5000.1,"fee":20,"meta":{"merchantTxRef":"` + ref + `"}}`,
	"payout":         `{"id":"P-1","status":"SUCCESS","amount":"5000.10","fixedCharge":"20","type":"transfer","merchantTxRef":"` + ref + `"}`,
}

func TestGoodDataIsGood(t *testing.T) {
	t.Parallel()
	require.Len(t, goodData, len(everyCall))
	for name, call := range everyCall {
		require.True(t, json.Valid([]byte(goodData[name])), name)
		c, _ := setup(t, always(200, good(goodData[name])))
		s, err := call(t.Context(), c)
		require.NoError(t, err, name)
		require.Contains(t, []provider.Status{"", provider.Success}, s, name)
	}
}
