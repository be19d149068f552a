package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"html/template"
	"strings"
)

//go:embed docs.html
var docsHTML string

//go:embed docs.css
var docsCSS string

// docsPolicy lets the page have its own style, known by its hash, and nothing else: no script, no
// font, no other host.
const docsPolicy = "default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// The page, as the template sees it.
type (
	docsPage struct {
		Title, Summary, Version string
		Intro                   template.HTML
		// with its element, so that its bytes are those of the hash
		Style   template.HTML
		Groups  []docsGroup
		Schemes []docsField
		Records []docsRecord
	}
	docsGroup struct {
		Name, ID   string
		Text       template.HTML
		Operations []docsOperation
	}
	docsOperation struct {
		ID, Method, Path, Summary string
		Webhook                   bool
		Credentials               []string
		Text                      template.HTML
		Curl                      string
		Parameters                []docsField
		Body                      *docsRecord
		Answers                   []docsAnswer
	}
	docsField struct {
		Name, Kind, Limits string
		Record             string // the record that it is, or is a list of
		Required           bool
		Text               template.HTML
	}
	docsRecord struct {
		Name    string
		Text    template.HTML
		Fields  []docsField
		Values  []string // of a text: what it can be
		Example string
	}
	docsAnswer struct {
		Status  string
		Good    bool
		Text    template.HTML
		Headers []string
		Record  string
		Example string
		Errors  []string
		Refusal string // the record with further texts
	}
)

// renderDocs makes the page of the document, and the policy that it is to be served with.
func renderDocs(root node) ([]byte, string, error) {
	d := docs{root}
	t, err := template.New("docs").Parse(docsHTML)
	if err != nil {
		return nil, "", err
	}
	info := root.get("info")
	page := docsPage{
		Title: info.text("title"), Summary: info.text("summary"), Version: info.text("version"), Intro: prose(info.text("description")),
		Style: template.HTML("<style>" + docsCSS + "</style>"), //nolint:gosec // our own file
	}
	for _, tag := range root.get("tags").list() {
		page.Groups = append(page.Groups, docsGroup{Name: tag.text("name"), ID: "tag-" + tag.text("name"), Text: prose(tag.text("description"))})
	}
	d.each("paths", func(o docsOperation, tag string) { page.add(tag, o) })
	d.each("webhooks", func(o docsOperation, tag string) {
		o.Webhook = true
		page.add(tag, o)
	})
	for _, s := range root.get("components").get("securitySchemes").entries() {
		page.Schemes = append(page.Schemes, docsField{
			Name: s.key, Kind: s.value.text("in") + " " + s.value.text("name"), Text: prose(s.value.text("description")),
		})
	}
	for _, s := range root.get("components").get("schemas").entries() {
		page.Records = append(page.Records, d.record(s.key, s.value))
	}
	var b bytes.Buffer
	if err := t.Execute(&b, page); err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256([]byte(docsCSS))
	return b.Bytes(), strings.Replace(docsPolicy, "%s", base64.StdEncoding.EncodeToString(sum[:]), 1), nil
}

func (p *docsPage) add(tag string, o docsOperation) {
	for i := range p.Groups {
		if p.Groups[i].Name == tag {
			p.Groups[i].Operations = append(p.Groups[i].Operations, o)
		}
	}
}

// docs makes the parts of the page.
type docs struct{ root node }

// each visits the operations of paths or webhooks in their order, with their tag.
func (d docs) each(section string, visit func(docsOperation, string)) {
	for _, path := range d.root.get(section).entries() {
		for _, method := range path.value.entries() {
			visit(d.operation(path.key, method.key, method.value), method.value.get("tags").list()[0].string())
		}
	}
}

func (d docs) operation(path, method string, n node) docsOperation {
	o := docsOperation{
		ID: n.text("operationId"), Method: strings.ToUpper(method), Path: path, Summary: n.text("summary"), Text: prose(n.text("description")),
	}
	for _, one := range n.get("security").list() {
		for _, s := range one.entries() {
			o.Credentials = append(o.Credentials, s.key)
		}
	}
	for _, p := range n.get("parameters").list() {
		p := d.follow(p)
		f := d.field(p.text("name"), p.get("schema"), p.text("required") == "true")
		f.Kind = p.text("in") + ", " + f.Kind
		if text := p.text("description"); text != "" {
			f.Text = prose(text)
		}
		o.Parameters = append(o.Parameters, f)
	}
	if body := n.get("requestBody").get("content").get("application/json").get("schema"); body.Node != nil {
		r := d.record(refName(body), body)
		o.Body = &r
	}
	for _, a := range n.get("responses").entries() {
		o.Answers = append(o.Answers, d.answer(a.key, d.follow(a.value)))
	}
	o.Curl = d.curl(o, n)
	return o
}

func (d docs) answer(status string, n node) docsAnswer {
	a := docsAnswer{Status: status, Good: status[0] < '4', Text: prose(n.text("description"))}
	for _, h := range n.get("headers").entries() {
		a.Headers = append(a.Headers, h.key)
	}
	for _, media := range n.get("content").entries() {
		schema := media.value.get("schema")
		if refName(schema) == "Error" {
			a.errors(schema.get("properties").get("error"))
			break
		}
		a.Record = refName(schema)
		if media.key == "application/json" && a.Record != "Document" {
			a.Example = d.example(schema)
		}
	}
	return a
}

// errors lists the texts that an error answer can have.
func (a *docsAnswer) errors(n node) {
	for _, one := range n.get("anyOf").list() {
		if name := refName(one); name != "" {
			a.Refusal = name
		}
		a.errors(one)
	}
	for _, text := range n.get("enum").list() {
		a.Errors = append(a.Errors, text.string())
	}
	if text := n.text("const"); text != "" {
		a.Errors = append(a.Errors, text)
	}
}

// curl is the command that makes the request with the document's examples. What the bank and the
// tenant send has none.
func (d docs) curl(o docsOperation, n node) string {
	for _, c := range o.Credentials {
		if c == "bankSignature" {
			return ""
		}
	}
	const next = " \\\n  "
	path := o.Path
	var headers string
	for _, p := range n.get("parameters").list() {
		p := d.follow(p)
		example := strings.Trim(d.example(p.get("schema")), `"`)
		switch {
		case p.text("in") == "path":
			path = strings.Replace(path, "{"+p.text("name")+"}", example, 1)
		case p.text("name") == headerIdempotencyKey:
			headers += next + "-H '" + headerIdempotencyKey + ": " + example + "'"
		}
	}
	if q := n.text("x-example-query"); q != "" {
		path += "?" + q
	}
	line := "curl -s"
	if o.Method != "GET" && (o.Method != "POST" || o.Body == nil) {
		line += " -X " + o.Method
	}
	line += ` "$API` + path + `"`
	if len(o.Credentials) > 0 && o.Credentials[0] == "apiKey" {
		line += next + `-H "` + keyHeader + `: $KEY"`
	} else if len(o.Credentials) > 0 {
		line += " -b cookies.txt"
	}
	if o.ID == "login" {
		line += " -c cookies.txt"
	}
	line += headers
	if o.Body != nil {
		line += next + "-H 'Content-Type: application/json'" + next + "-d '" + strings.ReplaceAll(o.Body.Example, "'", `'\''`) + "'"
	}
	return line
}
