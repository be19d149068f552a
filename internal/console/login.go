package console

import (
	"log/slog"
	"net/http"

	"ajo/internal/errs"
	"ajo/internal/operator"
	"ajo/internal/secret"
	"ajo/ratelimit"
)

// credentials are the body of a login, and of the choice of a password.
type credentials struct {
	Name     string          `json:"name"`
	Password secret.Redacted `json:"password"`
	Code     secret.Redacted `json:"code"`
}

// shown is whose session it is.
type shown struct {
	Name string        `json:"name"`
	Role operator.Role `json:"role"`
}

// counted reads credentials, within the limits of guesses: so many from an address, and so many at
// one name, whether an operator has it or not.
func (c *Console) counted(q *request, action string) (in credentials, err error) {
	r := c.Limits.Open(q.http.Context(), q.from)
	if !r.OK {
		r.Header(q.w.Header().Set)
		return in, ratelimit.ErrLimited
	}
	if err := q.decode(&in); err != nil {
		return in, err
	}
	if r = c.Limits.Account(q.http.Context(), action, in.Name); !r.OK {
		r.Header(q.w.Header().Set)
		c.Log.Warn("too many tries at an operator's account", slog.String("action", action), slog.String("from", q.from.String()))
		return in, ratelimit.ErrLimited
	}
	return in, nil
}

func (c *Console) login(q *request) (any, error) {
	in, err := c.counted(q, "console-login")
	if err != nil {
		return nil, err
	}
	s, err := c.Operators.Login(q.http.Context(), in.Name, in.Password, in.Code, q.from)
	if err != nil {
		if errs.As(err) == operator.ErrCredentials {
			c.Log.Warn("a login to the console was refused", slog.String("from", q.from.String()))
		}
		return nil, err
	}
	c.setCookie(q.w, s.Token, int(operator.SessionLife.Seconds()))
	return shown{s.Name, s.Role}, nil
}

// setCookie gives the session's token to the browser; a negative age takes it away. The browser
// sends it to this origin alone, and never with a request that began on another site.
func (c *Console) setCookie(w http.ResponseWriter, token secret.Redacted, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: Cookie, Value: token.Reveal(), Path: "/", MaxAge: age, HttpOnly: true, Secure: c.Secure, SameSite: http.SameSiteStrictMode,
	})
}

// setUp answers with what an authenticator is given, once.
func (c *Console) setUp(q *request) (any, error) {
	in, err := c.counted(q, "console-setup")
	if err != nil {
		return nil, err
	}
	s, err := c.Operators.SetUp(q.http.Context(), in.Name, in.Code, in.Password, q.from)
	if err != nil {
		return nil, err
	}
	return struct {
		Secret string `json:"secret"`
		QRCode string `json:"qrCode"`
	}{s.Secret.Reveal(), s.QRCode.Reveal()}, nil
}

func (c *Console) logout(q *request) (any, error) {
	cookie, err := q.http.Cookie(Cookie)
	if err == nil {
		err = c.Operators.Logout(q.http.Context(), secret.Redact(cookie.Value))
	}
	if err != nil {
		return nil, err
	}
	c.setCookie(q.w, secret.Redacted{}, -1)
	return struct{}{}, nil
}

func (c *Console) me(q *request) (any, error) { return shown{q.operator.Name, q.operator.Role}, nil }
