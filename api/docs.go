package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
)

// The reference page of the API: Swagger UI as it was published (the files swagger-ui*, compressed
// and otherwise unchanged, with their licences), and our page, style and script around it.
//
//go:embed docs/index.html docs/reference.css docs/reference.js docs/*.gz
var docsFiles embed.FS

// docsPolicy allows the page its own files and calls to this service: nothing inline, no other
// host, no frame.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

const docsIndex = "index.html"

// docsServed holds the page as [docsIndex] and the files that it loads. The name of such a file
// begins with a part of its hash, so browsers may keep it forever.
var docsServed = sync.OnceValue(func() map[string]served {
	out := map[string]served{}
	entries, err := docsFiles.ReadDir("docs")
	if err != nil {
		panic(fmt.Sprintf("api: docs: %v", err))
	}
	var page string
	var renamed []string
	for _, e := range entries {
		name, body, compressed, err := docsFile(e.Name())
		if err != nil {
			panic(fmt.Sprintf("api: docs: %s: %v", e.Name(), err))
		}
		if name == docsIndex {
			page = string(body)
			continue
		}
		media := fiber.MIMETextJavaScriptCharsetUTF8
		if strings.HasSuffix(name, ".css") {
			media = "text/css; charset=utf-8"
		}
		sum := sha256.Sum256(body)
		hashed := hex.EncodeToString(sum[:6]) + "-" + name
		s := serve(media, docsPolicy, body, compressed)
		s.cache = "public, max-age=31536000, immutable"
		out[hashed] = s
		renamed = append(renamed, `"/docs/`+name+`"`, `"/docs/`+hashed+`"`)
	}
	page = strings.NewReplacer(renamed...).Replace(page)
	out[docsIndex] = serve(fiber.MIMETextHTMLCharsetUTF8, docsPolicy, []byte(page), nil)
	return out
})

// docsFile reads a file. A compressed file is returned both ways, without its suffix.
func docsFile(file string) (name string, plain, compressed []byte, err error) {
	b, err := docsFiles.ReadFile("docs/" + file)
	name, zipped := strings.CutSuffix(file, ".gz")
	if err != nil || !zipped {
		return name, b, nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return "", nil, nil, err
	}
	plain, err = io.ReadAll(r)
	return name, plain, b, err
}

// docs is GET /docs.
func (e *edge) docs(c *fiber.Ctx) error { return docsServed()[docsIndex].send(c) }

// docsAsset is GET /docs/:file.
func (e *edge) docsAsset(c *fiber.Ctx) error {
	name := pathParam(c, "file")
	f, ok := docsServed()[name]
	if !ok || name == docsIndex {
		return fiber.ErrNotFound
	}
	return f.send(c)
}
