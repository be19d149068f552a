package api

import (
	"bytes"
	"compress/gzip"
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

// served is a body that is the same for everybody until the next release. Clients that accept gzip
// get it compressed, with another ETag.
type served struct {
	media, policy, cache string
	plain, gzip          variant
}

type variant struct {
	etag string
	body []byte
}

// serve makes a served from a body and, if there is one, its compressed form.
func serve(media, policy string, body, compressed []byte) served {
	if compressed == nil {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body) // to memory
		_ = w.Close()
		compressed = b.Bytes()
	}
	return served{media: media, policy: policy, cache: "no-cache", plain: tagged(body), gzip: tagged(compressed)}
}

func tagged(body []byte) variant {
	sum := sha256.Sum256(body)
	return variant{`"` + hex.EncodeToString(sum[:16]) + `"`, body}
}

// send answers with the body, or with 304 if the caller has this version.
func (s served) send(c *fiber.Ctx) error {
	v, coding := s.plain, ""
	if c.Get(fiber.HeaderAcceptEncoding) != "" && c.AcceptsEncodings("gzip") == "gzip" {
		v, coding = s.gzip, "gzip"
	}
	c.Set(fiber.HeaderCacheControl, s.cache) // no-cache: kept, and asked for again
	c.Set(fiber.HeaderVary, fiber.HeaderAcceptEncoding)
	c.Set(fiber.HeaderETag, v.etag)
	if s.policy != "" {
		c.Set(fiber.HeaderContentSecurityPolicy, s.policy)
	}
	for _, tag := range strings.Split(c.Get(fiber.HeaderIfNoneMatch), ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == v.etag || tag == "*" {
			c.Status(fiber.StatusNotModified)
			return nil
		}
	}
	c.Set(fiber.HeaderContentType, s.media)
	if coding != "" {
		c.Set(fiber.HeaderContentEncoding, coding)
	}
	return c.Send(v.body)
}

// document is the embedded document as JSON. It can only fail in a build whose tests failed.
var document = sync.OnceValue(func() served {
	var root yaml.Node
	err := yaml.Unmarshal(openAPI, &root)
	var b bytes.Buffer
	if err == nil {
		err = writeJSON(&b, &root)
	}
	if err != nil {
		panic(fmt.Sprintf("api: openapi.yaml: %v", err))
	}
	return serve(fiber.MIMEApplicationJSON, "", b.Bytes(), nil)
})

// openAPIDocument is GET /openapi.json.
func (e *edge) openAPIDocument(c *fiber.Ctx) error { return document().send(c) }

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
