package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the document
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openAPI []byte

// served is a body that is the same for everybody until the next release.
type served struct {
	media, etag, policy string
	body                []byte
}

func serve(media, policy string, body []byte) served {
	sum := sha256.Sum256(body)
	return served{media: media, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, policy: policy, body: body}
}

// send answers with the body, or with 304 to a caller who has this version.
func (s served) send(c *fiber.Ctx) error {
	c.Set(fiber.HeaderCacheControl, "no-cache") // kept, and asked for again
	c.Set(fiber.HeaderETag, s.etag)
	if s.policy != "" {
		c.Set(fiber.HeaderContentSecurityPolicy, s.policy)
	}
	for _, tag := range strings.Split(c.Get(fiber.HeaderIfNoneMatch), ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == s.etag || tag == "*" {
			c.Status(fiber.StatusNotModified)
			return nil
		}
	}
	c.Set(fiber.HeaderContentType, s.media)
	return c.Send(s.body)
}

// document reads the embedded document, and makes of it what is served. It can only fail in a build
// whose tests failed.
var document = sync.OnceValue(func() (out struct{ json, page served }) {
	var root yaml.Node
	err := yaml.Unmarshal(openAPI, &root)
	if err != nil {
		panic(fmt.Sprintf("api: openapi.yaml: %v", err))
	}
	var b bytes.Buffer
	if err := writeJSON(&b, &root); err != nil {
		panic(fmt.Sprintf("api: openapi.yaml: %v", err))
	}
	page, policy, err := renderDocs(node{root.Content[0]})
	if err != nil {
		panic(fmt.Sprintf("api: docs.html: %v", err))
	}
	out.json = serve(fiber.MIMEApplicationJSON, "", b.Bytes())
	out.page = serve(fiber.MIMETextHTMLCharsetUTF8, policy, page)
	return out
})

// openAPIDocument is GET /openapi.json.
func (e *edge) openAPIDocument(c *fiber.Ctx) error { return document().json.send(c) }

// docs is GET /docs.
func (e *edge) docs(c *fiber.Ctx) error { return document().page.send(c) }

// writeJSON writes a YAML node as JSON, with its keys in their order and its numbers as they are
// written.
func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.DocumentNode:
		return writeJSON(b, n.Content[0])
	case yaml.MappingNode:
		return writeList(b, '{', '}', len(n.Content)/2, func(i int) error {
			writeText(b, n.Content[2*i].Value)
			b.WriteByte(':')
			return writeJSON(b, n.Content[2*i+1])
		})
	case yaml.SequenceNode:
		return writeList(b, '[', ']', len(n.Content), func(i int) error { return writeJSON(b, n.Content[i]) })
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!str":
			writeText(b, n.Value)
			return nil
		case "!!null":
			b.WriteString("null")
			return nil
		case "!!bool", "!!int", "!!float":
			if json.Valid([]byte(n.Value)) {
				b.WriteString(n.Value)
				return nil
			}
		}
	}
	return fmt.Errorf("line %d: %q has no form in JSON", n.Line, n.Value)
}

func writeList(b *bytes.Buffer, opening, closing byte, n int, write func(int) error) error {
	b.WriteByte(opening)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := write(i); err != nil {
			return err
		}
	}
	b.WriteByte(closing)
	return nil
}

func writeText(b *bytes.Buffer, s string) {
	text, _ := encodeJSON(s) // a string has a form in JSON, always
	b.Write(text)
}
