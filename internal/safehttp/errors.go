package safehttp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// What a call can come to nothing for; the Reason of an [Error].
var (
	ErrURL         = errors.New("not a callback URL")
	ErrAddress     = errors.New("address is not allowed")
	ErrName        = errors.New("host name does not resolve")
	ErrRefused     = errors.New("connection refused")
	ErrUnreachable = errors.New("host is unreachable")
	ErrTLS         = errors.New("no secure connection")
	ErrTimeout     = errors.New("timeout")
	ErrCut         = errors.New("connection closed before an answer")
	ErrNetwork     = errors.New("network error")
	ErrAnswer      = errors.New("no valid HTTP answer")
)

// Error says why no answer came. Its text is fit for the tenant: it has neither the URL (whose
// query may be a secret), nor the address of one of our machines, nor what an internal name
// resolves to.
type Error struct {
	Reason error // one of the named values above
	Text   string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the reason, for errors.Is.
func (e *Error) Unwrap() error { return e.Reason }

// explain turns the transport's error into one that the tenant may see.
func explain(err error, host string, timeout time.Duration) *Error {
	var (
		blocked   *blockedError
		dns       *net.DNSError
		handshake *handshakeError
		network   *net.OpError
	)
	switch {
	case errors.As(err, &blocked):
		return blocked.explain(host)
	case errors.As(err, &dns) && dns.IsTimeout:
		return &Error{ErrTimeout, "timeout while the host name was looked up"}
	case errors.As(err, &dns):
		return plain(ErrName)
	case isTimeout(err):
		return &Error{ErrTimeout, "timeout after " + seconds(timeout)}
	case errors.As(err, &handshake):
		return handshake.explain()
	case errors.Is(err, syscall.ECONNREFUSED):
		return plain(ErrRefused)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return plain(ErrUnreachable)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return plain(ErrCut)
	case errors.As(err, &network):
		return plain(ErrNetwork)
	default:
		return plain(ErrAnswer)
	}
}

// explain names the address when the URL itself does. For a name it does not: that would tell what
// names resolve to in our network.
func (e *blockedError) explain(host string) *Error {
	if net.ParseIP(host) != nil {
		return &Error{ErrAddress, e.Error()}
	}
	return &Error{ErrAddress, "the host's address is not allowed"}
}

// handshakeError marks what went wrong in a TLS handshake.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "tls handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// explain says what is wrong with a certificate in fixed words; x509's own repeat the certificate,
// which the receiver writes.
func (e *handshakeError) explain() *Error {
	var (
		notTLS    tls.RecordHeaderError
		host      x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
	)
	text := "TLS handshake failed"
	switch {
	case errors.As(e.err, &notTLS):
		text = "the server does not speak TLS on this port"
	case errors.As(e.err, &host):
		text = "certificate is not valid: it is for another host"
	case errors.As(e.err, &authority):
		text = "certificate is not valid: its issuer is not trusted"
	case errors.As(e.err, &invalid) && invalid.Reason == x509.Expired:
		text = "certificate is not valid: it has expired, or its time has not come"
	case errors.As(e.err, &invalid):
		text = "certificate is not valid"
	}
	return &Error{ErrTLS, text}
}

func plain(reason error) *Error { return &Error{reason, reason.Error()} }

func isTimeout(err error) bool {
	var n net.Error // context.DeadlineExceeded is one too
	return errors.As(err, &n) && n.Timeout()
}

func seconds(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return d.String()
}
