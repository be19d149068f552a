// Package errs is the one error type that a refusal travels in.
//
// A refusal is a named value with the specification's text ([New]), in the package that refuses. It
// carries a [Kind], which the HTTP edge maps to a status in one place (api/errors.go), and
// api/openapi.yaml lists its text at each endpoint that may answer with it. Any other error is
// unexpected: the edge answers 500 with a fixed text and logs it.
package errs

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind says what sort of refusal an [Error] is. It is independent of HTTP; api/errors.go
// holds the one map from Kind to status.
type Kind uint8

// The kinds, each with the status that the specification's error table gives it.
const (
	Internal      Kind = iota // 500, unexpected
	Invalid                   // 400, the request's content is wrong, or a business rule refuses it
	Unauthorized              // 401, no credential or a bad one
	Forbidden                 // 403, a good credential without the right
	NotFound                  // 404, unknown, or another tenant's
	Conflict                  // 409, exists already, or under way
	TooLarge                  // 413, the body is over the limit
	Unsupported               // 415, not JSON, or encoded
	Unprocessable             // 422, a lifecycle rule refuses it
	TooMany                   // 429, over a rate limit
	Upstream                  // 502, the bank answered unexpectedly
	Unavailable               // 503, nothing could be stored; send it again
)

// Error is a refusal: a kind and the text that the client is shown.
type Error struct {
	Kind Kind
	Msg  string
}

// New returns a refusal. Packages declare theirs as named values, so that callers compare with
// errors.Is.
func New(kind Kind, msg string) *Error { return &Error{Kind: kind, Msg: msg} }

// Error returns the text shown to the client.
func (e *Error) Error() string { return e.Msg }

// As returns the refusal in err's chain, or nil when err is none (and so unexpected).
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// KindOf returns the kind of the refusal in err's chain; an unexpected error is [Internal].
func KindOf(err error) Kind {
	if e := As(err); e != nil {
		return e.Kind
	}
	return Internal
}

// Plain reports whether a text that somebody sent has at most so many characters, and no control
// character, such as a NUL, which the database cannot store.
func Plain(text string, most int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= most && !strings.ContainsFunc(text, unicode.IsControl)
}
