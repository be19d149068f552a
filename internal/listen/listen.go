// Package listen brings a tenant's events to its developer's own machine: it asks the API for them,
// signs each anew as the worker does, and posts it to a local address. It is what `ajo listen`
// does.
//
// It is for development: an event that the local program does not take is not sent again, and what
// happens while nobody listens is not shown later. The tenant's real deliveries go on beside it,
// unchanged.
package listen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"time"

	"ajo/api/client"
	"ajo/internal/clock"
	"ajo/internal/secret"
)

// Options say whose events go where.
type Options struct {
	API       string
	Login     Login
	ForwardTo string            // empty: nowhere, the events are only shown
	Events    []string          // the types that are shown; none: all
	Bodies    bool              // show the bodies too
	Version   string            // of this program, for the User-Agent
	Say       func(line string) // what is shown; called from one goroutine at a time

	retry     time.Duration // the first wait after a loss; zero: firstRetry
	forgotten time.Duration // zero: the constant of this name
}

// Login is how the session is opened: by a session's token, by a login link (the whole address, or
// its token), or by e-mail and password.
type Login struct {
	Session, Link secret.Redacted
	Email         string
	Password      secret.Redacted
	// Code asks for a code of the member's second factor; nil: nobody can be asked.
	Code func(ctx context.Context) (secret.Redacted, error)
}

const (
	longPoll    = 25 // seconds; the API allows no more
	callTimeout = 40 * time.Second
	forgotten   = 45 * time.Second // how long a tenant counts as listening, from the beginning of its last call
	firstRetry  = time.Second
	lastRetry   = 30 * time.Second
	// events that may wait for the local program, which takes one after the other
	ahead = 1000
)

// listener is a running Run.
type listener struct {
	Options
	api    *client.Client
	local  *http.Client
	secret string
	after  string // the place behind the last event
}

// Run listens until ctx ends, which is no error, or until there is no use in going on: credentials
// that do not hold, a suspended tenant, an unknown type of event. A connection that is lost is made
// again.
func Run(ctx context.Context, o Options) error {
	l, err := open(o)
	if err != nil {
		return err
	}
	defer l.local.CloseIdleConnections()
	if err := l.authenticate(ctx); err != nil {
		return unless(ctx, err)
	}
	defer l.logOut()
	if err := l.begin(ctx); err != nil {
		return unless(ctx, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, ended, notes := make(chan event, ahead), make(chan error, 1), make(chan string)
	go func() { ended <- l.poll(ctx, events, notes) }()
	for {
		select {
		case e := <-events:
			l.show(ctx, e)
		case note := <-notes:
			l.Say(note)
		case err := <-ended:
			return unless(ctx, err)
		}
	}
}

// unless is err, unless ctx has ended.
func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// open checks the options and makes the clients. The session's cookie is kept by the client's jar.
func open(o Options) (*listener, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	l := &listener{Options: o, local: &http.Client{
		Timeout:       localTimeout,
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if l.api, err = client.New(client.Options{URL: o.API, HTTP: &http.Client{Jar: jar, Timeout: callTimeout}}); err != nil {
		return nil, fmt.Errorf("--api: %w", err)
	}
	if !o.Login.Session.IsZero() {
		api, _ := url.Parse(o.API) // which New has read too
		jar.SetCookies(api, []*http.Cookie{{Name: "service_session", Value: o.Login.Session.Reveal(), Path: "/"}})
	}
	if o.ForwardTo != "" {
		if u, err := url.Parse(o.ForwardTo); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("--forward-to must be an http or https URL, such as http://localhost:3000/webhooks, not %q", o.ForwardTo)
		}
	}
	return l, nil
}

// authenticate opens the session, where it is not open yet.
func (l *listener) authenticate(ctx context.Context) error {
	in := l.Login
	switch {
	case !in.Session.IsZero():
		return nil
	case !in.Link.IsZero():
		token := in.Link.Reveal()
		if _, after, found := strings.Cut(token, "#link="); found {
			token = after
		}
		return l.api.Do(ctx, "POST", "/auth/login-link", map[string]string{"token": token}, nil)
	default:
		given := map[string]string{"email": in.Email, "password": in.Password.Reveal()}
		err := l.api.Do(ctx, "POST", "/auth/login", given, nil)
		var refused *client.Error
		if in.Code == nil || !errors.As(err, &refused) || refused.Message != codeNeeded {
			return err
		}
		code, err := in.Code(ctx)
		if err != nil {
			return err
		}
		given["code"] = code.Reveal()
		return l.api.Do(ctx, "POST", "/auth/login", given, nil)
	}
}

// codeNeeded is how the API refuses a right password beside which a code is missing.
const codeNeeded = "code is required"

// logOut ends the session that was opened here.
func (l *listener) logOut() {
	if !l.Login.Session.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// else it ends by itself, after its seven days
	_ = l.api.Do(ctx, "POST", "/auth/logout", nil, nil)
}

// begin reads the secret, checks the types and asks for the first time: from then on events are
// shown.
func (l *listener) begin(ctx context.Context) error {
	var err error
	if l.secret, err = l.api.WebhookSecret(ctx); err != nil {
		return err
	}
	var types struct{ Events, Available []string }
	if err := l.api.Do(ctx, "GET", "/auth/webhook-events", nil, &types); err != nil {
		return err
	}
	for _, t := range l.Events {
		if !slices.Contains(types.Available, t) {
			return fmt.Errorf("--events: %q is none of %s", t, strings.Join(types.Available, ", "))
		}
	}
	var me struct{ WebhookURL string }
	if err := l.api.Do(ctx, "GET", "/auth/me", nil, &me); err != nil {
		return err
	}
	if _, err := l.ask(ctx, 0); err != nil {
		return err
	}
	l.Say("Signing secret: " + l.secret)
	where := "nowhere (--forward-to http://localhost:3000/hook sends them on)"
	if l.ForwardTo != "" {
		where = "to " + l.ForwardTo
	}
	url := "You have no webhook URL."
	if me.WebhookURL != "" {
		url = "Your webhook URL gets " + strings.Join(types.Events, ", ") + "."
	}
	l.Say("Events go " + where + ". " + url)
	l.Say("Listening. Ctrl-C ends it.")
	return nil
}

// ask asks for what has happened since the last time, and waits for it as long as said.
func (l *listener) ask(ctx context.Context, seconds int) ([]event, error) {
	var heard struct {
		Events []event
		Next   string
	}
	err := l.api.Do(ctx, "POST", "/auth/listen", map[string]any{"after": l.after, "wait": seconds}, &heard)
	if err == nil {
		l.after = heard.Next
	}
	return heard.Events, err
}

// poll asks again and again, and says what goes wrong on the way.
func (l *listener) poll(ctx context.Context, events chan<- event, notes chan<- string) error {
	note := func(format string, args ...any) {
		select {
		case notes <- fmt.Sprintf(format, args...):
		case <-ctx.Done():
		}
	}
	first := cmp.Or(l.retry, firstRetry)
	wait, last := first, time.Now()
	for lost, forgot := false, false; ; {
		seconds := longPoll
		if lost {
			seconds = 0 // to know at once whether it is there again
		}
		begun := time.Now()
		heard, err := l.ask(ctx, seconds)
		if err != nil {
			place := l.after
			if err := l.useless(ctx, err); err != nil {
				return err
			}
			forgot = forgot || l.after != place
			if !lost {
				note("Lost the connection (%s); trying again.", err)
			}
			lost = true
			if err := clock.Sleep(ctx, max(wait, retryAfter(err))); err != nil {
				return err
			}
			wait = min(2*wait, lastRetry)
			continue
		}
		if lost {
			note("Listening again.")
			if forgot { // it was restored
				note("The service does not know the last event from here: events may be missing here; the dashboard has the deliveries.")
			} else if time.Since(last) > cmp.Or(l.forgotten, forgotten) {
				note("Events of the last %s may be missing here; the dashboard has the deliveries.", time.Since(last).Round(time.Second))
			}
		}
		lost, forgot, wait, last = false, false, first, begun
		for _, e := range heard {
			select {
			case events <- e:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// useless is the error when there is no use in asking again, else nil. A session that has ended is
// opened again where the password is there, and a place that the API does not know any more is
// given up.
func (l *listener) useless(ctx context.Context, err error) error {
	var refused *client.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &refused), refused.Retryable():
		return nil
	case refused.Status == http.StatusUnauthorized && !l.Login.Password.IsZero():
		return l.authenticate(ctx)
	case refused.Status == http.StatusUnauthorized:
		return errors.New("the session has ended: log in again")
	case refused.Status == http.StatusBadRequest && l.after != "":
		l.after = ""
		return nil
	}
	return err
}

// retryAfter is what the API asks for, as when it is asked too often.
func retryAfter(err error) time.Duration {
	var refused *client.Error
	if errors.As(err, &refused) {
		return refused.RetryAfter
	}
	return 0
}
