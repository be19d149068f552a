// Package mail sends Ajo's few e-mails: one-time codes and notices to tenants.
//
// A [Sender] takes a plain text and one address. Invariants: a caller's values cannot add a header
// or a recipient; a text with line breaks or control characters where a header goes is refused, not
// cleaned; no log line or error contains an e-mail's text or the server's password. There are two
// senders: [SMTP] and, for development, a [Folder] of .eml files.
package mail

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	gomail "github.com/wneessen/go-mail"
)

// errMessage means that a message cannot be sent as it is: its address, subject or text is not
// acceptable. A retry does not help.
var errMessage = errors.New("mail: not a message that can be sent")

const (
	maxAddress = 320     // bytes
	maxSubject = 250     // bytes
	maxText    = 1 << 20 // bytes
)

// Message is one e-mail to one recipient.
type Message struct {
	To      string // one address, with or without a name
	Subject string // one line
	Text    string // plain text in UTF-8
}

// Sender sends e-mails. It is safe for concurrent use.
type Sender interface {
	// Send delivers the message, within the context's deadline and the sender's own limit.
	// [errMessage] is final. After any other error it is unknown whether the e-mail was sent, and a
	// retry may send it twice.
	Send(ctx context.Context, m Message) error
}

// Nowhere drops every e-mail: the sandbox has nobody to write to.
type Nowhere struct{}

// Send does nothing.
func (Nowhere) Send(context.Context, Message) error { return nil }

// parseAddress reads exactly one address.
func parseAddress(s string) (*mail.Address, error) {
	if len(s) > maxAddress || !oneLine(s) {
		return nil, fmt.Errorf("%w: the address is not acceptable", errMessage)
	}
	a, err := mail.ParseAddress(s)
	if err != nil || !oneLine(a.Name) || !oneLine(a.Address) || strings.ContainsAny(a.Address, "<> ") {
		return nil, fmt.Errorf("%w: the address is not acceptable", errMessage)
	}
	return a, nil
}

// oneLine reports whether s is UTF-8 text without control characters and line breaks of any kind.
func oneLine(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	})
}

// straight is a text without the characters that turn the direction of what follows: behind the
// name of a tenant or a key that ends in one, the rest of the line would be read backwards.
func straight(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 {
			return -1
		}
		return r
	}, s)
}

// compose makes the e-mail, dated now.
func compose(m Message, from *mail.Address, now time.Time) (*gomail.Msg, error) {
	to, err := parseAddress(m.To)
	switch {
	case err != nil:
		return nil, err
	case strings.TrimSpace(m.Subject) == "" || len(m.Subject) > maxSubject || !oneLine(m.Subject):
		return nil, fmt.Errorf("%w: the subject must be one line of 1 to %d bytes", errMessage, maxSubject)
	case len(m.Text) > maxText || !utf8.ValidString(m.Text) || strings.ContainsRune(m.Text, 0):
		return nil, fmt.Errorf("%w: the text must be UTF-8 of at most %d bytes", errMessage, maxText)
	}
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(from)
	msg.ToMailAddress(to)
	msg.Subject(m.Subject)
	msg.SetDateWithValue(now)
	_, domain, _ := strings.Cut(from.Address, "@") // not the machine's own name, which is private
	msg.SetMessageIDWithValue(rand.Text() + "@" + domain)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, straight(m.Text))
	return msg, nil
}
