package tenant

import (
	"context"
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
)

// Whoever changes something of a tenant waits for a change that is under way, and goes by what is
// true then: what it has read before would decide otherwise.
func TestChangesWaitForOneAnother(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	exec := func(tx pg.Tx, sql string, args ...any) {
		_, err := tx.Exec(ctx, sql, args...)
		require.NoError(t, err)
	}
	key := NewKey{Name: "Till", Scopes: []string{string(Scopes[0])}}
	err := func(_ any, err error) error { return err }
	o := b.others("a.example")
	for _, c := range []struct {
		what   string
		change func(tx pg.Tx, o *others)
		call   func(o *others) error
		want   error
		logged string // an action, which the audit log has so many times
		times  int
	}{
		{
			"suspended already", func(tx pg.Tx, o *others) { exec(tx, `UPDATE tenants SET status = 'suspended' WHERE id = $1`, o.id) },
			func(o *others) error { return err(b.Suspend(ctx, o.id, byHand)) }, nil, "tenant.suspend", 0,
		},
		{
			"no login link of a suspended tenant", func(tx pg.Tx, o *others) { exec(tx, `UPDATE tenants SET status = 'suspended' WHERE id = $1`, o.id) },
			func(o *others) error { _, _, err := b.LoginLink(ctx, o.id, byHand); return err }, ErrSuspended, "tenant.login-link", 1,
		},
		{
			"verified already", func(tx pg.Tx, o *others) {
				exec(tx, `UPDATE tenants SET kyc_status = 'verified', business_type = $2 WHERE id = $1`, o.id, businessTypes[0])
			},
			func(o *others) error { return err(b.BusinessKYC(ctx, o.id, businessTypes[0], "", bySession)) }, errKYCVerified, "tenant.kyc", 0,
		},
		{
			"the last endpoint", func(tx pg.Tx, o *others) {
				exec(tx, `UPDATE tenants SET webhook_endpoints = $2 WHERE id = $1`, o.id, maxEndpoints)
			},
			func(o *others) error {
				_, _, err := b.AddEndpoint(ctx, o.id, EndpointChange{URL: new("https://more.example")}, bySession)
				return err
			}, errEndpoints, "webhook.endpoint.add", 2,
		},
		{"an endpoint that is removed", func(tx pg.Tx, o *others) {
			exec(tx, `UPDATE tenants SET webhook_endpoints = webhook_endpoints - 1 WHERE id = $1`, o.id)
			exec(tx, `UPDATE webhook_endpoints SET removed_at = now(), secret = NULL, secret_previous = NULL, secret_previous_until = NULL WHERE id = $1`, o.first.ID)
		}, func(o *others) error {
			return err(b.ChangeEndpoint(ctx, o.id, o.first.ID, EndpointChange{URL: new("https://other.example")}, bySession))
		}, ErrEndpointNotFound, "webhook.endpoint.change", 0},
		{
			"the URL of before", func(tx pg.Tx, o *others) {
				exec(tx, `UPDATE tenants SET webhook_url = 'https://same.example' WHERE id = $1`, o.id)
			},
			func(o *others) error { return err(b.SetWebhookURL(ctx, o.id, "https://same.example", bySession)) }, nil, "webhook.url", 0,
		},
		{"the last key", func(tx pg.Tx, o *others) {
			exec(tx, `SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE`, o.id)
			exec(tx, `INSERT INTO api_keys (id, tenant_id, main, name, hash, suffix, created_at)
				SELECT gen_random_uuid(), $1, false, 'x', sha256(gen_random_uuid()::text::bytea), 'x', now() FROM generate_series(1, $2::int)`, o.id, maxKeys-3)
		}, func(o *others) error { _, _, err := b.CreateKey(ctx, o.id, anOwner, key, bySession); return err }, errManyKeys, "keys.create", 2},
		{
			"a session that has ended", func(tx pg.Tx, o *others) {
				exec(tx, `UPDATE sessions SET ended_at = now() WHERE member_id = $1`, o.dora.ID)
			},
			func(o *others) error {
				in, err := b.Session(ctx, o.owner.Token)
				require.NoError(t, err)
				id := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM sessions WHERE member_id = $1 LIMIT 1`, o.dora.ID)
				_, err = b.EndSession(ctx, in, o.owner.Token, id, bySession)
				return err
			}, nil, actSignOut, 0,
		},
		{
			"a code that is used", func(tx pg.Tx, o *others) {
				exec(tx, `UPDATE members SET totp_last_step = totp_last_step + 1000 WHERE id = $1`, o.bola.ID)
			},
			func(o *others) error {
				_, err := b.Login(ctx, o.bola.Email, password, b.totp(o.bolaSecret, 0), netip.Addr{})
				return err
			}, errSecondFactor, "member.none", 0,
		},
		{"a member who is removed", func(tx pg.Tx, o *others) {
			exec(tx, `SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE`, o.id)
			exec(tx, `UPDATE members SET removed_at = now(), password_hash = NULL WHERE id = $1`, o.dora.ID)
		}, func(o *others) error { return err(b.SetRole(ctx, o.id, o.dora.ID, string(Viewer), bySession)) }, errNotJoined, "members.role", 0},
		{"a member who is removed while what they asked for is stored", func(tx pg.Tx, o *others) {
			exec(tx, `UPDATE members SET removed_at = now(), password_hash = NULL, totp_secret = NULL, totp_confirmed_at = NULL, totp_last_step = NULL WHERE id = $1`, o.bola.ID)
		}, func(o *others) error {
			return pg.InTx(ctx, b.Env.Pool, func(tx pg.Tx) error { return b.Standing(Tenant{}, o.bolas.Token, Finance)(ctx, tx) })
		}, ErrUnauthorized, "members.remove", 0},
	} {
		require.ErrorIs(t, b.Meanwhile(func(tx pg.Tx) error { c.change(tx, o); return nil }, func() error { return c.call(o) }), c.want, c.what)
		require.Equal(t, c.times, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND action = $2`, o.id, c.logged), c.what)
		b.Exec(`UPDATE tenants SET status = 'active', webhook_endpoints = (SELECT count(*) FROM webhook_endpoints e WHERE e.tenant_id = tenants.id AND e.removed_at IS NULL) WHERE id = $1`, o.id)
	}
}

// A session is ended by who still may when it is: not by an owner who has handed over meanwhile,
// nor by a session that has ended itself.
func TestSessionIsEndedByWhoStillMay(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	dev, _ := s.joined("dev@example.com", Developer)
	next, in := s.joined("next@example.com", Finance)
	id := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM sessions WHERE member_id = $1`, dev.ID)
	end := func(as Session, meanwhile ...string) error {
		t.Helper()
		tn, err := b.Session(ctx, as.Token)
		require.NoError(t, err)
		return b.Meanwhile(func(tx pg.Tx) error {
			for _, sql := range append(meanwhile, `SELECT FROM sessions FOR NO KEY UPDATE`) {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
			return nil
		}, func() error {
			_, err := b.EndSession(ctx, tn, as.Token, id, bySession)
			return err
		})
	}
	require.ErrorIs(t, end(s.owner, `UPDATE members SET role = 'finance' WHERE role = 'owner' AND tenant_id = '`+s.id.String()+`'`,
		`UPDATE members SET role = 'owner' WHERE id = '`+next.ID.String()+`'`, `UPDATE tenants SET email = 'next@example.com' WHERE id = '`+s.id.String()+`'`), errSessionNotFound)
	require.ErrorIs(t, end(in, `UPDATE sessions SET ended_at = now() WHERE member_id = '`+next.ID.String()+`'`), ErrUnauthorized)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = $1`, actSignOut))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM sessions WHERE id = $1 AND ended_at IS NOT NULL`, id))
}
