package tenant

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/mail"
)

// posted is a mailbox whose e-mails are sent as well, so that one that cannot be sent is seen.
type posted struct {
	*mailbox
	mail.Sender
	mu      sync.Mutex
	refused []error
}

func (p *posted) Send(ctx context.Context, m mail.Message) error {
	err := p.Sender.Send(ctx, m)
	p.mu.Lock()
	if err != nil {
		p.refused = append(p.refused, err)
	}
	p.mu.Unlock()
	return p.mailbox.Send(ctx, m)
}

// A tenant may have any name that is accepted: its invitations are sent. Nothing that a tenant
// writes is in a subject, which is short and has no line breaks of any kind.
func TestInvitationsOfAnyName(t *testing.T) {
	b := setup(t)
	folder := t.TempDir()
	sender, err := mail.NewFolder(folder, "ajo@example.com")
	require.NoError(t, err)
	p := &posted{mailbox: b.box, Sender: sender}
	b.mails.sender = p
	b.shop("taken@example.com")
	for i, name := range []string{strings.Repeat("Ọ", 200), "Ada\u2028Stores\u2029", "Ada <Stores>, \"Ltd\"; =?utf-8?q?x?="} {
		s := b.shop(string(rune('a'+i)) + "@example.com")
		s.Exec(`UPDATE tenants SET name = $2 WHERE id = $1`, s.id, name)
		for _, to := range []string{"dev@example.com", "taken@example.com"} {
			_, err := s.Invite(context.Background(), s.id, to, "viewer", bySession)
			require.NoError(t, err)
		}
	}
	require.NoError(t, b.mails.drain(context.Background()))
	require.Empty(t, p.refused)
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, len(b.box.sent))
	for _, m := range b.box.sent {
		require.NotContains(t, m.Subject, "Ada")
	}
}

// slowFirst sends the first e-mail only once the one to another address was sent.
type slowFirst struct {
	mailbox
	other chan struct{}
}

func (s *slowFirst) Send(ctx context.Context, m mail.Message) error {
	switch m.Subject {
	case "first":
		<-s.other
	case "other":
		defer close(s.other)
	}
	return s.mailbox.Send(ctx, m)
}

// another is an address whose e-mails wait in the queue of the given one, or not.
func another(q *mailQueue, address string, together bool) string {
	for i := 0; ; i++ {
		if other := strconv.Itoa(i) + "@example.com"; (q.of(other) == q.of(address)) == together {
			return other
		}
	}
}

// E-mails to one address arrive in order, and none waits for those to most others.
func TestMailsToOneAddressAreInOrder(t *testing.T) {
	t.Parallel()
	s := &slowFirst{other: make(chan struct{})}
	q := newMailQueue(s, slog.New(slog.DiscardHandler))
	const ada = "ada@example.com"
	other := another(q, ada, false)
	for _, m := range []mail.Message{{To: ada, Subject: "first"}, {To: ada, Subject: "second"}, {To: other, Subject: "other"}} {
		q.send(m)
	}
	require.NoError(t, q.drain(t.Context()))
	var order []string
	for _, m := range s.all() {
		order = append(order, m.Subject)
	}
	require.Equal(t, []string{"other", "first", "second"}, order)
}

// heldMails sends nothing until it is let go.
type heldMails struct {
	mailbox
	let chan struct{}
}

func (h *heldMails) Send(ctx context.Context, m mail.Message) error {
	<-h.let
	return h.mailbox.Send(ctx, m)
}

// However many e-mails wait for one address, there is room for the code of another.
func TestMailsToOneAddressLeaveRoom(t *testing.T) {
	t.Parallel()
	h := &heldMails{let: make(chan struct{})}
	q := newMailQueue(h, slog.New(slog.DiscardHandler))
	const ada = "ada@example.com"
	other := another(q, ada, true)
	for range 2 * mailQueueSize {
		q.send(mail.Message{To: ada, Subject: "Your webhook URL was changed"})
	}
	q.send(mail.Message{To: other, Subject: "Your verification code"})
	close(h.let)
	require.NoError(t, q.drain(t.Context()))
	sent := map[string]int{}
	for _, m := range h.all() {
		sent[m.To]++
	}
	require.Equal(t, 1, sent[other])
	require.GreaterOrEqual(t, sent[ada], mailShare)
	require.LessOrEqual(t, sent[ada], mailShare+1, "one was being sent")
	require.Empty(t, q.waiting)
}
