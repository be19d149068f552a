package tenant

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// Sign-ins with a wrong password are recorded ten times an hour, for a tenant that exists.
func TestRefusedSignIns(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	id, _ := b.withKey("ada@example.com")
	from := netip.MustParseAddr("2001:db8::7")
	try := func(email string, n int) {
		for range n {
			_, err := b.Login(ctx, email, secret.Redact("wrong horse"), secret.Redacted{}, from)
			require.ErrorIs(t, err, ErrCredentials)
		}
	}
	lines := func() int {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND action = 'session.refused' AND actor = 'unknown' AND host(address) = '2001:db8::7'`, id)
	}
	try("ada@example.com", 1)
	try("nobody@example.com", 1)
	testenv.Eventually(t, 10*time.Second, "the line", func() bool { return lines() == 1 })
	for range maxRefusals + 3 {
		require.NoError(t, b.writeRefusal(ctx, id, "ada@example.com", from))
	}
	require.Equal(t, maxRefusals, lines())
	b.Env.Clock.Advance(time.Hour)
	require.NoError(t, b.writeRefusal(ctx, id, "ada@example.com", from))
	require.Equal(t, maxRefusals+1, lines())
	require.Equal(t, maxRefusals+1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'session.refused'`))
}

// The owner is told of a sign-in from a new network, but not of the first of all.
func TestNewNetworksAreTold(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	b.withKey("ada@example.com")
	signIn := func(addr, network string) Session {
		from := netip.MustParseAddr(addr)
		s, err := b.Login(ctx, "ada@example.com", password, secret.Redacted{}, from)
		require.NoError(t, err)
		require.NoError(t, b.SignedIn(ctx, s, from, network))
		return s
	}
	require.True(t, signIn("192.0.2.1", "192.0.2.1").First)
	require.False(t, signIn("192.0.2.1", "192.0.2.1").First)
	signIn("198.51.100.8", "198.51.100.8")
	sent := b.mail("ada@example.com", 2)
	require.Equal(t, "A new sign-in", sent.Subject)
	require.Contains(t, sent.Text, "198.51.100.8")
	b.Env.Clock.Advance(networkLife)
	signIn("192.0.2.1", "192.0.2.1")
	require.Contains(t, b.mail("ada@example.com", 3).Text, "192.0.2.1")
	require.NoError(t, b.Close(ctx))
	require.Len(t, b.box.all(), 3)
}

// A member who has been away for so long that the audit log has nothing of it any more is told,
// too.
func TestNewNetworksAreToldAfterAYear(t *testing.T) {
	b := alone(t)
	ctx := context.Background()
	b.withKey("ada@example.com")
	signIn := func(addr string) Session {
		from := netip.MustParseAddr(addr)
		s, err := b.Login(ctx, "ada@example.com", password, secret.Redacted{}, from)
		require.NoError(t, err)
		require.NoError(t, b.SignedIn(ctx, s, from, addr))
		return s
	}
	require.True(t, signIn("192.0.2.1").First)
	b.Env.Clock.Advance(400 * 24 * time.Hour)
	// as a worker with AJO_KEEP_AUDIT=8784h has done by then
	b.ExecUnguarded(`DELETE FROM audit_log WHERE action = 'session.begin'`)
	b.ExecUnguarded(`DELETE FROM known_networks`)
	require.False(t, signIn("198.51.100.8").First)
	require.Contains(t, b.mail("ada@example.com", 2).Text, "198.51.100.8")
}

// Whether a member has signed in before is not looked for in all that the others have done.
func TestFirstSignInBesideALongTrail(t *testing.T) {
	b := setup(t)
	id, _ := b.withKey("ada@example.com")
	b.Exec(`
		INSERT INTO audit_log (id, at, actor, action, target, reason, tenant_id)
		SELECT gen_random_uuid(), now(), 'session:' || n % 50 || '@example.com', (ARRAY['session.begin', 'session.end'])[1 + n % 2], 'tenant', '', $1 FROM generate_series(1, 5000) n`, id)
	b.Exec(`ANALYZE audit_log`)
	member := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM members WHERE tenant_id = $1`, id)
	most, plan := b.MostRows(testenv.Statement{SQL: firstSQL, Args: []any{id, "session:ada@example.com", member, time.Time{}}})
	require.Less(t, most, 10, plan)
}
