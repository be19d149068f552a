package listen

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
)

// script is an API whose answers to POST /auth/listen are the test's, one after the other; then it
// has nothing to say. All else goes well.
type script struct {
	mu      sync.Mutex
	steps   []http.HandlerFunc
	asked   []string // the places that were asked from
	logins  int
	said    []string
	nothing chan struct{} // closed when the steps are done
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/auth/login":
		s.logins++
		_, _ = io.WriteString(w, `{}`)
	case "/auth/webhook-secret":
		_, _ = io.WriteString(w, `{"webhookSecret":"s"}`)
	case "/auth/webhook-events":
		_, _ = io.WriteString(w, `{"events":["payment.received"],"available":["payment.received"]}`)
	case "/auth/listen":
		var in struct{ After string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		s.asked = append(s.asked, in.After)
		if len(s.steps) == 0 {
			select {
			case <-s.nothing:
			default:
				close(s.nothing)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		step := s.steps[0]
		s.steps = s.steps[1:]
		step(w, r)
	default:
		_, _ = io.WriteString(w, `{}`)
	}
}

func refuse(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":%q}`, text)
	}
}

func tell(next string, refs ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		events := []map[string]string{}
		for _, ref := range refs {
			events = append(events, map[string]string{
				"id": ref, "eventType": "payment.received", "createdAt": "2026-03-02T09:00:00Z", "body": `{"accountRef":"` + ref + `","amount":"1.00"}`,
			})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"events": events, "next": next})
	}
}

// run listens until the steps are done, or by itself ends.
func run(t *testing.T, steps ...http.HandlerFunc) (*script, error) {
	t.Helper()
	t.Parallel()
	s := &script{steps: steps, nothing: make(chan struct{})}
	api := httptest.NewServer(s)
	t.Cleanup(api.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	go func() {
		select {
		case <-s.nothing:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := Run(ctx, Options{
		API: api.URL, Login: Login{Email: "me@shop.example", Password: secret.Redact("correct horse")}, retry: time.Millisecond, forgotten: 200 * time.Millisecond,
		Say: func(line string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.said = append(s.said, line)
		},
	})
	api.Close() // waits for the handlers that the end of ctx left behind
	return s, err
}

// Whatever goes wrong between two events, those that come after it are shown, each once, in their
// order.
func TestGoesOnAfterTrouble(t *testing.T) {
	s, err := run(t, tell("a"), tell("b", "one", "two"),
		refuse(503, "internal error"), refuse(429, "rate limit exceeded"), tell("c", "three"),
		refuse(401, "unauthorized"), tell("d", "four"), // the session has ended: it logs in again
		refuse(400, "invalid cursor"), tell("e", "five"),
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, tell("f", "six"), tell("f"), tell("f"))
	require.NoError(t, err)
	var shown []string
	for _, line := range s.said {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "payment.received" {
			shown = append(shown, fields[2])
		}
	}
	require.Equal(t, []string{"one", "two", "three", "four", "five", "six"}, shown)
	require.Equal(t, []string{"", "a", "b", "b", "b", "c", "c", "d", "", "e", "e", "f", "f"}, s.asked[:13])
	require.Equal(t, 2, s.logins)
	var lost int
	for _, line := range s.said {
		if strings.HasPrefix(line, "Lost the connection") {
			lost++
		}
	}
	require.GreaterOrEqual(t, lost, 4, "%q", s.said)
}

func TestEndsWhereAskingIsNoUse(t *testing.T) {
	_, err := run(t, tell("a"), refuse(403, "tenant is suspended"))
	require.ErrorContains(t, err, "403: tenant is suspended")
}

// Of a payout of which another sum left than was ordered, that sum is shown.
func TestWhatLeftIsShown(t *testing.T) {
	paid := func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"next": "b", "events": []map[string]string{{
			"id": "1", "eventType": "settlement.succeeded", "createdAt": "2026-03-02T09:00:00Z",
			"body": `{"accountRef":"one","merchantTxRef":"AJO1","amount":"100.00","status":"success","paidAmount":"60.00"}`,
		}}})
	}
	s, err := run(t, tell("a"), paid, tell("b"), tell("b"), tell("b"))
	require.NoError(t, err)
	require.Contains(t, strings.Join(s.said, "\n"), "one AJO1  NGN 60.00")
}

// A member with a second factor is asked for a code, once the password was right.
func TestAsksForACode(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	codes := make(chan string, 8)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/auth/login":
			var in struct{ Code string }
			_ = json.NewDecoder(r.Body).Decode(&in)
			codes <- in.Code
			if in.Code == "" {
				refuse(401, "code is required")(w, r)
				return
			}
		case "/auth/webhook-secret":
			_, _ = io.WriteString(w, `{"webhookSecret":"s"}`)
			return
		case "/auth/listen":
			cancel()
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	defer api.Close()
	login := Login{Email: "me@shop.example", Password: secret.Redact("correct horse")}
	require.ErrorContains(t, Run(ctx, Options{API: api.URL, Login: login, Say: func(string) {}}), "code is required", "nobody can be asked")
	login.Code = func(context.Context) (secret.Redacted, error) { return secret.Redact("123456"), nil }
	require.NoError(t, Run(ctx, Options{API: api.URL, Login: login, Say: func(string) {}}))
	require.Equal(t, []string{"", "", "123456"}, []string{<-codes, <-codes, <-codes})
}

func TestSaysThatThereIsNoWebhookURL(t *testing.T) {
	s, err := run(t, tell("a"), tell("a"))
	require.NoError(t, err)
	require.Contains(t, strings.Join(s.said, "\n"), "You have no webhook URL.")
	require.NotContains(t, strings.Join(s.said, "\n"), "Your webhook URL gets")
}

// A tenant counts as listening from the beginning of its last call, whose answer may come late.
func TestSaysThatEventsMayBeMissing(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(300 * time.Millisecond)
		tell("b")(w, r)
	}
	s, err := run(t, tell("a"), slow, refuse(503, "internal error"), tell("c"))
	require.NoError(t, err)
	require.Contains(t, strings.Join(s.said, "\n"), "may be missing here")
}

// Events may have been passed over when the service does not know the last one any more, as it was
// restored: the connection alone was not lost for long.
func TestSaysThatThePlaceIsNotKnown(t *testing.T) {
	for status, missing := range map[int]bool{400: true, 503: false} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s, err := run(t, tell("a"), refuse(status, "invalid cursor"), tell("c"))
			require.NoError(t, err)
			require.Equal(t, missing, strings.Contains(strings.Join(s.said, "\n"), "may be missing here"))
		})
	}
}
