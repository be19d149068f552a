package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"ajo/internal/contract"
	"ajo/internal/safehttp"
	"ajo/internal/testenv"
	"ajo/internal/webhook"
)

// The document and its page are kept by their readers, and asked for again by their ETag.
func TestDocumentIsServed(t *testing.T) {
	w := setup(t)
	for path, media := range map[string]string{"/openapi.json": "application/json", "/docs": "text/html; charset=utf-8"} {
		r := w.do("GET", path, "").ok(200, nil)
		require.Equal(t, media, r.Header.Get("Content-Type"))
		require.Equal(t, "no-cache", r.Header.Get("Cache-Control"))
		tag := r.Header.Get("ETag")
		for _, have := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			again := w.do("GET", path, "", "If-None-Match", have)
			require.Equal(t, 304, again.Status, have)
			require.Empty(t, again.Body)
			require.Equal(t, tag, again.Header.Get("ETag"))
		}
		w.do("GET", path, "", "If-None-Match", `"other"`).ok(200, nil)
		require.Equal(t, 200, w.do("HEAD", path, "").Status)
	}
}

// The page needs nobody else: no script, no other host, and only the style that its policy names.
// It has every operation.
func TestDocsPage(t *testing.T) {
	w := setup(t)
	r := w.do("GET", "/docs", "").ok(200, nil)
	require.Regexp(t, `^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$`,
		r.Header.Get("Content-Security-Policy"))
	require.Contains(t, r.Body, "<style>"+docsCSS+"</style>")
	for _, never := range []string{"<script", "javascript:", "src=", "url(", "@import", "<link", "style=", "onclick", "ZgotmplZ", "<no value>"} {
		require.NotContains(t, r.Body, never)
	}
	for _, href := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(r.Body, -1) {
		if href[1] == "/openapi.json" {
			continue
		}
		require.True(t, strings.HasPrefix(href[1], "#"), href[1])
		require.Contains(t, r.Body, `id="`+href[1][1:]+`"`)
	}
	for _, o := range append(description().Operations, description().Webhooks...) {
		require.Contains(t, r.Body, `id="`+o.ID+`"`)
		if len(o.Security) == 0 || o.Security[0] != "bankSignature" {
			require.Contains(t, r.Body, "<code>"+o.Path+"</code>")
		}
	}
}

// Every body and answer has an example that is valid, so what the page shows can be sent.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	d := documentTree(t)
	check := func(what string, s *contract.Schema, n node) {
		t.Helper()
		text := d.example(n)
		v, err := contract.Decode([]byte(text))
		require.NoError(t, err, "%s: %q", what, text)
		require.NoError(t, s.Check(v), "%s: %s", what, text)
	}
	for section, ops := range map[string][]*contract.Operation{"paths": description().Operations, "webhooks": description().Webhooks} {
		for _, o := range ops {
			n := d.root.get(section).get(o.Path).get(strings.ToLower(o.Method))
			if o.Body != nil {
				check(o.ID, o.Body, n.get("requestBody").get("content").get("application/json").get("schema"))
			}
			for i, p := range o.Parameters {
				if s := d.follow(d.follow(n.get("parameters").list()[i]).get("schema")); s.text("type") == "string" {
					check(o.ID+" "+p.Name, p.Schema, s)
				}
			}
			for status, a := range o.Responses {
				media := d.follow(n.get("responses").get(status)).get("content").get("application/json")
				if a.Body != nil && media.Node != nil && status < "400" {
					check(o.ID+" "+status, a.Body, media.get("schema"))
				}
			}
		}
	}
}

func documentTree(t *testing.T) docs {
	t.Helper()
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal(openAPI, &root))
	return docs{node{root.Content[0]}}
}

// What a tenant is sent is what the document says of it.
func TestDeliveryIsAsDescribed(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	got := make(chan contract.Request, 2)
	tenant := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- contract.Request{Request: r, Body: body}
	}))
	t.Cleanup(tenant.Close)
	client := safehttp.New(safehttp.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	deliveries := webhook.New(w.Pool, w.Clock, w.opts.Tenants.Box, client, webhook.Options{})
	t.Cleanup(func() { deliveries.Close(); client.Close() })

	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
	w.do("POST", "/auth/webhook-url", `{"url":"`+tenant.URL+`/hook"}`, m.withKey()...).ok(200, nil)
	ops := map[string]*contract.Operation{}
	for _, op := range description().Webhooks {
		ops[op.Path] = op
	}
	require.Len(t, ops, len(webhook.Types))
	op := ops["payment.received"]
	for i, rotated := range []bool{false, true} {
		if rotated {
			w.do("POST", "/auth/webhook-secret", "", m.withKey()...).ok(200, nil)
		}
		txn := []string{"t-1", "t-2"}[i]
		w.pay(event{"r-" + txn, txn, "shop-1", "5000.00", "10.5"})
		id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM deliveries WHERE status = 'pending'`)
		require.NoError(t, deliveries.Deliver(context.Background(), id))
		r := <-got
		require.NoError(t, op.CheckRequest(r), string(r.Body))
		require.NotEmpty(t, r.Header.Get("X-Service-Signature"), "the secret came with the URL")
	}
	m.chooseAll(w)
	w.everyEnd(m)
	for _, typ := range webhook.Types[1:] {
		id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM deliveries WHERE status = 'pending' AND event_type = $1 LIMIT 1`, string(typ))
		require.NoError(t, deliveries.Deliver(context.Background(), id))
		r := <-got
		require.NoError(t, ops[string(typ)].CheckRequest(r), string(r.Body))
	}
}
