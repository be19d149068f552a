package api

import (
	"sync"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/dashboard"
)

// dashboardPolicy allows the dashboard its own files and calls to this service: nothing inline, no
// other host, no frame.
const dashboardPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// dashboardFiles are the files by their names.
var dashboardFiles = sync.OnceValue(func() map[string]served {
	out := map[string]served{}
	for _, f := range dashboard.Files() {
		out[f.Name] = serve(f.Media, dashboardPolicy, f.Body, nil)
	}
	return out
})

// root is GET /, an addition: it redirects people who open the bare address to the dashboard.
func (e *edge) root(c *fiber.Ctx) error { return c.Redirect("/dashboard", fiber.StatusFound) }

// dashboardPage is GET /dashboard, with and without a slash at its end. The page reads what it
// shows from the session's endpoints.
func (e *edge) dashboardPage(c *fiber.Ctx) error { return dashboardFiles()[dashboard.Page].send(c) }

// dashboardStyle is GET /dashboard/style.css.
func (e *edge) dashboardStyle(c *fiber.Ctx) error { return dashboardFiles()[dashboard.Style].send(c) }

// dashboardScript is GET /dashboard/:script.
func (e *edge) dashboardScript(c *fiber.Ctx) error {
	f, ok := dashboardFiles()[pathParam(c, "script")]
	if !ok || f.media != fiber.MIMETextJavaScriptCharsetUTF8 {
		return fiber.ErrNotFound
	}
	return f.send(c)
}
