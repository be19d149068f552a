package tenant

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"ajo/internal/failpoint"
	"ajo/internal/mail"
	"ajo/internal/secret"
)

const (
	postmen     = 4   // mails on their way at once
	postQueue   = 512 // mails that wait
	mailTimeout = 30 * time.Second
)

// post sends mail behind the back of the request that caused it, so that no answer waits for a mail
// server, and none tells by its time whether there was a mail.
type post struct {
	sender mail.Sender
	log    *slog.Logger
	queue  chan mail.Message
	mu     sync.RWMutex
	closed bool
	wg     sync.WaitGroup
}

func newPost(sender mail.Sender, log *slog.Logger) *post {
	p := &post{sender: sender, log: log, queue: make(chan mail.Message, postQueue)}
	for range postmen {
		p.wg.Go(p.work)
	}
	return p
}

func (p *post) work() {
	for m := range p.queue {
		ctx, cancel := context.WithTimeout(context.Background(), mailTimeout)
		failpoint.At("tenant/before-mail")
		err := p.sender.Send(ctx, m)
		failpoint.At("tenant/after-mail")
		if err != nil {
			p.log.Error("mail not sent", "subject", m.Subject, "error", err)
		}
		cancel()
	}
}

// send queues a mail. It never waits: a mail that finds the queue full is dropped and logged; its
// receiver can ask again.
func (p *post) send(m mail.Message) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		p.log.Error("mail not sent: shutting down", "subject", m.Subject)
		return
	}
	select {
	case p.queue <- m:
	default:
		p.log.Error("mail not sent: too many are waiting", "subject", m.Subject)
	}
}

func (p *post) close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.queue)
	}
	p.mu.Unlock()
	done := make(chan struct{})
	go func() { p.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("mails were still waiting: %w", ctx.Err())
	}
}

func codeLetter(to string, id uuid.UUID, code secret.Redacted) mail.Message {
	return mail.Message{To: to, Subject: "Your verification code", Text: fmt.Sprintf(`Your verification code is

    %s

It is good for 10 minutes and can be used once, for the sign-up with the tenant id

    %s

If you did not sign up, or your sign-up has another tenant id, do not enter this code anywhere: whoever signed up chose the
password, and nothing happens without the code.
`, code.Reveal(), id)}
}

func resetLetter(to string, code secret.Redacted) mail.Message {
	return mail.Message{To: to, Subject: "Set a new password", Text: fmt.Sprintf(`Somebody, perhaps you, has asked to set a new password for this e-mail address. The code for it is

    %s

It is good for 30 minutes and can be used once. If you did not ask for it, ignore this mail and give the code to nobody: without
the code nothing happens.
`, code.Reveal())}
}

func passwordLetter(to string) mail.Message {
	return mail.Message{To: to, Subject: "Your password was changed", Text: `The password of your account was changed, and all its other sessions were ended.

If that was not you, set a new password at once: choose "Forgot your password?" where you log in.
`}
}

func takenLetter(to string) mail.Message {
	return mail.Message{To: to, Subject: "Your e-mail address is registered already", Text: `Somebody, perhaps you, has just tried to register with this e-mail address. It has an account already, and nothing
about that account has changed.

If it was you, log in with your password, or choose "Forgot your password?" there. If it was not, there is nothing to do.
`}
}
