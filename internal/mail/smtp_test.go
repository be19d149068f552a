package mail

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/secret"
)

// server is a mail server on loopback that keeps what it is sent.
type server struct {
	addr     string
	tls      *tls.Config
	startTLS bool
	auth     bool
	silentAt string // the command that is never answered
	refuseAt string // the command that is answered 550

	mu       sync.Mutex
	received []delivery
	reached  chan struct{} // closed when silentAt was reached
}

type delivery struct {
	from, to, data, login string
	secure                bool
}

// serve starts a server, with TLS from the start when implicit is set.
func serve(t *testing.T, s *server, implicit bool) *x509.CertPool {
	t.Helper()
	certs := httptest.NewTLSServer(nil)
	t.Cleanup(certs.Close)
	s.tls = &tls.Config{Certificates: certs.TLS.Certificates}
	s.reached = make(chan struct{})
	roots := x509.NewCertPool()
	roots.AddCert(certs.Certificate())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = l.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if implicit {
				conn = tls.Server(conn, s.tls)
			}
			wg.Go(func() { s.talk(conn, implicit) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return roots
}

func (s *server) talk(conn net.Conn, secure bool) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	say := func(lines ...string) {
		for _, l := range lines {
			_, _ = fmt.Fprintf(conn, "%s\r\n", l)
		}
	}
	say("220 mail.example ready")
	d := delivery{secure: secure}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		verb, arg, _ := strings.Cut(line, " ")
		switch verb = strings.ToUpper(verb); {
		case verb == s.silentAt:
			close(s.reached)
			_, _ = r.ReadString('\n') // until the caller hangs up
			return
		case verb == s.refuseAt:
			say("550 no")
		case verb == "EHLO":
			say("250-mail.example")
			if s.startTLS && !d.secure {
				say("250-STARTTLS")
			}
			if s.auth {
				say("250-AUTH PLAIN")
			}
			say("250 8BITMIME")
		case verb == "STARTTLS":
			say("220 go")
			conn = tls.Server(conn, s.tls)
			r, d.secure = bufio.NewReader(conn), true
		case verb == "AUTH":
			plain, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(arg, "PLAIN "))
			d.login = strings.ReplaceAll(string(plain), "\x00", "|")
			say("235 welcome")
		case verb == "MAIL":
			d.from = arg
			say("250 ok")
		case verb == "RCPT":
			d.to += arg
			say("250 ok")
		case verb == "DATA":
			say("354 go on")
			for {
				text, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if text == ".\r\n" {
					break
				}
				d.data += strings.TrimPrefix(text, ".")
			}
			s.mu.Lock()
			s.received = append(s.received, d)
			s.mu.Unlock()
			say("250 taken")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("502 what")
		}
	}
}

func (s *server) got() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

func sender(t *testing.T, url string, roots *x509.CertPool) *SMTP {
	t.Helper()
	s, err := NewSMTP(secret.Redact(url), from)
	require.NoError(t, err)
	s.clock, s.tls.RootCAs = clock.NewFake(now), roots
	return s
}

var hello = Message{To: "Ọla <ola@shop.example>", Subject: "Your code – Ajo", Text: "Báwo ni\n.\n.dot\n012345\n"}

func TestSMTP(t *testing.T) {
	t.Parallel()
	for label, tt := range map[string]struct {
		server   *server
		implicit bool
		url      string // %s is the address
		secure   bool
		login    string
		fails    string
	}{
		"plain, this machine":         {&server{}, false, "smtp://%s", false, "", ""},
		"STARTTLS where offered":      {&server{startTLS: true}, false, "smtp://%s", true, "", ""},
		"STARTTLS required":           {&server{startTLS: true}, false, "smtp://%s?tls=required", true, "", ""},
		"STARTTLS required, missing":  {&server{}, false, "smtp://%s?tls=required", false, "", "STARTTLS"},
		"STARTTLS off":                {&server{startTLS: true}, false, "smtp://%s?tls=off", false, "", ""},
		"TLS from the start":          {&server{}, true, "smtps://%s", true, "", ""},
		"password over STARTTLS":      {&server{startTLS: true, auth: true}, false, "smtp://ajo:p%%40ss@%s?tls=required", true, "|ajo|p@ss", ""},
		"password over TLS":           {&server{auth: true}, true, "smtps://ajo:p%%40ss@%s", true, "|ajo|p@ss", ""},
		"password, no login offered":  {&server{}, true, "smtps://ajo:pw-seeded@%s", true, "", "AUTH"},
		"password refused":            {&server{auth: true, refuseAt: "AUTH"}, true, "smtps://ajo:pw-seeded@%s", true, "", "AUTH failed"},
		"no farewell":                 {&server{refuseAt: "QUIT"}, false, "smtp://%s", false, "", ""},
		"address refused":             {&server{refuseAt: "RCPT"}, false, "smtp://%s", false, "", "550"},
		"content refused":             {&server{refuseAt: "DATA"}, false, "smtp://%s", false, "", "550"},
		"TLS expected, spoken to not": {&server{}, false, "smtps://%s", false, "", "tls"},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			roots := serve(t, tt.server, tt.implicit)
			err := sender(t, fmt.Sprintf(tt.url, tt.server.addr), roots).Send(t.Context(), hello)
			if tt.fails != "" {
				require.ErrorContains(t, err, tt.fails)
				require.NotErrorIs(t, err, errMessage)
				require.NotContains(t, err.Error(), "pw-seeded")
				require.Empty(t, tt.server.got())
				return
			}
			require.NoError(t, err)
			got := tt.server.got()
			require.Len(t, got, 1)
			require.Equal(t, tt.secure, got[0].secure)
			require.Equal(t, tt.login, got[0].login)
			require.True(t, strings.HasPrefix(got[0].from, "FROM:<no-reply@ajo.example>"), got[0].from)
			require.Equal(t, "TO:<ola@shop.example>", got[0].to)
			h, text := read(t, strings.NewReader(got[0].data))
			require.Equal(t, hello.Text, text)
			require.Equal(t, hello.Subject, decoded(t, h.Get("Subject")))
		})
	}
}

func TestSMTPManyAtOnce(t *testing.T) {
	t.Parallel()
	s := &server{startTLS: true, auth: true}
	roots := serve(t, s, false)
	smtp := sender(t, "smtp://ajo:pw@"+s.addr+"?tls=required", roots)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if err := smtp.Send(t.Context(), hello); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Len(t, s.got(), 10)
}

func TestSMTPUntrustedServer(t *testing.T) {
	t.Parallel()
	s := &server{startTLS: true, auth: true}
	serve(t, s, false)
	err := sender(t, "smtp://ajo:pw-seeded@"+s.addr, x509.NewCertPool()).Send(t.Context(), hello)
	require.ErrorContains(t, err, "certificate")
	require.Empty(t, s.got())
}

func TestSMTPEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"EHLO", "MAIL", "RCPT", "DATA"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			s := &server{silentAt: at}
			roots := serve(t, s, false)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-s.reached; cancel() }()
			err := sender(t, "smtp://"+s.addr, roots).Send(ctx, hello)
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, s.got())
		})
	}
}

func TestSMTPEndsWithItsTimeout(t *testing.T) {
	t.Parallel()
	s := &server{silentAt: "MAIL"}
	roots := serve(t, s, false)
	smtp := sender(t, "smtp://"+s.addr, roots)
	smtp.timeout = 100 * time.Millisecond
	require.Error(t, smtp.Send(t.Context(), hello))
	require.Empty(t, s.got())
}

func TestSMTPUnsendable(t *testing.T) {
	t.Parallel()
	s := &server{}
	roots := serve(t, s, false)
	smtp := sender(t, "smtp://"+s.addr, roots)
	for label, m := range unsendable {
		require.ErrorIs(t, smtp.Send(t.Context(), m), errMessage, label)
	}
	require.Empty(t, s.got())
}

func TestNewSMTP(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"smtp://mail.example":                          true,
		"smtp://mail.example:2525/":                    true,
		"smtps://u:pw-seeded@mail.example":             true,
		"smtp://u:pw-seeded@mail.example":              true,
		"smtp://u:pw-seeded@localhost?tls=off":         true,
		"smtp://u:pw-seeded@[::1]:25?tls=optional":     true,
		"smtp://mail.example?tls=off":                  true,
		"smtp://u:pw-seeded@mail.example?tls=required": true,
		"smtp://u:pw-seeded@mail.example?tls=off":      false,
		"smtp://u:pw-seeded@mail.example?tls=optional": false,
		"smtp://u:pw-seeded@mail.example?tls=maybe":    false,
		"smtps://u:pw-seeded@mail.example?tls=off":     false,
		"smtp://mail.example?ssl=off":                  false,
		"smtp://mail.example?tls=off&x=y":              false,
		"smtp://u@mail.example":                        false,
		"smtp://:pw-seeded@mail.example":               false,
		"smtp://u:pw-seeded%0d%0aX@mail.example":       false,
		"smtp://mail.example:0":                        false,
		"smtp://mail.example:99999":                    false,
		"smtp://u:pw-seeded@mail.example:port":         false,
		"smtp://u:pw-seeded@ mail.example":             false,
		"smtp://mail.example/path":                     false,
		"http://u:pw-seeded@mail.example":              false,
		"smtp://":                                      false,
		"u:pw-seeded@mail.example":                     false,
		"":                                             false,
	} {
		s, err := NewSMTP(secret.Redact(url), from)
		require.Equal(t, ok, err == nil, "%s: %v", url, err)
		if err != nil {
			require.NotContains(t, err.Error(), "seeded")
			continue
		}
		require.NotContains(t, fmt.Sprintf("%+v", s), "seeded")
	}
	s, err := NewSMTP(secret.Redact("smtp://mail.example"), from)
	require.NoError(t, err)
	require.Equal(t, 587, s.port)
	s, err = NewSMTP(secret.Redact("smtps://mail.example"), from)
	require.NoError(t, err)
	require.Equal(t, 465, s.port)
	for _, bad := range []string{"", "nobody", "a@b.example, c@d.example", "a@b.example\r\nBcc: x@y.example"} {
		_, err := NewSMTP(secret.Redact("smtp://mail.example"), bad)
		require.Error(t, err)
	}
}
