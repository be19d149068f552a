package tenant

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/failpoint"
	"ajo/internal/mail"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/webhook"
)

const (
	mailers       = 4   // e-mails that are sent at once
	mailQueueSize = 128 // e-mails that wait for each of these
	mailShare     = 32  // of them, those that concern one address
	mailTimeout   = 30 * time.Second
)

// job is something that is done after the answer.
type job struct {
	address, what string
	do            func(context.Context) error
}

// mailQueue sends e-mails, and does what else must not show, asynchronously: no answer waits for a
// mail server, and no response time reveals whether an e-mail was sent. What concerns one address
// is done in order: the newest code arrives last. What concerns one address takes only a share of
// its queue, so that a tenant that has itself mailed all the time keeps no code from anybody else.
type mailQueue struct {
	sender  mail.Sender
	log     *slog.Logger
	queues  [mailers]chan job
	mu      sync.Mutex
	waiting map[string]int // jobs, by address
	closed  bool
	wg      sync.WaitGroup
}

func newMailQueue(sender mail.Sender, log *slog.Logger) *mailQueue {
	q := &mailQueue{sender: sender, log: log, waiting: map[string]int{}}
	for i := range q.queues {
		queue := make(chan job, mailQueueSize)
		q.queues[i] = queue
		q.wg.Go(func() { q.work(queue) })
	}
	return q
}

// of returns the queue of an address.
func (q *mailQueue) of(address string) chan<- job {
	h := fnv.New32a()
	_, _ = h.Write([]byte(address))
	return q.queues[h.Sum32()%mailers]
}

func (q *mailQueue) work(queue <-chan job) {
	for j := range queue {
		q.taken(j.address)
		ctx, cancel := context.WithTimeout(context.Background(), mailTimeout)
		if err := j.do(ctx); err != nil {
			q.log.Error("a background job failed", "what", j.what, "error", err)
		}
		cancel()
	}
}

// taken records that a job waits no more.
func (q *mailQueue) taken(address string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[address]--; q.waiting[address] == 0 {
		delete(q.waiting, address)
	}
}

// send queues an e-mail. Without a sender, as in an operator's command, it logs that none is sent.
func (q *mailQueue) send(m mail.Message) {
	if q.sender == nil {
		q.log.Warn("no e-mail is sent: AJO_SMTP_URL is not set", "subject", m.Subject)
		return
	}
	q.later(m.To, "mail "+strconv.Quote(m.Subject), func(ctx context.Context) error {
		failpoint.At("tenant/before-mail")
		err := q.sender.Send(ctx, m)
		failpoint.At("tenant/after-mail")
		return err
	})
}

// later queues something that concerns an address. It never waits: when the queue or the address's
// share of it is full, it is dropped and logged, and the recipient of an e-mail can ask for
// another. what says in the log what was not done.
func (q *mailQueue) later(address, what string, do func(context.Context) error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		q.log.Error("a background job was dropped: shutting down", "what", what)
		return
	case q.waiting[address] >= mailShare:
		q.log.Error("a background job was dropped: too many wait for this address", "what", what)
		return
	}
	select {
	case q.of(address) <- job{address, what, do}:
		q.waiting[address]++
	default:
		q.log.Error("a background job was dropped: the queue is full", "what", what)
	}
}

func (q *mailQueue) drain(ctx context.Context) error {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		for _, queue := range q.queues {
			close(queue)
		}
	}
	q.mu.Unlock()
	done := make(chan struct{})
	go func() { q.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("e-mails were still waiting: %w", ctx.Err())
	}
}

func codeEmail(to string, id uuid.UUID, code secret.Redacted) mail.Message {
	return mail.Message{To: to, Subject: "Your verification code", Text: fmt.Sprintf(`Your verification code is

    %s

It is valid for 10 minutes and can be used once, for the sign-up with the tenant ID

    %s

If you did not sign up, or your sign-up has another tenant ID, do not enter this code anywhere: whoever signed up chose the
password, and nothing happens without the code.
`, code.Reveal(), id)}
}

func resetEmail(to string, code secret.Redacted) mail.Message {
	return mail.Message{To: to, Subject: "Set a new password", Text: fmt.Sprintf(`Someone, perhaps you, asked to set a new password for this e-mail address. Your code is

    %s

It is valid for 30 minutes and can be used once. If you did not ask for it, ignore this e-mail and do not share the code: without
it, nothing changes.
`, code.Reveal())}
}

func passwordEmail(to string) mail.Message {
	return mail.Message{To: to, Subject: "Your password was changed", Text: `The password of your account was changed, and all other sessions were ended.

If this was not you, set a new password now: choose "Forgot your password?" on the login page.
`}
}

// keyEmail tells the owner of an API key that there is now.
func keyEmail(to, what string, k KeyRecord, by audit.By) mail.Message {
	return mail.Message{To: to, Subject: what, Text: fmt.Sprintf(`%s: "%s", which ends with %s.

%s
If this was not you, revoke the key in the dashboard, and set a new password.
`, what, k.Name, k.Suffix, fromWhere(by))}
}

// fromWhere says at which address somebody acted.
func fromWhere(by audit.By) string {
	if by.From() == "" {
		return ""
	}
	return "This was done from the address " + by.From() + ".\n"
}

func signInEmail(to string, from netip.Addr, at time.Time) mail.Message {
	return mail.Message{To: to, Subject: "A new sign-in", Text: fmt.Sprintf(`Somebody signed in to your account from an address that was not used before: %s, on %s UTC.

If this was not you, set a new password now: choose "Forgot your password?" on the login page. That ends all sessions.
`, from, at.UTC().Format("2 January 2006 at 15:04"))}
}

func webhookEmail(to, url string, by audit.By) mail.Message {
	return mail.Message{To: to, Subject: "Your webhook URL was changed", Text: fmt.Sprintf(`Events now go to

    %s

%s
If this was not you, change it back, set a new password, and revoke the API keys that you do not know.
`, url, fromWhere(by))}
}

func endpointEmail(to, url string, by audit.By) mail.Message {
	return mail.Message{To: to, Subject: "Your events are also sent to another URL", Text: fmt.Sprintf(`Events now also go to

    %s

%s
If this was not you, remove the endpoint, set a new password, and revoke the API keys that you do not know.
`, url, fromWhere(by))}
}

// failingEmail names the URL without its query, which may be a secret.
func failingEmail(f webhook.FailingEndpoint) mail.Message {
	return mail.Message{To: f.Email, Subject: "Your webhook endpoint is failing", Text: fmt.Sprintf(`Events for

    %s

do not arrive. Of at least %d that wait, the first attempt failed on %s UTC. The last error: %s.

Each is tried again several times, with longer and longer waits. What has not arrived by the last attempt is a dead letter, which you
can send again in the dashboard, or with the API, once the endpoint works. Each attempt and its answer are there too.

You get this e-mail at most once a day for each URL.
`, safehttp.Shown(f.CallbackURL), f.Deliveries, f.Since.UTC().Format("2 January 2006 at 15:04"), f.LastError)}
}

// pausedEmail names the URL without its query, as failingEmail does.
func pausedEmail(e webhook.PausedEndpoint) mail.Message {
	const form = "2 January 2006 at 15:04"
	return mail.Message{To: e.Email, Subject: "Your webhook endpoint is paused", Text: fmt.Sprintf(`Your webhook endpoint

    %s

has been paused since %s UTC. Its events wait, but not for more than 30 days: from %s UTC on, those that have
waited so long become dead letters, which are not sent by themselves.

End the pause in the dashboard, or with the API, and what waits is sent. After the pause, dead letters can be sent again too. If you
do not need the endpoint any more, remove it.

You get this e-mail once for each pause.
`, safehttp.Shown(e.URL), e.Since.UTC().Format(form), e.Since.Add(webhook.PausedMost).UTC().Format(form))}
}

func policyEmail(to string, by audit.By) mail.Message {
	return mail.Message{To: to, Subject: "The approval of your payouts was changed", Text: fmt.Sprintf(`The rules for which payouts need the approval of your members were changed.

%s
If this was not you, look at the policy, set it back, and set a new password.
`, fromWhere(by))}
}

// MailExempted tells the tenant's owner that payouts to an account need no approval from now on.
func (s *Service) MailExempted(t Tenant, accountNumber, bank string, by audit.By) {
	s.mails.send(mail.Message{To: t.Email, Subject: "Payouts to an account need no approval now", Text: fmt.Sprintf(`Payouts of any amount to account %s at %s no longer need approval.

%s
If this was not you, require approval again on the page of beneficiaries, and set a new password.
`, accountNumber, bank, fromWhere(by))})
}

func takenEmail(to string) mail.Message {
	return mail.Message{To: to, Subject: "Your e-mail address is already registered", Text: `Someone, perhaps you, just tried to sign up with this e-mail address. It already has an account, and nothing
about that account has changed.

If it was you, log in with your password, or choose "Forgot your password?" on the login page. If it was not, you do not need to do anything.
`}
}

func invitationEmail(to, tenant string, r Role, code secret.Redacted) mail.Message {
	return mail.Message{To: to, Subject: "You are invited to an account", Text: fmt.Sprintf(`%s invites you to its account, with the role %s. Your code is

    %s

It is valid for 7 days and can be used once: choose "Accept an invitation" on the login page. If you do not know %[1]s, ignore this
e-mail and do not share the code.
`, tenant, r, code.Reveal())}
}

func invitedElsewhereEmail(to, tenant string) mail.Message {
	return mail.Message{To: to, Subject: "You are invited to an account", Text: fmt.Sprintf(`%s wanted to invite you to its account, but this e-mail address already has an account, and an address opens one account
only. Nothing has changed. If you know %[1]s, ask to be invited with another address.
`, tenant)}
}

func joinedEmail(to, who, tenant string) mail.Message {
	return mail.Message{To: to, Subject: "A member has joined", Text: fmt.Sprintf(`%s has accepted the invitation to %s.

If you do not know this person, remove the member in the dashboard.
`, who, tenant)}
}

func roleEmail(to string, r Role, by audit.By) mail.Message {
	return mail.Message{To: to, Subject: "Your role was changed", Text: fmt.Sprintf(`Your role is %s now.

%s`, r, fromWhere(by))}
}

func removedEmail(to string, by audit.By) mail.Message {
	return mail.Message{To: to, Subject: "Your membership has ended", Text: fmt.Sprintf(`You are no longer a member of the account, and all your sessions were ended.

%s`, fromWhere(by))}
}

func handOverEmail(to, owner string, by audit.By) mail.Message {
	return mail.Message{To: to, Subject: "The account has a new owner", Text: fmt.Sprintf(`%s owns the account now, and the previous owner has the role %s.

%s
If this was not agreed, tell whoever runs this service.
`, owner, Finance, fromWhere(by))}
}

func totpEmail(to, state string, by audit.By) mail.Message {
	return mail.Message{To: to, Subject: "Two-factor authentication is " + state, Text: fmt.Sprintf(`Two-factor authentication of your account is %s now.

%s
If this was not you, set a new password now: choose "Forgot your password?" on the login page.
`, state, fromWhere(by))}
}

func totpResetEmail(to string) mail.Message {
	return mail.Message{To: to, Subject: "Two-factor authentication was reset", Text: `An operator of the service turned two-factor authentication of your account off, because somebody said that your authenticator is lost.
All your sessions were ended. Log in with your password, and set two-factor authentication up again.

If you did not ask for this, set a new password now: choose "Forgot your password?" on the login page. Then tell whoever runs this service.
`}
}

func recoveryEmail(to string, left int, from netip.Addr) mail.Message {
	return mail.Message{To: to, Subject: "A recovery code was used", Text: fmt.Sprintf(`A recovery code of your account was used, from the address %s. Unused codes: %d.

If this was not you, set a new password now: choose "Forgot your password?" on the login page. If you have lost your authenticator, turn
two-factor authentication off with another recovery code, and set it up again. If your organisation requires two-factor authentication of
you, you cannot turn it off: ask the service's support to reset it.
`, from, left)}
}
