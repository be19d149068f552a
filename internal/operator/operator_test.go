package operator_test

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/operator"
	"ajo/internal/page"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

type bundle struct {
	*testenv.Env
	*operator.Service
	ctx context.Context
}

var (
	by       = audit.By{Actor: "cli:ada", Reason: "a ticket"}
	password = secret.Redact("correct horse battery")
	from     = netip.MustParseAddr("192.0.2.7")
)

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	e := testenv.New(t)
	box, err := secret.ParseKeys(secret.NewKey("test").Reveal())
	require.NoError(t, err)
	return &bundle{e, &operator.Service{Pool: e.Pool, Clock: e.Clock, Box: box}, context.Background()}
}

// ready adds an operator who has set up, and returns the secret of the authenticator.
func (b *bundle) ready(name string) (shared secret.Redacted) {
	b.T.Helper()
	i, err := b.Add(b.ctx, name, operator.Actor, by)
	require.NoError(b.T, err)
	s, err := b.SetUp(b.ctx, name, i.Code, password, from)
	require.NoError(b.T, err)
	return s.Secret
}

func (b *bundle) code(shared secret.Redacted) secret.Redacted {
	b.T.Helper()
	c, err := totp.GenerateCode(shared.Reveal(), b.Env.Clock.Now())
	require.NoError(b.T, err)
	return secret.Redact(c)
}

// An account is of no use before its person has set it up, the code of the invitation works until
// the first login or for a day, and each part of a login counts.
func TestFirstLogin(t *testing.T) {
	b := setup(t)
	for _, name := range []string{"", "Ada", "1ada", "ada lovelace", strings.Repeat("a", 41), "ada\n"} {
		_, err := b.Add(b.ctx, name, operator.Viewer, by)
		require.ErrorIs(t, err, operator.ErrName, name)
	}
	_, err := b.Add(b.ctx, "ada", "owner", by)
	require.ErrorIs(t, err, operator.ErrRole)
	i, err := b.Add(b.ctx, "ada", operator.Viewer, by)
	require.NoError(t, err)
	_, err = b.Add(b.ctx, "ada", operator.Actor, by)
	require.ErrorIs(t, err, operator.ErrExists)

	_, err = b.Login(b.ctx, "ada", password, secret.Redact("123456"), from)
	require.ErrorIs(t, err, operator.ErrCredentials)
	_, err = b.SetUp(b.ctx, "ada", i.Code, secret.Redact("too short"), from)
	require.ErrorIs(t, err, operator.ErrPassword)
	_, err = b.SetUp(b.ctx, "ada", secret.NewToken(), password, from)
	require.ErrorIs(t, err, operator.ErrSetup)
	_, err = b.SetUp(b.ctx, "bola", i.Code, password, from)
	require.ErrorIs(t, err, operator.ErrSetup)
	first, err := b.SetUp(b.ctx, "ada", i.Code, password, from)
	require.NoError(t, err)
	again, err := b.SetUp(b.ctx, "ada", i.Code, password, from) // the picture was lost
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(again.QRCode.Reveal(), "data:image/png;base64,"))

	_, err = b.Login(b.ctx, "ada", password, b.code(first.Secret), from)
	require.ErrorIs(t, err, operator.ErrCredentials)
	_, err = b.Login(b.ctx, "ada", secret.Redact("another password"), b.code(again.Secret), from)
	require.ErrorIs(t, err, operator.ErrCredentials)
	_, err = b.Login(b.ctx, "bola", password, b.code(again.Secret), from)
	require.ErrorIs(t, err, operator.ErrCredentials)
	_, err = b.Login(b.ctx, "ada", password, secret.Redacted{}, from)
	require.ErrorIs(t, err, operator.ErrCredentials)
	in, err := b.Login(b.ctx, "ada", password, b.code(again.Secret), from)
	require.NoError(t, err)
	require.Equal(t, operator.Viewer, in.Role)
	_, err = b.SetUp(b.ctx, "ada", i.Code, password, from)
	require.ErrorIs(t, err, operator.ErrSetup, "it is void after the first login")

	o, err := b.Session(b.ctx, in.Token)
	require.NoError(t, err)
	require.Equal(t, "ada", o.Name)
	_, err = b.Session(b.ctx, secret.NewToken())
	require.ErrorIs(t, err, operator.ErrUnauthorized)
	b.Env.Clock.Advance(operator.SessionLife)
	_, err = b.Session(b.ctx, in.Token)
	require.ErrorIs(t, err, operator.ErrUnauthorized, "it has expired")

	late, err := b.Add(b.ctx, "late", operator.Viewer, by)
	require.NoError(t, err)
	b.Env.Clock.Advance(operator.SetupLife)
	_, err = b.SetUp(b.ctx, "late", late.Code, password, from)
	require.ErrorIs(t, err, operator.ErrSetup)

	log, _, err := audit.List(b.ctx, b.Env.Pool, audit.Filter{Target: "operator:ada"}, page.Request{Limit: 10})
	require.NoError(t, err)
	var actions []string
	for _, l := range log {
		actions = append(actions, l.Actor+" "+l.Action)
		require.NotContains(t, string(l.Detail), again.Secret.Reveal())
	}
	require.Equal(t, []string{"console:ada operator.login", "console:ada operator.set-up", "console:ada operator.set-up", "cli:ada operator.add"}, actions)
}

// A code opens one session, however many enter it at once, and not one of a step that has been.
func TestCodeIsGoodOnce(t *testing.T) {
	b := setup(t)
	shared := b.ready("ada")
	code := b.code(shared)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { _, errs[i] = b.Login(b.ctx, "ada", password, code, from) })
	}
	wg.Wait()
	good := 0
	for _, err := range errs {
		if err == nil {
			good++
			continue
		}
		require.ErrorIs(t, err, operator.ErrCredentials)
	}
	require.Equal(t, 1, good)
	b.Env.Clock.Advance(30 * time.Second)
	_, err := b.Login(b.ctx, "ada", password, code, from)
	require.ErrorIs(t, err, operator.ErrCredentials)
	_, err = b.Login(b.ctx, "ada", password, b.code(shared), from)
	require.NoError(t, err)
	list, _, err := b.List(b.ctx, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, int64(2), list[0].Sessions)
}

// Whoever is reset or removed is out at once: sessions, password and code.
func TestResetAndRemove(t *testing.T) {
	b := setup(t)
	shared := b.ready("ada")
	enter := func() (operator.Session, error) {
		b.Env.Clock.Advance(time.Minute)
		return b.Login(b.ctx, "ada", password, b.code(shared), from)
	}
	in, err := enter()
	require.NoError(t, err)
	i, err := b.Reset(b.ctx, "ada", by)
	require.NoError(t, err)
	_, err = b.Session(b.ctx, in.Token)
	require.ErrorIs(t, err, operator.ErrUnauthorized)
	_, err = enter()
	require.ErrorIs(t, err, operator.ErrCredentials)
	s, err := b.SetUp(b.ctx, "ada", i.Code, password, from)
	require.NoError(t, err)
	shared = s.Secret
	in, err = enter()
	require.NoError(t, err)

	require.NoError(t, b.Remove(b.ctx, "ada", by))
	require.ErrorIs(t, b.Remove(b.ctx, "ada", by), operator.ErrNotFound)
	_, err = b.Session(b.ctx, in.Token)
	require.ErrorIs(t, err, operator.ErrUnauthorized)
	_, err = enter()
	require.ErrorIs(t, err, operator.ErrCredentials)
	_, err = b.Reset(b.ctx, "ada", by)
	require.ErrorIs(t, err, operator.ErrNotFound)
	_, err = b.Add(b.ctx, "ada", operator.Viewer, by)
	require.NoError(t, err, "the name is free")

	in = operator.Session{Token: secret.NewToken()}
	require.NoError(t, b.Logout(b.ctx, in.Token), "logged out already")
}

func TestRoles(t *testing.T) {
	t.Parallel()
	require.True(t, operator.Actor.May(operator.Viewer))
	require.True(t, operator.Actor.May(operator.Actor))
	require.True(t, operator.Viewer.May(operator.Viewer))
	require.False(t, operator.Viewer.May(operator.Actor))
	require.False(t, operator.Role("").May(operator.Viewer))
}

// A change that has made the check commits before its operator is removed, reset or logged out; one
// that comes to the check while that is under way waits for it, and is refused. They do not wait
// for each other in a circle.
func TestStanding(t *testing.T) {
	b := setup(t)
	for name, end := range map[string]func(operator.Session) error{
		"ada":  func(operator.Session) error { return b.Remove(b.ctx, "ada", by) },
		"bola": func(operator.Session) error { _, err := b.Reset(b.ctx, "bola", by); return err },
		"chi":  func(in operator.Session) error { return b.Logout(b.ctx, in.Token) },
	} {
		in, err := b.Login(b.ctx, name, password, b.code(b.ready(name)), from)
		require.NoError(t, err)
		change, err := b.Env.Pool.Begin(b.ctx)
		require.NoError(t, err)
		require.NoError(t, b.Standing(in.Token)(b.ctx, change))
		ended := make(chan error, 1)
		go func() { ended <- end(in) }()
		testenv.Eventually(t, 10*time.Second, "the end waits for the change", func() bool { return b.LockWaits() == 1 })
		require.NoError(t, change.Rollback(b.ctx))
		require.NoError(t, <-ended, name)
		require.ErrorIs(t, b.Standing(in.Token)(b.ctx, b.Env.Pool), operator.ErrUnauthorized, name)
	}

	in, err := b.Login(b.ctx, "dayo", password, b.code(b.ready("dayo")), from)
	require.NoError(t, err)
	reset, err := b.Env.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { _ = reset.Rollback(b.ctx) }()
	_, err = reset.Exec(b.ctx, `UPDATE operators SET created_at = created_at WHERE name = 'dayo'`)
	require.NoError(t, err)
	refused := make(chan error, 1)
	go func() { refused <- b.Standing(in.Token)(b.ctx, b.Env.Pool) }()
	testenv.Eventually(t, 10*time.Second, "the check waits for the reset", func() bool { return b.LockWaits() == 1 })
	_, err = reset.Exec(b.ctx, `DELETE FROM operator_sessions`)
	require.NoError(t, err)
	require.NoError(t, reset.Commit(b.ctx))
	require.ErrorIs(t, <-refused, operator.ErrUnauthorized)

	in, err = b.Login(b.ctx, "emeka", password, b.code(b.ready("emeka")), from)
	require.NoError(t, err)
	b.Env.Clock.Advance(operator.SessionLife)
	require.ErrorIs(t, b.Standing(in.Token)(b.ctx, b.Env.Pool), operator.ErrUnauthorized, "it has expired")
}
