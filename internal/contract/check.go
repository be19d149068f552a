package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Request is a request as it was sent.
type Request struct {
	*http.Request
	Body []byte
}

// Answer is an answer as it was received.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Check holds a value to the schema; its numbers are [json.Number].
func (s *Schema) Check(v any) error { return s.compiled.Validate(v) }

// decode reads JSON with its numbers as they are written.
func decode(text []byte) (any, error) { return jsonschema.UnmarshalJSON(bytes.NewReader(text)) }

// text holds a parameter or header to its schema. A text is a number where the schema asks for one.
func (s *Schema) text(doc *Document, value string) error {
	if doc.Resolve(s.Raw)["type"] == "integer" {
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return fmt.Errorf("%q is no integer", value)
		}
		n := json.Number(strings.TrimPrefix(value, "+"))
		return s.Check(n)
	}
	return s.Check(value)
}

// CheckRequest reports what in a request is not as the document says: what was let in must be.
func (o *Operation) CheckRequest(r Request) error {
	var wrong []error
	inPath, query := o.params(r.URL), r.URL.Query()
	for _, p := range o.Parameters {
		var value string
		var given bool
		switch p.In {
		case "path":
			value, given = inPath[p.Name]
		case "query":
			value, given = query.Get(p.Name), query.Has(p.Name)
			given = given && (value != "" || !p.Empty)
		case "header":
			value, given = r.Header.Get(p.Name), r.Header.Get(p.Name) != ""
		}
		switch {
		case !given && p.Required:
			wrong = append(wrong, fmt.Errorf("parameter %s is missing", p.Name))
		case given:
			wrong = append(wrong, named("parameter "+p.Name, p.Schema.text(o.doc, value)))
		}
	}
	if len(o.Security) > 0 && !o.admits(r) {
		wrong = append(wrong, fmt.Errorf("no credential of %v was given", o.Security))
	}
	if o.Body != nil && (len(r.Body) > 0 || !o.BodyOptional) {
		wrong = append(wrong, named("request body", o.checkBody(r)))
	}
	return errors.Join(wrong...)
}

func (o *Operation) checkBody(r Request) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return fmt.Errorf("the media type is %q", r.Header.Get("Content-Type"))
	}
	v, err := decode(r.Body)
	if err != nil {
		return err
	}
	if err := o.Body.Check(v); err == nil || o.Body.Check(trimmed(v)) != nil {
		return err
	}
	return nil
}

// trimmed is a body without the spaces around the texts in it, which the service cuts before it
// looks at their length.
func trimmed(v any) any {
	fields := object(v)
	out := make(map[string]any, len(fields))
	for name, value := range fields {
		if s, ok := value.(string); ok {
			value = strings.TrimSpace(s)
		}
		out[name] = value
	}
	return out
}

// admits reports whether the request carries one of the credentials.
func (o *Operation) admits(r Request) bool {
	for _, name := range o.Security {
		scheme := object(object(object(o.doc.root["components"])["securitySchemes"])[name])
		key, _ := scheme["name"].(string)
		switch scheme["in"] {
		case "header":
			if r.Header.Get(key) != "" {
				return true
			}
		case "cookie":
			if _, err := r.Cookie(key); err == nil {
				return true
			}
		}
	}
	return false
}

// CheckAnswer reports what in an answer the document does not say. An answer to HEAD has no body.
func (o *Operation) CheckAnswer(method string, a Answer) error {
	if a.interrupted(method) {
		return o.doc.CheckStray(method, a)
	}
	r := o.Responses[strconv.Itoa(a.Status)]
	if r == nil {
		return fmt.Errorf("status %d is not in the document", a.Status)
	}
	var wrong []error
	for name, h := range r.Headers {
		value := a.Header.Get(name)
		switch {
		case value == "" && h.Required:
			wrong = append(wrong, fmt.Errorf("header %s is missing", name))
		case value != "":
			wrong = append(wrong, named("header "+name, h.Schema.text(o.doc, value)))
		}
	}
	for _, name := range []string{"Retry-After", "Idempotent-Replayed", "Set-Cookie", "ETag", "RateLimit-Limit"} {
		if _, ok := r.Headers[name]; !ok && a.Header.Get(name) != "" {
			wrong = append(wrong, fmt.Errorf("header %s is not in the document", name))
		}
	}
	if method != http.MethodHead {
		wrong = append(wrong, named("body", r.checkBody(a)))
	}
	return errors.Join(wrong...)
}

func (r *Response) checkBody(a Answer) error {
	if len(r.Bodies) == 0 {
		if len(a.Body) > 0 {
			return errors.New("there is one, and should be none")
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	body := r.Bodies[media]
	if err != nil || body == nil {
		return fmt.Errorf("the media type is %q", a.Header.Get("Content-Type"))
	}
	if media != "application/json" {
		return body.Check(string(a.Body))
	}
	v, err := decode(a.Body)
	if err != nil {
		return err
	}
	return body.Check(v)
}

// interruptions are the answers to what never became a request: they can meet every operation.
var interruptions = map[int]string{
	http.StatusBadRequest:                  `{"error":"bad request"}`,
	http.StatusRequestTimeout:              `{"error":"request timeout"}`,
	http.StatusRequestEntityTooLarge:       `{"error":"request body too large"}`,
	http.StatusRequestHeaderFieldsTooLarge: `{"error":"request header fields too large"}`,
}

// interrupted reports whether what was answered never became a request. An answer to HEAD shows it
// by its length alone.
func (a Answer) interrupted(method string) bool {
	text, ok := interruptions[a.Status]
	if method == http.MethodHead {
		return ok && a.Header.Get("Content-Length") == strconv.Itoa(len(text))
	}
	return ok && text == string(a.Body)
}

// CheckStray holds the answer to a request that goes to no operation to the body of every error. An
// answer to HEAD has none.
func (d *Document) CheckStray(method string, a Answer) error {
	if a.Status < 400 || a.Status >= 500 {
		return fmt.Errorf("status %d without an operation", a.Status)
	}
	r := Response{Bodies: map[string]*Schema{"application/json": d.stray}}
	if a.Header.Get("X-Request-ID") == "" {
		return errors.New("header X-Request-ID is missing")
	}
	if method == http.MethodHead {
		return nil
	}
	return r.checkBody(a)
}

func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
