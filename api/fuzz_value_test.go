package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// field is a member of a body, as text, so that it can be broken in ways that no encoder writes.
type field struct{ name, raw string }

func (f *fuzzer) chance(percent int) bool { return f.rnd.IntN(100) < percent }

func pick[T any](f *fuzzer, values []T) T { return values[f.rnd.IntN(len(values))] }

// known is a value that the service has, mostly; else one of other.
func (f *fuzzer) known(name string, other func() string) string {
	if name == "externalRef" || name == "aliasAccountReference" {
		name = "accountRef"
	}
	if p := f.pool[name]; len(p) > 0 && f.chance(75) {
		return pick(f, p)
	}
	return other()
}

// text writes a string as JSON; what is no UTF-8 stays as it is.
func text(s string) string {
	if !utf8.ValidString(s) {
		return `"` + s + `"`
	}
	b, _ := json.Marshal(s)
	return string(b)
}

func list(v any) []any { l, _ := v.([]any); return l }

func sortedKeys(v any) []string {
	m, _ := v.(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

// fields makes the members of an object: all that are required, and each other one at times.
func (f *fuzzer) fields(schema map[string]any) []field {
	schema = description().Resolve(schema)
	required := map[string]bool{}
	for _, r := range list(schema["required"]) {
		required[fmt.Sprint(r)] = true
	}
	var out []field
	for _, name := range sortedKeys(schema["properties"]) {
		sub, _ := schema["properties"].(map[string]any)[name].(map[string]any)
		if required[name] || f.chance(40) {
			out = append(out, field{name, f.raw(sub, name)})
		}
	}
	return out
}

// raw makes a value as JSON.
func (f *fuzzer) raw(schema map[string]any, name string) string {
	v := f.value(schema, name)
	if raw, ok := v.(json.RawMessage); ok {
		return string(raw)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// value makes a value that the schema allows, as far as a simple reading of it goes.
func (f *fuzzer) value(schema map[string]any, name string) any {
	s := description().Resolve(schema)
	if all := list(s["anyOf"]); len(all) > 0 {
		one, _ := pick(f, all).(map[string]any)
		return f.value(one, name)
	}
	if c, ok := s["const"]; ok {
		return c
	}
	if all := list(s["enum"]); len(all) > 0 {
		return pick(f, all)
	}
	kind := fmt.Sprint(s["type"])
	if kinds := list(s["type"]); len(kinds) > 0 {
		kind = fmt.Sprint(pick(f, kinds))
		if kind == "null" && f.chance(50) {
			kind = fmt.Sprint(kinds[0])
		}
	}
	switch kind {
	case "null":
		return nil
	case "boolean":
		return f.chance(50)
	case "integer":
		if name == "wait" {
			return 0 // else the run waits too
		}
		return 1 + f.rnd.IntN(100)
	case "number":
		return json.RawMessage(pick(f, []string{"1", "5000", "5000.5", "0.01", "100.00", "999999999999999.99", fmt.Sprintf("%d.%02d", f.rnd.IntN(1e6), 1+f.rnd.IntN(99))}))
	case "object":
		parts := f.fields(s)
		return json.RawMessage(members(parts))
	default:
		return f.known(name, func() string { return f.word(s, name) })
	}
}

// word makes a string that the schema allows.
func (f *fuzzer) word(s map[string]any, name string) string {
	if all := list(s["examples"]); len(all) > 0 && f.chance(60) && all[0] != nil {
		return fmt.Sprint(pick(f, all))
	}
	switch {
	case s["format"] == "email":
		return fmt.Sprintf("fuzz-%d@shop.example", f.rnd.IntN(1e9))
	case s["format"] == "date-time":
		return pick(f, []string{"2027-01-30T12:15:00Z", "2031-12-31T23:59:59.123456789+01:00", "9999-12-31T23:59:59Z", "2026-03-02T09:00:00.000001Z"})
	case s["format"] == "uri" || s["format"] == "uri-reference":
		return pick(f, []string{"https://shop.example/hook", "http://203.0.113.7:8080/a?b=c", "https://[2001:db8::1]/x"})
	case name == "nin":
		return pick(f, []string{ninOfAda, ninUnclear, "12345678901"})
	case s["pattern"] != nil && f.chance(90):
		return rapid.StringMatching(fmt.Sprint(s["pattern"])).Example(f.rnd.IntN(1 << 30))
	}
	most := 40
	if n, ok := s["maxLength"].(json.Number); ok {
		if v, err := n.Int64(); err == nil {
			most = int(min(v, 300))
		}
	}
	letters := []rune("abcXYZ019 -._~:'&<>\"\\ọ́ñ😀\u200d%+#?=")
	out := make([]rune, 1+f.rnd.IntN(most))
	for i := range out {
		out[i] = pick(f, letters)
	}
	return string(out)
}

// Texts, numbers and other values that have broken something somewhere.
var (
	nastyTexts = []string{
		"", " ", "\t\n", "\x00", "a\x00b", "\x7f", "\u0085", "\u200b", "\u202egnirts", "\ufeff", "\ufffd", "😀", "e\u0301", "ﬀ", "ı", "İ", "K", "\xff", "\xc0\xaf", "a\xfeb",
		"null", "undefined", "NaN", "true", "-1", "0", "00", "1e5", "１２３４５６７８９０", "٣", "' OR 1=1 --", "${jndi:x}", "{{7*7}}", "<script>", "../../etc/passwd", "%00", "%s%n", "a/b",
		"2026-13-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00Z", "0000-01-01T00:00:00+01:00", "2027-01-01T24:00:00Z", "2027-01-01T9:00:00Z", "2027-01-01T09:00:60Z", "2027-01-01t09:00:00z",
		"2027-01-01T09:00:00,5Z", "2027-02-30T00:00:00Z", "2027-01-01T09:00:00+25:00", "2027-01-01T09:00:00.1234567890123Z", "10000-01-01T00:00:00Z", "2027-01-01 09:00:00Z", "2027-01-01T09:00:00+01",
		"http://", "http://127.0.0.1", "http://[::1]:99999/", "https://a:b@c", "javascript:alert(1)", "http://0177.1", "http://2130706433/", "http://[fe80::1%25eth0]/", "https://ex ample", "//x", "https:x", "http://a/%zz",
		"0.001", "-0.01", "1.", ".1", "+1", "1,000.00", "1e-2", "0x10", "1000000000000000", "999999999999999.99", "999999999999999.999", "0.00", "0.01", "−1", "1 ", " 1", "1\n",
	}
	nastyNumbers = []string{
		"0", "-0", "-1", "0.001", "0.1e1", "1e400", "1e-400", "5E3", "5e1", "5.000", "5.0001", "1.10", "9007199254740993.01", "999999999999999.99", "999999999999999.990000", "1000000000000000",
		"99999999999999999999999999999999", "0.00", "-5.5", "1.0000000000000000000000000000000000000000000000000",
	}
	nastyValues = []string{"true", "false", "null", "[]", "{}", "[1]", `{"a":1}`, `["a"]`, `"x"`, "1", `{"$ref":"#"}`, `[[[[[[]]]]]]`}
	notJSON     = []string{"01", "+1", ".5", "NaN", "Infinity", "'a'", "", "nul", `"\x"`, `"\ud800"`, `"\u12"`, "\"\x01\"", `"a`, "1 2", "//", "tru"}
)

// brokenField gives one member another value.
func (f *fuzzer) brokenField(fields *[]field) {
	if len(*fields) == 0 {
		return
	}
	i := f.rnd.IntN(len(*fields))
	x := &(*fields)[i]
	switch f.rnd.IntN(7) {
	case 0:
		*fields = append((*fields)[:i:i], (*fields)[i+1:]...)
	case 1:
		x.raw = pick(f, nastyValues)
	case 2, 3:
		x.raw = text(pick(f, nastyTexts))
	case 4:
		x.raw = pick(f, nastyNumbers)
	case 5:
		x.raw = pick(f, notJSON)
	case 6:
		x.raw = text(strings.Repeat(pick(f, []string{"a", "1", "ọ", " ", "\u0000", "😀"}), pick(f, []int{9, 10, 11, 12, 129, 141, 201, 256, 2049, 70000})))
	}
}

// brokenKeys adds members: twice the same, the same but for its case, unknown ones, and deep ones.
func (f *fuzzer) brokenKeys(fields *[]field) {
	x := field{"x", "1"}
	if len(*fields) > 0 && f.chance(90) {
		x = pick(f, *fields)
	}
	deep := pick(f, []int{20, 2000, 9000, 20000})
	extra := pick(f, []field{
		x,
		{strings.ToUpper(x.name), x.raw},
		{strings.ToTitle(x.name[:min(1, len(x.name))]) + x.name[min(1, len(x.name)):], "null"},
		{x.name, "null"},
		{"", "1"},
		{"__proto__", "{}"},
		{"status", `"success"`},
		{"TenantID", `"x"`},
		{"a\x00b", "1"},
		{"\xff", "1"},
		{strings.Repeat("k", 3000), "1"},
		{"d", strings.Repeat("[", deep) + strings.Repeat("]", deep)},
		{"o", strings.Repeat(`{"a":`, deep) + "1" + strings.Repeat("}", deep)},
		{strings.ReplaceAll(x.name, "s", "ſ"), x.raw},
		{strings.ReplaceAll(x.name, "k", "\u212a"), x.raw},
	})
	at := f.rnd.IntN(len(*fields) + 1)
	*fields = append((*fields)[:at:at], append([]field{extra}, (*fields)[at:]...)...)
}

// brokenWhole makes something else of a body.
func (f *fuzzer) brokenWhole(body []byte) []byte {
	switch f.rnd.IntN(9) {
	case 0:
		return nil
	case 1:
		return body[:f.rnd.IntN(len(body)+1)]
	case 2:
		return append(body, pick(f, []string{"{}", "x", "\x00", "]", ",", "\n\n"})...)
	case 3:
		return []byte(pick(f, []string{"null", "[]", "1", `"x"`, "true", "{", "}", "[{}]", " ", "\xef\xbb\xbf{}", "\xff\xfe{\x00}\x00", "{,}", "{'a':1}", "{}{}", `{"a":1,}`, "{/**/}"}))
	case 4:
		return append([]byte("\xef\xbb\xbf"), body...)
	case 5:
		if len(body) == 0 || !f.chance(10) {
			return body
		}
		return []byte(`{"pad":"` + strings.Repeat("a", pick(f, []int{maxBody - 20, maxBody, maxBody + 100})) + `",` + string(body[1:]))
	case 6:
		return []byte("  \r\n\t" + string(body) + "  ")
	case 7:
		if len(body) == 0 {
			return body
		}
		b := append([]byte{}, body...)
		b[f.rnd.IntN(len(b))] ^= byte(1 << f.rnd.IntN(8))
		return b
	default:
		return []byte(strings.ReplaceAll(string(body), `"`, pick(f, []string{`'`, ``, `"\u0000`, `\"`})))
	}
}
