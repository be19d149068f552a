// Package contract reads the OpenAPI document and reports whether requests and answers are what it
// says. It is for tests, which hold the service and its description to each other; no role of the
// program imports it.
//
// What always holds: nothing passes that the document does not name. An answer must have a status,
// a media type, headers and a body that its operation lists, with formats checked; a request its
// parameters, its credential and its body. The document is taken as it is served, so what clients
// read is what is tested.
package contract

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// resource is the name under which the document's schemas are compiled.
const resource = "openapi.json"

// methods are those of a path item.
var methods = []string{"get", "put", "post", "delete", "patch", "head", "options", "trace"}

// Document is an OpenAPI document of version 3.1.
type Document struct {
	Operations []*Operation // of the paths, sorted by path and method
	Webhooks   []*Operation // Path is the webhook's name
	root       map[string]any
	compiler   *jsonschema.Compiler
	stray      *Schema
}

// Operation is a method of a path.
type Operation struct {
	Method, Path string // Path with its {parameters}
	ID           string
	Security     []string // schemes, of which one is enough; none: open
	Parameters   []Parameter
	Body         *Schema // nil: none
	BodyOptional bool    // it may be left out
	Responses    map[string]*Response
	doc          *Document
}

// Parameter is one of a path, a query or the headers.
type Parameter struct {
	Name, In string
	Required bool
	Empty    bool // may be named without a value, which is the same as leaving it out
	Schema   *Schema
}

// Response is what one status looks like.
type Response struct {
	Headers map[string]Header
	Bodies  map[string]*Schema // by media type; none: no body
}

// Header is a header of a response.
type Header struct {
	Required bool
	Schema   *Schema
}

// Schema is a schema of the document: Raw as written, to make values from, and compiled, to check
// them.
type Schema struct {
	Raw      map[string]any
	compiled *jsonschema.Schema
}

// Parse reads a document in JSON and compiles every schema of its operations.
func Parse(text []byte) (*Document, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	root, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("contract: the document is no object")
	}
	d := &Document{root: root, compiler: jsonschema.NewCompiler()}
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(resource, root); err != nil {
		return nil, err
	}
	if d.Operations, err = d.items("paths"); err != nil {
		return nil, err
	}
	if d.Webhooks, err = d.items("webhooks"); err != nil {
		return nil, err
	}
	d.stray, err = d.compileSchema("/components/schemas/Error")
	return d, err
}

// items reads the operations of paths or webhooks.
func (d *Document) items(key string) ([]*Operation, error) {
	var out []*Operation
	paths := object(d.root[key])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range methods {
			if _, ok := object(paths[path])[method]; !ok {
				continue
			}
			o, err := d.readOperation("/"+key+"/"+escape(path)+"/"+method, path, method)
			if err != nil {
				return nil, fmt.Errorf("contract: %s %s: %w", method, path, err)
			}
			out = append(out, o)
		}
	}
	return out, nil
}

func (d *Document) readOperation(at, path, method string) (*Operation, error) {
	raw := object(d.at(at))
	o := &Operation{Method: strings.ToUpper(method), Path: path, Responses: map[string]*Response{}, doc: d}
	o.ID, _ = raw["operationId"].(string)
	for _, one := range array(raw["security"]) {
		o.Security = append(o.Security, slices.Collect(maps.Keys(object(one)))...)
	}
	for i := range array(raw["parameters"]) {
		at, p := d.follow(fmt.Sprintf("%s/parameters/%d", at, i))
		s, err := d.compileSchema(at + "/schema")
		if err != nil {
			return nil, err
		}
		name, _ := p["name"].(string)
		in, _ := p["in"].(string)
		o.Parameters = append(o.Parameters, Parameter{Name: name, In: in, Required: p["required"] == true, Empty: p["allowEmptyValue"] == true, Schema: s})
	}
	if raw["requestBody"] != nil {
		o.BodyOptional = object(raw["requestBody"])["required"] == false
		var err error
		if o.Body, err = d.compileSchema(at + "/requestBody/content/application~1json/schema"); err != nil {
			return nil, err
		}
	}
	for status := range object(raw["responses"]) {
		r, err := d.readResponse(at + "/responses/" + status)
		if err != nil {
			return nil, err
		}
		o.Responses[status] = r
	}
	return o, nil
}

func (d *Document) readResponse(at string) (*Response, error) {
	at, raw := d.follow(at)
	r := &Response{Headers: map[string]Header{}, Bodies: map[string]*Schema{}}
	for name := range object(raw["headers"]) {
		at, h := d.follow(at + "/headers/" + escape(name))
		s, err := d.compileSchema(at + "/schema")
		if err != nil {
			return nil, err
		}
		r.Headers[name] = Header{Required: h["required"] == true, Schema: s}
	}
	for media := range object(raw["content"]) {
		s, err := d.compileSchema(at + "/content/" + escape(media) + "/schema")
		if err != nil {
			return nil, err
		}
		r.Bodies[media] = s
	}
	return r, nil
}

// compileSchema compiles the schema at a JSON pointer.
func (d *Document) compileSchema(at string) (*Schema, error) {
	raw, ok := d.at(at).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("no schema at %s", at)
	}
	compiled, err := d.compiler.Compile(resource + "#" + fragment(at))
	return &Schema{Raw: raw, compiled: compiled}, err
}

// Resolve returns the schema that a $ref stands for, with what stands beside the $ref laid over it.
func (d *Document) Resolve(schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	out := maps.Clone(d.Resolve(object(d.at(strings.TrimPrefix(ref, "#")))))
	for k, v := range schema {
		if k != "$ref" {
			out[k] = v
		}
	}
	return out
}

// follow returns what is at a JSON pointer, and where; a $ref is followed.
func (d *Document) follow(at string) (string, map[string]any) {
	raw := object(d.at(at))
	if ref, ok := raw["$ref"].(string); ok {
		return d.follow(strings.TrimPrefix(ref, "#"))
	}
	return at, raw
}

// at returns what is at a JSON pointer, or nil.
func (d *Document) at(pointer string) any {
	var v any = d.root
	for _, part := range strings.Split(pointer, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch node := v.(type) {
		case map[string]any:
			v = node[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(node) {
				return nil
			}
			v = node[i]
		default:
			return nil
		}
	}
	return v
}

// Find returns the operation that a request goes to, or nil. HEAD goes where GET goes. Names go
// before parameters.
func (d *Document) Find(method string, u *url.URL) *Operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var found *Operation
	for _, o := range d.Operations {
		if o.Method == method && o.params(u) != nil && (found == nil || strings.Count(o.Path, "{") < strings.Count(found.Path, "{")) {
			found = o
		}
	}
	return found
}

// params returns the values of the path's parameters, nil when the path is another one.
func (o *Operation) params(u *url.URL) map[string]string {
	want, got := strings.Split(o.Path, "/"), strings.Split(u.EscapedPath(), "/")
	if len(want) != len(got) {
		return nil
	}
	out := map[string]string{}
	for i, part := range want {
		if strings.HasPrefix(part, "{") && got[i] != "" {
			value, err := url.PathUnescape(got[i])
			if err != nil {
				return nil
			}
			out[strings.Trim(part, "{}")] = value
		} else if part != got[i] {
			return nil
		}
	}
	return out
}

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }
func array(v any) []any           { a, _ := v.([]any); return a }

func escape(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

// fragment writes a JSON pointer as a part of a URL.
func fragment(pointer string) string { return (&url.URL{Fragment: pointer}).EscapedFragment() }
