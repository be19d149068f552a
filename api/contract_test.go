package api

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"ajo/internal/contract"
	"ajo/internal/tenant"
	"ajo/ledger"
)

// description is the document as it is served.
var description = sync.OnceValue(func() *contract.Document {
	d, err := contract.Parse(document().plain.body)
	if err != nil {
		panic(err)
	}
	return d
})

// holdToDocument checks an answer, whatever it is, and the request, when it was let in, against the
// document. The bank's events are let in whatever they are.
func (w *world) holdToDocument(req *http.Request, body string, r reply) {
	w.T.Helper()
	a := contract.Answer{Status: r.Status, Header: r.Header, Body: []byte(r.Body)}
	op := description().Find(req.Method, req.URL)
	if op == nil {
		require.NoError(w.T, description().CheckStray(req.Method, a), "%s %s: %d %s", req.Method, req.URL.Path, r.Status, r.Body)
		return
	}
	require.NoError(w.T, op.CheckAnswer(req.Method, a), "%s %s: %d %s", req.Method, req.URL.Path, r.Status, r.Body)
	if r.Status < 300 && op.ID != "receiveEvent" {
		require.NoError(w.T, op.CheckRequest(contract.Request{Request: req, Body: []byte(body)}), "%s %s was let in: %s", req.Method, req.URL, body)
	}
}

// What the contract fuzzer has found, and was mended.
func TestFoundByTheFuzzer(t *testing.T) {
	w := setup(t)
	key := w.onboard().withKey()
	for _, ref := range []string{"%00", "%ff", "%C0%AF", "a%00"} {
		w.do("GET", "/v1/transfers?accountRef="+ref, "", key...).refused(404, "account not found")
	}
	const oneTime = `{"externalRef":"x","name":"Ada Obi","mode":"onetime","expiresAt":"%s"}`
	for _, at := range []string{"9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.5Z", "2027-01-01T9:00:00Z", "2027-01-01T09:00:00,5Z", "2027-01-01T09:00:00+24:00"} {
		w.do("POST", "/v1/accounts", fmt.Sprintf(oneTime, at), key...).refused(400, "expiresAt must be an ISO 8601 time such as 2026-01-30T12:15:00Z")
	}
	// It never becomes a request and is not counted; the answer to HEAD has no body to show it.
	for _, method := range []string{"GET", "HEAD"} {
		require.Equal(t, 400, w.do(method, "/v1/accounts?limit= 5", "", key...).Status, method)
	}
	soon := w.Clock.Now().Add(time.Microsecond).Format(time.RFC3339Nano)
	w.do("POST", "/v1/accounts", fmt.Sprintf(oneTime, soon), key...).ok(201, nil)
}

// The document has the refusal of a file whose filter looks at too much. It takes a million entries
// to see it.
func TestDocumentHasTheWideFilter(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/auth/accounts/shop-1/statement.csv", "/auth/accounts/shop-1/statement.pdf", "/auth/statement.csv", "/auth/statement.pdf", "/auth/payments.csv",
	} {
		header := http.Header{}
		header.Set("Content-Type", "application/json")
		header.Set("X-Request-ID", "1")
		a := contract.Answer{Status: 422, Header: header, Body: fmt.Appendf(nil, `{"error":%q}`, ledger.ErrWide.Msg)}
		require.NoError(t, description().Find("GET", &url.URL{Path: path}).CheckAnswer("GET", a), path)
	}
}

var pathParameter = regexp.MustCompile(`:([A-Za-z]+)`)

// Every row of Routes is in the document, every path of the document has a row, and they ask for
// the same credential.
func TestDocumentHasTheRoutes(t *testing.T) {
	t.Parallel()
	schemes := map[Credential]string{
		None: "", Session: "session", Key: "apiKey", SessionOrKey: "apiKey session", Signature: "bankSignature",
	}
	want, got := map[string]string{}, map[string]string{}
	for _, r := range Routes {
		want[r.Method+" "+pathParameter.ReplaceAllString(r.Path, "{$1}")] = schemes[r.Credential]
	}
	for _, o := range description().Operations {
		got[o.Method+" "+o.Path] = strings.Join(o.Security, " ")
	}
	require.Equal(t, want, got)
}

// The document names the scope that an API key needs and the role that a member needs, where the
// table of routes does; a viewer's is left out.
func TestDocumentHasTheScopes(t *testing.T) {
	t.Parallel()
	var root struct {
		Paths map[string]map[string]struct{ Security []map[string][]string }
	}
	require.NoError(t, yaml.Unmarshal(openAPI, &root))
	for _, r := range Routes {
		var want, got []string
		if r.Scope != anyScope {
			want = []string{string(r.Scope)}
		}
		for _, s := range root.Paths[pathParameter.ReplaceAllString(r.Path, "{$1}")][strings.ToLower(r.Method)].Security {
			got = append(got, s["apiKey"]...)
		}
		require.Equal(t, want, got, "%s %s", r.Method, r.Path)
		var roles, shown []string
		if r.Role != "" && r.Role != tenant.Viewer {
			roles = []string{string(r.Role)}
		}
		for _, s := range root.Paths[pathParameter.ReplaceAllString(r.Path, "{$1}")][strings.ToLower(r.Method)].Security {
			shown = append(shown, s["session"]...)
		}
		require.Equal(t, roles, shown, "%s %s", r.Method, r.Path)
	}
}

// What only some endpoints have stands at these in the document, and nowhere else.
func TestDocumentHasTheLimits(t *testing.T) {
	t.Parallel()
	for _, r := range Routes {
		for _, o := range description().Operations {
			if o.Method != r.Method || o.Path != pathParameter.ReplaceAllString(r.Path, "{$1}") {
				continue
			}
			_, limited := o.Responses["429"]
			// whose count shows only when it is used up
			sometimes := r.Credential == SessionOrKey || r.Credential == Session || r.Path == "/auth/logout"
			require.Equal(t, r.Limited || r.Credential == Key || sometimes, limited, o.ID)
			for status, a := range o.Responses {
				h, ok := a.Headers["RateLimit-Limit"]
				counted := r.Limited || r.Credential == Key || (sometimes && status == "429")
				require.Equal(t, counted && status != "500", ok && h.Required, "%s %s", o.ID, status)
			}
		}
	}
}
