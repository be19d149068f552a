package tenant

import (
	"context"
	"os"
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
