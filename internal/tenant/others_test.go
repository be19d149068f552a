package tenant

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/secret"
)

// others is a shop with at least two of each kind of row that a tenant has.
type others struct {
	*shop
	bola, dora   Member
	bolas, doras Session
	carol        MemberRecord
	till         KeyRecord
	first        Endpoint
	bolaSecret   secret.Redacted // of bola's second factor
}

func (b *bundle) others(name string) *others {
	b.T.Helper()
	ctx := context.Background()
	o := &others{shop: b.shop("ada@" + name)}
	o.bola, o.bolas = o.joined("bola@"+name, Finance)
	o.dora, o.doras = o.joined("dora@"+name, Developer)
	o.carol, _ = o.invited("carol@"+name, Viewer, 1)
	var err error
	_, o.till, err = b.CreateKey(ctx, o.id, anOwner, NewKey{Name: "Till", Scopes: []string{string(Scopes[0])}}, bySession)
	require.NoError(b.T, err)
	_, _, err = b.CreateKey(ctx, o.id, anOwner, NewKey{Name: "Desk", Scopes: []string{string(Scopes[0])}}, bySession)
	require.NoError(b.T, err)
	o.first, _, err = b.AddEndpoint(ctx, o.id, EndpointChange{URL: new("https://one." + name)}, bySession)
	require.NoError(b.T, err)
	_, _, err = b.AddEndpoint(ctx, o.id, EndpointChange{URL: new("https://two." + name), Paused: new(true)}, bySession)
	require.NoError(b.T, err)
	o.bolaSecret, _ = b.secondFactor(o.id, o.bolas)
	require.NoError(b.T, b.ForgotPassword(ctx, o.bola.Email))
	require.NoError(b.T, b.ForgotPassword(ctx, o.dora.Email))
	b.resetCode(o.dora.Email, 1)
	b.loginLink(o.id)
	return o
}

// Each change is one of the tenant, the member, the key or the endpoint that it names: no row of
// another tenant changes with it, nor one of the same tenant's others.
func TestChangesTouchNoOthers(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	a := b.others("a.example")
	b.others("b.example")
	member := func(m Member) []string { return []string{m.ID.String(), m.Email} }
	row := func(table string, id uuid.UUID) string { return table + " (" + id.String() }
	own := row("tenants", a.id)
	err := func(_ any, err error) error { return err }
	for _, c := range []struct {
		what    string
		do      func() error
		touches []string
	}{
		{"role", func() error { return err(b.SetRole(ctx, a.id, a.dora.ID, string(Viewer), bySession)) }, []string{row("members", a.dora.ID)}},
		{"invite again", func() error { return err(b.Invite(ctx, a.id, a.carol.Email, string(Developer), bySession)) }, []string{row("members", a.carol.ID)}},
		{"change an endpoint", func() error {
			return err(b.ChangeEndpoint(ctx, a.id, a.first.ID, EndpointChange{Paused: new(true)}, bySession))
		}, []string{row("webhook_endpoints", a.first.ID)}},
		{"an endpoint's secret", func() error {
			_, _, err := b.RotateEndpointSecret(ctx, a.id, a.first.ID, false, time.Time{}, bySession)
			return err
		}, []string{row("webhook_endpoints", a.first.ID)}},
		{"add an endpoint", func() error {
			_, _, err := b.AddEndpoint(ctx, a.id, EndpointChange{URL: new("https://three.a.example")}, bySession)
			return err
		}, []string{own}},
		{"remove an endpoint", func() error { return b.RemoveEndpoint(ctx, a.id, a.first.ID, bySession) }, []string{own, row("webhook_endpoints", a.first.ID)}},
		{"rotate a key", func() error {
			_, _, err := b.RotateOne(ctx, a.id, anOwner, a.till.ID, time.Hour, bySession)
			return err
		}, []string{row("api_keys", a.till.ID)}},
		{"revoke a key", func() error { return err(b.RevokeKey(ctx, a.id, a.till.ID, bySession)) }, []string{row("api_keys", a.till.ID)}},
		{"webhook URL", func() error { return err(b.SetWebhookURL(ctx, a.id, "https://hook.a.example", bySession)) }, []string{own}},
		{"webhook secret", func() error {
			shown, findErr := b.Find(ctx, a.id.String())
			require.NoError(t, findErr)
			return err(b.RotateWebhookSecret(ctx, shown, byHand))
		}, []string{own}},
		{"policy", func() error {
			return err(b.SetPayoutPolicy(ctx, a.id, PayoutPolicy{Approvals: 1, DayThreshold: new(money.Must("5.00"))}, bySession))
		}, []string{own}},
		{"operator", func() error { return err(b.SetOperator(ctx, a.id, true, byHand)) }, []string{own}},
		{"fee", func() error { return err(b.SetPayoutFee(ctx, a.id, TenantBears, byHand)) }, []string{own}},
		{"KYC", func() error { return err(b.BusinessKYC(ctx, a.id, businessTypes[0], "", bySession)) }, []string{own}},
		{"codes are required", func() error { return b.RequireTOTP(ctx, a.id, true, nil, bySession) }, []string{own}},
		{"and no more", func() error { return b.RequireTOTP(ctx, a.id, false, nil, bySession) }, []string{own}},
		{"password", func() error {
			return b.ChangePassword(ctx, a.id, a.dora, a.doras.Token, password, fresh, bySession)
		}, member(a.dora)},
		{"a session", func() error { return err(b.Logout(ctx, a.doras.Token, netip.Addr{})) }, member(a.dora)},
		{"a member's sessions", func() error { return err(b.EndSessions(ctx, a.id, a.bola.Email, byHand)) }, member(a.bola)},
		{"a member's second factor", func() error { return err(b.ResetTOTP(ctx, a.id, a.bola.Email, byHand)) }, member(a.bola)},
		{"an invitation that is accepted", func() error {
			return err(b.AcceptInvitation(ctx, tokenIn(b.mail(a.carol.Email, 2)), "Carol", password, netip.Addr{}))
		}, []string{a.carol.ID.String()}},
		{"remove a member", func() error { return err(b.RemoveMember(ctx, a.id, a.dora.ID, bySession)) }, member(a.dora)},
		{"hand over", func() error {
			return err(b.HandOver(ctx, Tenant{ID: a.id, Member: b.member(a.owner)}, a.bola.ID, Proof{Password: password}, bySession))
		}, []string{own, row("members", a.bola.ID), row("members", b.member(a.owner).ID), "login_links"}},
	} {
		t.Log(c.what)
		b.Touches(func() {
			b.Touches(func() { require.NoError(t, c.do(), c.what) }, c.touches...)
		}, a.id.String(), "@a.example")
	}
	// what is about the whole tenant
	for what, do := range map[string]func() error{
		"suspend": func() error { return err(b.Suspend(ctx, a.id, byHand)) },
		"activate": func() error {
			_, _ = b.Suspend(ctx, a.id, byHand)
			return err(b.Activate(ctx, a.id, byHand))
		},
		"sessions": func() error { return err(b.EndSessions(ctx, a.id, "", byHand)) },
	} {
		b.Touches(func() { require.NoError(t, do(), what) }, a.id.String(), "@a.example")
	}
	_, closeErr := b.BeginClose(ctx, a.id, byHand)
	require.NoError(t, closeErr)
	b.Touches(func() { require.NoError(t, err(b.FinishClose(ctx, a.id, byHand))) }, a.id.String(), "@a.example")
}
