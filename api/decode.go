package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/secret"
)

// maxBody is the longest request body (decisions, "Onboarding, sessions, keys").
const maxBody = 256 << 10

// Refusals of a body.
var (
	errTooLarge = errs.New(errs.TooLarge, "request body too large")
	errNotJSON  = errs.New(errs.Unsupported, "Content-Type must be application/json")
	errEncoded  = errs.New(errs.Unsupported, "Content-Encoding is not supported")
	errJSON     = errs.New(errs.Invalid, "invalid JSON body")
	errObject   = errs.New(errs.Invalid, "request body must be a JSON object")
)

// body is a JSON object whose fields are read one by one, by their exact names. The standard
// decoder would accept "NAME" for "name", and use the last of two; here both are errors. Unknown
// fields are ignored. The first error is kept for err, so that a handler reads all fields and
// checks once.
type body struct {
	fields map[string]json.RawMessage
	wrong  error
	in     *body  // of a field that is an object: the body that has it
	path   string // and its name, with a dot
}

// readBody reads the request's body: JSON, at most 256 KiB, without content coding. It reads the
// raw bytes, because Fiber's own accessor inflates a compressed body past every limit. A refused
// body has no fields. The rules of one that is there were checked before (checkBody); one that is
// missing is refused here.
func readBody(c *fiber.Ctx) *body {
	raw := c.Request().Body()
	if len(raw) == 0 {
		if err := checkHeaders(c, 0); err != nil {
			return &body{wrong: err}
		}
	}
	fields, err := readFields(raw)
	return &body{fields: fields, wrong: err}
}

// checkBody keeps the rules for the headers and the length of a body, for endpoints that read none,
// too: a client that sends one there means something else. Without a body there are no rules.
func checkBody(c *fiber.Ctx) error {
	if length := len(c.Request().Body()); length > 0 {
		if err := checkHeaders(c, length); err != nil {
			return err
		}
	}
	return c.Next()
}

func readFields(raw []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return nil, errJSON
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errObject
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, errJSON
		}
		name, _ := t.(string)
		if _, twice := fields[name]; twice {
			return nil, duplicate(name)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, errJSON
		}
		fields[name] = value
	}
	return fields, nil
}

func checkHeaders(c *fiber.Ctx, length int) error {
	if c.Get(fiber.HeaderContentEncoding) != "" {
		return errEncoded
	}
	if length > maxBody {
		return errTooLarge
	}
	kind := c.Get(fiber.HeaderContentType)
	if kind == "" && length == 0 {
		return errJSON // an empty body gets the message about JSON
	}
	media, params, err := mime.ParseMediaType(kind)
	if charset, ok := params["charset"]; err != nil || media != fiber.MIMEApplicationJSON || (ok && !strings.EqualFold(charset, "utf-8")) {
		return errNotJSON
	}
	return nil
}

func duplicate(name string) error {
	if utf8.RuneCountInString(name) > 64 {
		name = string([]rune(name)[:64]) + "…"
	}
	return errs.New(errs.Invalid, fmt.Sprintf("duplicate field %q", name))
}

// err returns the first error of the fields that were read.
func (b *body) err() error { return b.wrong }

func (b *body) refuse(name, why string) {
	if b.in != nil {
		b.in.refuse(b.path+name, why)
	} else if b.wrong == nil {
		b.wrong = errs.New(errs.Invalid, name+" "+why)
	}
}

// objects returns a field that is an array of objects, or nil when it is missing or null. More than
// most are refused unread: a body has room for 128,000, which take 0.2 s and 300 MiB.
func (b *body) objects(name string, most int) (list []*body) {
	v, ok := b.value(name)
	if !ok {
		return nil
	}
	var raw []json.RawMessage
	if json.Unmarshal(v, &raw) != nil {
		b.refuse(name, "must be an array of objects")
	}
	if len(raw) > most {
		b.refuse(name, fmt.Sprintf("must have at most %d %s", most, name))
		return nil
	}
	for i, v := range raw {
		fields, err := readFields(v)
		if err != nil {
			b.refuse(name, "must be an array of objects, with each field once")
		}
		list = append(list, &body{fields: fields, in: b, path: fmt.Sprintf("%s[%d].", name, i)})
	}
	return list
}

func (b *body) refuseDuplicate(name string) {
	if b.in != nil {
		b.in.refuseDuplicate(b.path + name)
	} else if b.wrong == nil {
		b.wrong = duplicate(name)
	}
}

// object returns a field that is an object, whose errors are the body's, or nil when it is missing
// or null.
func (b *body) object(name string) *body {
	v, ok := b.value(name)
	if !ok {
		return nil
	}
	fields, err := readFields(v)
	if err != nil {
		b.refuse(name, "must be an object, with each field once")
	}
	return &body{fields: fields, in: b, path: name + "."}
}

// value returns a field's JSON; ok is false when it is missing or null. A second field that differs
// only by case is refused.
func (b *body) value(name string) (json.RawMessage, bool) {
	v, ok := b.fields[name]
	if !ok {
		return nil, false
	}
	for other := range b.fields {
		if other != name && strings.EqualFold(other, name) {
			b.refuseDuplicate(other)
		}
	}
	return v, string(v) != "null"
}

// optional returns a string field, or nil when it is missing or null.
func (b *body) optional(name string) *string {
	v, ok := b.value(name)
	if !ok {
		return nil
	}
	var s string
	switch err := json.Unmarshal(v, &s); {
	case err != nil:
		b.refuse(name, "must be a string")
	case strings.ContainsRune(s, 0):
		b.refuse(name, "must not contain a NUL character")
	}
	return &s
}

// text returns a string field, "" when it is missing or null.
func (b *body) text(name string) string {
	if s := b.optional(name); s != nil {
		return *s
	}
	return ""
}

// texts returns a field that is an array of strings, or nil when it is missing or null.
func (b *body) texts(name string) []string {
	v, ok := b.value(name)
	if !ok {
		return nil
	}
	var list []*string
	if err := json.Unmarshal(v, &list); err != nil || slices.Contains(list, nil) {
		b.refuse(name, "must be an array of strings")
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = *s
	}
	return out
}

// without returns the body as JSON without some of its fields: a secret must not be kept, not even
// as part of a hash, and a repeat of the request has another code.
func (b *body) without(names ...string) []byte {
	rest := maps.Clone(b.fields)
	for _, name := range names {
		delete(rest, name)
	}
	return again(rest)
}

// again encodes decoded fields as JSON again.
func again(fields map[string]json.RawMessage) []byte {
	out, _ := json.Marshal(fields)
	return out
}

// hinting returns the body as JSON with only the last four characters of a secret number: the
// stored hash of a whole request could be tried against all numbers. The last four are shown
// anyway.
func (b *body) hinting(name string) []byte {
	rest := maps.Clone(b.fields)
	if s := []rune(b.text(name)); len(s) > 4 {
		rest[name], _ = json.Marshal(string(s[len(s)-4:]))
	}
	return again(rest)
}

// has reports whether the body has the field, even as null.
func (b *body) has(name string) bool {
	_, ok := b.fields[name]
	return ok
}

// whole returns a field that is a whole number from 0 to max, 0 when it is missing or null.
func (b *body) whole(name string, max int) int {
	v, ok := b.value(name)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 0 || n > max {
		b.refuse(name, fmt.Sprintf("must be a whole number from 0 to %d", max))
	}
	return n
}

// flag returns a field that is true or false; one that is missing or null is refused.
func (b *body) flag(name string) (on bool) {
	if v, ok := b.value(name); !ok || json.Unmarshal(v, &on) != nil {
		b.refuse(name, "must be true or false")
	}
	return on
}

// secret returns a string field that must not be printed.
func (b *body) secret(name string) secret.Redacted { return secret.Redact(b.text(name)) }

// digits returns a secret number that is sent as a string of digits. A value of any other kind
// becomes "", which the use case refuses as a bad number.
func (b *body) digits(name string) secret.Redacted {
	if v, ok := b.value(name); ok && v[0] != '"' {
		return secret.Redacted{}
	}
	return b.secret(name)
}

// isText reports whether the field is a JSON string.
func (b *body) isText(name string) bool { return len(b.fields[name]) > 0 && b.fields[name][0] == '"' }

// isNumber reports whether the field is a JSON number.
func (b *body) isNumber(name string) bool {
	v := b.fields[name]
	return len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9')
}

// amount returns a numeric field in naira, read from the number's own text, or nil when it is
// missing or null.
func (b *body) amount(name string) *money.Amount {
	v, ok := b.value(name)
	if !ok {
		return nil
	}
	if !b.isNumber(name) {
		b.refuse(name, "must be a number")
		return nil
	}
	a, err := money.ParseNumber(json.Number(v))
	if err != nil {
		b.refuse(name, "must be a positive number with at most two decimals")
	}
	return &a
}

// timeForm is RFC 3339; time.Parse alone would accept 9:00, a decimal comma and offsets of 24
// hours.
var timeForm = regexp.MustCompile(`^[0-9-]{10}T[0-9:]{8}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// time returns a field that is an ISO 8601 time with its offset (RFC 3339), or nil when it is
// missing or null.
func (b *body) time(name string) *time.Time {
	s := b.optional(name)
	if s == nil {
		return nil
	}
	t, err := time.Parse(time.RFC3339, *s)
	// years that JSON cannot represent, and 0, as in queryTime
	if err != nil || !timeForm.MatchString(*s) || t.UTC().Year() < 1 || t.UTC().Add(time.Second).Year() > 9999 {
		b.refuse(name, "must be an ISO 8601 time such as 2026-01-30T12:15:00Z")
	}
	t = t.UTC().Truncate(time.Microsecond)
	return &t
}

// pathParam returns an unescaped part of the path. A text that cannot be stored in the database
// becomes "", which matches nothing.
func pathParam(c *fiber.Ctx, name string) string {
	s, err := url.PathUnescape(c.Params(name))
	if err != nil || !storable(s) {
		return ""
	}
	return s
}

// storable reports whether the database can store a text at all.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// pageRequest reads the query's limit and after; def is the list's page size. The lists of sessions
// also take total, an addition.
func pageRequest(c *fiber.Ctx, def int) (page.Request, error) {
	r, err := page.Parse(c.Query("limit"), c.Query("after"), def)
	if err != nil || !strings.HasPrefix(c.Route().Path, "/auth/") {
		return r, err
	}
	switch c.Query("total") {
	case "", "false":
	case "true":
		r.Total = true
	default:
		err = page.ErrTotal
	}
	return r, err
}
