package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strconv"
	"time"

	gomail "github.com/wneessen/go-mail"

	"ajo/internal/clock"
	"ajo/internal/secret"
)

// SMTP sends through a mail server, with one connection for each e-mail: they are few.
type SMTP struct {
	host     string
	port     int
	user     string
	password secret.Redacted
	implicit bool
	policy   gomail.TLSPolicy
	tls      *tls.Config
	from     *mail.Address
	timeout  time.Duration
	clock    clock.Clock
}

var _ Sender = (*SMTP)(nil)

// Invalid options. errURL does not contain the URL, which has a password in it.
var (
	errURL  = errors.New("mail: the address of the server must be smtp[s]://[user:password@]host[:port][?tls=required|optional|off]")
	errFrom = errors.New("mail: the sender must be one mail address")
)

// sendTimeout bounds the sending of an e-mail, from dialling to the server's confirmation.
const sendTimeout = 20 * time.Second

// NewSMTP returns a sender through the server at address, which is
// smtp://[user:password@]host[:587] or smtps://[user:password@]host[:465], from one address, with
// or without a name. It dials nobody.
//
// smtps is TLS from the start. With smtp, STARTTLS is required when there is a password, and used
// where offered when there is none or the host is this machine; "?tls=required", "?tls=optional"
// and "?tls=off" say otherwise, the last two not with a password for another machine. A mail may
// take 20 s, from dialling to the server's receipt.
func NewSMTP(address secret.Redacted, from string) (*SMTP, error) {
	u, err := url.Parse(address.Reveal())
	if err != nil || (u.Scheme != "smtp" && u.Scheme != "smtps") || u.Hostname() == "" || (u.Path != "" && u.Path != "/") {
		return nil, errURL
	}
	password, _ := u.User.Password()
	s := &SMTP{
		host: u.Hostname(), port: 587, implicit: u.Scheme == "smtps", user: u.User.Username(), password: secret.Redact(password),
		tls: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}, timeout: sendTimeout, clock: clock.System,
	}
	if s.implicit {
		s.port = 465
	}
	if p := u.Port(); p != "" {
		if s.port, err = strconv.Atoi(p); err != nil || s.port < 1 || s.port > 65535 {
			return nil, errURL
		}
	}
	if (s.user == "") != (password == "") || !oneLine(s.user) || !oneLine(password) {
		return nil, errURL
	}
	if s.policy, err = policy(u, s.user != ""); err != nil {
		return nil, err
	}
	if s.from, err = parseAddress(from); err != nil {
		return nil, errFrom
	}
	return s, nil
}

// policy says whether a connection that starts without TLS must, may or must not change to TLS.
func policy(u *url.URL, withPassword bool) (gomail.TLSPolicy, error) {
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	asked := u.Query().Get("tls")
	switch {
	case len(u.Query()) > 1 || len(u.Query()) == 1 && asked == "", asked != "" && u.Scheme == "smtps":
		return 0, errURL
	case withPassword && !local && (asked == "optional" || asked == "off"):
		return 0, errors.New("mail: a password goes to another machine over TLS only")
	case asked == "required" || asked == "" && withPassword && !local:
		return gomail.TLSMandatory, nil
	case asked == "optional" || asked == "":
		return gomail.TLSOpportunistic, nil
	case asked == "off":
		return gomail.NoTLS, nil
	default:
		return 0, errURL
	}
}

// Send delivers the message to the server. After an error other than [errMessage] it is unknown
// whether the server accepted it.
func (s *SMTP) Send(ctx context.Context, m Message) error {
	msg, err := compose(m, s.from, s.clock.Now())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.deliver(ctx, msg); err != nil {
		if ended := ctx.Err(); ended != nil {
			// the connection was closed under the conversation; its error says only that
			err = ended
		}
		return fmt.Errorf("mail: not sent: %w", err)
	}
	return nil
}

func (s *SMTP) deliver(ctx context.Context, msg *gomail.Msg) error {
	client, err := s.client(ctx)
	if err != nil {
		return err
	}
	conversation, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return err
	}
	// once the server has accepted the e-mail, an error of QUIT changes nothing
	defer func() { _ = client.CloseWithSMTPClient(conversation) }()
	return client.SendWithSMTPClient(conversation, msg)
}

// client makes the client of one conversation: the library changes it during the conversation.
func (s *SMTP) client(ctx context.Context) (*gomail.Client, error) {
	options := []gomail.Option{
		gomail.WithPort(s.port), gomail.WithTimeout(s.timeout), gomail.WithTLSConfig(s.tls), gomail.WithoutNoop(), gomail.WithoutRset(),
		gomail.WithDialContextFunc(s.dial(ctx)),
	}
	if s.implicit {
		options = append(options, gomail.WithSSL())
	} else {
		options = append(options, gomail.WithTLSPolicy(s.policy))
	}
	if s.user != "" {
		options = append(options, gomail.WithUsername(s.user), gomail.WithPassword(s.password.Reveal()),
			gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthPlain, gomail.SMTPAuthLogin, gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthCramMD5))
	}
	return gomail.NewClient(s.host, options...)
}

// dial connects, and closes the connection when the context of the whole conversation ends: the
// library itself observes a context only while it dials, and gives each command its own timeout.
func (s *SMTP) dial(whole context.Context) gomail.DialContextFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		var conn net.Conn
		var err error
		if s.implicit {
			conn, err = (&tls.Dialer{Config: s.tls}).DialContext(ctx, network, address)
		} else {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		}
		if err != nil {
			return nil, err
		}
		context.AfterFunc(whole, func() { _ = conn.Close() })
		return conn, nil
	}
}
