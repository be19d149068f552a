// Package console serves the operators' console on the operations port: its pages, its logins, and
// the commands that its pages may run.
//
// What always holds: the console has no rule and no SQL of its own. What a page shows is what a
// command of the command line prints as JSON, and what a page changes is that command's change, run
// in this process with the operator's name in the audit line. Only what [Reads] and [Actions] name
// can be run, with the arguments that they name; a viewer runs reads only; nothing is changed
// unless the operator has been shown the sentence that says what will happen, and it still holds.
package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/operator"
	"ajo/internal/secret"
	"ajo/ratelimit"
)

// Root is the path under which everything is served.
const Root = "/console"

// Cookie is the name of the session's cookie.
const Cookie = "ajo_console"

const (
	maxBody     = 64 << 10         // bytes
	sessionTime = 5 * time.Second  // to find a session: Postgres may be silent, its machine dead
	readTime    = 30 * time.Second // for a command that reads, and to log in or out
	actTime     = 2 * time.Minute  // for one that changes, and may ask the bank
)

// Refusals of a request.
var (
	ErrChanged    = errs.New(errs.Conflict, "what would happen has changed in the meantime: read it again")
	errForbidden  = errs.New(errs.Forbidden, "your role is read-only")
	errCrossSite  = errs.New(errs.Forbidden, "cross-site request refused")
	errBody       = errs.New(errs.Invalid, "invalid request body")
	errMedia      = errs.New(errs.Unsupported, "content type must be application/json")
	errParameters = errs.New(errs.Invalid, "unknown parameter")
)

// Call is a command to be run.
type Call struct {
	Command string            // its words: "review confirm"
	Args    []string          // in order
	Flags   map[string]string // by name, without those that are empty
	// Of a change:
	By  audit.By
	Saw string // the sentence that told the operator what will happen; "": that is asked
}

// Answer is what a command makes of a call: JSON of a read, the rest of a change.
type Answer struct {
	JSON []byte `json:"-"`
	Will string `json:"will,omitempty"` // what will happen, as a sentence
	Text string `json:"text,omitempty"` // what has happened, or why nothing will
	Note string `json:"note,omitempty"`
	Idle bool   `json:"idle,omitempty"` // it is so already: nothing will happen
}

// Options are what a console needs.
type Options struct {
	Operators *operator.Service
	Limits    *ratelimit.Limiter
	Run       func(context.Context, Call) (Answer, error)
	Secure    bool // cookies are for https, and for this machine, only
	Log       *slog.Logger
}

// Console serves its pages and answers them. Make one by [New].
type Console struct {
	Options
	mux *http.ServeMux
}

// New makes a console.
func New(o Options) *Console {
	c := &Console{Options: o, mux: http.NewServeMux()}
	for _, r := range Routes() {
		c.mux.HandleFunc(r.Method+" "+r.Path, c.serve(r))
	}
	for name, f := range fileHandlers() {
		c.mux.HandleFunc("GET "+Root+"/"+name, f)
	}
	c.mux.HandleFunc("GET "+Root, page)
	c.mux.HandleFunc("GET "+Root+"/{$}", page)
	return c
}

// ServeHTTP serves what is under [Root].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

// Route is a path of the console's interface. A Role of "" asks for no session.
type Route struct {
	Method, Path string
	Role         operator.Role
	handle       func(c *Console, q *request) (any, error)
}

// Routes are all of them. The files of the pages are not among them: they show nothing.
func Routes() []Route {
	out := []Route{
		{http.MethodPost, Root + "/api/login", "", (*Console).login},
		{http.MethodPost, Root + "/api/setup", "", (*Console).setUp},
		{http.MethodPost, Root + "/api/logout", operator.Viewer, (*Console).logout},
		{http.MethodGet, Root + "/api/me", operator.Viewer, (*Console).me},
	}
	for _, r := range Reads {
		out = append(out, Route{http.MethodGet, r.Path(), operator.Viewer, r.run})
	}
	for _, a := range Actions {
		out = append(out, Route{http.MethodPost, a.Path(), operator.Actor, a.run})
	}
	return out
}

// request is one on its way.
type request struct {
	w        http.ResponseWriter
	http     *http.Request
	operator operator.Operator // of the session, if the route asks for one
	from     netip.Addr
}

// serve answers a route's requests: who asks is found out before anything of the request is read.
func (c *Console) serve(route Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readTime)
		defer cancel()
		r = r.WithContext(ctx)
		q := &request{w: w, http: r}
		if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
			q.from = at.Addr().Unmap()
		}
		out, err := c.admit(route, q)
		if err == nil {
			out, err = route.handle(c, q)
		}
		if err != nil {
			c.refuse(w, r, err)
			return
		}
		write(w, http.StatusOK, out)
	}
}

// admit refuses a request from another site, and one without the route's role.
func (c *Console) admit(route Route, q *request) (none any, err error) {
	if route.Method != http.MethodGet && !SameOrigin(q.http) {
		return nil, errCrossSite
	}
	if route.Role == "" {
		return nil, nil
	}
	if q.operator, err = c.Operator(q.http); err != nil {
		return nil, err
	}
	if !q.operator.Role.May(route.Role) {
		return nil, errForbidden
	}
	return nil, nil
}

// Operator is whose session the request has. [operator.ErrUnauthorized].
func (c *Console) Operator(r *http.Request) (operator.Operator, error) {
	ctx, cancel := context.WithTimeout(r.Context(), sessionTime)
	defer cancel()
	return c.Operators.Session(ctx, token(r))
}

// token is that of the request's session; empty: it has none.
func token(r *http.Request) (t secret.Redacted) {
	if cookie, err := r.Cookie(Cookie); err == nil {
		t = secret.Redact(cookie.Value)
	}
	return t
}

// SameOrigin reports whether a request that changes something comes from a page of this origin: by
// Sec-Fetch-Site, which every current browser sends, else by Origin. Programs that are no browsers
// send neither, and pass.
func SameOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return true
	case "":
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// decode reads the body, which must be JSON without unknown fields.
func (q *request) decode(v any) error {
	if media, _, err := mime.ParseMediaType(q.http.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return errMedia
	}
	d := json.NewDecoder(http.MaxBytesReader(q.w, q.http.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil || !errors.Is(d.Decode(new(any)), io.EOF) {
		return errBody
	}
	return nil
}

func write(w http.ResponseWriter, status int, out any) {
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	body, raw := out.(json.RawMessage)
	if !raw {
		body, _ = json.Marshal(out) // of our own types
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// statusOf maps the kind of a refusal to its status, as the API does.
var statusOf = map[errs.Kind]int{
	errs.Invalid: http.StatusBadRequest, errs.Unauthorized: http.StatusUnauthorized, errs.Forbidden: http.StatusForbidden, errs.NotFound: http.StatusNotFound,
	errs.Conflict: http.StatusConflict, errs.Unsupported: http.StatusUnsupportedMediaType, errs.Unprocessable: http.StatusUnprocessableEntity,
	errs.TooMany: http.StatusTooManyRequests, errs.Upstream: http.StatusBadGateway, errs.Unavailable: http.StatusServiceUnavailable,
}

// refuse answers with the refusal's text. Anything unexpected is logged, and its text not shown.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusInternalServerError, "internal error: see the log of this process"
	if refusal := errs.As(err); refusal != nil && statusOf[refusal.Kind] != 0 {
		status, text = statusOf[refusal.Kind], err.Error()
	}
	if status >= http.StatusInternalServerError {
		c.Log.Error("a request of the console failed", slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", status), slog.String("error", err.Error()))
	}
	write(w, status, struct {
		Error string `json:"error"`
	}{text})
}
