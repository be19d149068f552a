// Package identity is what Ajo needs of a service that knows National Identification Numbers, as
// one interface.
//
// A [Checker] answers only what it is certain of: the number belongs to that name, to another name,
// or to nobody. Everything else (a service that is down, slow, unpaid, or speaks gibberish) is an
// error that wraps [ErrUnavailable]; the customer then waits for a person to look (decisions,
// "Onboarding": NIN checks). A NIN is never logged and never part of an error.
//
// The rule by which two spellings of a person's name agree lives here too ([NamesAgree]), as does
// the one reduction of a name to plain Latin letters ([Words]).
package identity

import (
	"context"
	"errors"
)

// ErrUnavailable says that the service gave no certain answer. Every error of a [Checker] wraps it.
var ErrUnavailable = errors.New("identity: no certain answer")

// Result is a certain answer about a NIN. The zero value is none.
type Result uint8

// The answers.
const (
	Match    Result = iota + 1 // the NIN exists and its holder's name agrees
	Mismatch                   // the NIN exists under another name
	NoSuch                     // the service is certain that there is no such NIN
)

// String is the answer's name, for logs.
func (r Result) String() string {
	switch r {
	case Match:
		return "match"
	case Mismatch:
		return "mismatch"
	case NoSuch:
		return "no_such"
	default:
		return "none"
	}
}

// Checker asks an identity service. It is safe for concurrent use.
type Checker interface {
	// CheckNIN reports whether nin (11 digits) belongs to a person of that name. It makes one
	// bounded call, is never repeated by itself (checks cost money), and ends with its context. Its
	// errors wrap [ErrUnavailable].
	CheckNIN(ctx context.Context, nin, name string) (Result, error)
}
