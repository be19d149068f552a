package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"ajo/internal/contract"
	"ajo/internal/fakebank"
)

// make builds a request for the operation: half of them as the document says, the others broken in
// one way or two.
func (f *fuzzer) make(op *contract.Operation) *shot {
	s := &shot{op: op, method: op.Method, header: http.Header{}}
	query, path := url.Values{}, op.Path
	for _, p := range op.Parameters {
		value := f.known(p.Name, func() string { return fmt.Sprint(f.value(p.Schema.Raw, p.Name)) })
		switch {
		case p.In == "path":
			path = strings.Replace(path, "{"+p.Name+"}", url.PathEscape(value), 1)
		case p.In == "query" && (p.Required || f.chance(40)):
			query.Set(p.Name, value)
		case p.In == "header" && (p.Required || f.chance(30)):
			s.header.Set(p.Name, value)
		}
	}
	s.target = path
	if len(query) > 0 {
		s.target += "?" + query.Encode()
	}
	var fields []field
	if op.Body != nil {
		s.header.Set("Content-Type", "application/json")
		fields = f.fields(op.Body.Raw)
	}
	f.credential(s)
	if f.chance(8) {
		s.bank = []fakebank.Down{fakebank.DownAnswer, fakebank.DownClose}[f.rnd.IntN(2)]
	}
	s.body = object(fields, op.Body)
	if f.chance(55) {
		for range 1 + f.rnd.IntN(2) {
			f.mutate(s, &fields, query, path)
		}
	}
	if op.ID == "receiveEvent" && f.chance(80) {
		f.sign(s)
	}
	if op.Method == http.MethodGet && f.chance(3) {
		s.method = http.MethodHead
	}
	return s
}

// object writes the body of an operation that has one.
func object(fields []field, body *contract.Schema) []byte {
	if body == nil {
		return nil
	}
	return members(fields)
}

func members(fields []field) []byte {
	parts := make([]string, len(fields))
	for i, x := range fields {
		parts[i] = text(x.name) + ":" + x.raw
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// credential gives the request the one that its operation asks for.
func (f *fuzzer) credential(s *shot) {
	for _, scheme := range s.op.Security {
		switch scheme {
		case "apiKey":
			s.header.Set(keyHeader, f.member.key)
			return
		case "session":
			s.header.Set("Cookie", f.member.cookie)
		}
	}
}

// sign makes the bank's signature over whatever the body is, where it can be read.
func (f *fuzzer) sign(s *shot) {
	at := f.w.Clock.Now().Format("2006-01-02T15:04:05Z07:00")
	if fields, err := fakebank.FieldsOf(s.body); err == nil {
		s.header.Set("provider-signature", fakebank.Sign(webhookSecret, fields, at))
		s.header.Set("provider-timestamp", at)
	}
}

// mutate breaks the request in one way. The body is written anew from its fields unless it is
// broken as a whole.
func (f *fuzzer) mutate(s *shot, fields *[]field, query url.Values, path string) {
	type way struct {
		name string
		do   func()
	}
	ways := []way{
		{"credential", func() { f.brokenCredential(s) }},
		{"header", func() { f.brokenHeader(s) }},
	}
	if strings.Contains(s.op.Path, "{") || f.chance(10) {
		ways = append(ways, way{"path", func() { s.target = f.brokenPath(s.op.Path) + after(s.target) }})
	}
	if s.op.Method == http.MethodGet {
		do := func() { s.target = path + "?" + f.brokenQuery(s.op, query) }
		ways = append(ways, way{"query", do}, way{"query", do})
	}
	if s.op.Body != nil || f.chance(10) {
		field := way{"field", func() { f.brokenField(fields); s.body = object(*fields, s.op.Body) }}
		ways = append(ways, field, field, field, field,
			way{"media", func() { f.brokenMedia(s) }},
			way{"whole", func() { s.body = f.brokenWhole(s.body) }},
			way{"keys", func() { f.brokenKeys(fields); s.body = object(*fields, s.op.Body) }})
	}
	if f.chance(10) {
		ways = append(ways, way{"method", func() { s.method = pick(f, []string{"GET", "POST", "PATCH", "PUT", "DELETE", "OPTIONS", "HEAD"}) }})
	}
	chosen := pick(f, ways)
	chosen.do()
	s.mutated = append(s.mutated, chosen.name)
}

// after is the query of a target, with its question mark.
func after(target string) string {
	if i := strings.IndexByte(target, '?'); i >= 0 {
		return target[i:]
	}
	return ""
}

func (f *fuzzer) brokenPath(path string) string {
	values := []string{
		"%00", "%ff", "%C0%AF", "%2F", "..", "%2e%2e", "%", "%zz", "a%2Fb", "%F0%9F%98%80", "%E2%80%AE", "*", ":x", "%20", "%09", "%0d%0aX-A:%20b",
		strings.Repeat("a", 256), strings.Repeat("%E1%BB%8D", 255), strings.Repeat("x", 4000), "00000000-0000-0000-0000-000000000000",
		"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "urn:uuid:00000000-0000-0000-0000-000000000000", "%27%3B--", "null", "undefined", "banks", "lookup", "theirs", "",
	}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "{") {
			parts[i] = url.PathEscape(f.known(strings.Trim(p, "{}"), func() string { return "x" }))
			if f.chance(90) {
				parts[i] = pick(f, values)
			}
		} else if f.chance(5) && i > 0 {
			parts[i] = pick(f, []string{strings.ToUpper(p), p + "/", "", "%" + fmt.Sprintf("%02x", p), ".", p + "%00"})
		}
	}
	return strings.Join(parts, "/")
}

func (f *fuzzer) brokenQuery(op *contract.Operation, query url.Values) string {
	bad := map[string][]string{
		"limit": {"0", "-1", "101", "1e2", "%2B5", " 5", "05", "5.0", "", "%00", "%D9%A3", "99999999999999999999", "0x10", "NaN", "true", "5;6", "5,6"},
		"after": {
			"", "x", "AQ", "Ag", "%00", "%ff", "AQAAAAAAAAAAAAAAAAAAAAA", "Ag__________8", "AgAAAAAAAAAA", "////", "AQ==", strings.Repeat("A", 65), strings.Repeat("A", 9000),
			"AQAAAAAAAAAAAAAAAAAAAAB", "Ag-AAAAAAAAA", "null",
		},
		"accountRef": {"%00", "%ff", "", "%C0%AF", "nobody", strings.Repeat("a", 5000), "%2F", "theirs"},
		"status":     {"", "%00", "Pending", "pending%20", "all", "%ff", "pending,failed", "active", "confirmed"},
		"kycStatus":  {"", "%00", "None", "pending"},
		"direction":  {"", "%00", "in", "Credit"},
		"search":     {"", "%00", "%ff", "%20", "%25", "_", "'", "%5C", strings.Repeat("a", 101), strings.Repeat("%E1%BB%8D", 100), "%20" + strings.Repeat("a", 100)},
		"from":       {"", "%00", "2026-02-30", "0000-01-01", "0001-01-01", "9999-12-31", "2026-01-01T00:00:00", "2026-01-01T24:00:00Z", "9999-12-31T23:59:59-23:59"},
		"to":         {"", "%ff", "2026-1-1", "0001-01-01", "9999-12-31", "0001-01-01T00:00:00%2B23:59", "2026-01-01T00:00:00." + strings.Repeat("0", 60) + "Z"},
	}
	money := []string{"", "0", "-1", "%2B1", "1e3", "NaN", "Infinity", "1.005", ".5", "5.", "1,000", "%D9%A3", "%00", "%ff", "999999999999999.99", "1000000000000000", "00.1", "1_0", "0x1", strings.Repeat("9", 5000)}
	bad["amount"], bad["net"] = money, money
	var parts []string
	for _, p := range op.Parameters {
		if p.In == "query" && f.chance(70) {
			parts = append(parts, p.Name+"="+pick(f, append(bad[p.Name], url.QueryEscape(f.known(p.Name, func() string { return "1" })))))
		}
	}
	for _, extra := range []string{"x=1", "limit=5&limit=6", "%zz=1", "=", "&&&", "LIMIT=0", "a=%", "limit[]=5", "after"} {
		if f.chance(8) {
			parts = append(parts, extra)
		}
	}
	if len(parts) == 0 {
		return query.Encode()
	}
	return strings.Join(parts, "&")
}

func (f *fuzzer) brokenCredential(s *shot) {
	key, cookie := f.member.key, f.member.cookie
	values := []func(){
		func() { s.header.Del(keyHeader) },
		func() { s.header.Del("Cookie") },
		func() { s.header.Del(keyHeader); s.header.Set("Cookie", cookie) },
		func() { s.header.Del("Cookie"); s.header.Set(keyHeader, key) },
		func() {
			s.header.Set(keyHeader, pick(f, []string{"ajo_", strings.ToUpper(key), key + "x", key[:len(key)-1] + "!", "ọ", "\xff\xfe", strings.Repeat("a", 9000), "Bearer " + key, " " + key}))
		},
		func() { s.header.Set(keyHeader, f.stranger.key) },
		func() { s.header.Set("Cookie", f.stranger.cookie) },
		func() { s.header.Set(keyHeader, f.suspended.key) },
		func() { s.header.Set("Cookie", f.suspended.cookie) },
		func() {
			s.header.Set("Cookie", pick(f, []string{"service_session=", "service_session=\xff", cookie + "x", "service_session", cookie + "; " + cookie, "service_session=" + strings.Repeat("a", 8000)}))
		},
		func() {
			s.header.Set("Origin", pick(f, []string{"null", "https://evil.example", "http://" + f.w.addr, ":", "\xff"}))
		},
		func() {
			s.header.Set("Sec-Fetch-Site", pick(f, []string{"cross-site", "same-site", "same-origin", "none", "x", ""}))
		},
	}
	values[f.rnd.IntN(len(values))]()
}

func (f *fuzzer) brokenHeader(s *shot) {
	name := pick(f, []string{headerIdempotencyKey, "X-Request-ID", "Accept", "Range", "If-None-Match", "X-Forwarded-For", "X-HTTP-Method-Override", "Expect", "Content-Length", "provider-timestamp", "provider-signature", "Accept-Encoding"})
	value := pick(f, []string{"", " ", "k-1", "k-2", "*", "\xff\xfe", "ọ", "\u202e", strings.Repeat("k", 255), strings.Repeat("k", 256), strings.Repeat("ọ", 255), "a\tb", "bytes=0-1", "gzip", "W/\"\"", "1.2.3.4", "DELETE", "-1", "99999999999999999999"})
	if name == "Expect" || name == "Content-Length" {
		return // the client would wait, or refuse
	}
	s.header.Set(name, value)
}

func (f *fuzzer) brokenMedia(s *shot) {
	kind := pick(f, []string{"", "text/plain", "application/json;charset=utf-8", "application/json; charset=UTF-16", "APPLICATION/JSON", "application/json;", "application/xml", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "application/json, text/plain", "application/problem+json", "\xff", "application/json; charset=\"utf-8\"", "application/json; a=b"})
	s.header.Set("Content-Type", kind)
	if kind == "" {
		s.header.Del("Content-Type")
	}
	if f.chance(40) {
		s.header.Set("Content-Encoding", pick(f, []string{"gzip", "deflate", "br", "identity", "zstd", "x"}))
	}
}
