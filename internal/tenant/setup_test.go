package tenant

import (
	"context"
	"log/slog"
	"net/netip"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/mail"
	"ajo/internal/retention"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// bundle is one test's service, with a mailbox that keeps what was sent.
type bundle struct {
	*testenv.Env
	*Service
	box       *mailbox
	neighbour uuid.UUID
}

// setup has a neighbour: another tenant, with two of each kind of row. No test changes them.
func setup(t *testing.T, change ...func(*Options)) *bundle {
	t.Helper()
	b := alone(t, change...)
	b.neighbour = b.others("neighbour.example").id
	b.box.mu.Lock()
	defer b.box.mu.Unlock()
	b.box.sent = nil
	b.Untouched(b.neighbour.String(), "@neighbour.example")
	return b
}

// alone is setup for tests of all tenants, and of what is removed with time.
func alone(t *testing.T, change ...func(*Options)) *bundle {
	t.Helper()
	t.Parallel()
	env := testenv.New(t)
	keys, err := secret.ParseKeys(secret.NewKey("test").Reveal())
	require.NoError(t, err)
	b := &bundle{Env: env, box: &mailbox{}}
	o := Options{Pool: env.Pool, Clock: env.Clock, Box: keys, Mail: b.box, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	b.Service = New(o)
	t.Cleanup(func() { _ = b.Service.Close(context.Background()) })
	return b
}

// purge removes what is old by now, as a worker does.
func (b *bundle) purge() {
	b.T.Helper()
	require.NoError(b.T, retention.Purge(context.Background(), b.Env.Pool, retention.Keep{}, b.Env.Clock.Now().Add(time.Microsecond), 2))
}

type mailbox struct {
	mu   sync.Mutex
	sent []mail.Message
	fail error
	hold chan struct{} // when set, Send waits for it
}

func (l *mailbox) Send(ctx context.Context, m mail.Message) error {
	if l.hold != nil {
		select {
		case <-l.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, m)
	return l.fail
}

func (l *mailbox) all() []mail.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]mail.Message(nil), l.sent...)
}

// mail waits for the n-th mail to an address, counted from 1.
func (b *bundle) mail(to string, n int) mail.Message {
	b.T.Helper()
	var found []mail.Message
	testenv.Eventually(b.T, 10*time.Second, "a mail to "+to, func() bool {
		found = nil
		for _, m := range b.box.all() {
			if m.To == to {
				found = append(found, m)
			}
		}
		return len(found) >= n
	})
	return found[n-1]
}

var codeForm = regexp.MustCompile(`\b[0-9]{6}\b`)

// code waits for the n-th mail to an address and returns the code in it.
func (b *bundle) code(to string, n int) secret.Redacted {
	b.T.Helper()
	code := codeForm.FindString(b.mail(to, n).Text)
	require.NotEmpty(b.T, code)
	return secret.Redact(code)
}

// wrong returns a code that is not this one.
func wrong(code secret.Redacted) secret.Redacted {
	if code.Reveal() == "000000" {
		return secret.Redact("000001")
	}
	return secret.Redact("000000")
}

var password = secret.Redact("correct horse")

func (b *bundle) register(email string) uuid.UUID {
	b.T.Helper()
	id, err := b.Register(context.Background(), registration(email))
	require.NoError(b.T, err)
	return id
}

// registration is a registration that only its address tells apart.
func registration(email string) Registration {
	return Registration{Name: "Ada Stores", Email: email, Password: password}
}

// member is whose session it is.
func (b *bundle) member(s Session) Member {
	b.T.Helper()
	t, err := b.Session(context.Background(), s.Token)
	require.NoError(b.T, err)
	return t.Member
}

// sessions is how many there are, but for the neighbour's.
func (b *bundle) sessions() int {
	b.T.Helper()
	return testenv.Value[int](b.Env, `SELECT count(*) FROM sessions WHERE tenant_id <> $1`, b.neighbour)
}

// Me is the tenant's profile.
func (s *Service) Me(ctx context.Context, id uuid.UUID) (Tenant, error) {
	var t Tenant
	err := s.Pool.QueryRow(ctx, `SELECT `+columns+` FROM tenants t WHERE t.id = $1`, id).Scan(t.fields()...)
	return t, err
}

// oneWins makes n calls at once, each with a right code: one succeeds, the others are refused.
func oneWins(t *testing.T, n int, call func(i int) error) {
	t.Helper()
	fails := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { fails[i] = call(i) })
	}
	all.Wait()
	won := 0
	for _, err := range fails {
		if err == nil {
			won++
			continue
		}
		require.ErrorIs(t, err, errCode)
	}
	require.Equal(t, 1, won)
}

// bySession is who changes something with the session of its tenant.
var bySession = audit.Session("ada@example.com", netip.MustParseAddr("192.0.2.9"))

// anOwner may do everything.
var anOwner = Member{Role: Owner}
