package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/errs"
	"ajo/internal/sandbox"
	"ajo/internal/secret"
	"ajo/internal/tenant"
)

// Test mode in the live API: a request with a test key, or of a session that asks for test mode, is
// forwarded to the sandbox unchanged, and the sandbox's answer is returned. The live database is
// only asked for the session. A forwarded request does not count in the live metrics.

// Bounds of forwarded requests, so that they take no resources from live ones.
const (
	forwardedAtOnce  = 32
	forwardTimeout   = 15 * time.Second // below the deadline of a request
	maxForwarded     = 4 << 20          // bytes of an answer
	forwardRetry     = "1"              // seconds
	forwardIdleConns = 30 * time.Second // below the sandbox's own, which must not close first
)

// Refusals of test mode.
var (
	errTestOff  = errs.New(errs.Unauthorized, "test mode is off here: ajo_test_ keys are not accepted")
	errModeOff  = errs.New(errs.Invalid, "test mode is off here")
	errMode     = errs.New(errs.Invalid, "X-Ajo-Mode must be live or test")
	errKeyMode  = errs.New(errs.Invalid, "X-Ajo-Mode does not match this API key: ajo_test_ keys are for test mode, all others for live mode")
	errLiveOnly = errs.New(errs.NotFound, "this exists in test mode only: use an ajo_test_ key, or X-Ajo-Mode: test with a session")
)

// liveOnly are the session endpoints that the live service answers in both modes, and why: they are
// about people and the organisation, which exist only once. In test mode the sandbox answers all
// other session endpoints.
var liveOnly = map[endpoint]string{
	{"POST", "/auth/password"}:              "the password opens both modes",
	{"POST", "/auth/business-kyc"}:          "it is about the business; in test mode it is verified",
	{"GET", "/auth/member"}:                 "the member is the same in both modes",
	{"GET", "/auth/members"}:                "the members are",
	{"POST", "/auth/members"}:               "the members are",
	{"POST", "/auth/members/:id/role"}:      "the members are",
	{"POST", "/auth/members/:id/remove"}:    "the members are",
	{"POST", "/auth/members/:id/hand-over"}: "the members are",
	{"GET", "/auth/sessions"}:               "a session has both modes",
	{"POST", "/auth/sessions/:id/end"}:      "a session has both modes",
	{"POST", "/auth/totp"}:                  "the second factor opens both modes",
	{"POST", "/auth/totp/confirm"}:          "the second factor opens both modes",
	{"POST", "/auth/totp/off"}:              "the second factor opens both modes",
	{"POST", "/auth/totp-required"}:         "the second factor opens both modes",
	{"POST", "/auth/listen"}:                "a call that waits would hold the room of the others",
}

// InTestMode reports whether the sandbox has the endpoint: all that need a key, and those of
// sessions that are not about people and the organisation.
func (r Route) InTestMode() bool {
	_, live := liveOnly[endpoint{r.Method, r.Path}]
	return !live && (r.Credential == Key || r.Credential == Session || r.Credential == SessionOrKey)
}

// TestMode forwards requests to the sandbox.
type TestMode struct {
	url    string
	passes *sandbox.Passes
	client *http.Client
	slots  chan struct{}
	log    *slog.Logger
}

// NewTestMode returns a forwarder to the sandbox at an address.
func NewTestMode(address string, passes *sandbox.Passes, log *slog.Logger) *TestMode {
	return &TestMode{
		url: strings.TrimSuffix(address, "/"), passes: passes, log: log, slots: make(chan struct{}, forwardedAtOnce),
		client: &http.Client{
			Timeout:       forwardTimeout,
			Transport:     &http.Transport{MaxConnsPerHost: forwardedAtOnce, MaxIdleConnsPerHost: forwardedAtOnce, IdleConnTimeout: forwardIdleConns, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close ends the connections.
func (m *TestMode) Close() { m.client.CloseIdleConnections() }

// hasTestKey reports whether the request has a key that only the sandbox can look up.
func hasTestKey(c *fiber.Ctx) bool {
	return strings.HasPrefix(c.Get(keyHeader), string(secret.TestKey))
}

// forwardKey forwards a request with a test key.
func (e *edge) forwardKey(c *fiber.Ctx) error {
	var refused error
	switch {
	case !secret.TestKey.Check(c.Get(keyHeader)): // no key at all, whether test mode is on or off
		refused = tenant.ErrUnauthorized
	case e.Test == nil:
		refused = errTestOff
	}
	if refused != nil {
		return errors.Join(e.limit(c, e.Limits.Stranger(c.UserContext(), e.address(c), [32]byte{})), refused)
	}
	// the sandbox counts the request, and its headers replace these if it answers
	if err := e.limit(c, e.Limits.Uncounted()); err != nil {
		return err
	}
	if err := checkMode(c, sandbox.ModeTest); err != nil {
		return err
	}
	return e.forward(c, sandbox.Pass{From: e.address(c)})
}

// modeLive is the value of the header that asks for the live service.
const modeLive = "live"

// checkMode refuses a request with a key of one mode that asks for the other: a request that says
// test must not move money.
func checkMode(c *fiber.Ctx, of string) error {
	if mode := c.Get(sandbox.ModeHeader); mode != "" && mode != of {
		return errKeyMode
	}
	return nil
}

// wantsTestMode reports whether a session's request is for the sandbox.
func (e *edge) wantsTestMode(c *fiber.Ctx, r Route) (bool, error) {
	switch mode := c.Get(sandbox.ModeHeader); {
	case mode == "" || mode == modeLive || e.Sandbox != nil:
		return false, nil
	case mode != sandbox.ModeTest:
		return false, errMode
	case e.Test == nil:
		return false, errModeOff
	}
	return r.InTestMode(), nil
}

// forwardSession forwards a session's request, for the member that the session belongs to.
func (e *edge) forwardSession(c *fiber.Ctx, t tenant.Tenant) error {
	m := t.Member
	return e.forward(c, sandbox.Pass{From: e.address(c), Caller: &sandbox.Caller{
		TenantID: t.ID, TenantName: t.Name, TenantEmail: t.Email, MemberID: m.ID, Name: m.Name, Email: m.Email, Role: string(m.Role),
	}})
}

type forwardedKey struct{}

// forwarded reports whether a request was forwarded to the sandbox.
func forwarded(c *fiber.Ctx) bool { return c.Locals(forwardedKey{}) != nil }

// passedOn are the headers of a request that the sandbox gets. The cookie is not among them.
var passedOn = []string{
	fiber.HeaderContentType, fiber.HeaderContentEncoding, fiber.HeaderAccept, fiber.HeaderUserAgent, headerIdempotencyKey, keyHeader,
}

// keptBack are the headers of an answer that belong to the connection, or that this API sets
// itself.
var keptBack = []string{"Connection", "Content-Length", "Date", "Keep-Alive", "Server", "Set-Cookie", "Transfer-Encoding", "X-Request-Id"}

// forward forwards the request and returns the sandbox's answer. A sandbox that is away needs no
// action from an operator of the live service, so that is answered here and not as a fault.
func (e *edge) forward(c *fiber.Ctx, pass sandbox.Pass) error {
	c.Locals(forwardedKey{}, true)
	select {
	case e.Test.slots <- struct{}{}:
		defer func() { <-e.Test.slots }()
	default:
		c.Set(fiber.HeaderRetryAfter, forwardRetry)
		return c.Status(http.StatusServiceUnavailable).JSON(errorBody{"test mode is busy: try again in a second"})
	}
	answer, body, err := e.Test.send(c, pass)
	if errors.Is(err, errAddress) {
		return fiber.ErrBadRequest
	}
	if err != nil {
		e.Test.log.LogAttrs(c.UserContext(), slog.LevelWarn, "the sandbox did not answer", slog.String("error", err.Error()))
		return c.Status(http.StatusBadGateway).JSON(errorBody{"test mode does not answer: try again later"})
	}
	for name, values := range answer.Header {
		for i, v := range values {
			if i == 0 {
				c.Set(name, v)
			} else {
				c.Response().Header.Add(name, v)
			}
		}
	}
	return c.Status(answer.StatusCode).Send(body)
}

// Why a request or its answer was not passed on.
var (
	errAddress    = errors.New("the address of the request cannot be written")
	errLongAnswer = errors.New("its answer is too long")
	errPassed     = errors.New("it refuses the pass: AJO_TEST_SECRET must be the same on both sides, and the clocks within a minute")
)

// send makes the call. The body is the raw one, as in [readBody].
func (m *TestMode) send(c *fiber.Ctx, pass sandbox.Pass) (*http.Response, []byte, error) {
	uri := c.Request().URI()
	raw := string(uri.PathOriginal())
	if q := uri.QueryString(); len(q) > 0 {
		raw += "?" + string(q)
	}
	u, err := url.Parse(m.url + raw)
	if err != nil {
		return nil, nil, errAddress
	}
	body := bytes.Clone(c.Request().Body())
	ctx := context.WithoutCancel(c.UserContext())
	req, err := http.NewRequestWithContext(ctx, c.Method(), u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for _, name := range passedOn {
		if values := c.Request().Header.PeekAll(name); len(values) > 0 { // an empty key is refused there, too
			req.Header.Set(name, string(values[0]))
		}
	}
	req.Header.Set(fiber.HeaderXRequestID, RequestID(c.UserContext()))
	signed, err := m.passes.Write(pass, sandbox.Request{Method: req.Method, URI: req.URL.RequestURI(), Body: body})
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set(sandbox.PassHeader, signed)
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxForwarded+1))
	switch {
	case err == nil && len(answer) > maxForwarded:
		err = errLongAnswer
	case resp.StatusCode == http.StatusUnauthorized && bytes.Contains(answer, []byte(sandbox.ErrPass.Msg)):
		err = errPassed // which does not refuse the caller's credential
	}
	for _, name := range keptBack {
		resp.Header.Del(name)
	}
	return resp, answer, err
}
