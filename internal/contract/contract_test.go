package contract

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const small = `{
	"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
	"paths": {
		"/a/{ref}": {"post": {
			"operationId": "one", "security": [{"key": []}],
			"parameters": [
				{"name": "ref", "in": "path", "required": true, "schema": {"type": "string", "maxLength": 3}},
				{"name": "limit", "in": "query", "allowEmptyValue": true, "schema": {"type": "integer", "maximum": 5}}],
			"requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Body"}}}},
			"responses": {"200": {"description": "d",
				"headers": {"X-Count": {"required": true, "schema": {"type": "integer", "minimum": 1}}},
				"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Body"}}}}}}},
		"/a/list": {"post": {"operationId": "two", "responses": {"304": {"description": "d"}}}}},
	"components": {
		"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
		"schemas": {
			"Error": {"type": "object", "required": ["error"], "additionalProperties": false, "properties": {"error": {"type": "string"}}},
			"Body": {"type": "object", "required": ["at"], "additionalProperties": false, "properties": {"at": {"type": "string", "format": "date-time"}}}}}}`

func request(target, body string, header http.Header) Request {
	u, _ := url.Parse("http://h" + target)
	return Request{Request: &http.Request{Method: "POST", URL: u, Header: header}, Body: []byte(body)}
}

func TestFind(t *testing.T) {
	d, err := Parse([]byte(small))
	require.NoError(t, err)
	for target, want := range map[string]string{"/a/x": "one", "/a/list": "two", "/a/%2F": "one", "/a": "", "/a/": "", "/a/x/y": "", "/A/x": ""} {
		r := request(target, "", nil)
		got := ""
		if o := d.Find("POST", r.URL); o != nil {
			got = o.ID
		}
		require.Equal(t, want, got, target)
		require.Nil(t, d.Find("GET", r.URL))
	}
}

func TestCheckRequest(t *testing.T) {
	d, err := Parse([]byte(small))
	require.NoError(t, err)
	good := http.Header{"Content-Type": {"application/json; charset=utf-8"}, "X-Key": {"k"}}
	const body = `{"at":"2026-01-30T12:15:00Z"}`
	for _, c := range []struct {
		target, body string
		header       http.Header
		wrong        string
	}{
		{"/a/x", body, good, ""},
		{"/a/x?limit=5", body, good, ""},
		{"/a/x?limit=", body, good, ""},
		{"/a/x", `{"at":" 2026-01-30T12:15:00Z "}`, good, ""},
		{"/a/long", body, good, "parameter ref"},
		{"/a/x?limit=6", body, good, "parameter limit"},
		{"/a/x?limit=x", body, good, "parameter limit"},
		{"/a/x", `{}`, good, "missing property"},
		{"/a/x", `{"at":"tomorrow"}`, good, "date-time"},
		{"/a/x", `{`, good, "request body"},
		{"/a/x", body, http.Header{"Content-Type": {"application/json"}}, "no credential"},
		{"/a/x", body, http.Header{"Content-Type": {"text/plain"}, "X-Key": {"k"}}, "media type"},
	} {
		r := request(c.target, c.body, c.header)
		err := d.Find("POST", r.URL).CheckRequest(r)
		if c.wrong == "" {
			require.NoError(t, err, c)
		} else {
			require.ErrorContains(t, err, c.wrong, c)
		}
	}
}

func TestCheckAnswer(t *testing.T) {
	d, err := Parse([]byte(small))
	require.NoError(t, err)
	one := d.Find("POST", &url.URL{Path: "/a/x"})
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for _, p := range pairs {
			k, v, _ := strings.Cut(p, "=")
			h.Set(k, v)
		}
		return h
	}
	good := header("Content-Type=application/json", "X-Count=1")
	const body = `{"at":"2026-01-30T12:15:00Z"}`
	for _, c := range []struct {
		status int
		header http.Header
		body   string
		wrong  string
	}{
		{200, good, body, ""},
		{201, good, body, "status 201"},
		{200, header("Content-Type=application/json"), body, "header X-Count is missing"},
		{200, header("Content-Type=application/json", "X-Count=0"), body, "header X-Count"},
		{200, header("Content-Type=application/json", "X-Count=1", "Retry-After=1"), body, "Retry-After is not in the document"},
		{200, header("Content-Type=text/html", "X-Count=1"), body, "media type"},
		{200, good, `{"at":"2026-01-30T12:15:00Z","more":1}`, "additional properties"},
		{200, good, ``, "body"},
		{413, header("Content-Type=application/json", "X-Request-ID=1"), `{"error":"request body too large"}`, ""},
		{413, header("Content-Type=application/json", "X-Request-ID=1"), `{"error":"too large"}`, "status 413"},
	} {
		err := one.CheckAnswer("POST", Answer{Status: c.status, Header: c.header, Body: []byte(c.body)})
		if c.wrong == "" {
			require.NoError(t, err, c)
		} else {
			require.ErrorContains(t, err, c.wrong, c)
		}
	}
	stray := header("Content-Type=application/json", "X-Request-ID=1")
	require.NoError(t, d.CheckStray("GET", Answer{404, stray, []byte(`{"error":"not found"}`)}))
	require.Error(t, d.CheckStray("GET", Answer{404, stray, []byte(`{"error":"not found","code":1}`)}))
	require.Error(t, d.CheckStray("GET", Answer{404, header("Content-Type=application/json"), []byte(`{"error":"not found"}`)}))
	require.Error(t, d.CheckStray("GET", Answer{200, stray, []byte(`{"error":"not found"}`)}))
}
