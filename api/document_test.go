package api

import (
	"context"
	"crypto/sha256"
	"fmt"
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

// The document says of each webhook that what the receiver answers is kept and shown.
func TestDocumentOfAnswersToWebhooks(t *testing.T) {
	t.Parallel()
	require.Zero(t, strings.Count(string(openAPI), "body of the answer is not read"))
	require.Equal(t, len(webhook.Types), strings.Count(string(openAPI), "The first 16 KiB of the answer's body are kept"))
}

// The document's introduction says what holds at many endpoints as it is: the one null that is not
// as leaving a field out, which calls may be repeated, whose the limits are, and the refusals of a
// mode.
func TestDocumentSaysWhatHoldsEverywhere(t *testing.T) {
	t.Parallel()
	text := strings.Join(strings.Fields(string(openAPI)), " ")
	for _, want := range []string{
		"`null` is the same as leaving a field out, but for the `accountRefs` of a webhook endpoint: there it is all accounts.",
		"what is left out stays, and so does what is null, but for `accountRefs`.",
		"`POST` of accounts and their ends, settlements, refunds, book transfers, holds and their releases accepts an `Idempotency-Key`.",
		"and as many with its sessions, of which all members but the owner together have half;",
		"`" + errMode.Msg + "`", "`" + errModeOff.Msg + "`",
	} {
		require.Equal(t, 1, strings.Count(text, want), want)
	}
}

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

// The page needs nobody else: no other host, and nothing inline. What it loads may be kept forever,
// and is small for who accepts gzip.
func TestDocsPage(t *testing.T) {
	w := setup(t)
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
	r := w.do("GET", "/docs", "").ok(200, nil)
	require.Equal(t, policy, r.Header.Get("Content-Security-Policy"))
	for _, never := range []string{"<style", "style=", "javascript:", "<base", "@import"} {
		require.NotContains(t, r.Body, never)
	}
	require.NotRegexp(t, ` on[a-z]+=`, r.Body, "a handler in the page")
	require.NotRegexp(t, `<script(>| [^>]*>[^<])`, r.Body, "a script in the page")
	loaded, size := 0, 0
	for _, link := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(r.Body, -1) {
		if link[1] == "/openapi.json" || strings.HasPrefix(link[1], "data:image/svg+xml,") {
			continue
		}
		require.Regexp(t, `^/docs/[0-9a-f]{12}-[a-z-]+[.](js|css)$`, link[1])
		loaded++
		file := w.do("GET", link[1], "").ok(200, nil)
		require.Equal(t, policy, file.Header.Get("Content-Security-Policy"))
		require.Equal(t, "public, max-age=31536000, immutable", file.Header.Get("Cache-Control"))
		require.Equal(t, "nosniff", file.Header.Get("X-Content-Type-Options"))
		require.Equal(t, strings.HasSuffix(link[1], ".css"), file.Header.Get("Content-Type") == "text/css; charset=utf-8")
		req, err := http.NewRequest("GET", w.url+link[1], nil)
		require.NoError(t, err)
		req.Header.Set("Accept-Encoding", "br, gzip")
		resp, err := w.client.Do(req)
		require.NoError(t, err)
		require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
		require.NotEqual(t, file.Header.Get("ETag"), resp.Header.Get("ETag"))
		n, err := io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		size += int(n)
	}
	require.Equal(t, 4, loaded)
	require.Less(t, size, 500_000, "docs/decisions.md names the size")
	for _, path := range []string{"/docs/", "/docs/index.html", "/docs/swagger-ui.css", "/docs/LICENSE", "/docs/%2e%2e", "/docs/000000000000-reference.js"} {
		w.do("GET", path, "").refused(404, "not found")
	}
}

// The files of the viewer are those that were published, of the version that docs/decisions.md
// names.
func TestViewerIsUnchanged(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"swagger-ui-bundle.js.gz": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
		"swagger-ui.css.gz":       "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
	} {
		_, body, _, err := docsFile(name)
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprintf("%x", sha256.Sum256(body)), name)
	}
}

// Each tag stands in one group of the page, and in the same order.
func TestTagsAreGrouped(t *testing.T) {
	t.Parallel()
	var root struct {
		Groups []struct{ Tags []string } `yaml:"x-tagGroups"`
		Tags   []struct{ Name string }   `yaml:"tags"`
		Paths  map[string]map[string]struct{ Tags []string }
	}
	require.NoError(t, yaml.Unmarshal(openAPI, &root))
	var grouped, tags []string
	for _, g := range root.Groups {
		grouped = append(grouped, g.Tags...)
	}
	for _, tag := range root.Tags {
		tags = append(tags, tag.Name)
	}
	require.Equal(t, tags, grouped)
	tenant := root.Groups[0].Tags
	for path, item := range root.Paths {
		for _, op := range item {
			require.Len(t, op.Tags, 1, path)
			require.Contains(t, tags, op.Tags[0], path)
			if strings.HasPrefix(path, "/v1/") {
				require.Contains(t, tenant, op.Tags[0], path)
			}
		}
	}
}

// Every body and answer has an example that is valid, so what the page shows can be sent.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	check := func(what string, s *contract.Schema) {
		t.Helper()
		v := example(s.Raw)
		require.NoError(t, s.Check(v), "%s: %v", what, v)
	}
	for _, o := range append(description().Operations, description().Webhooks...) {
		if o.Body != nil {
			check(o.ID, o.Body)
		}
		for _, p := range o.Parameters {
			if description().Resolve(p.Schema.Raw)["type"] == "string" {
				check(o.ID+" "+p.Name, p.Schema)
			}
		}
		for status, a := range o.Responses {
			if body := a.Bodies["application/json"]; body != nil && status < "400" {
				check(o.ID+" "+status, body)
			}
		}
	}
}

// example puts a value together from the examples of a schema and its parts.
func example(schema map[string]any) any {
	s := description().Resolve(schema)
	part := func(v any) any {
		sub, _ := v.(map[string]any)
		return example(sub)
	}
	for _, key := range []string{"examples", "enum"} {
		if all := list(s[key]); len(all) > 0 {
			return all[0]
		}
	}
	if v, ok := s["const"]; ok {
		return v
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if all := list(s[key]); len(all) > 0 {
			return part(all[0])
		}
	}
	if items, ok := s["items"]; ok {
		return []any{part(items)}
	}
	if props, ok := s["properties"].(map[string]any); ok {
		out := map[string]any{}
		for name, sub := range props {
			out[name] = part(sub)
		}
		return out
	}
	return nil
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
	deliveries := webhook.New(webhook.Options{Pool: w.Pool, Clock: w.Clock, Box: w.opts.Tenants.Box, Client: client, Delays: defaults.DeliveryDelays})
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
		require.NoError(t, deliveries.Attempt(context.Background(), deliveries.Claim(context.Background(), []uuid.UUID{id})[0]))
		r := <-got
		require.NoError(t, op.CheckRequest(r), string(r.Body))
		require.NotEmpty(t, r.Header.Get("X-Service-Signature"), "the secret came with the URL")
	}
	m.chooseAll(w)
	w.everyEnd(m)
	for _, typ := range webhook.Types[1:] {
		id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM deliveries WHERE status = 'pending' AND event_type = $1 LIMIT 1`, string(typ))
		require.NoError(t, deliveries.Attempt(context.Background(), deliveries.Claim(context.Background(), []uuid.UUID{id})[0]))
		r := <-got
		require.NoError(t, ops[string(typ)].CheckRequest(r), string(r.Body))
	}
}
