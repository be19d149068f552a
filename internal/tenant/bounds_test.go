package tenant

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/testenv"
)

// What a tenant may have is counted of its own rows alone, to the last one.
func TestBoundsAreTheTenantsOwn(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	b.Exec(`INSERT INTO members (id, tenant_id, email, name, role, invite_hash, invite_expires_at, invited_at)
		SELECT gen_random_uuid(), $1, 'm' || n || '@example.com', '', 'viewer', sha256(n::text::bytea), now(), now() FROM generate_series(1, $2) n`, s.id, maxMembers-2)
	b.Exec(`INSERT INTO api_keys (id, tenant_id, main, name, hash, suffix, created_at)
		SELECT gen_random_uuid(), $1, false, 'x', sha256(gen_random_uuid()::text::bytea), 'x', now() FROM generate_series(1, $2::int)`, s.id, maxKeys-2)
	key := NewKey{Name: "Till", Scopes: []string{string(Scopes[0])}}
	for _, last := range []bool{true, false} {
		_, invited := b.Invite(ctx, s.id, map[bool]string{true: "last@example.com", false: "more@example.com"}[last], "viewer", bySession)
		_, _, made := b.CreateKey(ctx, s.id, anOwner, key, bySession)
		if last {
			require.NoError(t, invited)
			require.NoError(t, made)
			continue
		}
		require.ErrorIs(t, invited, errManyMembers)
		require.ErrorIs(t, made, errManyKeys)
	}
	from := netip.MustParseAddr("192.0.2.1")
	for range maxRefusals {
		require.NoError(t, b.writeRefusal(ctx, b.neighbour, "ada@neighbour.example", from))
	}
	require.NoError(t, b.writeRefusal(ctx, s.id, "ada@example.com", from))
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND action = 'session.refused'`, s.id))
}

// A key's name has 1 to 100 characters, it ends in the future, and it works from up to 20 networks.
func TestBoundsOfANewKey(t *testing.T) {
	now := testenv.Epoch
	key := func(name string, ends time.Time, networks int) error {
		_, err := NewKey{Name: name, Scopes: []string{string(Scopes[0])}, ExpiresAt: &ends, Networks: slices.Repeat([]string{"192.0.2.1"}, networks)}.read(now)
		return err
	}
	soon := now.Add(time.Microsecond)
	for _, name := range []string{"é", " é\n", strings.Repeat("é", 100)} {
		require.NoError(t, key(name, soon, 20))
	}
	for _, name := range []string{"", " \n", "a\nb", strings.Repeat("é", 101)} {
		require.ErrorIs(t, key(name, soon, 20), errKeyName, "%q", name)
	}
	require.ErrorIs(t, key("é", now, 20), errKeyExpiry)
	require.ErrorIs(t, key("é", soon, 21), errKeyNetworks)
}

// To a tenant, another's members, keys, endpoints and accounts do not exist.
func TestOthersRowsDoNotExist(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	theirs := func(sql string) uuid.UUID { return testenv.Value[uuid.UUID](b.Env, sql, b.neighbour) }
	member := theirs(`SELECT id FROM members WHERE tenant_id = $1 AND role = 'developer'`)
	key := theirs(`SELECT id FROM api_keys WHERE tenant_id = $1 AND name = 'Till'`)
	endpoint := theirs(`SELECT id FROM webhook_endpoints WHERE tenant_id = $1 LIMIT 1`)
	err := func(_ any, err error) error { return err }
	require.ErrorIs(t, err(b.SetRole(ctx, s.id, member, string(Viewer), bySession)), ErrMemberNotFound)
	require.ErrorIs(t, err(b.RemoveMember(ctx, s.id, member, bySession)), ErrMemberNotFound)
	require.ErrorIs(t, err(b.HandOver(ctx, Tenant{ID: s.id, Member: b.member(s.owner)}, member, Proof{Password: password}, bySession)), ErrMemberNotFound)
	require.ErrorIs(t, err(b.EndSessions(ctx, s.id, "dora@neighbour.example", byHand)), ErrMemberNotFound)
	require.ErrorIs(t, err(b.RevokeKey(ctx, s.id, key, bySession)), ErrKeyNotFound)
	_, _, rotated := b.RotateOne(ctx, s.id, anOwner, key, time.Hour, bySession)
	require.ErrorIs(t, rotated, ErrKeyNotFound)
	require.ErrorIs(t, err(b.ChangeEndpoint(ctx, s.id, endpoint, EndpointChange{Paused: new(true)}, bySession)), ErrEndpointNotFound)
	require.ErrorIs(t, b.RemoveEndpoint(ctx, s.id, endpoint, bySession), ErrEndpointNotFound)
	b.Account(b.Tenant(), "theirs")
	_, _, added := b.AddEndpoint(ctx, s.id, EndpointChange{URL: new("https://one.example"), AccountRefs: &[]string{"theirs"}}, bySession)
	require.ErrorIs(t, added, errEndpointAccount)
	b.Account(s.id, "theirs")
	_, _, added = b.AddEndpoint(ctx, s.id, EndpointChange{URL: new("https://one.example"), AccountRefs: &[]string{"theirs"}}, bySession)
	require.NoError(t, added)
	members, _, listed := b.Members(ctx, s.id, page.Request{Limit: 100})
	require.NoError(t, listed)
	require.Len(t, members, 1)
	policy, shown := b.PayoutPolicy(ctx, s.id)
	require.NoError(t, shown)
	require.Equal(t, 1, policy.Approvers)
}

// An endpoint may name an account once the bank has opened it.
func TestAnEndpointOfAnAccountBegun(t *testing.T) {
	b := setup(t)
	s := b.shop("ada@example.com")
	account := b.Account(s.id, "shop-1")
	for _, c := range []struct {
		status string
		want   error
	}{{"provisioning", errEndpointAccount}, {"active", nil}} {
		b.replicated(`UPDATE accounts SET status = $2 WHERE id = $1`, account, c.status)
		_, _, err := b.AddEndpoint(context.Background(), s.id, EndpointChange{URL: new("https://one.example"), AccountRefs: &[]string{"shop-1"}}, bySession)
		require.ErrorIs(t, err, c.want, c.status)
	}
}

// An endpoint that named accounts gets the events of all of them once it names none (nil).
func TestAnEndpointOfAllAccountsAgain(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	b.Account(s.id, "shop-1")
	e, _, err := b.AddEndpoint(ctx, s.id, EndpointChange{URL: new("https://one.example"), AccountRefs: &[]string{"shop-1"}}, bySession)
	require.NoError(t, err)
	require.Equal(t, []string{"shop-1"}, e.AccountRefs)
	e, err = b.ChangeEndpoint(ctx, s.id, e.ID, EndpointChange{AccountRefs: new([]string)}, bySession)
	require.NoError(t, err)
	require.Nil(t, e.AccountRefs)
}
