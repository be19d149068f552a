package nomba

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"ajo/internal/provider"
)

// Error says that a call's outcome is not known: no answer came, or one that settles nothing. It is
// never a failure of what was asked for.
type Error struct {
	Call string // the call's name: "pay", "transaction" …
	HTTP int    // the answer's HTTP status; 0 when there was no answer
	Code string // the answer's code, where it had one
	Msg  string // what is wrong, or the bank's own description
	Err  error  // the cause, where there was no answer

	unsent bool // the request certainly did not leave
}

// Error returns the call, the HTTP status, the code and the description.
func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString("nomba: " + e.Call + ": ")
	if e.HTTP != 0 {
		fmt.Fprintf(&s, "HTTP %d ", e.HTTP)
	}
	if e.Code != "" {
		s.WriteString("code " + e.Code + " ")
	}
	s.WriteString(e.Msg)
	if e.Err != nil {
		s.WriteString(": " + e.Err.Error())
	}
	return s.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (e *Error) timeout() bool {
	var n net.Error
	return errors.Is(e.Err, context.DeadlineExceeded) || errors.As(e.Err, &n) && n.Timeout()
}

// text is a JSON value that the bank writes as a string or as a number, depending on the endpoint.
// A number keeps its own text; null and absent are empty; anything else keeps its JSON, and so is
// no valid amount, code or reference.
type text string

// UnmarshalJSON never fails on valid JSON.
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	switch {
	case string(b) == "null":
		*t = ""
	case b[0] == '"' && json.Unmarshal(b, &s) == nil:
		*t = text(strings.TrimSpace(s))
	default:
		*t = text(b)
	}
	return nil
}

// answer is what came back for a call.
type answer struct {
	call   string
	status int    // HTTP
	code   string // the envelope's; empty: no envelope
	own    bool   // in the bank's own envelope, whose code is a text
	desc   string
	data   json.RawMessage // nil where there is none: absent, null, {}, [] or ""
	after  int             // Retry-After in seconds; 0: not given
}

func parseAnswer(call string, status int, body []byte) answer {
	a := answer{call: call, status: status}
	var e struct {
		Code        json.RawMessage `json:"code"`
		Description text            `json:"description"`
		Message     text            `json:"message"`
		Data        json.RawMessage `json:"data"`
	}
	if json.Unmarshal(body, &e) != nil {
		return a
	}
	// A gateway's error (a page, {"message": …}, {"code": 404 …}) has no code, or a number: it
	// settles nothing for good.
	var code text
	if len(e.Code) > 0 {
		_ = code.UnmarshalJSON(e.Code)
	}
	a.code = tidy(string(code))
	a.own = a.code != "" && e.Code[0] == '"'
	a.desc = cmp.Or(tidy(string(e.Description)), tidy(string(e.Message)))
	var dense bytes.Buffer
	if len(e.Data) > 0 && json.Compact(&dense, e.Data) == nil {
		switch dense.String() {
		case "null", "{}", "[]", `""`:
		default:
			a.data = e.Data
		}
	}
	return a
}

// verdict is what an answer means to any call. Each method says what it makes of it.
type verdict uint8

const (
	unclear verdict = iota // nothing that the documentation settles: the outcome is unknown
	success                // code 00, with data
	bare                   // code 00, without data
	later                  // 408, 425, 429, 5xx, or code 01: may be asked again
	missing                // 404 in the bank's own envelope
	// a definite refusal: 02, 05, 06, or a validation refusal in HTTP's own numbers
	refused
	duplicate // the reference has been used before
	// taken, and being worked on: 201, and the 200 of the reference's own example
	underWay
)

// definite are the codes that state a refusal for good: the documented ones, and HTTP's numbers for
// a bad or forbidden request, which live answers carry in the envelope (under HTTP 200, too).
var definite = map[string]bool{"02": true, "05": true, "06": true, "400": true, "403": true, "422": true}

// usedBefore are the words of a refusal that is about the reference and not about the request. The
// bank documents neither its code nor its text.
var usedBefore = regexp.MustCompile(`(?i)duplicat|\balready\b|not unique|must be unique|idempoten|(reference|txref)\b.*\b(exists|in use|(been|was) used)\b`)

// verdict reads the answer. The code speaks first, then the HTTP status; a status that says "not
// now" outweighs any code but success, because the answer may then be a gateway's.
func (a answer) verdict() verdict {
	switch {
	case a.code == "00" && a.data != nil:
		return success
	case a.notNow():
		return later
	case a.status == http.StatusConflict || a.code != "" && usedBefore.MatchString(a.desc):
		return duplicate
	case !a.settles():
		return unclear
	case a.code == "00":
		return bare
	case a.own && definite[a.code]:
		return refused
	case a.own && a.status == http.StatusNotFound:
		return missing
	case a.code == "01":
		return later
	case a.code == "201" || a.code == "200":
		return underWay
	default:
		return unclear
	}
}

// notNow reports whether the HTTP status asks to come again, whatever the body says.
func (a answer) notNow() bool {
	switch a.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return a.status >= 500
}

// settles reports whether the HTTP status lets a code other than success count: 2xx, and a 4xx that
// is about the request itself.
func (a answer) settles() bool {
	class := a.status / 100
	return (class == 2 || class == 4) && !a.notNow() && a.status != http.StatusUnauthorized && a.status != http.StatusConflict
}

// notKnown reports whether the answer to a question about one reference is "not known here (yet)":
// 404, code 01, or 00 without data, and each of them in the bank's own envelope. A gateway's 404 (a
// page, a text, an empty body, another JSON) is none, however much it is a 404: it would say so of
// every reference, and money would be reversed on its word. Nor is one that we may not see the
// record.
func (a answer) notKnown() bool {
	switch {
	case !a.own || !a.settles() || a.hidden():
		return false
	case a.status == http.StatusNotFound:
		return a.verdict() != success
	default:
		return a.code == "01" || a.verdict() == bare
	}
}

// hidden reports whether the answer to a question is that we may not see what it is about (403,
// 05), which says nothing of that.
func (a answer) hidden() bool {
	return a.status == http.StatusForbidden || a.code == "403" || a.code == "05"
}

// err is the answer as an [*Error].
func (a answer) err(msg string) error {
	if a.desc != "" {
		msg += ": " + a.desc
	}
	return &Error{Call: a.call, HTTP: a.status, Code: a.code, Msg: msg}
}

// rejection is the answer as a definite refusal.
func (a answer) rejection() error {
	code := a.code
	if code == "" {
		code = fmt.Sprint(a.status)
	}
	return &provider.Rejection{Code: code, Msg: a.desc}
}

// decode reads the answer's data. Data of another shape is an error: the answer settles nothing.
func (a answer) decode(into any) error {
	if err := json.Unmarshal(a.data, into); err != nil {
		return a.err("the answer's data is not of the documented form")
	}
	return nil
}

// tidy makes a text of the bank's fit for a log line: one line, at most 200 bytes.
func tidy(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return strings.TrimSpace(s)
}
