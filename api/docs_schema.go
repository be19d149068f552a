package api

import (
	"bytes"
	"encoding/json"
	"html/template"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is a place in the document; the zero node is nowhere, and has nothing in it.
type node struct{ *yaml.Node }

type entry struct {
	key   string
	value node
}

func (n node) entries() (out []entry) {
	if n.Node == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, entry{n.Content[i].Value, node{n.Content[i+1]}})
	}
	return out
}

func (n node) get(key string) node {
	for _, e := range n.entries() {
		if e.key == key {
			return e.value
		}
	}
	return node{}
}

func (n node) list() (out []node) {
	if n.Node == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	for _, c := range n.Content {
		out = append(out, node{c})
	}
	return out
}

func (n node) string() string {
	if n.Node == nil {
		return ""
	}
	return n.Value
}

func (n node) text(key string) string { return n.get(key).string() }

func refName(n node) string {
	ref := n.text("$ref")
	return ref[strings.LastIndexByte(ref, '/')+1:]
}

// follow returns what a $ref stands for; anything else is itself.
func (d docs) follow(n node) node {
	ref := n.text("$ref")
	if ref == "" {
		return n
	}
	at := d.root
	for _, part := range strings.Split(ref, "/")[1:] {
		at = at.get(part)
	}
	return d.follow(at)
}

// record describes a schema of its own.
func (d docs) record(name string, n node) docsRecord {
	n = d.follow(n)
	r := docsRecord{Name: name, Text: prose(n.text("description")), Example: d.example(n)}
	d.fields(n, "", &r.Fields)
	for _, key := range []string{"oneOf", "anyOf"} {
		for _, one := range n.get(key).list() {
			r.Values = append(r.Values, values(one)...)
			if name := refName(one); name != "" {
				r.Fields = append(r.Fields, d.field("either", one, false))
			}
		}
	}
	if len(r.Fields) == 0 && len(r.Values) == 0 {
		f := d.field("", n, false)
		r.Values = append(r.Values, strings.TrimSuffix(f.Kind+": "+f.Limits, ": "))
	}
	return r
}

// values are the texts that a schema allows by name, or an example of them.
func values(n node) (out []string) {
	for _, key := range []string{"enum", "examples"} {
		for _, v := range n.get(key).list() {
			out = append(out, v.string())
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

// fields lists the properties of an object; objects that have no name of their own are listed with
// a dotted name.
func (d docs) fields(n node, prefix string, out *[]docsField) {
	required := map[string]bool{}
	for _, r := range n.get("required").list() {
		required[r.string()] = true
	}
	for _, p := range n.get("properties").entries() {
		*out = append(*out, d.field(prefix+p.key, p.value, required[p.key]))
		if p.value.get("properties").Node != nil {
			d.fields(p.value, prefix+p.key+".", out)
		}
	}
}

func (d docs) field(name string, n node, required bool) docsField {
	s := d.follow(n)
	f := docsField{Name: name, Required: required, Kind: d.kind(n), Limits: limits(s)}
	f.Text = prose(n.text("description"))
	if f.Text == "" {
		f.Text = prose(s.text("description"))
	}
	for _, m := range append([]node{n, s.get("items")}, s.get("anyOf").list()...) {
		if name := refName(m); name != "" && d.follow(m).text("type") == "object" {
			f.Record = name
		}
	}
	return f
}

// kind is the type of a value in words.
func (d docs) kind(n node) string {
	s := d.follow(n)
	var kinds []string
	for _, one := range append(s.get("anyOf").list(), s.get("oneOf").list()...) {
		kinds = append(kinds, d.kind(one))
	}
	if t := s.get("type"); t.Node != nil && len(kinds) == 0 {
		kinds = append(kinds, t.Value)
		if t.Value == "" {
			kinds = nil
		}
		for _, one := range t.list() {
			kinds = append(kinds, one.string())
		}
	}
	for i, k := range kinds {
		if k == "array" {
			kinds[i] = "array of " + d.kind(s.get("items"))
		}
	}
	out := strings.Join(kinds, " or ")
	if f := s.text("format"); f != "" && f != "int32" && f != "int64" {
		out += " (" + f + ")"
	}
	return out
}

// limits says what a value must keep to.
func limits(s node) string {
	var out []string
	add := func(before, key, after string) {
		if v := s.text(key); v != "" {
			out = append(out, before+v+after)
		}
	}
	if all := s.get("enum").list(); len(all) > 0 {
		var names []string
		for _, v := range all {
			if v.string() == "" {
				names = append(names, `""`)
				continue
			}
			names = append(names, v.string())
		}
		out = append(out, "one of "+strings.Join(names, ", "))
	}
	add("always ", "const", "")
	if s.text("pattern") != "" {
		add("", "pattern", "")
	} else {
		length := "at most " + s.text("maxLength") + " characters"
		if least := s.text("minLength"); least != "" {
			length = least + " to " + s.text("maxLength") + " characters"
		}
		if s.text("maxLength") != "" {
			out = append(out, length)
		}
	}
	add("from ", "minimum", "")
	add("above ", "exclusiveMinimum", "")
	add("to ", "maximum", "")
	add("default ", "default", "")
	return strings.Join(out, ", ")
}

// example puts a value together from the examples of a schema and its parts.
func (d docs) example(n node) string {
	var b, out bytes.Buffer
	if err := d.writeExample(&b, n); err != nil || json.Indent(&out, b.Bytes(), "", "  ") != nil {
		return ""
	}
	return out.String()
}

func (d docs) writeExample(b *bytes.Buffer, n node) error {
	n = d.follow(n)
	if all := append(n.get("examples").list(), n.get("enum").list()...); len(all) > 0 {
		return writeJSON(b, all[0].Node)
	}
	if v := n.get("const"); v.Node != nil {
		return writeJSON(b, v.Node)
	}
	if all := append(n.get("oneOf").list(), n.get("anyOf").list()...); len(all) > 0 {
		return d.writeExample(b, all[0])
	}
	if items := n.get("items"); items.Node != nil {
		return writeList(b, '[', ']', 1, func(int) error { return d.writeExample(b, items) })
	}
	if n.get("properties").Node != nil {
		fields := n.get("properties").entries()
		return writeList(b, '{', '}', len(fields), func(i int) error {
			writeText(b, fields[i].key)
			b.WriteByte(':')
			return d.writeExample(b, fields[i].value)
		})
	}
	b.WriteString("null")
	return nil
}

var (
	codeMark = regexp.MustCompile("`([^`]+)`")
	boldMark = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// prose makes paragraphs of a description: an empty line divides them, `code` and **bold** are
// marked.
func prose(s string) template.HTML {
	var out strings.Builder
	for _, p := range strings.Split(strings.TrimSpace(s), "\n\n") {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		p = template.HTMLEscapeString(p)
		p = codeMark.ReplaceAllString(p, "<code>$1</code>")
		p = boldMark.ReplaceAllString(p, "<strong>$1</strong>")
		out.WriteString("<p>" + p + "</p>")
	}
	return template.HTML(out.String())
}
